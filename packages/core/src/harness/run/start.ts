// Starts a prepared directive as a thread: creates the row with its lease, records the opening, runs the loop and
// returns the result.
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Failure,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  pathWithin,
} from '../../base/index.ts';
import {
  type Descriptor,
  describe,
  makeValue,
  markFailure,
  shownPolicyFile,
  type Value,
} from '../../flow/index.ts';
import type { DirectiveItem } from '../../items/index.ts';
import type { HookStart, JournalEvent, WhatRan } from '../../journal/index.ts';
import type {
  Artifacts,
  AuditEntry,
  LeasedThread,
  NewEvent,
  NewThread,
  ScheduleChange,
} from '../../store/index.ts';
import { capsOn } from '../../trust/index.ts';
import { RESTS, resultOf } from '../children/children.ts';
import { openingFiles, takeBytes, withVouched } from '../files/attachment.ts';
import { MAX_HOOK_NESTING, MAX_RETRIES } from '../hooks/action.ts';
import { packLimits } from '../limits/effective-limits.ts';
import type { LimitAmounts } from '../limits/limit.ts';
import { takeGranted } from '../rights/approved-rights.ts';
import { modeFor } from '../rights/reading-mode.ts';
import { packRules } from '../rights/thread-rules.ts';
import { declaredRights } from '../rights/thread-token.ts';
import { budgetOf, detachedKey } from '../thread/budget.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { handleSignals } from '../thread/interruption.ts';
import { checkedEvents, LEASE_MS, type Refusable, statusEvent } from '../thread/journal-writer.ts';
import { type GivenMarks, openingEvents, withFreshId } from '../thread/opening.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { addToConversation } from '../thread/talk.ts';
import type { HarnessPorts, HookAbout, Prepared, RunHook, Thread } from '../thread/thread.ts';
import { type AboutRun, aboutRun } from './about-run.ts';
import { createThread } from './create.ts';
import { drive } from './drive.ts';
import { insertThread, recordHook } from './insert-thread.ts';
import { prepareThread, type RunRequest, type StartedBy } from './prepare.ts';
import { endForced } from './recover.ts';
import {
  compute,
  countHook,
  hookLimitsLeft,
  hookReserve,
  isUnaffordable,
  splitLimits,
} from './run-hook.ts';
import { ACP, CHAT, hasHooks } from './runner.ts';

export interface ThreadOrigin {
  parent?: Thread;
  kind?: 'thread' | 'hook';
  /** Id of the thread. Absent: it is generated from the directive's name and the time. */
  id?: string;
  runner?: string;
  detached?: boolean;
  /** Marks of the inputs and of the first message. Absent: those of a person's text. */
  marks?: Descriptor;
  /** Marks of single inputs and of the message, if they differ from `marks`. */
  given?: GivenMarks | undefined;
  /** Facts for the `hook_start` event. Present for a hook. */
  about?: HookAbout;
  /** Key of the reservation that the thread draws from. Absent for most threads. */
  drawFrom?: string;
  by?: StartedBy | undefined;
  /** The root thread is queued. The worker that takes it starts it. */
  isQueued?: true;
  /** Returns the fire of a schedule that creates this root. Absent: no schedule starts it. */
  fire?: (thread: NewThread) => ScheduleChange;
  /** Returns further changes for the commit of the parent. Called when the commit is made. */
  spawn?: () => Pick<Refusable, 'charge' | 'reserve' | 'cost'>;
}

/** A thread that has started. `done` never rejects. */
export interface Started {
  id: string;
  created: number;
  done: Promise<ThreadResult>;
}

