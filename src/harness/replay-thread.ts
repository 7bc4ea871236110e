// A thread again, from its journal: the same harness, with today's directive, hooks, limits and
// policies, but everything that came from outside is taken from the journal. No model is asked, no
// tool is run. Where the new journal is not the old one, somebody has changed something.
import {
  canonicalJson,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import type { Value } from '../flow/index.ts';
import type { Caller, Kernel } from '../kernel/index.ts';
import { isEnded, type Store, type StoredEvent, type ThreadRow } from '../store/index.ts';
import { unpackLimits } from './effective-limits.ts';
import { type Prepared, prepareThread } from './prepare-thread.ts';
import { createReplayRecord, type ReplayRecord } from './replay-record.ts';
import { runPrepared } from './run-thread.ts';
import { createLiveThreads } from './spawn-live.ts';
import type { World } from './world.ts';

export interface ReplayedEvent {
  type: string;
  turn: number;
  data: JsonObject;
}

export interface ReplayReport {
  thread_id: string;
  /** How many events were compared and found to be the same. */
  same: number;
  /** How many the journal has, up to the one that was asked for. */
  recorded: number;
  isSame: boolean;
  /** The first event that is another one; a side is absent when its journal has ended. */
  difference?: { seq: number; recorded?: ReplayedEvent; replayed?: ReplayedEvent };
  /** How the replay ended; absent when it was stopped at `until`. */
  status?: string;
}

export interface ReplayOptions {
  /** The last event to go to; the end when absent. */
  until?: number;
}

/** Put in by other threads and other processes: a replay is alone. */
const FROM_OTHERS: ReadonlySet<string> = new Set(['spawn', 'child_end', 'approval', 'snapshot']);
/** Names, times and sizes of one run. */
const OF_ONE_RUN: ReadonlySet<string> = new Set([
  'key',
  'by',
  'bytes',
  'duration_seconds',
  'duration_ms',
]);

function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !OF_ONE_RUN.has(name))
      .map(([name, inner]) => [name, plain(inner)]),
  );
}

const comparable = (events: readonly StoredEvent[]): readonly StoredEvent[] =>
  events.filter(({ type }) => !FROM_OTHERS.has(type));

const shown = (event: StoredEvent | undefined): ReplayedEvent | undefined =>
  event && { type: event.type, turn: event.turn, data: event.data };

function textOf(event: StoredEvent | undefined, own: string, id: string): string {
  if (!event) return '';
  const text = canonicalJson([event.type, event.turn, plain(event.data)]);
  return text.replaceAll(own, id);
}

/** Results of calls from the journal; the directive itself is read as it is today. */
function recordedKernel(real: Kernel, recordOf: (thread: string) => ReplayRecord): Kernel {
  const answer = async (request: object, caller: Caller): Promise<Outcome<Value>> => {
    const { values: _values, ...said } = request as { values?: unknown } & JsonObject;
    return recordOf(caller.__thread_id ?? '').resultOf(said);
  };
  return {
    ...real,
    search: answer,
    load: answer,
    help: answer,
    execute: async (request, caller) =>
      caller.surface === 'harness' && request.item_type === 'directive'
        ? await real.execute(request, caller)
        : await answer(request, caller),
  };
}

/** No provider is asked, so no key is needed. */
function envWithKeys(world: World): World['env'] {
  const providers = getOwn(world.models(), 'providers');
  const names = Object.values(isObject(providers) ? providers : {}).map((one) =>
    plainText(getOwn(one, 'key')),
  );
  return { ...Object.fromEntries(names.map((name) => [name, 'replay'])), ...world.env };
}

/** The time passes as it did: with the journal. */
function recordedTime(events: readonly StoredEvent[], at: () => number): () => number {
  const start = events[0]?.ts ?? 0;
  return () => (events[Math.min(at(), events.length - 1)]?.ts ?? start) - start;
}

/** The journals of a thread and of the hooks that asked a model for it, in the order they began. */
interface Recorded {
  events: readonly StoredEvent[];
  hooks: readonly (readonly StoredEvent[])[];
}

/** Hooks run one after the other, so the next one that begins is the next one that was recorded. */
function createRecords({ events, hooks }: Recorded): (thread: string) => ReplayRecord {
  const left = [events, ...hooks];
  const known = new Map<string, ReplayRecord>();
  return (thread) => {
    const record = known.get(thread) ?? createReplayRecord(left.shift() ?? []);
    known.set(thread, record);
    return record;
  };
}

