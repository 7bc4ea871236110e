// Resumes threads from their journals. A thread whose process was lost after the last reply only waited for its
// children. Its resume takes this reply from the journal.
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
  forkOf,
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
import { followUpFiles, readAttachments, takeBytes, withVouched } from '../files/attachment.ts';
import { roundsIn } from '../hooks/check-goal.ts';
import { applyApproved, resumeAfterProposal } from '../hooks/improve-directive.ts';
import { packLimits } from '../limits/effective-limits.ts';
import type { Ending } from '../loop.ts';
import { restoreIntents } from '../step/call-intent.ts';
import { loadWholes } from '../step/large-result.ts';
import { toReturnValue } from '../step/step.ts';
import { modelFor } from '../thread/choose-model.ts';
import { FROM_USER, packMarks, unpackMarks } from '../thread/conversation.ts';
import { handleSignals } from '../thread/interruption.ts';
import { LEASE_MS, type Refusable } from '../thread/journal-writer.ts';
import { asExecute } from '../thread/permitted-tools.ts';
import type { LostCommits, ReadyFile, ThreadResult } from '../thread/ports.ts';
import { replyAt } from '../thread/recorded-answers.ts';
import { findSnapshot, restoreThread, rewindEvents } from '../thread/restore.ts';
import { MAX_FOCUS } from '../thread/room.ts';
import type { DirectiveTalk, HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { createThread } from './create.ts';
import { drive, finishUnlessSignalled, keepsPause } from './drive.ts';
import { finalEnding } from './finish.ts';
import { mayStart, prepareThread } from './prepare.ts';
import {
  chargeUnreadRequests,
  endOrphanedHooks,
  recordLostCommits,
  revertUnstartedTurn,
  settleUnfinishedCalls,
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

const focusOf = ({ focus = '' }: NonNullable<ResumeOptions['compact']>) =>
  focus !== '' && { focus: { text: focus.slice(0, MAX_FOCUS), marks: packMarks(FROM_USER) } };

/** True if a new signal has a message, which can change the work of the thread. */
const hasMessage = ({ journal }: Pick<Thread, 'journal'>): boolean =>
  journal
    .signals()
    .some(({ payload }) => isObject(payload) && (payload.content ?? payload.message) !== undefined);

/** Returns the ending if one of these results has returned the outputs. */
function endingOfReturn(
  thread: DirectiveTalk,
  content: readonly Block[],
  results: readonly Recorded[],
): Ending | undefined {
  for (const event of results) {
    if (event.type !== 'tool_result' || event.data.is_error) continue;
    const { call_id, content: answer, marks } = event.data;
    const block = content.find((one) => one.type === 'tool_call' && one.id === call_id);
    const call = block?.type === 'tool_call' ? asExecute(thread.talk.tools, block) : undefined;
    if (call?.name !== 'execute') continue;
    const callee = { verb: 'execute', request: call.arguments } as const;
    const ending = toReturnValue(thread, callee, answer, unpackMarks(marks));
    if (ending) return ending;
  }
  return undefined;
}

/** Returns the ending that the thread had reached. `undefined`: the thread has more to do. */
function endingBeforeCrash(
  thread: DirectiveTalk & Pick<Thread, 'journal'>,
  history: readonly Recorded[],
): Ending | undefined {
  if (hasMessage(thread)) return undefined;
  const lastSaid = lastReply(history);
  if (!lastSaid) return undefined;
  const { at, content } = lastSaid;
  // The thread ended with this reply and was reopened or forked since.
  const later = history.slice(at + 1);
  const isOld =
    forkOf(later) !== undefined || later.some(({ type, data }) => type === 'signal' && data.after);
  // The goal was not reached with this reply, and the model has the reason.
  if (isOld || roundsIn(history.slice(at + 1)).count > 0) return undefined;
  const after = history.slice(at + 1).filter(({ type }) => eventFlags(type).changesConversation);
  if (after.length > 0) return endingOfReturn(thread, content, after);
  if (content.some(({ type }) => type === 'tool_call')) return undefined;
  const reply = replyAt(history, at);
  return reply && finalEnding(thread, reply);
}

/** Returns the directive with the model and limits of the thread's start, even if files have changed since. The
 * journal also has the limits that people set later. */
export async function prepareAgain(
  ports: HarnessPorts,
  row: ThreadRow,
  history: readonly Recorded[],
  isElsewhere = false,
): Promise<Outcome<Prepared>> {
  const prepare = isElsewhere ? prepareElsewhere : prepareThread;
  const start = startOf(history);
  const request = {
    directive: row.directive,
    inputs: row.inputs as JsonObject,
    ...(start?.stream && { stream: true }),
  };
  const model = forkOf(history)?.data.model ?? start?.model ?? '';
  const own = await prepare(ports, request);
  const isOther = model !== '' && model !== 'none' && (!own.ok || own.output.model.model !== model);
  const prepared = isOther ? await prepare(ports, { ...request, model }) : own;
  if (!prepared.ok) return prepared;
  // The start of the thread decided whether its steps are planned.
  const { plan: _, ...rest } = prepared.output;
  const planned = start?.plan ? { plan: start.plan } : {};
  const set = history.findLast(({ type, data }) => type === 'signal' && data.mode !== undefined);
  const mode = set?.type === 'signal' ? set.data.mode : start?.mode;
  return ok({ ...rest, ...planned, ...(mode && { mode }), limits: limitsSet(history, row) });
}

interface RecreatedThread {
  thread: Thread;
  files: readonly ReadyFile[];
  history: readonly Recorded[];
  prepared: Prepared;
  /** New limits and the new model, for the signal event. */
  news: Pick<DataOf<'signal'>, 'limits' | 'model' | 'mode' | 'compact' | 'focus'>;
  change: Pick<Refusable, 'limits' | 'raise'>;
}

/** Returns the prepared directive with the limits and the model that a person has set. */
async function withNews(
  ports: HarnessPorts,
  leased: LeasedThread,
  prepared: Prepared,
  options: ResumeOptions,
): Promise<Outcome<Pick<RecreatedThread, 'prepared' | 'news' | 'change'>>> {
  const newValues = options.limits;
  const set = newValues ? await newLimits(ports, leased, prepared, newValues) : undefined;
  if (set && !set.ok) return set;
  const limits = set?.output.limits ?? prepared.limits;
  const { model: name } = options;
  const model = name === undefined ? undefined : newModel(ports, prepared, limits, name);
  if (model && !model.ok) return model;
  return ok({
    prepared: { ...prepared, limits, ...(options.mode && { mode: options.mode }) },
    news: {
      ...(set && { limits: set.output.set }),
      ...(model && { model: model.output }),
      ...(options.mode && { mode: options.mode }),
      ...(options.compact && { compact: true as const, ...focusOf(options.compact) }),
    },
    change: set ? { limits: packLimits(limits), raise: set.output.raise } : {},
  });
}

/** Reads the attachments for the model of the following turns, and stores their bytes. */
async function filesFor(
  ports: HarnessPorts,
  { place, talk }: DirectiveTalk,
  { news: { model = talk.model.model } }: Pick<RecreatedThread, 'news'>,
  { attach = [], recorded = [] }: ResumeOptions,
): Promise<Outcome<readonly ReadyFile[]>> {
  if (attach.length === 0) return ok(recorded);
  if (place.plan || place.directive.process.script) {
    const message = `thread \`${place.id}\` runs a ${place.plan ? 'plan' : 'script'}, which takes no attachments`;
    return fail('invalid_input', message, { thread: place.id });
  }
  const resolved = modelFor(ports, model);
  const files = resolved.ok ? await readAttachments(ports, attach, resolved.output) : resolved;
  for (const bytes of files.ok ? takeBytes(files.output).values() : []) {
    const put = await ports.store.putArtifact(place.id, bytes);
    if (!put.ok) return put;
  }
  return files;
}

async function recreateThread(
  ports: HarnessPorts,
  leased: LeasedThread,
  since: number,
  signal: AbortSignal,
  options: ResumeOptions,
): Promise<Outcome<RecreatedThread>> {
  const stored = await ports.threads.history(leased.thread);
  const decoded = stored.ok ? decodeAll(stored.output) : stored;
  if (!decoded.ok) return decoded;
  const history = decoded.output;
  const changed = await applyApproved(ports, history);
  if (!changed.ok) return changed;
  const again = await prepareAgain(ports, leased.row, history, options.elsewhere);
  if (!again.ok) return again;
  const { plan, directive } = again.output;
  const isScript = plan !== undefined || directive.process.script !== undefined;
  if (leased.row.status === 'completed' && isScript && options.from === undefined) {
    const message = `thread \`${leased.thread}\` ran a ${plan ? 'plan' : 'script'} and has completed; no model can continue it`;
    return fail('thread_ended', message, { thread: leased.thread, status: leased.row.status });
  }
  const inputs = changedInputs(history) ?? again.output.inputs;
  const updated = await withNews(ports, leased, { ...again.output, inputs }, options);
  if (!updated.ok) return updated;
  const { prepared } = updated.output;
  const parent = ports.threads.live.get(leased.row.parent ?? '')?.thread;
  // A hook continues as it began: it draws from the reservation of the thread that it serves, and ends with it.
  const served = leased.row.kind === 'hook' ? parent : undefined;
  const start = {
    prepared,
    held: leased,
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
  const files = await filesFor(ports, thread.output, updated.output, options);
  if (!files.ok) return files;
  return ok({ ...updated.output, thread: thread.output, history, files: files.output });
}

/** Returns the number of the snapshot, and whether the thread has ended. Checks both before any change. */
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

/** Records the resume or the rewind, and reserves for hooks. Returns the journal with these events. */
async function beginAgain(
  thread: Pick<Thread, 'ports' | 'budget' | 'hooks' | 'journal'>,
  history: readonly Recorded[],
  events: readonly JournalEvent[],
  change: RecreatedThread['change'],
  isElsewhere = false,
): Promise<Outcome<readonly Recorded[]>> {
  const { ports, journal, hooks, budget } = thread;
  // The event of the new status precedes them.
  const [first, ts] = [journal.seq() + 2, ports.clock.now()];
  const { turn, thread: id } = journal;
  const recorded = events.map((event, at) => ({ ...event, thread: id, seq: first + at, ts, turn }));
  const reserve =
    hooks.reserve === undefined && !isElsewhere
      ? hookReserve(id, journal.epoch, hooks.limits, budget.drawFrom)
      : [];
  // The time 0 is in the past on every clock.
  const then: Refusable = isElsewhere
    ? { status: 'interrupted', release: { wake: 0 } }
    : { status: 'running', reserve };
  const committed = await journal.commit(events, { ...change, ...then });
  if (!committed.ok) return committed;
  const [reservation] = reserve;
  if (reservation && committed.output.reserved.includes(reservation.key)) {
    [hooks.reserve, hooks.left] = [reservation.key, reservation.amounts];
  }
  return ok([...history, ...recorded]);
}

/** Restores the thread from its journal and settles the work that a lost process left open. */
async function catchUpWith(
  thread: Thread,
  leased: LeasedThread,
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
  chargeUnreadRequests(thread, work, leased.open);
  const children = hooks.ok ? await catchUp(thread, work, leased.open) : hooks;
  if (!children.ok) thread.control.ending ??= childrenUnreadable(children);
  await resumeAfterProposal(thread, prepared, history);
  if (lost) recordLostCommits(thread, lost);
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

/** Resumes a thread that is interrupted, paused or waiting, and for a person also a thread that has ended. */
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
  const claimed = await ports.store.claim(id, lease, mayHaveEnded ? { reopen: true } : {});
  if (!claimed.ok) return claimed;
  const resumed = await resumeWithLease(ports, claimed.output, since, signal, {
    ...options,
    back,
    hadEnded: mayHaveEnded,
  });
  if (resumed.ok) return ok(await resumed.output);
  await ports.store.release(claimed.output);
  ports.watch.done?.(id);
  return resumed;
}

interface InnerOptions extends ResumeOptions {
  /** Number of the event of the snapshot to go back to. */
  back?: number | undefined;
  hadEnded?: boolean;
}

/** Resumes a claimed thread from its journal. A refusal changes nothing, and the caller releases the thread. */
async function resumeWithLease(
  ports: HarnessPorts,
  leased: LeasedThread,
  since: number,
  signal: AbortSignal,
  { back, hadEnded = false, ...options }: InnerOptions,
): Promise<Outcome<Promise<ThreadResult>>> {
  const { owner } = ports.threads;
  // This is read before the first write to the transcript.
  const lost = ports.watch.ahead?.(leased.thread, leased.row.seq);
  const recreated = await recreateThread(ports, leased, since, signal, options);
  if (!recreated.ok) return recreated;
  const { thread, history: past, prepared, news, change, files } = recreated.output;
  await thread.journal.listen();
  thread.control.past = thread.journal.signals().at(-1)?.number ?? 0;
  thread.control.hadEnded = hadEnded;
  const { words, by: person = owner, audit, limits } = options;
  const by = person === owner ? { by: owner } : { by: person, process: owner };
  const attached = followUpFiles(files, person);
  for (const row of audit ? withVouched(audit, files) : []) thread.journal.audit(row);
  if (audit && limits) {
    thread.journal.audit({ ...audit, operation: 'raise', reason: JSON.stringify(limits) });
  }
  const isFirst = leased.row.status === 'spawning';
  const events: JournalEvent[] =
    back === undefined
      ? resumeEvents(past, leased.row.status, { kind: 'resume', ...by, ...news }, words, attached)
      : rewindEvents(thread, past, { from: back, ...by, ...news }, words, attached);
  const { elsewhere: isElsewhere = false, items } = options;
  const changed = { ...change, ...(items !== undefined && { items }) };
  // A first start is not a resume. The journal contains its start event already.
  const whole = await beginAgain(thread, past, isFirst ? [] : events, changed, isElsewhere);
  if (!whole.ok) return whole;
  if (isElsewhere) return ok(leftElsewhere(ports, leased.row));
  const { history, work } = isFirst
    ? { history: whole.output, work: restoreThread(thread, whole.output) }
    : await catchUpWith(thread, leased, prepared, whole.output, lost);
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
  leased: LeasedThread,
  failure: Failure,
  how: { again?: true; delayMs?: number } = { again: true, delayMs: REFUSED_MS },
): Promise<Failure> {
  await store.release(leased, how);
  watch.done?.(leased.thread);
  return failure;
}

/**
 * Starts or resumes a thread that was taken from the queue. After a refusal it is released and queued for later. The
 * thread of a hook is only released, because it resumes with the thread that it serves.
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
  const signals = await ports.store.signals(id, held.acknowledged);
  if (!signals.ok) return await releaseUnstarted(ports, held, signals);
  if (row.kind === 'hook') return ok(await leaveToServed(ports, held, signals.output.length > 0));
  const staysPaused = row.status === 'paused' && signals.output.every(keepsPause);
  const resumed = staysPaused
    ? await handleInPause(ports, held, since, signal)
    : await resumeWithLease(ports, held, since, signal, {});
  if (!resumed.ok) return await releaseUnstarted(ports, held, resumed);
  return await goOnChanged(ports, ok(await resumed.output));
}

/** Releases the thread of a hook. The owner of the served thread resumes it and handles its signals. */
async function leaveToServed(
  { store, watch }: HarnessPorts,
  leased: LeasedThread,
  hasSignals: boolean,
): Promise<ThreadResult> {
  // Without a delay the pending signals would queue the thread at once.
  await store.release(leased, hasSignals ? { again: true, delayMs: REFUSED_MS } : {});
  watch.done?.(leased.thread);
  const { id, status, cost } = leased.row;
  const reason = `the hook resumes with thread \`${leased.row.parent ?? ''}\``;
  return { thread_id: id, status, outputs: {}, text: '', reason, cost };
}

/** Handles the signals of a paused thread, which stays paused unless one of them resumes it. */
async function handleInPause(
  ports: HarnessPorts,
  leased: LeasedThread,
  since: number,
  signal: AbortSignal,
): Promise<Outcome<Promise<ThreadResult>>> {
  const recreated = await recreateThread(ports, leased, since, signal, {});
  if (!recreated.ok) return recreated;
  const { thread, history } = recreated.output;
  restoreThread(thread, history);
  await thread.journal.listen();
  // Each call stops after a signal with an ending, so the rest needs another call.
  while (thread.journal.signals().length > 0) handleSignals(thread);
  const paused: Ending = { status: 'paused', reason: 'the thread is still paused' };
  const rested = await finishUnlessSignalled(thread, paused);
  return rested
    ? ok(Promise.resolve(rested))
    : fail('conflict', `thread \`${leased.thread}\` received a signal that resumes it`);
}
