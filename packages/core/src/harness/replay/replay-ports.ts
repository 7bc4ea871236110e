// Creates the ports of a replay. The store is empty, tools and the model answer from the journal, and events of
// other threads and people are added at their recorded positions. A process that was lost is lost again at the same
// event: nothing is written after it until the thread is resumed.
import { isDeepStrictEqual } from 'node:util';
import {
  type Failure,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  plainText,
} from '../../base/index.ts';
import {
  type ApprovalAnswer,
  addMarks,
  createFrame,
  descriptorOfFault,
  EMPTY,
  markFailure,
  perform,
  type Value,
} from '../../flow/index.ts';
import {
  decodeAll,
  eventFlags,
  isBookkeeping,
  type JournalEvent,
  notedOf,
  type Recorded,
  type RecordedOf,
  readStored,
} from '../../journal/index.ts';
import type { Caller, Kernel } from '../../kernel/index.ts';
import type {
  Answer,
  Commit,
  LeasedThread,
  NewEvent,
  Signal,
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadPage,
  ThreadSummary,
} from '../../store/index.ts';
import { countChild, resultOf } from '../children/children.ts';
import { packCost } from '../limits/cost.ts';
import { readLimit } from '../limits/limit.ts';
import { callKey } from '../step/call-intent.ts';
import { wholeValue } from '../step/large-result.ts';
import { BUDGETED } from '../thread/budget.ts';
import { stopThread } from '../thread/interruption.ts';
import { createLiveThreads } from '../thread/live-threads.ts';
import { createReplayRecord, type RecordedAnswers } from '../thread/recorded-answers.ts';
import type { CallRecord, HarnessPorts, Thread } from '../thread/thread.ts';
import { askAgain } from './ask-again.ts';
import { ReplayJournal } from './replay-journal.ts';

/** Result of a hook that had no recorded answer when the process was lost. */
const NO_RESULT = {
  status: 'interrupted' as const,
  outputs: {},
  text: '',
  reason: 'its process was lost',
  cost: {},
};
const CLOSED = { status: 'interrupted', reason: 'its process was closed here' } as const;
const LOST = fail('lease_expired', 'the process was lost here');

const isRepeated = (event: NewEvent | StoredEvent): boolean => !isBookkeeping(event);

/** Reads a journal without its bookkeeping events. */
export async function readRepeated(store: Store, id: string): Answer<Recorded[]> {
  const stored = await readStored(store, id);
  return stored.ok ? decodeAll(stored.output.filter(isRepeated)) : stored;
}

/**
 * The store of a replay. It counts the repeated events and gives each the number from the journal, so that
 * references to event numbers stay valid.
 */