/** Creates the row of a thread with its first events and its artifacts. */
export async function createRow(
  ports: HarnessPorts,
  prepared: Prepared,
  place: ThreadOrigin,
  events: readonly NewEvent[],
  { title, search }: AboutRun,
  artifacts: Artifacts,
  reserved: LimitAmounts = {},
): Promise<Outcome<LeasedThread>> {
  const { id: directiveId, directive, limits, inputs } = prepared;
  const { parent, kind, detached = false, runner = 'safety' } = place;
  const identity = ports.identity?.();
  if (identity && !identity.ok) return identity;
  const create = (id: string): Promise<Outcome<LeasedThread>> => {
    const drawFrom = place.drawFrom ?? (detached && parent ? detachedKey(id) : undefined);
    const thread: NewThread = {
      id,
      directive: directiveId,
      version: directive.version,
      runner,
      ...(identity ? identity.output : { project: ports.project }),
      limits: packLimits(limits),
      budget: budgetOf(limits),
      inputs,
      ...(title !== '' && { title }),
      search,
      ...(kind && { kind }),
      ...(detached && { detached }),
      events,
      reserve: hookReserve(id, 1, reserved, drawFrom),
      start: place.isQueued
        ? { queue: {} }
        : { lease: { owner: ports.threads.owner, ttlMs: LEASE_MS } },
    };
    return insertThread(ports, place, thread, artifacts);
  };
  return place.id === undefined
    ? await withFreshId(directive.name, ports, create)
    : await create(place.id);
}

const identityOf = (
  project: string,
  { id, source, file, body, signature: { state, key } }: DirectiveItem,
): WhatRan['items'][number] => ({
  id,
  source: state === 'program' ? 'program' : source,
  file: source === 'bundle' ? `bundle:${id}` : pathWithin(project, file),
  sha256: hash('sha256', body),
  signature: state,
  ...(key !== undefined && { key }),
});

/** Returns the versions of everything that the thread runs with, because files can change later. */
export function whatRan(
  ports: HarnessPorts,
  { item, directive, model }: Prepared,
  { parent, kind, by }: ThreadOrigin,
): WhatRan {
  const { library, project, threads } = ports;
  const { policy } = ports.policies();
  const { catalog } = library.capabilities();
  const rights = declaredRights(ports, directive);
  const extended = directive.relationships.extends.flatMap((name) => {
    const found = library.find('directive', name);
    return found.ok ? [identityOf(project, found.output)] : [];
  });
  const above = parent && {
    who: parent.place.id,
    surface: kind === 'hook' ? 'hook' : 'thread',
  };
  const states = [...policy.rules].filter(([, state]) => state !== 'off');
  return {
    items: [identityOf(project, item), ...extended],
    granted: (rights.ok ? rights.output.grants : []).map(({ capability, scope }) => {
      const capped = policy.levels.flatMap(({ level, capabilities = {} }) =>
        capsOn(capabilities, { capability, ...(scope && { scope }) }, catalog).map((cap) => ({
          ...cap,
          level,
        })),
      );
      return {
        capability,
        ...(scope && { scope: { ...scope } }),
        ...(capped.length > 0 && { capped }),
      };
    }),
    policies: policy.levels.map(({ level, file = '', signed = false, sha256 }) => ({
      level,
      file: shownPolicyFile(level, file),
      signed,
      ...(sha256 !== undefined && { sha256 }),
    })),
    rules: Object.fromEntries(states),
    sandbox: policy.sandbox,
    provider: model.provider,
    by: { ...(above ?? by ?? { who: '', surface: 'library' }), process: threads.owner },
    ...(directive.guards.length > 0 && {
      guards: directive.guards.map(({ name = '', on }) => (name === '' ? on : `${name} on ${on}`)),
    }),
  };
}

/** Creates the row and starts the thread. `done` resolves with its result. */
function startPrepared(...run: Parameters<typeof begin>): ReturnType<typeof begin> {
  const [ports, , { parent }] = run;
  // A child does not wait for a start slot, because its parent runs already.
  return parent ? begin(...run) : ports.threads.live.admit(() => begin(...run));
}

/** Surfaces whose actor is a person or a program of that person. */
const PEOPLE: ReadonlySet<string> = new Set(['cli', 'library', 'web', 'acp']);

/** Returns the audit row of a person or a policy that starts a thread. */
export const startRow = (
  { who, surface }: StartedBy,
  operation: string,
  target: string,
  reason = '',
): AuditEntry => ({
  surface,
  caller: who,
  subject: PEOPLE.has(surface) ? 'person' : `policy:${surface}`,
  operation,
  target,
  decision: 'allowed',
  reason,
});

