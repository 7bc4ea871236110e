// Rows of thread lists. A row joins the thread in the store, the use of its limits, its pending approval
// requests and the summary of its last events. The cache applies new events to a summary, so a thread
// without new events needs no read.
import {
  createRecent,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { meterName, projectStored, summary } from '@kernmantle/core/journal';
import {
  type Approval,
  type BudgetKind,
  isEnded,
  type Store,
  type StoredEvent,
  type ThreadSummary,
} from '@kernmantle/core/store';
import type { LimitMeter, ListedRun } from '../../model/api.ts';
import { queueKey } from '../../model/fleet.ts';

interface RowPorts {
  readonly store: Store;
  /** True if this process runs the thread. */
  isHere(id: string): boolean;
}

type SummaryState = ReturnType<typeof summary.initial>;

/** A cached thread, up to the event `seq`. */
interface CachedThread {
  seq: number;
  /** Summary of the last events of the thread. */
  state: SummaryState;
  /** Denials before the events of `state`. */
  denied: number;
  /** The row, which is valid while its key is the same. */
  row?: { readonly key: string; readonly made: ListedRun };
}

const MAX_THREADS = 2000;
/** Number of last events that show the open calls of a thread. */
const TAIL = 40;
/** Number of first events that contain the start with its limits. */
const BEGINNING = 3;
/** A thread with more new events is read from its tail again. */
const MAX_NEW = 400;
const MAX_REASON = 200;
const MAX_NAME = 120;
const NANO = 1e9;

const textIn = (value: Json | undefined, field: string): string | undefined => {
  const entry = getOwn(value, field);
  return typeof entry === 'string' && entry !== '' ? entry.slice(0, MAX_NAME) : undefined;
};

const numberIn = (value: Json | undefined, field: string): number | undefined => {
  const entry = getOwn(value, field);
  if (typeof entry !== 'number' && typeof entry !== 'string') return undefined;
  const read = Number(entry);
  return Number.isFinite(read) ? read : undefined;
};

/** Limits by importance for a reader. */
const METERS = [
  ...(['spend', 'turns', 'tokens', 'tool_calls', 'duration', 'spawns'] as const),
  ...(['input_tokens', 'output_tokens'] as const),
];
type MeterName = (typeof METERS)[number];
/** Limits with an account in the registry, which includes reservations. */
const CHARGED: ReadonlySet<string> = new Set<BudgetKind>([
  'spawns',
  'tokens',
  'input_tokens',
  'output_tokens',
  'spend',
]);

type Budgets = ReadonlyMap<
  string,
  { used: Readonly<Record<string, bigint>>; reserved: Readonly<Record<string, bigint>> }
>;

/** Converts a limit to the units of the page: seconds and currency. */
function meterOf(
  name: MeterName,
  { id, cost }: ThreadSummary,
  { limits, raisedFrom }: SummaryState,
  budgets: Budgets,
): LimitMeter | undefined {
  const limit = getOwn(limits, name);
  const max = numberIn(limit, 'value');
  const budget = CHARGED.has(name) ? budgets.get(id) : undefined;
  const grain = name === 'spend' ? NANO : 1;
  // Turns and calls are limited for each attempt.
  const total =
    name === 'duration'
      ? numberIn(cost, 'duration_seconds')
      : (numberIn(cost['attempt'], name) ?? numberIn(cost, name));
  const used = budget ? Number(budget.used[name] ?? 0n) / grain : (total ?? 0);
  const reserved = budget ? Number(budget.reserved[name] ?? 0n) / grain : 0;
  if (max === undefined && (name === 'input_tokens' || name === 'output_tokens')) return undefined;
  if (max === undefined && used === 0 && reserved === 0) return undefined;
  const [from, raised] = [textIn(limit, 'from'), numberIn(raisedFrom, name)];
  return {
    name: meterName(name),
    used,
    reserved,
    ...(max === undefined ? {} : { max }),
    ...(from === undefined ? {} : { from }),
    ...(raised === undefined || raised === max ? {} : { raised_from: raised }),
  };
}

/** Name of the operation, right or limit in an approval request. */
function askedName(approval: Approval): string {
  const { shown, binding, kind } = approval;
  const name =
    textIn(shown, 'operation') ?? textIn(binding, 'capability') ?? textIn(shown, 'limit');
  return name ?? kind;
}

function nowOf(
  { status }: ThreadSummary,
  { openCalls, isReplying }: SummaryState,
  waits: readonly Approval[],
): string | undefined {
  if (isEnded(status)) return undefined;
  const request = waits.at(-1);
  if (request) return askedName(request);
  if (status !== 'running' && status !== 'waiting' && status !== 'terminating') return undefined;
  const tool = [...openCalls.values()].at(-1)?.slice(0, MAX_NAME);
  return tool ?? (isReplying ? 'reply' : undefined);
}

/** Counts the denials of each thread. It halves the list until a part has no denials or one thread. */
async function countDenied(
  store: Pick<Store, 'countEvents'>,
  ids: readonly string[],
): Promise<Outcome<ReadonlyMap<string, number>>> {
  const counts = new Map<string, number>();
  const count = async (some: readonly string[]): Promise<Outcome<null>> => {
    const total = await store.countEvents(some, 'permission_denied');
    if (!total.ok) return total;
    const [first = ''] = some;
    if (total.output === 0 || some.length === 0) return ok(null);
    if (some.length === 1) {
      counts.set(first, total.output);
      return ok(null);
    }
    const half = some.length >> 1;
    const firstHalf = await count(some.slice(0, half));
    return firstHalf.ok ? await count(some.slice(half)) : firstHalf;
  };
  const result = ids.length === 0 ? ok(null) : await count(ids);
  return result.ok ? ok(counts) : result;
}

/** Reads the first and the last events of a thread. The store has the limits that people set in between. */
async function readThread(store: Store, id: string): Promise<Outcome<CachedThread>> {
  const [row, first, last] = await Promise.all([
    store.thread(id),
    store.read(id, { limit: BEGINNING }),
    store.read(id, { last: TAIL }),
  ]);
  if (!row.ok) return row;
  if (!first.ok) return first;
  if (!last.ok) return last;
  const start = first.output.filter(({ type }) => type === 'thread_start');
  const before = summary.withLimitsSet(projectStored(summary, start), row.output.limits);
  const state = projectStored(summary, last.output, before);
  return ok({ seq: last.output.at(-1)?.seq ?? 0, state, denied: -state.denied });
}

/** Applies the events after the last one that was applied. */
function applyEvents(cached: CachedThread, events: readonly StoredEvent[]): void {
  const news = events.filter(({ seq }) => seq > cached.seq);
  if (news[0]?.seq !== cached.seq + 1) return;
  cached.seq = news.at(-1)?.seq ?? cached.seq;
  cached.state = projectStored(summary, news, cached.state);
}

function createCache(store: Store) {
  const all = createRecent<string, CachedThread>(MAX_THREADS);

  /** Adds a thread that was not in the cache to `fresh`. Its denials are not counted yet. */
  async function updateOne(
    { id, seq }: ThreadSummary,
    fresh: Map<string, CachedThread>,
  ): Promise<Outcome<null>> {
    const cached = all.get(id);
    if (cached && cached.seq >= seq) return ok(null);
    if (cached && seq - cached.seq <= MAX_NEW) {
      const events = await store.read(id, { after: cached.seq });
      if (events.ok) applyEvents(cached, events.output);
      return events.ok ? ok(null) : events;
    }
    const result = await readThread(store, id);
    if (result.ok) fresh.set(id, result.output);
    // A thread that was pruned after the query has no row.
    return result.ok || result.error.code === 'not_found' ? ok(null) : result;
  }

  return {
    get: all.get,
    /** Applies events of a cached thread. */
    note(thread: string, events: readonly StoredEvent[]): void {
      const cached = all.get(thread);
      if (cached) applyEvents(cached, events);
    },
    async update(threads: readonly ThreadSummary[]): Promise<Outcome<null>> {
      const fresh = new Map<string, CachedThread>();
      for (const result of await Promise.all(threads.map((thread) => updateOne(thread, fresh)))) {
        if (!result.ok) return result;
      }
      const denied = await countDenied(store, [...fresh.keys()]);
      if (!denied.ok) return denied;
      for (const [id, cached] of fresh) {
        cached.denied += denied.output.get(id) ?? 0;
        all.set(id, cached);
      }
      return ok(null);
    },
  };
}

/** Fields of the cost that lists show. */
const COSTS = ['turns', 'tokens', 'tool_calls', 'spend', 'duration_seconds', 'estimated'] as const;
function costOf(cost: JsonObject): JsonObject {
  const result: JsonObject = {};
  for (const name of COSTS) if (cost[name] !== undefined) result[name] = cost[name];
  return result;
}

function rowOf(
  thread: ThreadSummary,
  { state, denied }: CachedThread,
  waits: readonly Approval[],
  budgets: Budgets,
  place: Pick<ListedRun, 'here' | 'worker' | 'queue'>,
): ListedRun {
  const { id, parent, root, depth, kind, directive, version, runner, detached, title } = thread;
  const { status, seq, attempt, created, updated, ended, cost } = thread;
  const now = nowOf(thread, state, waits);
  const reason = state.reason?.slice(0, MAX_REASON);
  const code = state.code?.slice(0, MAX_NAME);
  return {
    id,
    ...(parent === undefined ? {} : { parent }),
    root,
    depth,
    kind,
    directive,
    version,
    runner,
    detached,
    ...(title === undefined ? {} : { title }),
    status,
    seq,
    attempt,
    created,
    updated,
    ...(ended === undefined ? {} : { ended }),
    cost: costOf(cost),
    meters: METERS.flatMap((name) => meterOf(name, thread, state, budgets) ?? []),
    denied: denied + state.denied,
    failed: numberIn(cost, 'failed_calls') ?? 0,
    due: waits.length,
    ...(now === undefined || now === '' ? {} : { now }),
    ...(reason && { reason }),
    ...(code && { code }),
    ...place,
  };
}

/** Statuses in which a thread without a lease waits for a worker. */
const QUEUED: ReadonlySet<string> = new Set(['spawning', 'running', 'terminating', 'interrupted']);

/** Process or queue of the thread. A fleet store returns the worker or the queue. */
function placeOf(
  { id, owner, status, tenant = '', project, items = '' }: ThreadSummary,
  { store, isHere }: RowPorts,
): Pick<ListedRun, 'here' | 'worker' | 'queue'> {
  const here = isHere(id);
  if (!store.fleet || isEnded(status)) return { here };
  if (owner !== undefined) return { here, worker: owner };
  return QUEUED.has(status) ? { here, queue: queueKey(tenant, project, items) } : { here };
}

export function createRows(ports: RowPorts) {
  const { store, isHere } = ports;
  const cache = createCache(store);
  return {
    /** Takes events that were read for another reason. They are not read again. */
    note: cache.note,

    /** `pending`: all pending approval requests. Threads that were deleted are left out. */
    async rows(
      threads: readonly ThreadSummary[],
      pending: readonly Approval[],
    ): Promise<Outcome<ListedRun[]>> {
      const waits = Map.groupBy(pending, ({ thread }) => thread ?? '');
      const stateOf = ({ id, seq, status, updated, epoch, owner = '' }: ThreadSummary): string => {
        const requests = (waits.get(id) ?? []).map((one) => one.id).join();
        return `${seq} ${status} ${updated} ${epoch} ${isHere(id)} ${owner} ${requests}`;
      };
      const keys = new Map(threads.map((thread) => [thread.id, stateOf(thread)]));
      const moved = threads.filter(({ id }) => cache.get(id)?.row?.key !== keys.get(id));
      const updated = await cache.update(moved);
      if (!updated.ok) return updated;
      const read = await store.budgets(moved.map(({ id }) => id));
      if (!read.ok) return read;
      const budgets: Budgets = new Map(read.output.map((budget) => [budget.thread, budget]));
      for (const thread of moved) {
        const { id } = thread;
        const cached = cache.get(id);
        if (!cached) continue;
        const row = rowOf(thread, cached, waits.get(id) ?? [], budgets, placeOf(thread, ports));
        cached.row = { key: keys.get(id) ?? '', made: row };
      }
      return ok(threads.flatMap(({ id }) => cache.get(id)?.row?.made ?? []));
    },
  };
}
