// Settles the work that a lost process left open: calls that had begun, requests without an answer, hooks without a
// thread, and commits that the disk lost. All of it is settled before the thread resumes.
import { type Json, type Outcome, ok } from '../../base/index.ts';
import { type JournalEvent, madeCalls, type OpenWork, readJournal } from '../../journal/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { isEnded, type OpenReservation } from '../../store/index.ts';
import { hooksOf } from '../children/children.ts';
import { raiseError } from '../hooks/raise-checkpoint.ts';
import { createCostMeter, NO_COST, packCost, unpackCost } from '../limits/cost.ts';
import { endCall } from '../step/call-intent.ts';
import { failureJson, hasWithheldResult, isParked, unknownOutcome } from '../step/step.ts';
import { packMarks } from '../thread/conversation.ts';
import type { LostCommits } from '../thread/ports.ts';
import { addToConversation, tell } from '../thread/talk.ts';
import type { BudgetHolder, HarnessPorts, Interruptible, Thread } from '../thread/thread.ts';
import { transcriberOf, withLease } from '../thread/with-lease.ts';
import { finalAccount, usageOf } from '../turn/turn-account.ts';
import { countHook, type HookBudget } from './run-hook.ts';

/**
 * Charges the reservations of requests without an answer, in full and once, because they can be on the invoice. A
 * reservation whose request never began costs nothing.
 */
export function chargeUnreadRequests(
  thread: Pick<Thread, 'place' | 'budget' | 'journal'>,
  { requests }: Pick<OpenWork, 'requests'>,
  open: readonly OpenReservation[],
): void {
  const { place, budget, journal } = thread;
  const { meter } = budget;
  const own = open.filter(({ key }) => key.startsWith(`${place.id}:turn:`));
  if (own.length === 0) return;
  const charged = own.filter(({ key }) => requests.has(key));
  for (const { amounts } of charged) meter.countRequest(usageOf(amounts), amounts.spend ?? 0n);
  const tokens = charged.reduce((sum, { amounts }) => sum + Number(amounts.tokens ?? 0n), 0);
  const data = { charged_unread: charged.length, tokens };
  const settle = own.map(({ key, amounts }) => ({ key, actual: requests.has(key) ? amounts : {} }));
  journal.note({ type: 'cost_update', data }, { cost: packCost(meter.read()), settle });
}

/** A request without an answer is made again. Its turn counts once. */
export function uncountTurn(
  { budget: { meter } }: Pick<Thread, 'budget'>,
  { lastRequest }: Pick<OpenWork, 'lastRequest'>,
): void {
  if (lastRequest?.n === undefined || lastRequest.isAnswered) return;
  if (meter.read().turns >= lastRequest.n) meter.giveBackTurn();
}

/** Sets the turn number back if a hook was asked before the request of the turn. The turn has not begun. */
export function revertUnstartedTurn(
  { journal, hooks: { pending } }: Pick<Thread, 'hooks' | 'journal'>,
  { lastRequest }: Pick<OpenWork, 'lastRequest'>,
): void {
  const { turn } = journal;
  const isAsked = [...pending.values()].some(({ step }) => step === `turn ${turn}`);
  if (isAsked && lastRequest?.turn !== turn) journal.turn -= 1;
}

/** The calls of the last reply, and the counts and the journal that their outcomes enter. */
type UnfinishedTurn = Interruptible & Pick<Thread, 'talk'>;

/** Records that the outcome of a call is unknown, or the result `instead`. The call is not made again. */
function recordUnknownOutcome(
  thread: UnfinishedTurn,
  call: ToolCallBlock,
  tool: string,
  instead?: Json,
): void {
  thread.budget.meter.countToolCall();
  const event: JournalEvent = {
    type: 'tool_result',
    data: {
      call_id: call.id,
      tool,
      content: instead ?? failureJson(unknownOutcome(call, tool)),
      is_error: instead === undefined,
      marks: packMarks(thread.talk.conversation.ownMarks()),
    },
  };
  endCall(thread, call);
  thread.journal.note(event, { cost: packCost(thread.budget.meter.read()) });
  addToConversation(thread, event);
}

/** Settles calls that began and have no result. A write is not repeated; all other calls are. */
export async function settleUnfinishedCalls(
  thread: Thread,
  { calls, asked }: Pick<OpenWork, 'calls' | 'asked'>,
): Promise<void> {
  for (const call of thread.talk.conversation.pending()) {
    const intent = calls.get(call.id)?.intent.data;
    // A spawn reserves the id of its child first, so a second spawn finds the same child.
    const isSpawn = thread.control.intents.get(call.id)?.child !== undefined;
    // A call that waits for a person has not begun, and keeps waiting.
    const isAsked = asked.has(call.id) || thread.control.escalated.has(call.id);
    const isOpen = isAsked || hasWithheldResult(thread, call.id);
    if (!intent || intent.effect !== 'write' || isSpawn || isOpen) continue;
    const { tool, target = '' } = intent;
    const unknown = unknownOutcome(call, tool);
    const verdict = await raiseError(thread, unknown, tool, { isTold: true, call: call.id });
    // The hook waits for a person and answers later.
    if (isParked(thread)) return;
    const { id, item } = thread.place;
    // The lost process has not written the audit row of its call.
    thread.journal.audit({
      surface: 'thread',
      caller: id,
      subject: `directive:${item.id}`,
      operation: `tool:${tool}`,
      target,
      decision: 'failed',
      reason: `outcome_unknown: ${unknown.error.detail.message}`,
    });
    const instead = verdict?.action === 'end' && verdict.outcome.ok ? verdict.outcome : undefined;
    recordUnknownOutcome(thread, call, tool, instead?.output.data);
    if (thread.control.ending || thread.journal.lost()) return;
  }
}