/** Drops what this process has of a queued thread. The process that takes it reads its secrets from the store. */
export async function leaveQueued(
  { store, watch }: HarnessPorts,
  { row: { id, created, status, cost } }: LeasedThread,
  rows: readonly AuditEntry[],
): Promise<Outcome<Started>> {
  watch.done?.(id);
  const stored = rows.length > 0 ? await store.audit(rows) : ok(null);
  // The thread is queued even if the rows were refused, so they go to the audit of calls.
  if (!stored.ok) for (const row of rows) watch.audit?.write(row);
  const result = { thread_id: id, status, outputs: {}, text: '', reason: '', cost };
  return ok({ id, created, done: Promise.resolve(result) });
}

async function begin(
  ports: HarnessPorts,
  prepared: Prepared,
  place: ThreadOrigin,
  signal: AbortSignal,
  message: string,
): Promise<Outcome<Started>> {
  const { directive, limits, inputs, model, files = [] } = prepared;
  const isReference = modeFor(ports, directive, place.parent) === 'reference';
  const { marks, given, parent } = place;
  const attached = openingFiles(files);
  const how = { marks, given, parent, isReference, attached };
  const opening = await openingEvents(ports, prepared, message, how);
  if (!opening.ok) return opening;
  const about = aboutRun(ports, prepared, message, place);
  const first: JournalEvent = {
    type: 'thread_start',
    data: {
      directive: directive.name,
      version: directive.version,
      inputs,
      model: model.model,
      message,
      limits: packLimits(limits),
      ...(prepared.stream === true && { stream: true }),
      ...(prepared.mode && { mode: prepared.mode }),
      ...(prepared.plan && { plan: prepared.plan }),
      ...packRules(parent?.rights.rules.given()),
      ...(isReference && { untrusted: 'reference' }),
      ran: whatRan(ports, prepared, place),
      ...(about.title !== '' && { title: about.title }),
    },
  };
  const { owner } = ports.threads;
  const { who, surface } = place.by ?? { who: '', surface: '' };
  const by = who === '' ? { by: owner } : { by: `${who} (${surface})`, process: owner };
  const start: JournalEvent = { type: 'signal', data: { kind: 'start', ...by } };
  const events = [first, ...opening.output, start];
  const since = ports.threads.live.leases.now();
  const hooks = hasHooks(place.runner) ? prepared.hooks : [];
  const split = splitLimits(ports, limits, hooks, prepared.room);
  const checked = checkedEvents(events, 0);
  if (!checked.ok) return checked;
  const opened = [checked.output, about, takeBytes(files), split.hooks] as const;
  const inserted = await createRow(ports, prepared, place, ...opened);
  if (!inserted.ok) return inserted;
  const leased = inserted.output;
  const rows = place.by ? withVouched(startRow(place.by, 'run', leased.thread), files) : [];
  if (place.isQueued) return await leaveQueued(ports, leased, rows);
  ports.watch.transcript(leased.thread, leased.row)(
    [statusEvent('running'), ...events].map((event) => ({ ...event, turn: 0 })),
    1,
  );
  const result = await createThread(ports, {
    prepared,
    held: leased,
    since,
    signal,
    history: [],
    isReference,
    parent,
    drawFrom: place.drawFrom,
    split,
    runHook,
  });
  if (!result.ok) {
    // Nothing of the thread ran, and no other code would end it.
    await endForced(ports, leased.thread, 'failed', result.error.detail.message);
    return result;
  }
  const thread = result.output;
  for (const row of rows) thread.journal.audit(row);
  thread.talk.opening.push(...opening.output);
  for (const event of opening.output) addToConversation(thread, event);
  ports.watch.onEvent?.(leased.thread, { ...start, turn: 0 });
  const { id, created } = leased.row;
  return ok({ id, created, done: drive(thread, since) });
}

export async function runPrepared(
  ...run: Parameters<typeof startPrepared>
): Promise<Outcome<ThreadResult>> {
  const started = await startPrepared(...run);
  return started.ok ? ok(await started.output.done) : started;
}