function countEvents(
  empty: Store,
  recordOf: (thread: string) => RecordedAnswers,
  endOf: (thread: string) => number,
) {
  const counts = new Map<string, number>();
  /** Last event number of each thread in the empty store. */
  const real = new Map<string, number>();
  const count = (thread: string): number => counts.get(thread) ?? 0;
  const recordedSeq = (thread: string, at: number): number =>
    at === 0 ? 0 : (recordOf(thread).events[at - 1]?.seq ?? at);
  const isLost = (thread: string): boolean => count(thread) >= endOf(thread);
  function toRecorded(one: LeasedThread, events: number): LeasedThread {
    const { thread, row } = one;
    real.set(thread, row.seq);
    counts.set(thread, count(thread) + events);
    return { ...one, row: { ...row, seq: recordedSeq(thread, count(thread)) } };
  }
  const repeated = (events: readonly NewEvent[]): number => events.filter(isRepeated).length;

  async function write(thread: string, commit: Commit): ReturnType<Store['commit']> {
    const expect = { ...commit.expect, seq: real.get(thread) ?? 0 };
    const outcome = await empty.commit(thread, { ...commit, expect });
    if (!outcome.ok) return outcome;
    real.set(thread, outcome.output.seq);
    counts.set(thread, count(thread) + repeated(commit.events));
    const children = outcome.output.children.map((child, at) =>
      toRecorded(child, repeated(commit.children?.[at]?.events ?? [])),
    );
    // A thread that was lost at this event has no lease.
    const lease = isLost(thread) ? { lease_ms: 0 } : {};
    return ok({ ...outcome.output, ...lease, seq: recordedSeq(thread, count(thread)), children });
  }
  /** Returns the part of a commit that was recorded before the process was lost. */
  function upTo(commit: Commit, room: number): Commit | undefined {
    let budgeted = room;
    const [first, ...rest] = commit.events.filter((event) => !isRepeated(event) || budgeted-- > 0);
    return first && room > 0 ? { expect: commit.expect, events: [first, ...rest] } : undefined;
  }

  const store: Store = {
    ...empty,
    async commit(thread, commit) {
      const [room, news] = [endOf(thread) - count(thread), repeated(commit.events)];
      if (news === 0 || news <= room) return await write(thread, commit);
      const part = upTo(commit, room);
      if (part) await write(thread, part);
      return LOST;
    },
    async createThread(thread) {
      const created = await empty.createThread(thread);
      return created.ok ? ok(toRecorded(created.output, repeated(thread.events))) : created;
    },
    async claim(...args) {
      const created = await empty.claim(...args);
      return created.ok ? ok(toRecorded(created.output, 0)) : created;
    },
    renew: (leases, ttlMs) =>
      empty.renew(
        leases.filter(({ thread }) => !isLost(thread)),
        ttlMs,
      ),
    async read(thread, range = {}) {
      const all = await readStored(empty, thread);
      if (!all.ok) return all;
      let [at, own] = [0, 0];
      // A bookkeeping event has no number in the record. It gets one between those of its neighbours.
      const numbered = all.output.map((event): StoredEvent => {
        [at, own] = isRepeated(event) ? [at + 1, 0] : [at, own + 1];
        return { ...event, seq: recordedSeq(thread, at) + own / 10_000 };
      });
      if ('last' in range) return ok(numbered.slice(-range.last));
      const { after = 0, types } = range;
      return ok(numbered.filter(({ seq, type }) => seq > after && (types?.includes(type) ?? true)));
    },
  };
  /** `count` returns the number of repeated events of a thread. */
  return { store, count, isLost };
}

/** Puts the next events of others into the journal, if they are next. */
async function playOthers(
  thread: CallRecord & Pick<Thread, 'rights' | 'budget'>,
  { events }: RecordedAnswers,
  count: () => number,
  end: number,
): Promise<void> {
  const { journal, budget, rights } = thread;
  await journal.flush();
  while (count() < end && !journal.lost()) {
    const next = events[count()];
    if (next?.type === 'signal' && next.data.stops) {
      if (next.turn !== journal.turn) return;
      const { stops, reason = '', code } = next.data;
      stopThread(thread, { status: stops, reason, ...(code && { code }) });
      await journal.flush();
      return;
    }
    // An event of a later turn was recorded while that turn waited for its budget.
    if (!next || eventFlags(next.type).origin !== 'external' || next.turn > journal.turn) return;
    // An abort leaves a snapshot of its own.
    if (next.type === 'snapshot' && events[count() + 1]?.type === 'thread_end') return;
    if (next.type === 'child_end') countChild(thread, next.data);
    else {
      if (next.type === 'spawn') budget.meter.countSpawn();
      // An approved right counts from here on, as in the recorded run.
      if (next.type === 'approval' && next.data.state === 'approved') {
        rights.approved.restore(next.data);
      }
      journal.note(notedOf(next), { cost: packCost(budget.meter.read()) });
    }
    await journal.flush();
  }
}

/** Returns the limit that an event reports. A thread that was stopped at that moment recorded only the fault. */
function limitIn(event: Recorded | undefined): (JsonObject & { code: string }) | undefined {
  if (event?.type === 'limit') return { ...event.data };
  if (event?.type !== 'error' || !event.data.code.endsWith('_exceeded')) return undefined;
  return { ...event.data.detail, code: event.data.code };
}