/** True if the hook can have written something. Such a hook is not run again. */
async function mayHaveWritten({ ports }: Pick<Thread, 'ports'>, hook: string): Promise<boolean> {
  const history = await readJournal(ports.store, hook);
  if (!history.ok) return true;
  return madeCalls(history.output).some(({ intent }) => intent.data.effect === 'write');
}

/** Ends hooks that the run will not ask again. The others continue when the run reaches them. */
export async function endOrphanedHooks(
  thread: BudgetHolder & Pick<Thread, 'hooks' | 'control'>,
): Promise<Outcome<null>> {
  const { pending } = thread.hooks;
  const { ports, place } = thread;
  const before = await hooksOf(ports, place.id);
  if (!before.ok) return before;
  for (const { id, status } of before.output) {
    // This hook ended together with the thread that it served, so the thread asks it again.
    const isAnew = isEnded(status) && thread.control.hadEnded && status !== 'completed';
    if (isAnew && !(await mayHaveWritten(thread, id))) pending.delete(id);
    if (!isEnded(status) && !pending.has(id)) await endHook(thread, id);
  }
  // A hook can have ended before its thread counted it, so the sum of all hooks counts.
  const all = createCostMeter(() => 0);
  const ended = await hooksOf(ports, place.id);
  if (!ended.ok) return ended;
  for (const { id, cost } of ended.output) {
    const used = pending.has(id) ? undefined : unpackCost(cost);
    if (used?.ok) all.countHook(used.output);
  }
  const [now, counted] = [all.read(), thread.budget.meter.read().hooks];
  const news = Object.fromEntries(
    Object.entries(counted).map(([name, value]) => {
      const sum = now.hooks[name as keyof typeof counted];
      return [name, typeof sum === 'bigint' ? sum - BigInt(value) : sum - Number(value)];
    }),
  ) as unknown as typeof counted;
  // The difference alone is counted, because the meter contains the rest already.
  thread.budget.meter.countHook({ ...NO_COST, ...news, estimated: now.estimated });
  return ok(null);
}

/** Ends the hooks that the run asked earlier and did not reach again. */
export async function endHooks(thread: HookBudget & Pick<Thread, 'ports'>): Promise<void> {
  for (const id of thread.hooks.pending.keys()) {
    if (!thread.ports.replay) await endHook(thread, id);
    const row = await thread.ports.store.thread(id);
    if (row.ok) countHook(thread, row.output.cost);
  }
  thread.hooks.pending.clear();
}

const endHook = async ({ ports }: Pick<Thread, 'ports'>, id: string): Promise<void> =>
  await endForced(ports, id, 'terminated', 'the thread that it served continued without it');

/** Ends a thread that this process does not run, even if another process has its lease. */
export async function endForced(
  ports: HarnessPorts,
  id: string,
  status: 'terminated' | 'failed',
  reason: string,
): Promise<void> {
  const { owner } = ports.threads;
  await withLease(
    ports.store,
    id,
    { owner, force: true },
    (leased) => {
      const { settle, cost } = finalAccount(leased);
      const end: JournalEvent = { type: 'thread_end', data: { status, reason } };
      return ok({ events: [end], status, cost: packCost(cost), settle });
    },
    transcriberOf(ports.watch, id),
  );
  ports.watch.done?.(id);
}

/** Completes the transcript of a thread from the store, unless a process writes it now. */
export async function mendTranscript(
  { store, watch, threads }: Pick<HarnessPorts, 'store' | 'watch' | 'threads'>,
  id: string,
): Promise<void> {
  const row = await store.thread(id);
  if (!row.ok || row.output.lease_until !== undefined || threads.live.get(id)) return;
  watch.transcript(id)([], row.output.seq + 1);
  await watch.written?.(id);
  watch.done?.(id);
}

/** Completes the transcripts of threads that ended just before their process did. */
export async function finishEnded({ store, watch }: HarnessPorts): Promise<void> {
  const swept = await store.sweep();
  for (const { seq, ...lease } of swept.ok ? swept.output.unreleased : []) {
    watch.transcript(lease.thread)([], seq + 1);
    await watch.written?.(lease.thread);
    await store.release(lease);
    watch.done?.(lease.thread);
  }
}

/** Records an unknown outcome for each call of the last reply that had begun. */
function settleStarted(thread: UnfinishedTurn, started: ReadonlyMap<string, string>): void {
  for (const call of thread.talk.conversation.pending()) {
    const tool = started.get(call.id);
    if (tool !== undefined) recordUnknownOutcome(thread, call, tool);
  }
}

/**
 * Reports lost commits to the model. A transcript with more events than the store proves them: the disk lost the end
 * of one file. A call in a lost event can have taken effect, so it is not repeated.
 */
export function recordLostCommits(thread: UnfinishedTurn, { events, calls }: LostCommits): void {
  if (events === 0) return;
  thread.journal.note({ type: 'commits_lost', data: { events, calls } });
  const pending = new Set(thread.talk.conversation.pending().map(({ id }) => id));
  settleStarted(thread, new Map(calls.map(({ call_id, tool }) => [call_id, tool])));
  const unknown = calls.filter(({ call_id }) => !pending.has(call_id));
  if (unknown.length === 0) return;
  const names = unknown.map(({ tool }) => `\`${tool}\``).join(', ');
  tell(
    thread,
    `[harness] outcome_unknown: the journal of this thread lost its last ${events} events. Calls of ${names} are among them and may have taken effect: check before you repeat them.`,
  );
}
