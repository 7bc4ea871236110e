// What a process left open when it ended: calls that were begun, requests whose answer nobody read,
// hooks nobody waits for. Each is brought to an end before the thread goes on.
import { type Json, plainText } from '../base/index.ts';
import type { Amounts, NewEvent, StoredEvent, ThreadSummary } from '../store/index.ts';
import { packMarks } from './conversation.ts';
import { type HookCost, packCost } from './cost.ts';
import { leftBooks } from './thread-books.ts';
import { raiseError } from './thread-checkpoint.ts';
import type { ThreadContext } from './thread-context.ts';
import { replayEvent } from './thread-replay.ts';
import { unknownOutcome } from './thread-step.ts';
import { usageOf } from './turn-account.ts';

const sum = (list: readonly Amounts[], kind: keyof Amounts): bigint =>
  list.reduce((total, amounts) => total + (amounts[kind] ?? 0n), 0n);

/**
 * A request that went out and whose answer never came may be on the invoice: its reservation is
 * charged, in full and once. One that was reserved and never sent costs nothing.
 */
export function chargeOpen(thread: ThreadContext, history: readonly StoredEvent[]): void {
  const { world, id, meter, log } = thread;
  const sent = new Set(
    history.flatMap(({ type, data }) => (type === 'turn_start' ? [plainText(data.key)] : [])),
  );
  const open = world.store.openReservations(id);
  const own = (open.ok ? open.output : []).filter(({ key }) => key.startsWith(`${id}:turn:`));
  for (const { key } of own) if (!sent.has(key)) world.store.cancel(key);
  const charged = own.filter(({ key }) => sent.has(key));
  if (charged.length === 0) return;
  for (const { amounts } of charged) meter.countRequest(usageOf(amounts), amounts.spend ?? 0n);
  const amounts = charged.map((one) => one.amounts);
  log.note(
    'cost_update',
    { charged_unread: charged.length, tokens: Number(sum(amounts, 'tokens')) },
    {
      cost: packCost(meter.read()),
      settle: charged.map(({ key, amounts: actual }) => ({ key, actual })),
    },
  );
}

/** Intents since the model last spoke: earlier ones have their results. */
function begunCalls(history: readonly StoredEvent[]): Map<string, StoredEvent['data']> {
  const said = history.findLastIndex(({ type }) => type === 'assistant_message');
  const calls = history.slice(said + 1).filter(({ type }) => type === 'tool_call');
  return new Map(calls.map(({ data }) => [plainText(data.call_id), data]));
}

/** Calls that were begun and never ended: a write is not repeated, everything else is. */
export async function settleBegun(
  thread: ThreadContext,
  history: readonly StoredEvent[],
): Promise<void> {
  const begun = begunCalls(history);
  for (const call of thread.conversation.pending()) {
    const intent = begun.get(call.id);
    if (!intent || intent.effect !== 'write') continue;
    const tool = plainText(intent.tool);
    const unknown = unknownOutcome(call, tool);
    const verdict = await raiseError(thread, unknown, tool, { isTold: true });
    const instead = verdict?.action === 'end' && verdict.outcome.ok ? verdict.outcome : undefined;
    thread.meter.countToolCall();
    const event: NewEvent = {
      type: 'tool_result',
      data: {
        call_id: call.id,
        tool,
        content: instead?.output.data ?? ({ ok: false, error: unknown.error } as unknown as Json),
        is_error: !instead,
        marks: packMarks(thread.conversation.ownMarks()),
      },
    };
    if (!thread.log.append([event], { cost: packCost(thread.meter.read()) }).ok) return;
    replayEvent(thread, event);
    if (thread.ending) return;
  }
}

/** A hook's thread is part of one step; that step is done again, with a new one. */
export function endLeftHooks(thread: ThreadContext): void {
  const { world, id, meter } = thread;
  const left = world.store.query({
    parent: id,
    kind: 'hook',
    status: ['spawning', 'running', 'paused', 'waiting', 'needs_input', 'interrupted'],
    limit: 100,
  });
  for (const hook of left.ok ? left.output.rows : []) {
    const cost = endHook(thread, hook);
    if (cost) meter.countHook(cost);
  }
}

function endHook({ world }: ThreadContext, hook: ThreadSummary): HookCost | undefined {
  const lease = world.store.claim(hook.id, world.owner, 60_000, { force: true });
  if (!lease.ok) return undefined;
  const { epoch, seq } = lease.output;
  const { settle, free, cost } = leftBooks(world, hook);
  const end = { status: 'terminated', reason: 'the thread it served was resumed' };
  const packed = packCost(cost);
  world.store.append(hook.id, seq, epoch, [{ type: 'thread_end', data: end }], {
    status: 'terminated',
    cost: packed,
    settle,
  });
  for (const key of free) world.store.cancel(key);
  world.store.release(hook.id, epoch);
  return cost;
}