/** Returns the recorded refusal, because the budgets of other threads are not part of the replay. */
function pastRefusal(next: Recorded | undefined, own: string): Failure | undefined {
  const facts = limitIn(next);
  const limit = BUDGETED.find((name) => facts?.limit === name);
  if (!facts || limit === undefined) return undefined;
  const { code, current = 0, max = 0, reserved = 0, needed = 0, thread = own } = facts;
  const amount = (value: Json): string => String(readLimit(limit, value) ?? 0n);
  return fail(code, 'the recorded reservation was refused', {
    limit,
    thread,
    current: String((readLimit(limit, current) ?? 0n) + (readLimit(limit, reserved) ?? 0n)),
    reserved: amount(reserved),
    // The whole budget counts as standing, so that the replay does not wait.
    standing: amount(max),
    max: amount(max),
    requested: amount(needed),
  });
}

/** Returns the answer to an approval request from the events that followed it. */
function answerAmong(events: readonly Recorded[]): ApprovalAnswer {
  for (const { type, data } of events.toReversed()) {
    if (type !== 'approval' || data.kind !== 'call' || data.action !== 'ask') continue;
    const { state, approval, why } = data;
    const answer = state === 'used' ? 'approved' : state;
    return { answer, approval, ...(why && { why }) };
  }
  return { answer: 'pending' };
}

/** Types of events that end a request or begin the next one. */
const ENDS_REQUEST = ['turn_start', 'turn_end', 'error', 'stream_error'] as const;
const endsRequest = (event: Recorded): event is RecordedOf<(typeof ENDS_REQUEST)[number]> =>
  ENDS_REQUEST.some((type) => type === event.type);

/** Returns the recorded refusal of a request before its turn began: by the provider's tool, or by a missing right. */
function refusedBeforeTurn(events: readonly Recorded[], turn: number): Failure | undefined {
  const next = events.find((event) => endsRequest(event) || limitIn(event) !== undefined);
  if (next?.type !== 'error' || next.turn !== turn || limitIn(next)) return undefined;
  return fail(next.data.code, next.data.detail.message, next.data.detail);
}

/** Returns the ids of children in events of this type. */
const idsIn = (history: readonly Recorded[], type: 'spawn' | 'child_end'): ReadonlySet<string> =>
  new Set(
    history.flatMap((event) =>
      (event.type === 'spawn' || event.type === 'child_end') && event.type === type
        ? [event.data.thread_id]
        : [],
    ),
  );

/** Returns the children at this position: the spawned ones, with their end if the journal already has it. */
async function childrenAt(
  real: Store,
  filter: ThreadFilter,
  events: readonly Recorded[],
  count: number,
): Answer<ThreadPage> {
  const block = events.slice(count).findIndex(({ type }) => eventFlags(type).origin !== 'external');
  const history = events.slice(0, block < 0 ? undefined : count + block);
  const [spawned, ended] = [idsIn(history, 'spawn'), idsIn(history, 'child_end')];
  const page = await real.query(filter);
  if (!page.ok) return page;
  const rows = page.output.rows
    .filter(({ id }) => spawned.has(id))
    .map((row): ThreadSummary => (ended.has(row.id) ? row : { ...row, status: 'running' }));
  return ok({ ...page.output, rows });
}

/** Returns the environment with a placeholder for every provider's key, because a replay sends no request. */
function envWithKeys(ports: HarnessPorts): HarnessPorts['env'] {
  const names = Object.values(objectAt(ports.models(), 'providers')).map((one) =>
    plainText(getOwn(one, 'key')),
  );
  return { ...ports.env, ...Object.fromEntries(names.map((name) => [name, 'replay'])) };
}

