// A thread that had said its last word when its process was lost has nothing more to ask: it was only
// waiting for its children. Whoever resumes it takes the word as it stands in the journal.
import { type Failure, isObject, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { Block } from '../../llm/index.ts';
import type { Held, ThreadRow } from '../../store/index.ts';
import { adoptChildren, catchUp } from '../children/children.ts';
import { applyApproved, resumeAfterProposal } from '../hooks/improve-directive.ts';
import { unpackLimits } from '../limits/effective-limits.ts';
import type { Ending } from '../loop.ts';
import { lastSpoken, restoreIntents } from '../step/call-intent.ts';
import { returned } from '../step/step.ts';
import {
  decodeAll,
  type EventType,
  type JournalEvent,
  type Recorded,
  readJournal,
  startOf,
} from '../thread/journal-event.ts';
import { LEASE_MS } from '../thread/journal-writer.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { replyAt } from '../thread/recorded-events.ts';
import {
  eventsInForce,
  findSnapshot,
  mayRewind,
  type RewindWords,
  restoreThread,
  rewindEvents,
  type SnapshotName,
} from '../thread/restore.ts';
import type { HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { createThread } from './create.ts';
import { drive } from './drive.ts';
import { finalEnding } from './finish.ts';
import { prepareThread } from './prepare.ts';
import { hookReserve } from './run-hook.ts';
import { runHook } from './start.ts';
import {
  chargeUnreadRequests,
  endOrphanedHooks,
  giveBackTurn,
  settleUnfinishedCalls,
} from './unfinished-work.ts';

/** What is said in a conversation. */
const SAID = new Set<EventType>([
  ...(['user_message', 'assistant_message', 'tool_result'] as const),
  ...(['injected_message', 'retry'] as const),
]);

/** Somebody has something to say to it first: that may change what it does. */
const isSpokenTo = ({ journal }: Thread): boolean =>
  journal
    .signals()
    .some(({ payload }) => isObject(payload) && (payload.content ?? payload.message) !== undefined);

/** The outputs were handed back with one of these results. */
function handedBack(
  thread: Thread,
  content: readonly Block[],
  results: readonly Recorded[],
): Ending | undefined {
  for (const event of results) {
    if (event.type !== 'tool_result' || event.data.is_error) continue;
    const { call_id, content: answer } = event.data;
    const call = content.find((block) => block.type === 'tool_call' && block.id === call_id);
    if (call?.type !== 'tool_call' || call.name !== 'execute') continue;
    const ending = returned(thread, { verb: 'execute', request: call.arguments }, answer);
    if (ending) return ending;
  }
  return undefined;
}

/** How the thread was going to end; undefined when there is more to do. */
function endingBeforeCrash(thread: Thread, history: readonly Recorded[]): Ending | undefined {
  if (isSpokenTo(thread)) return undefined;
  const at = lastSpoken(history);
  const spoken = history[at];
  if (spoken?.type !== 'assistant_message' || spoken.data.injected) return undefined;
  const after = history.slice(at + 1).filter(({ type }) => SAID.has(type));
  const { content } = spoken.data;
  if (after.length > 0) return handedBack(thread, content, after);
  if (content.some(({ type }) => type === 'tool_call')) return undefined;
  const reply = replyAt(history, at);
  return reply && finalEnding(thread, reply);
}

// A thread that was paused, or that a process left behind, goes on from its journal.

/** As it was when the thread began: its model and its limits, whatever the files say by now. */
export async function prepareAgain(
  ports: HarnessPorts,
  row: ThreadRow,
  history: readonly Recorded[],
): Promise<Outcome<Prepared>> {
  const begun = startOf(history);
  const request = {
    directive: row.directive,
    inputs: row.inputs as JsonObject,
    ...(begun?.stream && { stream: true }),
  };
  const model = begun?.model ?? '';
  const own = await prepareThread(ports, request);
  const isOther = model !== '' && model !== 'none' && (!own.ok || own.output.model.model !== model);
  const prepared = isOther ? await prepareThread(ports, { ...request, model }) : own;
  return prepared.ok ? ok({ ...prepared.output, limits: unpackLimits(row.limits) }) : prepared;
}

async function makeAgain(
  ports: HarnessPorts,
  held: Held,
  since: number,
  signal: AbortSignal,
): Promise<Outcome<{ thread: Thread; history: readonly Recorded[]; prepared: Prepared }>> {
  const stored = await ports.threads.history(held.thread);
  const decoded = stored.ok ? decodeAll(stored.output) : stored;
  if (!decoded.ok) return decoded;
  const history = decoded.output;
  const changed = await applyApproved(ports, history);
  if (!changed.ok) return changed;
  const again = await prepareAgain(ports, held.row, history);
  if (!again.ok) return again;
  const prepared = again.output;
  const parent = ports.threads.live.get(held.row.parent ?? '')?.thread;
  const start = { prepared, held, since, signal, history, parent, runHook };
  const thread = await createThread(ports, start);
  return thread.ok ? ok({ thread: thread.output, history, prepared }) : thread;
}

export interface ResumeOptions {
  /** Goes back to this snapshot first; then also a root that has ended. */
  from?: SnapshotName;
  /** What it is told when it goes back. */
  words?: RewindWords;
}

/** Where it goes back to; looked up before anything is changed. */
async function goesBackTo(
  ports: HarnessPorts,
  id: string,
  from: SnapshotName,
): Promise<Outcome<number>> {
  const row = await ports.store.thread(id);
  if (!row.ok) return row;
  const may = mayRewind(row.output);
  if (!may.ok) return may;
  const history = await readJournal(ports.store, id);
  return history.ok ? findSnapshot(id, history.output, from) : history;
}

/** Says that it goes on, or back, and sets aside for hooks; answers with the journal as it is then. */
async function beginAgain(
  thread: Thread,
  history: readonly Recorded[],
  events: readonly JournalEvent[],
): Promise<Outcome<readonly Recorded[]>> {
  const { ports, journal, hooks, budget } = thread;
  // The change of status comes before them.
  const [first, ts] = [journal.seq() + 2, ports.clock.now()];
  const { turn, thread: id } = journal;
  const told = events.map((event, at) => ({ ...event, thread: id, seq: first + at, ts, turn }));
  const reserve =
    hooks.reserve === undefined
      ? hookReserve(id, journal.epoch, hooks.limits, budget.drawFrom)
      : [];
  const done = await journal.commit(events, { status: 'running', reserve });
  if (!done.ok) return done;
  const [aside] = reserve;
  if (aside && done.output.reserved.includes(aside.key)) {
    [hooks.reserve, hooks.left] = [aside.key, aside.amounts];
  }
  return ok([...history, ...told]);
}

/** What a lost process left behind is brought to an end before the thread goes on. */
async function catchUpWith(
  thread: Thread,
  held: Held,
  prepared: Prepared,
  whole: readonly Recorded[],
): Promise<readonly Recorded[]> {
  restoreThread(thread, whole);
  const history = eventsInForce(whole);
  await thread.journal.listen();
  await endOrphanedHooks(thread);
  giveBackTurn(thread, whole);
  restoreIntents(thread, history);
  chargeUnreadRequests(thread, whole, held.open);
  await catchUp(thread, whole, held.open);
  await resumeAfterProposal(thread, prepared, history);
  await settleUnfinishedCalls(thread, history);
  thread.control.ending ??= endingBeforeCrash(thread, history);
  return history;
}

/** Goes on with a thread that was interrupted, paused or waiting. */
export async function resumeThread(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal = new AbortController().signal,
  { from, words }: ResumeOptions = {},
): Promise<Outcome<ThreadResult>> {
  const back = from === undefined ? undefined : await goesBackTo(ports, id, from);
  if (back && !back.ok) return back;
  const { live, owner } = ports.threads;
  const since = live.leases.now();
  const lease = { owner, ttlMs: LEASE_MS };
  const held = await ports.store.claim(id, lease, back ? { reopen: true } : {});
  if (!held.ok) return held;
  const refuse = async (failure: Failure): Promise<Failure> => {
    await ports.store.release(held.output);
    ports.watch.done?.(id);
    return failure;
  };
  const made = await makeAgain(ports, held.output, since, signal);
  if (!made.ok) return await refuse(made);
  const { thread, history: before, prepared } = made.output;
  await thread.journal.listen();
  thread.control.past = thread.journal.signals().at(-1)?.number ?? 0;
  const events: JournalEvent[] = back
    ? rewindEvents(thread, before, back.output, words)
    : [{ type: 'signal', data: { kind: 'resume', by: owner } }];
  const whole = await beginAgain(thread, before, events);
  if (!whole.ok) return await refuse(whole);
  const history = await catchUpWith(thread, held.output, prepared, whole.output);
  const done = drive(thread, since, history);
  await adoptChildren(thread);
  return ok(await done);
}
