// From a prepared directive to its result: the row and its lease, the injected beginning, the loop,
// the end.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { Held, NewThread } from '../../store/index.ts';
import { MAX_RETRIES } from '../hooks/action.ts';
import { packLimits } from '../limits/effective-limits.ts';
import { apartKey, budgetOf } from '../thread/budget.ts';
import { encode } from '../thread/journal-codec.ts';
import type { JournalEvent } from '../thread/journal-event.ts';
import { LEASE_MS } from '../thread/journal-writer.ts';
import { openingEvents, withFreshId } from '../thread/opening.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { addToConversation } from '../thread/talk.ts';
import type { HarnessPorts, Prepared } from '../thread/thread.ts';
import { createThread } from './create.ts';
import { drive } from './drive.ts';
import { prepareThread, type RunRequest } from './prepare.ts';
import {
  type BirthPlace,
  createHookRunner,
  hookReserve,
  type RunPrepared,
  splitLimits,
} from './run-hook.ts';
import { hasHooks } from './runner.ts';

/** A thread that exists; `done` never rejects. */
export interface Started {
  id: string;
  created: number;
  done: Promise<ThreadResult>;
}

interface Newborn {
  held: Held;
  since: number;
}

/** How it comes into the world: a root by itself, everybody else in a commit of the parent. */
async function bear(
  ports: HarnessPorts,
  place: BirthPlace,
  thread: NewThread,
): Promise<Outcome<Held>> {
  const { parent, kind, spawn } = place;
  if (!parent) return await ports.store.createThread(thread);
  const { id: thread_id, directive, runner } = thread;
  const noted: JournalEvent =
    kind === 'hook'
      ? { type: 'hook_start', data: { thread_id, directive, event: place.event ?? '' } }
      : {
          type: 'spawn',
          data: { thread_id, directive, runner, detached: thread.detached === true },
        };
  const born = await parent.journal.commit(noted, { children: [thread], ...spawn?.() });
  if (!born.ok) return born;
  const [held] = born.output.children;
  return held ? ok(held) : fail('internal_error', `thread \`${thread_id}\` was not born`);
}

async function createRow(
  ports: HarnessPorts,
  prepared: Prepared,
  place: BirthPlace,
  events: readonly JournalEvent[],
): Promise<Outcome<Newborn>> {
  const { item, directive, limits, inputs } = prepared;
  const runner = place.runner ?? 'safety';
  const hooks = hasHooks(runner) ? prepared.hooks : [];
  const aside = splitLimits(ports, limits, hooks).hooks;
  const { live, owner } = ports.threads;
  const create = async (id: string): Promise<Outcome<Newborn>> => {
    const since = live.leases.now();
    const isApart = place.detached === true && place.parent !== undefined;
    const drawFrom = place.drawFrom ?? (isApart ? apartKey(id) : undefined);
    const held = await bear(ports, place, {
      id,
      directive: item.id,
      version: directive.version,
      runner,
      project: ports.project,
      limits: packLimits(limits),
      budget: budgetOf(limits),
      inputs,
      ...(place.kind ? { kind: place.kind } : {}),
      ...(place.detached ? { detached: true } : {}),
      events: events.map((event) => encode(event, 0)),
      reserve: hookReserve(id, 1, aside, drawFrom),
      start: { lease: { owner, ttlMs: LEASE_MS } },
    });
    return held.ok ? ok({ held: held.output, since }) : held;
  };
  return place.id === undefined
    ? await withFreshId(directive.name, ports, create)
    : await create(place.id);
}

/** The store writes its birth, before everything else. */
const BORN: JournalEvent = { type: 'status', data: { status: 'running' } };

/** Makes the row and lets the thread run; whoever wants its result awaits `done`. */
export async function startPrepared(
  ports: HarnessPorts,
  prepared: Prepared,
  place: BirthPlace,
  signal: AbortSignal,
  message: string,
): Promise<Outcome<Started>> {
  const { directive, limits, inputs, model } = prepared;
  const opening = await openingEvents(ports, prepared, message, place.marks);
  if (!opening.ok) return opening;
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
    },
  };
  const start: JournalEvent = { type: 'signal', data: { kind: 'start', by: ports.threads.owner } };
  const events = [first, ...opening.output, start];
  const born = await createRow(ports, prepared, place, events);
  if (!born.ok) return born;
  const { held, since } = born.output;
  ports.watch.transcript(held.thread, held.row)(
    [BORN, ...events].map((event) => ({ ...event, turn: 0 })),
    1,
  );
  const made = await createThread(ports, {
    prepared,
    held,
    since,
    signal,
    history: [],
    parent: place.parent,
    drawFrom: place.drawFrom,
    runHook,
  });
  if (!made.ok) {
    await ports.store.release(held);
    return made;
  }
  const thread = made.output;
  thread.talk.opening.push(...opening.output);
  for (const event of opening.output) addToConversation(thread, event);
  ports.watch.onEvent?.(held.thread, { ...start, turn: 0 });
  const { id, created } = held.row;
  return ok({ id, created, done: drive(thread, since) });
}

export const runPrepared: RunPrepared = async (...run) => {
  const started = await startPrepared(...run);
  return started.ok ? ok(await started.output.done) : started;
};

export const runHook = createHookRunner(runPrepared);

/** Runs a directive as a thread, to its end or until it pauses. */
export async function runDirective(
  ports: HarnessPorts,
  request: RunRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const prepared = await prepareThread(ports, request);
  if (!prepared.ok) return prepared;
  let ran = await runPrepared(ports, prepared.output, {}, signal, request.message ?? '');
  for (
    let tries = 0;
    ran.ok && tries < MAX_RETRIES && (await isChanged(ports, ran.output));
    tries++
  ) {
    ran = await ports.threads.resume(ran.output.thread_id);
  }
  return ran;
}

/** The directive was changed and nobody needs to look at it: the run goes on with the new one. */
async function isChanged(
  { store }: HarnessPorts,
  { thread_id, status }: ThreadResult,
): Promise<boolean> {
  if (status !== 'waiting') return false;
  const open = await store.approvals({ thread: thread_id, state: 'pending' });
  return open.ok && open.output.length === 0;
}
