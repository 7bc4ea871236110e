// A thread that had said its last word when its process was lost has nothing more to ask: it was only
// waiting for its children. Whoever resumes it takes the word as it stands in the journal.
import { isObject, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { Block } from '../../llm/index.ts';
import type { ThreadRow } from '../../store/index.ts';
import { adoptChildren, catchUp } from '../children/resume-children.ts';
import { applyApproved, resumeAfterProposal } from '../hooks/improve-directive.ts';
import { unpackLimits } from '../limits/effective-limits.ts';
import type { Ending } from '../loop.ts';
import { lastSpoken, restoreIntents } from '../step/call-intent.ts';
import { returned } from '../step/step.ts';
import type { EventType, JournalEvent, Recorded } from '../thread/journal-event.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { readJournal } from '../thread/read-journal.ts';
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
import { drive, LEASE_MS } from './drive.ts';
import { finalEnding } from './finish.ts';
import { prepareThread } from './prepare.ts';
import { reserveForHooks } from './run-hook.ts';
import { runHook } from './start.ts';
import {
  chargeUnreadRequests,
  endOrphanedHooks,
  giveBackTurn,
  settleUnfinishedCalls,
} from './unfinished-work.ts';

/** What is said in a conversation. */
const SAID: ReadonlySet<EventType> = new Set<EventType>([
  'user_message',
  'assistant_message',
  'tool_result',
  'injected_message',
  'retry',
]);

/** Somebody has something to say to it first: that may change what it does. */
function isSpokenTo({ ports, place: { id }, control: { lastSignal } }: Thread): boolean {
  const waiting = ports.store.signals(id, lastSignal);
  return (waiting.ok ? waiting.output : []).some(
    ({ payload }) => isObject(payload) && (payload.content ?? payload.message) !== undefined,
  );
}

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
export function endingBeforeCrash(
  thread: Thread,
  history: readonly Recorded[],
): Ending | undefined {
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
async function prepareAgain(
  ports: HarnessPorts,
  row: ThreadRow,
  history: readonly Recorded[],
): Promise<Outcome<Prepared>> {
  const begun = history.find((event) => event.type === 'thread_start')?.data;
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

interface MadeAgain {
  thread: Thread;
  history: readonly Recorded[];
  prepared: Prepared;
}

async function makeAgain(
  ports: HarnessPorts,
  id: string,
  epoch: number,
  signal: AbortSignal,
): Promise<Outcome<MadeAgain>> {
  const row = ports.store.thread(id);
  if (!row.ok) return row;
  const history = readJournal(ports.store, id);
  if (!history.ok) return history;
  const changed = applyApproved(ports, history.output);
  if (!changed.ok) return changed;
  const prepared = await prepareAgain(ports, row.output, history.output);
  if (!prepared.ok) return prepared;
  const parent =
    row.output.parent === undefined ? undefined : ports.threads.live.get(row.output.parent);
  const thread = createThread(ports, {
    prepared: prepared.output,
    row: row.output,
    epoch,
    signal,
    history: history.output,
    parent: parent?.thread,
    runHook,
  });
  if (!thread.ok) return thread;
  return ok({ thread: thread.output, history: history.output, prepared: prepared.output });
}

export interface ResumeOptions {
  /** Goes back to this snapshot first; then also a root that has ended. */
  from?: SnapshotName;
  /** What it is told when it goes back. */
  words?: RewindWords;
}

/** Where it goes back to; looked up before anything is changed. */
function goesBackTo(ports: HarnessPorts, id: string, from: SnapshotName): Outcome<number> {
  const row = ports.store.thread(id);
  if (!row.ok) return row;
  const may = mayRewind(row.output);
  if (!may.ok) return may;
  const history = readJournal(ports.store, id);
  return history.ok ? findSnapshot(id, history.output, from) : history;
}

/** Says that it goes on, or back; answers with the journal as it is then. */
function beginAgain(
  { ports, place: { id }, journal }: Thread,
  history: readonly Recorded[],
  events: readonly JournalEvent[],
): readonly Recorded[] {
  const [first, ts] = [journal.seq() + 1, ports.clock.now()];
  if (!journal.append(events, { status: 'running' }).ok) return history;
  // Not read again: from the first append on a journal shows references in the place of secrets.
  const { turn } = journal;
  const told = events.map((event, at) => ({ ...event, thread: id, seq: first + at, ts, turn }));
  return [...history, ...told];
}

/** Goes on with a thread that was interrupted, paused or waiting. */
export async function resumeThread(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal = new AbortController().signal,
  { from, words }: ResumeOptions = {},
): Promise<Outcome<ThreadResult>> {
  const back = from === undefined ? undefined : goesBackTo(ports, id, from);
  if (back && !back.ok) return back;
  const since = ports.threads.live.leases.now();
  const lease = ports.store.claim(id, ports.threads.owner, LEASE_MS, {
    reopen: back !== undefined,
  });
  if (!lease.ok) return lease;
  const { epoch } = lease.output;
  const made = await makeAgain(ports, id, epoch, signal);
  if (!made.ok) {
    ports.store.release(id, epoch);
    return made;
  }
  const { thread } = made.output;
  const whole = beginAgain(
    thread,
    made.output.history,
    back
      ? rewindEvents(thread, made.output.history, back.output, words)
      : [{ type: 'signal', data: { kind: 'resume', by: ports.threads.owner } }],
  );
  restoreThread(thread, whole);
  const history = eventsInForce(whole);
  reserveForHooks(thread, epoch);
  endOrphanedHooks(thread);
  giveBackTurn(thread, whole);
  restoreIntents(thread, history);
  chargeUnreadRequests(thread, whole);
  catchUp(thread, whole);
  await resumeAfterProposal(thread, made.output.prepared, history);
  await settleUnfinishedCalls(thread, history);
  thread.control.ending ??= endingBeforeCrash(thread, history);
  const done = drive(thread, { epoch, since }, history);
  adoptChildren(thread);
  return ok(await done);
}