/** Returns the id of the hook that began between two events of the thread that it served. */
async function hookBetween(
  real: Store,
  parent: RecordedAnswers,
  parentId: string,
  count: number,
): Promise<string> {
  const [from, to] = [parent.events[count - 1]?.ts ?? 0, parent.events[count]?.ts];
  const filter = { parent: parentId, kind: 'hook', direction: 'asc', limit: 500 } as const;
  const page = await real.query(filter);
  const found = (page.ok ? page.output.rows : []).find(
    ({ created }) => created >= from && (to === undefined || created <= to),
  );
  return found?.id ?? '';
}

/** Original id of a replayed thread, and its recorded answers. */
interface ReplayedThread {
  was: string;
  record: RecordedAnswers;
}

const NOTHING = createReplayRecord([]);

interface Scene extends ReturnType<typeof countEvents> {
  real: Store;
  empty: Store;
  id: string;
  known: Map<string, ReplayedThread>;
  recordOf(thread: string): RecordedAnswers;
  /** Puts the next events of others into the journal. */
  play(thread: string): Promise<void>;
}

/** Returns the store of a replayed thread. Reads about other threads return their recorded state. */
function storeOf(scene: Scene): Store {
  const { real, empty, store: counted, count, isLost, id, known, recordOf, play } = scene;
  const { events } = recordOf(id);

  async function learn(thread: string, parent: string): Promise<void> {
    const above = known.get(parent);
    if (known.has(thread) || !above) return;
    const was = await hookBetween(real, above.record, above.was, count(parent));
    const read = was === '' ? ok([]) : await readRepeated(real, was);
    known.set(thread, { was, record: createReplayRecord(read.ok ? read.output : []) });
  }
  const undelivered = new Map<string, Signal[]>();
  const unheardAt = (thread: string, { events: news }: Commit) =>
    recordOf(thread).signalsAt(thread, count(thread) + news.filter(isRepeated).length);
  /** Returns all earlier hooks, even those of a lost process. They do not run again, but they were paid for. */
  async function hooksBefore(filter: ThreadFilter): Answer<ThreadPage> {
    const page = await real.query(filter);
    const now = events[count(id) - 1]?.ts ?? 0;
    if (!page.ok) return page;
    return ok({ ...page.output, rows: page.output.rows.filter(({ created }) => created <= now) });
  }
  return {
    ...counted,
    async commit(thread, commit) {
      // The recorded hook of a new child is found by the position of its thread.
      for (const child of commit.children ?? []) await learn(child.id, thread);
      const refused = commit.reserve && pastRefusal(recordOf(thread).events[count(thread)], thread);
      if (refused) return refused;
      const missed = commit.expect.quiet ? unheardAt(thread, commit) : [];
      // A signal arrived when the thread was about to park.
      if (missed.length > 0) {
        undelivered.set(thread, missed);
        return fail('signalled', 'a signal arrived in the recorded run');
      }
      return (commit.children ?? []).length > 0 && isLost(id)
        ? LOST
        : await counted.commit(thread, commit);
    },
    async signals(thread) {
      // A commit that failed with `signalled` reads its signals here. Nothing is added to the journal then.
      const delivered = undelivered.get(thread);
      undelivered.delete(thread);
      if (delivered) return ok(delivered);
      await play(thread);
      return ok(recordOf(thread).signalsAt(thread, count(thread)));
    },
    async query(filter = {}) {
      if (filter.parent === id && filter.kind === 'hook') return await hooksBefore(filter);
      if (filter.parent !== id || filter.kind !== 'thread') return await empty.query(filter);
      // The replay does not wait for children, because the journal has the end of each one.
      if (filter.status !== undefined) return ok({ rows: [] });
      return await childrenAt(real, filter, events, count(id));
    },
    /** A resume reads the journals of hooks, which the real store has. */
    async read(thread, range) {
      const row = thread === id ? undefined : await real.thread(thread);
      const isHook = row?.ok && row.output.kind === 'hook' && row.output.parent === id;
      return await (isHook ? real : counted).read(thread, range);
    },
    async thread(thread) {
      const own = await empty.thread(thread);
      const row = await real.thread(thread);
      // A script can have read the start time, so the replay keeps it.
      if (own.ok) return row.ok ? ok({ ...own.output, created: row.output.created }) : own;
      return row.ok && row.output.parent === id ? row : own;
    },
  };
}

