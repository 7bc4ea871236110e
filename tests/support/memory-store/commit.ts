// Births, commits and signals in memory. Every step changes the rows at once; a refusal anywhere is
// thrown and the transaction takes all of it back.
import {
  canonicalJson,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import type {
  CommitText,
  EventText,
  SignalText,
  ThreadText,
} from '../../../packages/core/src/store/encode.ts';
import type {
  Approval,
  ApprovalState,
  ApprovalUse,
  Commit,
  Committed,
  Held,
  NewApproval,
  OpenReservation,
  Sealed,
  Signal,
  ThreadRow,
} from '../../../packages/core/src/store/port.ts';
import { isEnded, noThread } from '../../../packages/core/src/store/thread-id.ts';
import { changeBudgets, openAccount, reserveAll } from './budgets.ts';
import { need, refuse, type ThreadRecord, type World } from './world.ts';

export const MAX_LEASE_MS = 600_000;
const REVOKING = ['aborted', 'terminated', 'killed'];

export function revokedIn(world: World, chain: readonly string[]): string | undefined {
  return chain.find((id) => {
    const isRevoked = REVOKING.includes(world.threads.get(id)?.status ?? '');
    return isRevoked || (world.signals.get(id) ?? []).some(({ kind }) => kind === 'kill');
  });
}

export function toRow(world: World, record: ThreadRecord): ThreadRow {
  const {
    wakes: _,
    heard: _1,
    queued: _2,
    priority: _3,
    birth: _4,
    order: _5,
    texts: _6,
    ...row
  } = record;
  const revoked = revokedIn(world, record.chain);
  return structuredClone({ ...row, ...(revoked === undefined ? {} : { revoked }) });
}

export function toHeld(world: World, id: string): Held {
  const record = need(world.threads.get(id), noThread(id));
  const { epoch, heard, lease_until } = record;
  const open = world.reservations
    .all()
    .filter(({ thread }) => thread === id)
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(
      ({ key, amounts, from }): OpenReservation => ({
        key,
        amounts,
        ...(from === undefined ? {} : { from }),
      }),
    );
  const lease_ms = lease_until === undefined ? 0 : lease_until - world.clock.now();
  return { thread: id, epoch, row: toRow(world, record), heard, lease_ms, open };
}

export function addEvents(world: World, id: string, events: readonly EventText[]): void {
  const before = world.events.get(id) ?? [];
  const now = world.clock.now();
  const added = events.map(({ type, turn, ts = now, text }, index) => {
    const data: JsonObject = JSON.parse(text);
    return { thread: id, seq: before.length + index + 1, ts, turn, type, data };
  });
  world.events.set(id, [...before, ...added]);
}

export function keepSecrets(world: World, thread: string, secrets: readonly Sealed[]): void {
  const kept = [...(world.secrets.get(thread) ?? [])];
  for (const { number, sealed } of secrets) {
    const before = kept.find((one) => one.number === number);
    if (before && Buffer.compare(before.sealed, sealed) !== 0) {
      refuse('conflict', `secret ${number} of \`${thread}\` exists`, { thread });
    }
    if (!before) kept.push({ number, sealed: sealed.slice() });
  }
  if (secrets.length > 0)
    world.secrets.set(
      thread,
      kept.sort((a, b) => a.number - b.number),
    );
}

export function bear(
  world: World,
  text: ThreadText,
  parent: ThreadRecord | undefined,
  birth: symbol,
): string[] {
  const { thread, events } = text;
  const {
    id,
    kind = 'thread',
    detached = false,
    directive,
    version,
    runner,
    project,
    start,
  } = thread;
  if (world.accounts.get(id)) {
    refuse('thread_exists', `thread \`${id}\` exists already`, { thread: id });
  }
  const now = world.clock.now();
  const tenant = (parent ?? thread).tenant || undefined;
  const items = thread.items ?? parent?.items;
  const isHeld = 'lease' in start;
  const status = isHeld ? 'running' : 'spawning';
  const place = isHeld
    ? { owner: start.lease.owner, lease_until: now + Math.min(start.lease.ttlMs, MAX_LEASE_MS) }
    : { queued: start.queue.after ?? now };
  const chain = [id, ...(parent?.chain ?? [])];
  world.threads.set(id, {
    id,
    kind,
    detached,
    directive,
    version,
    runner,
    project,
    status,
    chain,
    birth,
    ...place,
    ...(parent ? { parent: parent.id } : {}),
    ...(tenant === undefined ? {} : { tenant }),
    ...(items === undefined ? {} : { items }),
    root: chain.at(-1) ?? id,
    depth: parent ? parent.depth + (kind === 'hook' ? 0 : 1) : 0,
    seq: events.length + 1,
    epoch: isHeld ? 1 : 0,
    attempt: 1,
    created: now,
    updated: now,
    cost: {},
    limits: JSON.parse(text.limits),
    inputs: JSON.parse(text.inputs),
    ...(thread.title === undefined ? {} : { title: thread.title }),
    texts: [text.search ?? '', ''],
    wakes: 0,
    heard: 0,
    priority: isHeld ? 0 : (start.queue.priority ?? 0),
    order: world.threads.all().length,
  });
  openAccount(world, id, thread.budget);
  addEvents(world, id, [
    { type: 'status', turn: 0, ts: now, text: JSON.stringify({ status }) },
    ...events,
  ]);
  keepSecrets(world, id, thread.secrets ?? []);
  return reserveAll(world, chain, thread.reserve ?? []);
}

/** `thread_ended`, `not_found`; the same key again is the same signal. */
export function sendSignal(world: World, signal: SignalText): Outcome<{ number: number }> {
  const { thread, kind, key, by, text } = signal;
  const record = world.threads.get(thread);
  if (!record) return noThread(thread);
  const all = world.signals.get(thread) ?? [];
  const before = all.find((one) => one.key === key);
  if (before) return ok({ number: before.number });
  if (isEnded(record.status)) {
    return fail('thread_ended', `thread \`${thread}\` has ended (${record.status})`, { thread });
  }
  const [now, number] = [world.clock.now(), record.wakes + 1];
  const payload: Json = JSON.parse(text);
  world.signals.set(thread, [...all, { thread, kind, key, by, payload, number, ts: now }]);
  const queued = record.owner === undefined ? Math.min(record.queued ?? now, now) : record.queued;
  world.threads.set(thread, {
    ...record,
    wakes: number,
    ...(queued === undefined ? {} : { queued }),
  });
  return ok({ number });
}

export function stateOf(approval: Approval, now: number): ApprovalState {
  const { state, expires, uses } = approval;
  if (state === 'denied') return state;
  if (expires !== undefined && expires <= now) return 'expired';
  return state === 'approved' && uses === 0 ? 'used' : state;
}

export function askApproval(world: World, asked: NewApproval, thread?: string): Approval {
  const now = world.clock.now();
  const bound = canonicalJson(asked.binding);
  const before = world.approvals
    .all()
    .find(
      (one) =>
        one.thread === thread &&
        one.kind === asked.kind &&
        canonicalJson(one.binding) === bound &&
        stateOf(one, now) === 'pending',
    );
  if (before) return before;
  const { thread: _, ...plain } = structuredClone(asked);
  const made: Approval = {
    ...plain,
    ...(thread === undefined ? {} : { thread }),
    state: 'pending',
    uses: asked.uses ?? 1,
    asked: now,
  };
  world.approvals.set(made.id, made);
  return made;
}

/** By a thread with its chain, or outside of all with an empty one. */
export function useApproval(
  world: World,
  { approval: id, binding, back }: ApprovalUse,
  chain: readonly string[],
): void {
  const missing = fail('not_found', `there is no approval \`${id}\``, { approval: id });
  const found = need(world.approvals.get(id), missing);
  const isTheirs =
    chain.length === 0 ? found.thread === undefined : chain.includes(found.thread ?? '');
  if (!isTheirs || canonicalJson(found.binding) !== canonicalJson(binding)) {
    refuse('permission_denied', `approval \`${id}\` is for something else`);
  }
  const key = `${id} ${chain[0] ?? ''}`;
  const taken = world.uses.get(key) ?? 0;
  const state = stateOf(found, world.clock.now());
  if (back ? taken === 0 : state !== 'approved') {
    const code = back ? 'invalid_input' : `approval_${state}`;
    refuse(code, `approval \`${id}\` cannot be used: ${state}`, { approval: id, state });
  }
  const by = back ? -1 : 1;
  world.uses.set(key, taken + by);
  world.approvals.set(id, { ...found, uses: found.uses - by });
}

function fence(world: World, id: string, commit: Commit): ThreadRecord {
  const record = need(world.threads.get(id), noThread(id));
  const { seq, epoch, quiet } = commit.expect;
  const detail = { thread: id, seq: record.seq, epoch: record.epoch };
  const isOver = (record.lease_until ?? 0) <= world.clock.now();
  if (record.epoch !== epoch) refuse('stale_epoch', `thread \`${id}\` changed hands`, detail);
  if (record.seq !== seq) refuse('conflict', `thread \`${id}\` is elsewhere`, detail);
  if (isOver) refuse('lease_expired', `the lease of thread \`${id}\` is over`, detail);
  const heard = Math.max(record.heard, Math.min(commit.heard ?? 0, record.wakes));
  if (quiet && record.wakes > heard) {
    const signals = (world.signals.get(id) ?? []).filter(({ number }) => number > heard);
    const message = `thread \`${id}\` was spoken to meanwhile`;
    refuse('signalled', message, {
      thread: id,
      signals: structuredClone(signals).map((signal): JsonObject => ({ ...signal })),
    });
  }
  return { ...record, heard };
}

/** Without a holder; an unheard word queues it. */
export function letGo(world: World, record: ThreadRecord, wake: number | undefined): ThreadRecord {
  const { owner: _, lease_until: _1, queued: _2, ...free } = record;
  const queued = record.wakes > record.heard ? world.clock.now() : wake;
  if (isEnded(record.status) || queued === undefined) return free;
  return { ...free, queued };
}

function changed(world: World, record: ThreadRecord, text: CommitText): ThreadRecord {
  const { commit, events, cost, result, limits, search } = text;
  const now = world.clock.now();
  const { ended: before, ...rest } = record;
  const status = commit.status ?? record.status;
  const ended = commit.status === undefined ? before : isEnded(status) ? now : undefined;
  const next: ThreadRecord = {
    ...rest,
    status,
    seq: record.seq + events.length,
    updated: now,
    attempt: commit.attempt ?? record.attempt,
    ...(ended === undefined ? {} : { ended }),
    ...(commit.items === undefined ? {} : { items: commit.items }),
    ...(cost === undefined ? {} : { cost: JSON.parse(cost) }),
    ...(result === undefined ? {} : { result: JSON.parse(result) }),
    ...(limits === undefined ? {} : { limits: JSON.parse(limits) }),
    ...(search === undefined ? {} : { texts: [record.texts[0], search] }),
  };
  const { release } = commit;
  if (release === undefined) return next;
  return letGo(world, next, release === true ? undefined : release.wake);
}

function askAll(
  world: World,
  [id = '', ...above]: readonly string[],
  asked: readonly NewApproval[],
): Approval[] {
  const chain = [id, ...above];
  const ids = new Set<string>();
  return asked.map((one) => {
    if (ids.has(one.id) || world.approvals.get(one.id)) {
      refuse('invalid_input', `there is an approval \`${one.id}\` already`);
    }
    ids.add(one.id);
    if (one.thread !== undefined && !chain.includes(one.thread)) {
      refuse('invalid_input', `approval \`${one.id}\` is asked for a thread that is not above`);
    }
    return askApproval(world, one, one.thread ?? id);
  });
}

/** What the answer says besides the signals, which depend on whom it goes to. */
export function commitThread(
  world: World,
  id: string,
  text: CommitText,
): Omit<Committed, 'signals'> {
  const { commit, events } = text;
  const record = fence(world, id, commit);
  const { chain } = record;
  const after = changed(world, record, text);
  world.threads.set(id, after);
  addEvents(world, id, events);
  for (const { thread } of text.children) {
    if (world.threads.get(thread.id))
      refuse('thread_exists', `thread \`${thread.id}\` exists already`);
  }
  const reserved = changeBudgets(world, chain, commit);
  for (const child of text.children) reserved.push(...bear(world, child, record, Symbol('child')));
  keepSecrets(world, id, commit.secrets ?? []);
  const approvals = askAll(world, chain, commit.ask ?? []);
  for (const use of commit.use ?? []) useApproval(world, use, chain);
  for (const signal of text.tell) sendSignal(world, signal);
  addAudit(world, commit.audit ?? []);
  const revoked = revokedIn(world, chain);
  return {
    seq: after.seq,
    lease_ms: after.lease_until === undefined ? 0 : after.lease_until - world.clock.now(),
    reserved,
    children: text.children.map(({ thread }) => toHeld(world, thread.id)),
    approvals: structuredClone(approvals),
    ...(revoked === undefined ? {} : { revoked }),
  };
}

const short = (text: string): string => (text.length > 500 ? `${text.slice(0, 500)}…` : text);

export function addAudit(world: World, rows: NonNullable<Commit['audit']>): void {
  const time = new Date(world.clock.now()).toISOString();
  for (const row of rows) {
    const number = String(world.audit.all().length);
    const [operation, reason] = [short(row.operation), short(row.reason)];
    world.audit.set(number, { ...row, operation, target: short(row.target), reason, time });
  }
}

export const signalsAfter = (world: World, id: string, after: number): Signal[] =>
  structuredClone((world.signals.get(id) ?? []).filter(({ number }) => number > after));