/** Returns the failure of a hook that cannot serve this thread. The hook counts as no match. */
const unfit = (hook: string, why: string, thread?: string): Failure =>
  fail('hook_unfit', `hook \`${hook}\` cannot run here: ${why}`, {
    hook,
    ...(thread !== undefined && { thread }),
  });

/** Runs the directive of a hook in its own thread, with own limits, narrowed rights and bounded nesting. */
async function startHook(
  thread: Thread,
  name: string,
  inputs: JsonObject,
  { about, foreign }: { about: HookAbout; foreign?: readonly string[] | undefined },
): Promise<Outcome<ThreadResult | { computed: Value }>> {
  const { ports, place, hooks, control } = thread;
  const request = { directive: name, inputs };
  const prepared = await prepareThread(ports, request, hookLimitsLeft(thread));
  if (!prepared.ok) return unfit(name, prepared.error.detail.message);
  const computed = await compute(thread, prepared.output);
  if (computed) return computed.ok ? ok({ computed: computed.output }) : computed;
  if (place.nesting >= MAX_HOOK_NESTING) {
    return fail('hook_failed', `hooks are nested deeper than ${MAX_HOOK_NESTING}`);
  }
  const was = await ports.replay?.hook(place.id);
  if (was !== undefined) {
    const recorded = await recordHook(thread, about, was, prepared.output.item.id);
    return await resumeHook(thread, recorded);
  }
  const { reserve } = hooks;
  // The inputs of a hook can contain anything that its thread has read.
  const marks = thread.talk.conversation.allMarks();
  const from = reserve && { drawFrom: reserve };
  const untrustedInputs = foreign && { inputs: new Map(foreign.map((input) => [input, marks])) };
  const birth = {
    parent: thread,
    kind: 'hook',
    about,
    marks,
    given: untrustedInputs,
    ...from,
  } as const;
  return await runPrepared(ports, prepared.output, birth, control.signal, '');
}

/** Resumes a hook that began before, or returns its result if it has ended. */
async function resumeHook(
  { ports, place }: Pick<Thread, 'ports' | 'place'>,
  { thread_id }: HookStart,
): Promise<Outcome<ThreadResult>> {
  if (ports.replay) return ok(await ports.replay.hookResult(place.id, thread_id));
  const row = await ports.store.thread(thread_id);
  if (!row.ok) return row;
  const ended = resultOf(row.output);
  if (ended) return ok(ended);
  for (let tries = 1; ; tries++) {
    const resumed = await ports.threads.resume(thread_id);
    // A worker that took the hook from the queue releases it, so the hook is resumed here alone.
    const isTaken = !resumed.ok && resumed.error.code === 'lease_held';
    if (!isTaken || tries === HOOK_TRIES) return resumed;
    await sleep(HOOK_AGAIN_MS);
  }
}
const HOOK_TRIES = 20;
const HOOK_AGAIN_MS = 100;

/** Returns a failure if the hook is parked. The thread that it serves parks with it. */
function waitsFor(name: string, { status, reason, thread_id }: ThreadResult): Failure | undefined {
  if (!RESTS.has(status) && status !== 'interrupted') return undefined;
  const message = `hook \`${name}\` is ${status}${reason === '' ? '' : `: ${reason}`}`;
  return fail('approval_pending', message, { status, thread: thread_id });
}

export const runHook: RunHook = async (thread, name, inputs, asked) => {
  const ran =
    'before' in asked
      ? await resumeHook(thread, asked.before)
      : await startHook(thread, name, inputs, asked);
  if (!ran.ok) return ran;
  if ('computed' in ran.output) return ok(ran.output.computed);
  // External events that arrived while the hook ran are recorded before its answer.
  await thread.journal.catchUp();
  const { status, reason, outputs, cost, thread_id } = ran.output;
  const waits = waitsFor(name, ran.output);
  if (waits) return waits;
  // A replay has the answer at once. The thread can have handled signals while the hook waited for a person. They and
  // the events after them were recorded before the answer.
  if (thread.ports.replay) {
    handleSignals(thread);
    await thread.journal.catchUp();
  }
  const descriptor = unpackMarks(ran.output.marks);
  thread.talk.conversation.learn(descriptor, false);
  countHook(thread, cost);
  const granted = await takeGranted(thread, thread_id);
  if (!granted.ok) return granted;
  if (isUnaffordable(ran.output)) {
    return fail('hook_unaffordable', reason, { hook: name, thread: thread_id });
  }
  if (status === 'denied') return unfit(name, reason, thread_id);
  return status === 'completed'
    ? ok(makeValue(outputs, { descriptor }))
    : markFailure(fail('hook_failed', `hook thread ended ${status}: ${reason}`), descriptor);
};