const threadsOf = (
  live: HarnessPorts['threads']['live'],
  owner: string,
  store: Store,
): HarnessPorts['threads'] => ({
  live,
  owner,
  resume: async (thread) => fail('not_found', `thread \`${thread}\` is not replayed here`),
  elsewhere: async () => fail('not_found', 'other projects are not replayed'),
  history: async (thread) => await store.read(thread),
});

/** Number of first events that contain the opening of a thread. */
const OPENING = 8;

type RecordedThreads = Pick<Scene, 'recordOf' | 'count' | 'play'> & {
  live: HarnessPorts['threads']['live'];
};

/** Creates the port that gives a replayed thread its recorded steps and external events. */
function replayPort({
  real,
  id,
  live,
  recordOf,
  count,
  play,
}: RecordedThreads & Pick<Scene, 'real' | 'id'>): NonNullable<HarnessPorts['replay']> {
  const rest = (thread: string) => recordOf(thread).events.slice(count(thread));
  const nextOf = (thread: string) => recordOf(thread).events[count(thread)];
  const flush = (thread: string) => live.get(thread)?.thread.journal.flush();
  return {
    openJournal: (...args) => new ReplayJournal(...args),
    rest,
    // A read of a script is recorded after it is done, so its event is the next one.
    async recorded(thread, call, isLate) {
      await flush(thread);
      return recordOf(thread).resultOf(call, count(thread) + 1, isLate);
    },
    begins(thread) {
      const next = nextOf(thread);
      return next?.type === 'turn_start' || limitIn(next) !== undefined;
    },
    group(thread, call) {
      const intents = rest(thread).filter((event) => event.type === 'tool_call');
      return intents.find(({ data }) => data.call_id === call)?.data.group;
    },
    move(thread) {
      const events = rest(thread);
      const failed = events.find(endsRequest);
      if (failed?.type === 'turn_end') return 'called_off' in failed.data ? 'again' : undefined;
      if (!failed || failed.type === 'turn_start' || failed.data.code === undefined)
        return undefined;
      if (failed.data.next !== 'wait') return failed.data.next ?? 'none';
      const retry = events.find(({ type }) => type === 'retry');
      return retry?.type === 'retry' && 'wait_ms' in retry.data ? retry.data.wait_ms : undefined;
    },
    async refused(thread, { error: { detail } }) {
      await flush(thread);
      const next = nextOf(thread);
      const facts = limitIn(next);
      const isOther = facts?.limit === detail.limit && facts?.current !== detail.current;
      return isOther ? pastRefusal(next, thread) : undefined;
    },
    async fitted(thread) {
      await flush(thread);
      const next = rest(thread).find((event) => event.type === 'turn_start');
      return next?.data.fitted ? next.data.max_tokens : undefined;
    },
    async hook(thread) {
      await play(thread);
      const next = nextOf(thread);
      return next?.type === 'hook_start' ? next.data.thread_id : undefined;
    },
    async hookResult(thread, hook) {
      await flush(thread);
      const row = recordOf(thread).isAnswered(hook, count(thread)) ? await real.thread(hook) : LOST;
      const result = row.ok ? resultOf(row.output) : undefined;
      return result ?? { ...NO_RESULT, thread_id: hook };
    },
    async asked(thread) {
      await flush(thread);
      const before = count(thread);
      await play(thread);
      return ok(answerAmong(recordOf(thread).events.slice(before, count(thread))));
    },
    shown(content) {
      const { events } = recordOf(id);
      const next = events[count(id)];
      const isNew = next?.type === 'retry' && 'opening' in next.data;
      const openingEvents: readonly JournalEvent[] =
        (isNew && next.data.opening) || events.slice(0, OPENING);
      const was = openingEvents.flatMap(({ type, data }) =>
        type === 'tool_result' ? [data.content] : [],
      )[0];
      const isSame = isDeepStrictEqual(getOwn(was, 'directive'), getOwn(content, 'directive'));
      return was !== undefined && isSame ? was : content;
    },
  };
}

