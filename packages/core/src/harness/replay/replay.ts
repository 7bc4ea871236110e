// Runs a thread again from its journal: the same harness, with the directive, hooks, limits and policies of today.
// Everything that came from outside is taken from the journal: no model is asked, and no tool runs. A thread that was
// resumed stops where its process stopped, and is resumed again. If the new journal differs, something was changed.
import { fail, getOwn, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import {
  notedOf,
  type Recorded,
  type RecordedOf,
  readJournal,
  startOf,
} from '../../journal/index.ts';
import {
  isEnded,
  type LeasedThread,
  type NewThread,
  type Store,
  type ThreadRow,
} from '../../store/index.ts';
import { recordedFiles } from '../files/attachment.ts';
import { createThread } from '../run/create.ts';
import { copyEvents } from '../run/fork.ts';
import type { ResumeOptions } from '../run/reopen.ts';
import { prepareAgain, resumeThread } from '../run/resume.ts';
import { hasOwnJournal } from '../run/runner.ts';
import { runHook, runPrepared, type ThreadOrigin } from '../run/start.ts';
import { detachedKey } from '../thread/budget.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { LEASE_MS } from '../thread/journal-writer.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { createReplayRecord, isResume } from '../thread/recorded-answers.ts';
import { restoreThread } from '../thread/restore.ts';
import type { HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { withLease } from '../thread/with-lease.ts';
import { finalAccount } from '../turn/turn-account.ts';
import { compareJournals, type JournalComparison } from './compare-journals.ts';
import { createReplayStage, type ReplayStage, readRepeated } from './replay-ports.ts';

export interface ReplayReport extends JournalComparison {
  thread_id: string;
  /** The status after the replay. Absent: the replay was stopped at `until`. */
  status?: string;
}

export interface ReplayOptions {
  /** Number of the last event to replay. Absent: all events are replayed. */
  until?: number;
}

function mayReplay(row: ThreadRow, ports: HarnessPorts): Outcome<null> {
  const { id, status } = row;
  if (!isEnded(status)) return fail('conflict', `thread \`${id}\` has not ended; it is ${status}`);
  return hasOwnJournal(ports, row, 'replay');
}

/** Returns the row for the empty store. It has no limits, and this process owns its lease. */
const emptyRow = ({ ports }: ReplayStage, row: ThreadRow): NewThread => {
  const { id, directive, version, runner, project, kind, detached, limits, inputs } = row;
  const start = { lease: { owner: ports.threads.owner, ttlMs: LEASE_MS } };
  const what = { directive, version, runner, project, kind, detached, limits, inputs };
  return { id, ...what, budget: {}, events: [], start };
};

/** Adds the ancestors to the empty store, so that the thread has its lineage and its rights. */
async function placeAncestors(
  stage: ReplayStage,
  real: Store,
  { chain }: ThreadRow,
): Promise<Outcome<LeasedThread | undefined>> {
  const { store } = stage.ports;
  let above: LeasedThread | undefined;
  for (const id of chain.slice(1).toReversed()) {
    const row = await real.thread(id);
    if (!row.ok) return row;
    const thread = emptyRow(stage, row.output);
    if (!above) {
      const root = await store.createThread(thread);
      if (!root.ok) return root;
      above = root.output;
      continue;
    }
    const { epoch, row: parent } = above;
    const inserted = await store.commit(above.thread, {
      expect: { seq: parent.seq, epoch },
      events: [{ type: 'status', data: { status: 'running' } }],
      children: [thread],
    });
    if (!inserted.ok) return inserted;
    above = inserted.output.children[0];
  }
  return ok(above);
}

/** Returns the parent in its state at the spawn of this thread: its rights and its last calls. */
async function parentOf(
  { ports }: ReplayStage,
  real: Store,
  row: ThreadRow,
  leased: LeasedThread | undefined,
): Promise<Outcome<Thread | undefined>> {
  if (row.parent === undefined || !leased) return ok(undefined);
  const journal = await readJournal(real, row.parent);
  if (!journal.ok) return journal;
  const before = journal.output.filter(({ ts }) => ts <= row.created);
  const prepared = await prepareAgain(ports, leased.row, before);
  if (!prepared.ok) return prepared;
  const parent = await createThread(ports, {
    prepared: prepared.output,
    held: leased,
    since: ports.threads.live.leases.now(),
    signal: new AbortController().signal,
    history: before,
    runHook,
  });
  if (parent.ok) restoreThread(parent.output, before);
  return parent;
}

/** Amount that no thread uses up, for the reservation that a detached child draws from. */
const PLENTY = 10n ** 15n;
const DETACHED = { tokens: PLENTY, input_tokens: PLENTY, output_tokens: PLENTY, spend: PLENTY };

async function birthPlace(
  stage: ReplayStage,
  real: Store,
  row: ThreadRow,
  events: readonly Recorded[],
): Promise<Outcome<ThreadOrigin>> {
  const above = await placeAncestors(stage, real, row);
  if (!above.ok) return above;
  const parent = await parentOf(stage, real, row, above.output);
  if (!parent.ok) return parent;
  const { id, kind, runner, detached } = row;
  // The marks are those of the first message, or else of the directive, which include those of the inputs.
  const { message = '', untrusted } = startOf(events) ?? {};
  const first = events
    .filter((event) => event.type === 'user_message')
    .findLast(({ turn }) => turn === 0);
  const opening = events.find((event) => event.type === 'tool_result');
  const source = message === '' || untrusted ? opening : first;
  return ok({
    id,
    kind,
    runner,
    detached,
    marks: unpackMarks(source?.data.marks),
    ...(untrusted && { given: givenIn(opening, message === '' ? undefined : first) }),
    ...(parent.output ? { parent: parent.output } : {}),
    ...(detached && { spawn: () => ({ reserve: [{ key: detachedKey(id), amounts: DETACHED }] }) }),
  });
}

/** Returns the marks of the message, and of each input that the model got as a reference. */
function givenIn(
  opening: RecordedOf<'tool_result'> | undefined,
  first: RecordedOf<'user_message'> | undefined,
): NonNullable<ThreadOrigin['given']> {
  const inputs = Object.entries(opening?.data.given ?? {}).map(
    ([name, input]) => [name, unpackMarks(getOwn(input, 'marks'))] as const,
  );
  return { inputs: new Map(inputs), ...(first && { message: unpackMarks(first.data.marks) }) };
}

/** Returns the options of a recorded resume: its snapshot, limits, model and message. */
function askedAt(events: readonly Recorded[], at: number): ResumeOptions {
  const resume = events[at];
  if (resume?.type !== 'signal') return {};
  const { from, after, limits, model, mode, compact, focus } = resume.data;
  const following = events.slice(at + 1);
  const others = following.findIndex(
    ({ type }) => type !== 'injected_message' && type !== 'tool_result',
  );
  const message = following
    .slice(0, others < 0 ? undefined : others)
    .filter((event) => event.type === 'injected_message')
    .find(({ data }) => data.by !== 'harness' && data.attached === undefined);
  const recorded = recordedFiles(following.slice(0, others < 0 ? undefined : others));
  return {
    ...(from !== undefined && { from }),
    ...(after !== undefined && { reopen: true }),
    ...(limits && { limits: wantedIn(limits) }),
    ...(model !== undefined && { model }),
    ...(mode && { mode }),
    ...(compact && { compact: focus ? { focus: focus.text } : {} }),
    ...(recorded.length > 0 && { recorded }),
    ...(message && { words: { text: message.data.text, by: message.data.by } }),
  };
}

const wantedIn = (limits: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(limits).map(([name, entry]) => [name, getOwn(entry, 'value') ?? null]),
  );

/** Returns the index of the first event that a replay makes again. A fork begins after its copied events. */
function firstOwn(events: readonly Recorded[]): number {
  const fork = events.findLastIndex(({ type }) => type === 'fork');
  if (fork < 0) return 0;
  const rest = events.findIndex(
    ({ type }, at) => at > fork && type !== 'tool_result' && type !== 'injected_message',
  );
  return rest < 0 ? events.length : rest;
}

/** Puts the events before index `begin` into the empty store, and resumes the fork as its first process did. */
async function forkAgain(
  stage: ReplayStage,
  row: ThreadRow,
  events: readonly Recorded[],
): Promise<Outcome<ThreadResult>> {
  const copies = copyEvents(events);
  if (!copies.ok) return copies;
  const created = await stage.ports.store.createThread({
    ...emptyRow(stage, row),
    events: copies.output,
    start: { queue: {} },
  });
  return created.ok ? await resumeThread(stage.ports, row.id) : created;
}

/** Runs one process after the other. Each ends at the position of its recorded end. */
async function runAgain(
  stage: ReplayStage,
  row: ThreadRow,
  start: { prepared: Prepared; place: ThreadOrigin },
  events: readonly Recorded[],
  end: number,
  goesOn: boolean,
): Promise<Outcome<ThreadResult>> {
  const { ports, until } = stage;
  const { prepared, place } = start;
  const none = new AbortController().signal;
  const begin = firstOwn(events);
  const resumes = events.flatMap((event, at) =>
    at >= begin && at < end && isResume(event) ? [at] : [],
  );
  const ends = [...resumes.map((at) => endOf(events.slice(0, at))), end];
  if (goesOn) ends[resumes.length] = Number.POSITIVE_INFINITY;
  until(ends[0] as number);
  const message = startOf(events)?.message ?? '';
  const first = events.findIndex(({ type }) => type === 'signal');
  const files = recordedFiles(events.slice(0, first < 0 ? undefined : first));
  const whole = files.length > 0 ? { ...prepared, files } : prepared;
  let result =
    begin === 0
      ? await runPrepared(ports, whole, place, none, message)
      : await forkAgain(stage, row, events.slice(0, begin));
  for (const [index, at] of resumes.entries()) {
    if (!result.ok) return result;
    until(at);
    if (at - (ends[index] as number) > 0) await endAgain(stage, place.id ?? '', events, at);
    until(ends[index + 1] as number);
    const resumed = await resumeThread(ports, place.id ?? '', none, askedAt(events, at));
    // The replay already differs from the journal. The comparison shows where.
    if (!resumed.ok) return result;
    result = resumed;
  }
  return result;
}

/** Writes the end that another process wrote before the thread was resumed. */
async function endAgain(
  { ports: { store, threads } }: ReplayStage,
  id: string,
  events: readonly Recorded[],
  at: number,
): Promise<void> {
  const written = events.slice(endOf(events.slice(0, at)), at);
  const [signal, ...rest] = written;
  const last = written.at(-1);
  if (signal?.type !== 'signal' || last?.type !== 'thread_end') return;
  const { status, cost = {} } = last.data;
  await withLease(store, id, { owner: threads.owner, force: true }, (leased) =>
    ok({
      events: [notedOf(signal), ...rest.map(notedOf)],
      status,
      cost,
      settle: finalAccount(leased).settle,
    }),
  );
}

/** Returns the number of events without an end that another process wrote, which a replay does not repeat. */
function endOf(events: readonly Recorded[]): number {
  if (events.at(-1)?.type !== 'thread_end') return events.length;
  const at = events.findLastIndex(
    ({ type }, index) => type !== 'child_end' && index < events.length - 1,
  );
  const signal = events[at];
  const isOthers =
    signal?.type === 'signal' &&
    signal.data.id === undefined &&
    signal.data.stops === undefined &&
    ['kill', 'terminate', 'fail'].includes(signal.data.kind);
  return isOthers ? at : events.length;
}

/**
 * Replays a thread and compares the journals. `store` has the recorded journal, with secrets as references. The
 * caller removes the store `empty`.
 */
export async function replayThread(
  ports: HarnessPorts,
  id: string,
  store: Store,
  empty: Store,
  { until = Number.POSITIVE_INFINITY }: ReplayOptions = {},
): Promise<Outcome<ReplayReport>> {
  const row = await store.thread(id);
  if (!row.ok) return row;
  const may = mayReplay(row.output, ports);
  if (!may.ok) return may;
  const journal = await readRepeated(store, id);
  if (!journal.ok) return journal;
  const events = journal.output.slice(0, endOf(journal.output));
  const record = createReplayRecord(events);
  const stage = createReplayStage(ports, store, empty, id, record);
  const first = events.findIndex((event, at) => at >= firstOwn(events) && isResume(event));
  const firstRun = first < 0 ? events : events.slice(0, first);
  const prepared = await prepareAgain(stage.ports, row.output, firstRun);
  if (!prepared.ok) return prepared;
  const place = await birthPlace(stage, store, row.output, events);
  if (!place.ok) return place;
  const last = events.findIndex(({ seq }) => seq > until);
  const end = last < 0 ? events.length : last;
  const isWhole = last < 0;
  const isCut = events.length < journal.output.length;
  const goesOn = isWhole && !isCut;
  const start = { prepared: prepared.output, place: place.output };
  const result = await runAgain(stage, row.output, start, events, end, goesOn);
  if (!result.ok) return result;
  const replayed = await readRepeated(stage.ports.store, id);
  if (!replayed.ok) return replayed;
  const news = isWhole ? replayed.output : replayed.output.slice(0, end);
  return ok({
    thread_id: id,
    ...compareJournals(events.slice(0, end), news),
    ...(isWhole ? { status: isCut ? row.output.status : result.output.status } : {}),
  });
}
