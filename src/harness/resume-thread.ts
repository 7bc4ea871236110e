// A thread that was paused, or that a process left behind, goes on from its journal.
import { getOwn, type Json, type JsonObject, type Outcome, ok, plainText } from '../base/index.ts';
import { EMPTY } from '../flow/index.ts';
import type { StoredEvent } from '../store/index.ts';
import { packMarks } from './conversation.ts';
import { createContext } from './create-thread.ts';
import { prepareThread } from './prepare-thread.ts';
import { runHook } from './run-thread.ts';
import type { ThreadContext } from './thread-context.ts';
import { drive, LEASE_MS } from './thread-drive.ts';
import { replayEvent } from './thread-replay.ts';
import { unknownOutcome } from './thread-step.ts';
import type { ThreadResult, World } from './world.ts';

/** Calls that were begun and never ended: a write is not repeated, everything else is. */
function settleBegun(thread: ThreadContext, history: readonly StoredEvent[]): void {
  const begun = new Map(
    history
      .filter(({ type }) => type === 'tool_call')
      .map(({ data }) => [plainText(data.call_id), data]),
  );
  for (const call of thread.conversation.pending()) {
    const intent = begun.get(call.id);
    if (!intent || intent.effect !== 'write') continue;
    const unknown = unknownOutcome(call, plainText(intent.tool));
    const content = { ok: false, error: unknown.error } as unknown as Json;
    thread.log.note('tool_result', {
      call_id: call.id,
      content,
      is_error: true,
      marks: packMarks(EMPTY),
    });
    thread.conversation.result(call.id, content, EMPTY, true);
  }
}

/** A request whose answer never came may have been charged: its reservation is, in full. */
function chargeOpen({ world, id }: ThreadContext): void {
  const open = world.store.openReservations(id);
  for (const { key, amounts } of open.ok ? open.output : []) world.store.settle(key, amounts);
}

/** Goes on with a thread that was interrupted or paused. */
export async function resumeThread(
  world: World,
  id: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const lease = world.store.claim(id, world.owner, LEASE_MS);
  if (!lease.ok) return lease;
  const row = world.store.thread(id);
  if (!row.ok) return row;
  const history = world.store.read(id);
  if (!history.ok) return history;
  const start = history.output.find(({ type }) => type === 'thread_start')?.data ?? {};
  const prepared = await prepareThread(world, {
    directive: row.output.directive,
    inputs: row.output.inputs as JsonObject,
    model: plainText(getOwn(start, 'model')),
  });
  if (!prepared.ok) {
    world.store.release(id, lease.output.epoch);
    return prepared;
  }
  const { epoch } = lease.output;
  const made = createContext(world, {
    prepared: prepared.output,
    row: row.output,
    epoch,
    signal,
    history: history.output,
    runHook,
  });
  if (!made.ok) return made;
  const thread = made.output;
  const lastAttempt = history.output.findLastIndex(({ type }) => type === 'retry');
  for (const event of history.output.slice(lastAttempt + 1)) replayEvent(thread, event);
  for (const { type, data } of history.output) {
    if (type === 'signal') thread.lastSignal = Math.max(thread.lastSignal, Number(data.id ?? 0));
  }
  thread.log.note('signal', { kind: 'resume', by: world.owner }, { status: 'running' });
  settleBegun(thread, history.output);
  chargeOpen(thread);
  return ok(await drive(thread, epoch));
}