function replayWorld(world: World, store: Store, recorded: Recorded, until: number): World {
  const recordOf = createRecords(recorded);
  const live = createLiveThreads();
  let root: string | undefined;
  const seqOf = (thread: string | undefined): number => {
    const row = thread === undefined ? undefined : store.thread(thread);
    return row?.ok ? row.output.seq : 0;
  };
  const { onEvent: _event, onText: _text, ...rest } = world;
  return {
    ...rest,
    live,
    env: envWithKeys(world),
    clock: {
      now: () => world.clock.now(),
      monotonic: recordedTime(recorded.events, () => seqOf(root)),
    },
    store: {
      ...store,
      // What was said is in the journal, not in this registry: it is looked for every time.
      pulse: (thread, epoch) => ({ held: store.isHeld(thread, epoch), called: true }),
      signals: (thread) => ok(recordOf(thread).signalsAt(thread, seqOf(thread))),
    },
    kernel: recordedKernel(world.kernel, recordOf),
    model: async (_request, caller) => recordOf(caller.__thread_id ?? '').nextReply(),
    transcript: () => () => {},
    onEvent(thread) {
      root ??= thread;
      if (thread !== root || seqOf(root) < until) return;
      const ending = { status: 'interrupted' as const, reason: `replayed to event ${until}` };
      live.get(root)?.thread.stop(ending);
    },
  };
}

/** With the inputs, the model and the limits it had. */
async function prepareReplay(
  world: World,
  row: ThreadRow,
  start: JsonObject,
): Promise<Outcome<Prepared>> {
  const request = { directive: row.directive, inputs: row.inputs as JsonObject };
  const model = plainText(start.model);
  const own = await prepareThread(world, request);
  const isOwn = own.ok && own.output.model.model === model;
  const prepared =
    isOwn || model === '' || model === 'none'
      ? own
      : await prepareThread(world, { ...request, model });
  return prepared.ok ? ok({ ...prepared.output, limits: unpackLimits(row.limits) }) : prepared;
}

function compare(
  recorded: readonly StoredEvent[],
  replayed: readonly StoredEvent[],
  ids: { own: string; id: string },
): Pick<ReplayReport, 'same' | 'recorded' | 'isSame' | 'difference'> {
  const [old, now] = [comparable(recorded), comparable(replayed)];
  const length = Math.max(old.length, now.length);
  for (let at = 0; at < length; at++) {
    if (textOf(old[at], ids.own, ids.id) === textOf(now[at], ids.own, ids.id)) continue;
    const [was, is] = [shown(old[at]), shown(now[at])];
    const seq = old[at]?.seq ?? now[at]?.seq ?? 0;
    const difference = { seq, ...(was && { recorded: was }), ...(is && { replayed: is }) };
    return { same: at, recorded: old.length, isSame: false, difference };
  }
  return { same: length, recorded: old.length, isSame: true };
}

function wholeJournal(store: Store, id: string): Outcome<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (;;) {
    const page = store.read(id, events.at(-1)?.seq ?? 0);
    if (!page.ok) return page;
    if (page.output.length === 0) return ok(events);
    events.push(...page.output);
  }
}

function hookJournals(store: Store, root: string): Outcome<StoredEvent[][]> {
  const page = store.query({ root, kind: 'hook', direction: 'asc', limit: 500 });
  if (!page.ok) return page;
  const journals: StoredEvent[][] = [];
  for (const { id } of page.output.rows) {
    const journal = wholeJournal(store, id);
    if (!journal.ok) return journal;
    journals.push(journal.output);
  }
  return ok(journals);
}

function mayReplay({ id, status, parent, root }: ThreadRow): Outcome<null> {
  if (!isEnded(status)) return fail('conflict', `thread \`${id}\` has not ended: it is ${status}`);
  if (parent === undefined) return ok(null);
  const message = `thread \`${id}\` ran for \`${parent}\`; replay its root \`${root}\``;
  return fail('invalid_input', message, { root });
}

/**
 * `store` has the journal, with known secrets as references; `empty` is a registry that the caller
 * removes. A thread that was resumed is replayed up to there: what a process that died did not write
 * down cannot be repeated.
 */
export async function replayThread(
  world: World,
  id: string,
  store: Store,
  empty: Store,
  { until = Number.POSITIVE_INFINITY }: ReplayOptions = {},
): Promise<Outcome<ReplayReport>> {
  const row = store.thread(id);
  if (!row.ok) return row;
  const may = mayReplay(row.output);
  if (!may.ok) return may;
  const journal = wholeJournal(store, id);
  if (!journal.ok) return journal;
  const events = journal.output;
  const resumed = events.find(({ type, data }) => type === 'signal' && data.kind === 'resume');
  const end = Math.min(until, resumed ? resumed.seq - 1 : events.length);
  const start = events[0]?.data ?? {};
  const hooks = hookJournals(store, id);
  if (!hooks.ok) return hooks;
  const again = replayWorld(world, empty, { events, hooks: hooks.output }, end);
  const prepared = await prepareReplay(again, row.output, start);
  if (!prepared.ok) return prepared;
  const none = new AbortController().signal;
  const done = await runPrepared(again, prepared.output, {}, none, plainText(start.message));
  if (!done.ok) return done;
  const own = done.output.thread_id;
  const replayed = wholeJournal(empty, own);
  if (!replayed.ok) return replayed;
  const isWhole = end === events.length;
  const news = isWhole ? replayed.output : replayed.output.slice(0, end);
  return ok({
    thread_id: id,
    ...compare(events.slice(0, end), news, { own, id }),
    ...(isWhole ? { status: done.output.status } : {}),
  });
}