/** Runs a directive as a thread until it ends or parks. */
export async function runDirective(
  ports: HarnessPorts,
  request: RunRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const prepared = await prepareThread(ports, request);
  if (!prepared.ok) return prepared;
  const place = rootOrigin(request);
  const ran = await runPrepared(ports, prepared.output, place, signal, request.message ?? '');
  return await goOnChanged(ports, ran);
}

const rootOrigin = ({ by, chat, id, labels }: RunRequest): ThreadOrigin => ({
  by,
  ...(id !== undefined && { id }),
  ...(chat && { runner: chat === ACP ? ACP : CHAT }),
  ...(labels && { marks: describe({ labels, taint: [...labels, 'src:user'] }) }),
});

/** Prepares a thread for another machine. If the store has a fleet, a provider key can be missing here. */
export async function prepareElsewhere(
  ports: HarnessPorts,
  request: RunRequest,
  left?: Parameters<typeof prepareThread>[2],
  isElsewhere = ports.store.fleet !== undefined,
): ReturnType<typeof prepareThread> {
  const here = await prepareThread(ports, request, left);
  const key = here.ok || !isElsewhere ? undefined : here.error.detail.variable;
  if (typeof key !== 'string') return here;
  const env = { ...ports.env, [key]: 'elsewhere' };
  return await prepareThread({ ...ports, env }, request, left);
}

export interface FireOptions extends Pick<ThreadOrigin, 'fire'> {
  /** Largest spend in nano-units, besides all other limits. Absent: no further limit. */
  readonly spend?: bigint;
}

/** Queues a directive for a worker, after all checks that are possible in this process. */
export async function enqueueDirective(
  ports: HarnessPorts,
  request: RunRequest,
  { spend: value, fire }: FireOptions = {},
): Promise<Outcome<{ thread: string; created: number }>> {
  const amounts = value === undefined ? undefined : { spend: { value, declared: true } };
  const prepared = await prepareElsewhere(ports, request, amounts);
  if (!prepared.ok) return prepared;
  const place = { ...rootOrigin(request), isQueued: true, ...(fire && { fire }) } as const;
  const never = new AbortController().signal;
  const queued = await startPrepared(ports, prepared.output, place, never, request.message ?? '');
  return queued.ok ? ok({ thread: queued.output.id, created: queued.output.created }) : queued;
}

/** Resumes a run whose directive was changed, at most as often as a run can be retried. */
export async function goOnChanged(
  ports: HarnessPorts,
  first: Outcome<ThreadResult>,
): Promise<Outcome<ThreadResult>> {
  let ran = first;
  for (let tries = 0; tries < MAX_RETRIES; tries++) {
    if (!ran.ok || !(await isChanged(ports, ran.output))) break;
    ran = await ports.threads.resume(ran.output.thread_id);
  }
  return ran;
}

/** Starts a thread whose result no caller awaits. Other threads read its state in the store. */
export async function startSpawned(
  ...run: Parameters<typeof startPrepared>
): ReturnType<typeof startPrepared> {
  const started = await startPrepared(...run);
  if (started.ok) void started.output.done.then((done) => goOnChanged(run[0], ok(done)));
  return started;
}

/** True if the run waits without a pending approval request, because its directive was changed without a person. */
async function isChanged(
  { store }: HarnessPorts,
  { thread_id, status }: ThreadResult,
): Promise<boolean> {
  if (status !== 'waiting') return false;
  const open = await store.approvals({ thread: thread_id, state: 'pending' });
  return open.ok && open.output.length === 0;
}