/** Repeats the model requests that a tool made during its call. */
const asksInside =
  ({ live, recordOf, count, play }: RecordedThreads) =>
  async (request: object, { __thread_id: thread = '' }: Caller): Promise<void> => {
    const running = live.get(thread)?.thread;
    if (!running) return;
    await askAgain(running, request, async () => {
      await play(thread);
      await running.journal.flush();
      return recordOf(thread).events.slice(count(thread));
    });
  };

/**
 * Adds the recorded marks to a result that a checkpoint returned in place of `recorded`, or before there was a
 * result.
 */
function withRecordedMarks(
  outcome: Outcome<Value>,
  recorded: Outcome<Value> | undefined,
  past = recorded,
): Outcome<Value> {
  if (!past) return outcome;
  const marks = past.ok ? past.output.meta.descriptor : (descriptorOfFault(past.error) ?? EMPTY);
  if (!outcome.ok) return markFailure(outcome, marks);
  const isSame = recorded?.ok && recorded.output.data === outcome.output.data;
  return isSame ? outcome : ok(addMarks(outcome.output, marks));
}

/** Returns the id of the call that a thread makes with this key. */
function callWith(thread: Thread | undefined, key: string | undefined): string {
  if (!thread) return '';
  const { intents, currentCall } = thread.control;
  const intended = [...intents].find(([, intent]) => intent.key === key)?.[0];
  const pending = thread.talk.conversation.pending().find((call) => callKey(thread, call) === key);
  return intended ?? pending?.id ?? currentCall;
}

/**
 * Adds the recorded detail to a failure that is equal to the recorded one. The tool, which does not run again, had
 * added its position in the chain.
 */
function withDetail(outcome: Outcome<Value>, past: Outcome<Value> | undefined): Outcome<Value> {
  if (outcome.ok || !past || past.ok) return outcome;
  const [now, then] = [outcome.error, past.error];
  const isSame = now.code === then.code && now.detail.message === then.detail.message;
  if (!isSame) return outcome;
  // The detail of the new failure can have the symbol of a limit, so it is kept too.
  const error = { ...now, detail: { ...now.detail, ...then.detail } };
  return markFailure({ ok: false, error }, descriptorOfFault(now) ?? EMPTY);
}

const isOfHarness = ({ surface }: Caller): boolean => surface === 'harness';

const wholeRecorded = async (
  store: Store,
  thread: string,
  recorded: Outcome<Value>,
): Promise<Outcome<Value>> =>
  recorded.ok ? ok(await wholeValue({ store }, thread, recorded.output)) : recorded;

/** Runs work for the same thread one at a time, because parallel calls start it together. */
function oneAtATime(work: (thread: string) => Promise<void>): (thread: string) => Promise<void> {
  const running = new Map<string, Promise<void>>();
  return (thread) => {
    const next = (running.get(thread) ?? Promise.resolve()).then(() => work(thread));
    running.set(
      thread,
      next.catch(() => undefined),
    );
    return next;
  };
}

/** Returns the port of a model that answers and refuses as recorded in the journal. */
const recordedModel =
  ({ live, recordOf, count, play }: Parameters<typeof asksInside>[0]): HarnessPorts['model'] =>
  async (_model, { __thread_id: thread = '' }) => {
    await play(thread);
    const turn = live.get(thread)?.thread.journal.turn ?? 0;
    const refused = refusedBeforeTurn(recordOf(thread).events.slice(count(thread)), turn);
    if (refused) return refused;
    return ok({
      async ask() {
        await play(thread);
        const running = live.get(thread)?.thread;
        await running?.journal.listen();
        if (running && recordOf(thread).isClosedAt(count(thread))) stopThread(running, CLOSED);
        return recordOf(thread).replyAt(count(thread));
      },
    });
  };

