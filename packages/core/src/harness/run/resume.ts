// A thread that had said its last word when its process was lost has nothing more to ask: it was only
// waiting for its children. The resume takes its last reply from the journal.
import {
  type Failure,
  fail,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import {
  changedInputs,
  type DataOf,
  decodeAll,
  eventFlags,
  eventsInForce,
  type JournalEvent,
  lastReply,
  type OpenWork,
  type Recorded,
  readJournal,
  startOf,
} from '../../journal/index.ts';
import type { Block } from '../../llm/index.ts';
import { isEnded, type LeasedThread, type ThreadRow } from '../../store/index.ts';
import { adoptChildren, catchUp, childrenUnreadable } from '../children/children.ts';
import { applyApproved, resumeAfterProposal } from '../hooks/improve-directive.ts';
import { packLimits } from '../limits/effective-limits.ts';
import type { Ending } from '../loop.ts';
import { restoreIntents } from '../step/call-intent.ts';
import { loadWholes } from '../step/large-result.ts';
import { toReturnValue } from '../step/step.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { handleSignals } from '../thread/interruption.ts';
import { LEASE_MS, type Refusable } from '../thread/journal-writer.ts';
import type { LostCommits, ThreadResult } from '../thread/ports.ts';
import { replyAt } from '../thread/recorded-answers.ts';
import { findSnapshot, restoreThread, rewindEvents } from '../thread/restore.ts';
import type { DirectiveTalk, HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { createThread } from './create.ts';
import { drive, finishUnlessSignalled, keepsPause } from './drive.ts';
import { finalEnding } from './finish.ts';
import { mayStart, prepareThread } from './prepare.ts';
import {
  chargeUnreadRequests,
  endOrphanedHooks,
  revertUnstartedTurn,
  settleUnfinishedCalls,
  tellLostCommits,
  uncountTurn,
} from './recover.ts';
import {
  limitsSet,
  mayReopen,
  newLimits,
  newModel,
  type ResumeOptions,
  resumeEvents,
} from './reopen.ts';
import { hookReserve } from './run-hook.ts';
import { goOnChanged, prepareElsewhere, runHook } from './start.ts';

/** Somebody has something to say to it first: that may change what it does. */
const isSpokenTo = ({ journal }: Pick<Thread, 'journal'>): boolean =>
  journal
    .signals()
    .some(({ payload }) => isObject(payload) && (payload.content ?? payload.message) !== undefined);

/** The outputs were handed back with one of these results. */
function handedBack(
  thread: DirectiveTalk,
  content: readonly Block[],
  results: readonly Recorded[],
): Ending | undefined {
  for (const event of results) {
    if (event.type !== 'tool_result' || event.data.is_error) continue;
    const { call_id, content: answer, marks } = event.data;
    const call = content.find((block) => block.type === 'tool_call' && block.id === call_id);
    if (call?.type !== 'tool_call' || call.name !== 'execute') continue;
    const known = { verb: 'execute', request: call.arguments } as const;
    const ending = toReturnValue(thread, known, answer, unpackMarks(marks));
    if (ending) return ending;
  }
  return undefined;
}

/** How the thread was going to end; undefined when there is more to do. */
function endingBeforeCrash(
  thread: DirectiveTalk & Pick<Thread, 'journal'>,
  history: readonly Recorded[],
): Ending | undefined {
  if (isSpokenTo(thread)) return undefined;
  const spoken = lastReply(history);
  if (!spoken) return undefined;
  const { at, content } = spoken;
  // That was how it ended; somebody has taken it up since.
  const isOld = history.slice(at + 1).some(({ type, data }) => type === 'signal' && data.after);
  if (isOld) return undefined;
  const after = history.slice(at + 1).filter(({ type }) => eventFlags(type).changesConversation);
  if (after.length > 0) return handedBack(thread, content, after);
  if (content.some(({ type }) => type === 'tool_call')) return undefined;
  const reply = replyAt(history, at);
  return reply && finalEnding(thread, reply);
}

/** As it was when the thread began: its model and its limits, whatever the files say by now. What people set
 * since is in the journal too. */
export async function prepareAgain(
  ports: HarnessPorts,
  row: ThreadRow,
  history: readonly Recorded[],
  isElsewhere = false,
): Promise<Outcome<Prepared>> {
  const prepare = isElsewhere ? prepareElsewhere : prepareThread;
  const begun = startOf(history);
  const request = {
    directive: row.directive,
    inputs: row.inputs as JsonObject,
    ...(begun?.stream && { stream: true }),
  };
  const model = begun?.model ?? '';
  const own = await prepare(ports, request);
  const isOther = model !== '' && model !== 'none' && (!own.ok || own.output.model.model !== model);
  const prepared = isOther ? await prepare(ports, { ...request, model }) : own;
  if (!prepared.ok) return prepared;
  // Whether its steps are planned was decided then.
  const { plan: _, ...rest } = prepared.output;
  const planned = begun?.plan ? { plan: begun.plan } : {};
  return ok({ ...rest, ...planned, limits: limitsSet(history, row) });
}

interface MadeAgain {
  thread: Thread;
  history: readonly Recorded[];
  prepared: Prepared;
  /** New limits and the new model, for the signal event. */
  news: Pick<DataOf<'signal'>, 'limits' | 'model'>;
  change: Pick<Refusable, 'limits' | 'raise'>;
}

/** With the limits and the model that a person wants from here on. */
async function withNews(
  ports: HarnessPorts,
  held: LeasedThread,
  prepared: Prepared,
  options: ResumeOptions,
): Promise<Outcome<Pick<MadeAgain, 'prepared' | 'news' | 'change'>>> {
  const wanted = options.limits;
  const set = wanted ? await newLimits(ports, held, prepared, wanted) : undefined;
  if (set && !set.ok) return set;
  const limits = set?.output.limits ?? prepared.limits;
  const { model: name } = options;
  const model = name === undefined ? undefined : newModel(ports, prepared, limits, name);
  if (model && !model.ok) return model;
  return ok({
    prepared: { ...prepared, limits },
    news: { ...(set && { limits: set.output.set }), ...(model && { model: model.output }) },
    change: set ? { limits: packLimits(limits), raise: set.output.raise } : {},
  });
}

async function makeAgain(
  ports: HarnessPorts,
  held: LeasedThread,
  since: number,
  signal: AbortSignal,
  options: ResumeOptions,
): Promise<Outcome<MadeAgain>> {
  const stored = await ports.threads.history(held.thread);
  const decoded = stored.ok ? decodeAll(stored.output) : stored;
  if (!decoded.ok) return decoded;
  const history = decoded.output;
  const changed = await applyApproved(ports, history);
  if (!changed.ok) return changed;
  const again = await prepareAgain(ports, held.row, history, options.elsewhere);
  if (!again.ok) return again;
  const { plan, directive } = again.output;
  const isScript = plan !== undefined || directive.process.script !== undefined;
  if (held.row.status === 'completed' && isScript && options.from === undefined) {
    const message = `thread \`${held.thread}\` ran a ${plan ? 'plan' : 'script'} and has completed: nobody is there to be told`;
    return fail('thread_ended', message, { thread: held.thread, status: held.row.status });
  }
  const inputs = changedInputs(history) ?? again.output.inputs;
  const made = await withNews(ports, held, { ...again.output, inputs }, options);
  if (!made.ok) return made;
  const { prepared } = made.output;
  const parent = ports.threads.live.get(held.row.parent ?? '')?.thread;
  // A hook goes on as it began: it draws on the reserve of the thread it serves, and ends with it.
  const served = held.row.kind === 'hook' ? parent : undefined;
  const start = {
    prepared,
    held,
    since,
    history,
    parent,
    runHook,
    signal: served?.control.signal ?? signal,
    drawFrom: served?.hooks.reserve,
  };
  const thread = await createThread(ports, start);
  if (!thread.ok) return thread;
  await loadWholes(thread.output, history);
  return ok({ ...made.output, thread: thread.output, history });
}

/** Has it ended, and where does it go back to? Looked up before anything is changed. */
async function lookBefore(
  ports: HarnessPorts,
  id: string,
  options: ResumeOptions,
): Promise<Outcome<{ hasEnded: boolean; back: number | undefined }>> {
  const row = await ports.store.thread(id);
  if (!row.ok) return row;
  const may = mayReopen(row.output, options);
  if (!may.ok) return may;
  const hasEnded = isEnded(row.output.status);
  // To reopen an ended thread is to start it, so the surface must be allowed to start the directive.
  const { audit } = options;
  const start = hasEnded && audit ? mayStart(ports, audit.surface, row.output.directive) : may;
  if (!start.ok) return start;
  if (options.from === undefined) return ok({ hasEnded, back: undefined });
  const history = await readJournal(ports.store, id);
  const back = history.ok ? findSnapshot(id, history.output, options.from) : history;
  return back.ok ? ok({ hasEnded, back: back.output }) : back;
}

/** Says that it goes on, or back, and sets aside for hooks; answers with the journal as it is then. */
async function beginAgain(
  thread: Pick<Thread, 'ports' | 'budget' | 'hooks' | 'journal'>,
  history: readonly Recorded[],
  events: readonly JournalEvent[],
  change: MadeAgain['change'],
  isElsewhere = false,
): Promise<Outcome<readonly Recorded[]>> {
  const { ports, journal, hooks, budget } = thread;
  // The change of status comes before them.
  const [first, ts] = [journal.seq() + 2, ports.clock.now()];
  const { turn, thread: id } = journal;
  const told = events.map((event, at) => ({ ...event, thread: id, seq: first + at, ts, turn }));
  const reserve =
    hooks.reserve === undefined && !isElsewhere
      ? hookReserve(id, journal.epoch, hooks.limits, budget.drawFrom)
      : [];
  // Due since long ago, whatever clock is asked.
  const then: Refusable = isElsewhere
    ? { status: 'interrupted', release: { wake: 0 } }
    : { status: 'running', reserve };
  const done = await journal.commit(events, { ...change, ...then });
  if (!done.ok) return done;
  const [aside] = reserve;
  if (aside && done.output.reserved.includes(aside.key)) {
    [hooks.reserve, hooks.left] = [aside.key, aside.amounts];
  }
  return ok([...history, ...told]);
}

/** Restores the thread from its journal and settles the work that a lost process left open. */
async function catchUpWith(
  thread: Thread,
  held: LeasedThread,
  prepared: Prepared,
  whole: readonly Recorded[],
  lost?: LostCommits,
): Promise<{ history: readonly Recorded[]; work: OpenWork }> {
  const work = restoreThread(thread, whole);
  const history = eventsInForce(whole);
  await thread.journal.listen();
  const hooks = await endOrphanedHooks(thread);
  revertUnstartedTurn(thread, work);
  uncountTurn(thread, work);
  restoreIntents(thread, work, history);
  chargeUnreadRequests(thread, work, held.open);
  const children = hooks.ok ? await catchUp(thread, work, held.open) : hooks;
  if (!children.ok) thread.control.ending ??= childrenUnreadable(children);
  await resumeAfterProposal(thread, prepared, history);
  if (lost) tellLostCommits(thread, lost);
  return { history, work };
}

/** Settles the calls of a lost process. Runs inside `drive`, so that hooks find the thread among the live ones. */
async function settleRest(
  thread: Thread,
  history: readonly Recorded[],
  work: OpenWork,
  lost?: LostCommits,
): Promise<void> {
  await settleUnfinishedCalls(thread, work);
  // If commits were lost, the final reply may be among them.
  if (!lost?.events) thread.control.ending ??= endingBeforeCrash(thread, history);
}

/** Goes on with a thread that was interrupted, paused or waiting; at a person's word also with one that ended. */
export async function resumeThread(
  ports: HarnessPorts,
  id: string,
  signal: AbortSignal = new AbortController().signal,
  options: ResumeOptions = {},
): Promise<Outcome<ThreadResult>> {
  const before = await lookBefore(ports, id, options);
  if (!before.ok) return before;
  const { back, hasEnded } = before.output;
  const { live, owner } = ports.threads;
  const since = live.leases.now();
  const lease = { owner, ttlMs: LEASE_MS };
  const mayHaveEnded = hasEnded && (back !== undefined || options.reopen === true);
  const held = await ports.store.claim(id, lease, mayHaveEnded ? { reopen: true } : {});
  if (!held.ok) return held;
  const gone = await resumeWithLease(ports, held.output, since, signal, {
    ...options,
    back,
    hadEnded: mayHaveEnded,
  });
  if (gone.ok) return ok(await gone.output);
  await ports.store.release(held.output);
  ports.watch.done?.(id);
  return gone;
}

interface GoOnOptions extends ResumeOptions {
  /** The number of the event that it goes back to. */
  back?: number | undefined;
  hadEnded?: boolean;
}

/** A thread that is held: from its journal on. Refused: it is as it was, and the caller lets it go. */
async function resumeWithLease(
  ports: HarnessPorts,
  held: LeasedThread,
  since: number,
  signal: AbortSignal,
  { back, hadEnded = false, ...options }: GoOnOptions,
): Promise<Outcome<Promise<ThreadResult>>> {
  const { owner } = ports.threads;
  // Before anybody writes to the transcript.
  const lost = ports.watch.ahead?.(held.thread, held.row.seq);
  const made = await makeAgain(ports, held, since, signal, options);
  if (!made.ok) return made;
  const { thread, history: past, prepared, news, change } = made.output;
  await thread.journal.listen();
  thread.control.past = thread.journal.signals().at(-1)?.number ?? 0;
  thread.control.hadEnded = hadEnded;
  const { words, by: person, audit, limits } = options;
  const by = person === undefined ? { by: owner } : { by: person, process: owner };
  if (audit) thread.journal.audit(audit);
  if (audit && limits) {
    thread.journal.audit({ ...audit, operation: 'raise', reason: JSON.stringify(limits) });
  }
  const isFirst = held.row.status === 'spawning';
  const events: JournalEvent[] =
    back === undefined
      ? resumeEvents(past, held.row.status, { kind: 'resume', ...by, ...news }, words)
      : rewindEvents(thread, past, { from: back, ...by, ...news }, words);
  const { elsewhere: isElsewhere = false, items } = options;
  const changed = { ...change, ...(items !== undefined && { items }) };
  // A first start is no resume. The journal contains its start event already.
  const whole = await beginAgain(thread, past, isFirst ? [] : events, changed, isElsewhere);
  if (!whole.ok) return whole;
  if (isElsewhere) return ok(leftElsewhere(ports, held.row));
  const { history, work } = isFirst
    ? { history: whole.output, work: restoreThread(thread, whole.output) }
    : await catchUpWith(thread, held, prepared, whole.output, lost);
  const done = drive(thread, since, history, () => settleRest(thread, history, work, lost));
  if (!isFirst) await adoptChildren(thread);
  return ok(done);
}

/** Drops what this process has of a thread that it queued for another process. */
async function leftElsewhere(
  { watch }: HarnessPorts,
  { id, cost }: ThreadRow,
): Promise<ThreadResult> {
  await watch.written?.(id);
  watch.done?.(id);
  return { thread_id: id, status: 'interrupted', outputs: {}, text: '', reason: '', cost };
}

/** Delay before this process takes a thread again that it could not resume. */
const REFUSED_MS = 30_000;

/** Releases a thread that this process cannot resume, and queues it for later. Returns the failure. */
export async function releaseUnstarted(
  { store, watch }: Pick<HarnessPorts, 'store' | 'watch'>,
  held: LeasedThread,
  failure: Failure,
  how: { again?: true; delayMs?: number } = { again: true, delayMs: REFUSED_MS },
): Promise<Failure> {
  await store.release(held, how);
  watch.done?.(held.thread);
  return failure;
}

/**
 * A thread that was taken from the queue begins, or goes on. Refused: it is let go, and queued for later. A
 * hook's thread goes on with the one that it serves, and is only let go.
 */
export async function resumeLeasedThread(
  ports: HarnessPorts,
  held: LeasedThread,
  since: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const { thread: id, row } = held;
  if (isEnded(row.status)) {
    const message = `thread \`${id}\` has ended: ${row.status}`;
    return await releaseUnstarted(ports, held, fail('thread_ended', message), {});
  }
  const told = await ports.store.signals(id, held.heard);
  if (!told.ok) return await releaseUnstarted(ports, held, told);
  if (row.kind === 'hook') return ok(await leaveToServed(ports, held, told.output.length > 0));
  const staysPaused = row.status === 'paused' && told.output.every(keepsPause);
  const gone = staysPaused
    ? await hearInPause(ports, held, since, signal)
    : await resumeWithLease(ports, held, since, signal, {});
  if (!gone.ok) return await releaseUnstarted(ports, held, gone);
  return await goOnChanged(ports, ok(await gone.output));
}

/** Releases the thread of a hook. The owner of the served thread resumes it and handles its signals. */
async function leaveToServed(
  { store, watch }: HarnessPorts,
  held: LeasedThread,
  isSpokenToNow: boolean,
): Promise<ThreadResult> {
  // Without a delay the pending signals would queue the thread at once.
  await store.release(held, isSpokenToNow ? { again: true, delayMs: REFUSED_MS } : {});
  watch.done?.(held.thread);
  const { id, status, cost } = held.row;
  const reason = `it goes on with \`${held.row.parent ?? ''}\`, which it serves`;
  return { thread_id: id, status, outputs: {}, text: '', reason, cost };
}

/** Handles the signals of a paused thread, which stays paused unless one of them resumes it. */
async function hearInPause(
  ports: HarnessPorts,
  held: LeasedThread,
  since: number,
  signal: AbortSignal,
): Promise<Outcome<Promise<ThreadResult>>> {
  const made = await makeAgain(ports, held, since, signal, {});
  if (!made.ok) return made;
  const { thread, history } = made.output;
  restoreThread(thread, history);
  await thread.journal.listen();
  // One at a time, as each ends a stretch.
  while (thread.journal.signals().length > 0) handleSignals(thread);
  const paused: Ending = { status: 'paused', reason: 'it was paused, and nobody has resumed it' };
  const rested = await finishUnlessSignalled(thread, paused);
  return rested
    ? ok(Promise.resolve(rested))
    : fail('conflict', `thread \`${held.thread}\` was told to go on`);
}