export type ReplayStage = ReturnType<typeof createReplayStage>;

export function createReplayStage(
  ports: HarnessPorts,
  real: Store,
  empty: Store,
  id: string,
  record: RecordedAnswers,
) {
  const live = createLiveThreads();
  let end = Number.POSITIVE_INFINITY;
  const byThread = new Map<string, ReplayedThread>([[id, { was: id, record }]]);
  const recordOf = (thread: string): RecordedAnswers => byThread.get(thread)?.record ?? NOTHING;
  const endOf = (thread: string): number => (thread === id ? end : Number.POSITIVE_INFINITY);
  const counted = countEvents(empty, recordOf, endOf);
  const { count } = counted;
  const play = oneAtATime(async (thread) => {
    const running = live.get(thread)?.thread;
    if (!running) return;
    await playOthers(running, recordOf(thread), () => count(thread), endOf(thread));
  });
  const store = storeOf({ ...counted, real, empty, id, known: byThread, recordOf, play });

  const askInside = asksInside({ live, recordOf, count, play });
  /** Makes a call with its limits, events and hooks. The result comes from the journal. */
  const answer = async (request: object, caller: Caller): Promise<Outcome<Value>> => {
    let recorded: Outcome<Value> | undefined;
    const outcome = await perform(
      { type: 'step', name: 'replay', opLabels: [], retryOwner: false },
      [],
      async () => {
        await askInside(request, caller);
        recorded = await recordedFor(caller);
        return recorded;
      },
      createFrame(),
      caller.act,
    );
    const thread = caller.__thread_id ?? '';
    const call = callWith(live.get(thread)?.thread, caller.idempotencyKey);
    const result = recordOf(thread).toldOf(call, count(thread));
    return withDetail(withRecordedMarks(outcome, recorded, result), result);
  };
  const recordedFor = async (caller: Caller): Promise<Outcome<Value>> => {
    const thread = caller.__thread_id ?? '';
    await play(thread);
    await live.get(thread)?.thread.journal.listen();
    const running = live.get(thread)?.thread;
    const call = callWith(running, caller.idempotencyKey);
    const record = recordOf(thread);
    // The thread parks even if the answer arrived before that.
    if (running && record.isAsked(call, count(thread))) {
      running.control.ending ??= { status: 'waiting', reason: 'a person was asked' };
      return fail('approval_pending', 'the approval request was pending', { answer: 'pending' });
    }
    const recorded = record.resultOf(call, count(thread));
    const { references } = running?.talk ?? {};
    // References need the whole result.
    return references
      ? await wholeRecorded(real, byThread.get(thread)?.was ?? thread, recorded)
      : recorded;
  };
  const kernel: Kernel = {
    ...ports.kernel,
    search: answer,
    help: answer,
    // The harness reads the directive and other texts for the thread in their current version.
    load: (request, caller) => (isOfHarness(caller) ? ports.kernel.load : answer)(request, caller),
    execute: (request, caller) =>
      isOfHarness(caller) && request.item_type === 'directive'
        ? ports.kernel.execute(request, caller)
        : answer(request, caller),
  };
  const start = record.events[0]?.ts ?? 0;
  const again: HarnessPorts = {
    ...ports,
    env: envWithKeys(ports),
    // The monotonic time follows the recorded events.
    clock: {
      now: () => ports.clock.now(),
      monotonic: () =>
        (record.events[Math.min(count(id), record.events.length - 1)]?.ts ?? start) - start,
    },
    store,
    kernel,
    model: recordedModel({ live, recordOf, count, play }),
    threads: threadsOf(live, ports.threads.owner, store),
    watch: {
      transcript: () => () => {},
      ahead: (thread) => recordOf(thread).lostAt(count(thread)),
    },
    replay: replayPort({ real, id, live, recordOf, count, play }),
  };
  return {
    ports: again,
    /** Sets the number of events after which nothing is written. */
    until(count: number): void {
      end = count;
    },
  };
}
