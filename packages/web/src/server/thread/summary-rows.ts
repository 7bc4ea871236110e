// Threads as lists show them. A summary of the registry is joined with what was used of each limit, with
// what waits for a person and with what the last events say. What was read of a thread once is kept, and
// only events that came since are read: a row that did not move costs nothing.
import {
  createRecent,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import {
  type Approval,
  type BudgetKind,
  isEnded,
  type Store,
  type StoredEvent,
  type ThreadSummary,
} from '@kernmantle/core/store';
import { type LimitMeter, type ListedRun, meterName } from '../../model/api.ts';
import { queueKey } from '../../model/fleet.ts';

interface RowPorts {
  readonly store: Store;
  /** Somebody is at work on it in this process. */
  isHere(id: string): boolean;
}

/** What is remembered of a thread, up to the event `seq`. */
interface RememberedThread {
  seq: number;
  denied: number;
  limits: JsonObject;
  /** Before they were raised, where they were. */
  readonly raisedFrom: Map<string, number>;
  /** By call id, the tool; the oldest first. */
  readonly calls: Map<string, string>;
  isReplying: boolean;
  reason: string | undefined;
  code: string | undefined;
  /** Made for this state of things. */
  row?: { readonly key: string; readonly made: ListedRun };
}

const KEPT = 2000;
/** Enough to see what is open now. */
const LOOK_BACK = 40;
/** Among so many is the one that says what it began with. */
const BEGINNING = 3;
/** From so many events on a thread is looked at anew instead of followed. */
const FOLLOWED = 400;
const MAX_CALLS = 50;
const MAX_REASON = 200;
const MAX_NAME = 120;
const NANO = 1e9;

const textIn = (value: Json | undefined, field: string, max = MAX_NAME): string | undefined => {
  const found = getOwn(value, field);
  return typeof found === 'string' && found !== '' ? found.slice(0, max) : undefined;
};

const numberIn = (value: Json | undefined, field: string): number | undefined => {
  const found = getOwn(value, field);
  if (typeof found !== 'number' && typeof found !== 'string') return undefined;
  const read = Number(found);
  return Number.isFinite(read) ? read : undefined;
};

/** Limits in the order in which people look at them. */
const METERS = [
  ...(['spend', 'turns', 'tokens', 'tool_calls', 'duration', 'spawns'] as const),
  ...(['input_tokens', 'output_tokens'] as const),
];
type MeterName = (typeof METERS)[number];
/** Those that the registry keeps accounts of, with what is set aside. */
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

/** As people count: seconds, units of the currency. */
function meterOf(
  name: MeterName,
  { id, cost }: ThreadSummary,
  { limits, raisedFrom }: Pick<RememberedThread, 'limits' | 'raisedFrom'>,
  budgets: Budgets,
): LimitMeter | undefined {
  const limit = getOwn(limits, name);
  const max = numberIn(limit, 'value');
  const budget = CHARGED.has(name) ? budgets.get(id) : undefined;
  const grain = name === 'spend' ? NANO : 1;
  // Turns and calls are limited for each attempt.
  const told =
    name === 'duration'
      ? numberIn(cost, 'duration_seconds')
      : (numberIn(cost['attempt'], name) ?? numberIn(cost, name));
  const used = budget ? Number(budget.used[name] ?? 0n) / grain : (told ?? 0);
  const reserved = budget ? Number(budget.reserved[name] ?? 0n) / grain : 0;
  if (max === undefined && (name === 'input_tokens' || name === 'output_tokens')) return undefined;
  if (max === undefined && used === 0 && reserved === 0) return undefined;
  const [from, raised] = [textIn(limit, 'from'), raisedFrom.get(name)];
  return {
    name: meterName(name),
    used,
    reserved,
    ...(max === undefined ? {} : { max }),
    ...(from === undefined ? {} : { from }),
    ...(raised === undefined || raised === max ? {} : { raised_from: raised }),
  };
}

/** What a limit was when it is not that any more. */
function noteRaised(known: RememberedThread, limits: JsonObject): void {
  for (const name of METERS) {
    const [before, now] = [known.limits[name], limits[name]].map((one) => numberIn(one, 'value'));
    if (before === undefined || now === undefined || before === now) continue;
    if (!known.raisedFrom.has(name)) known.raisedFrom.set(name, before);
  }
  known.limits = limits;
}

/** Answers whether limits changed with it. */
function follow(known: RememberedThread, { seq, type, data }: StoredEvent): boolean {
  known.seq = seq;
  const id = textIn(data, 'call_id') ?? '';
  switch (type) {
    case 'turn_start':
      known.isReplying = true;
      break;
    case 'assistant_message':
      if (getOwn(data, 'injected') !== true) known.isReplying = false;
      break;
    case 'turn_end':
    case 'error':
    case 'stream_error':
      known.isReplying = false;
      break;
    case 'tool_call':
      known.calls.set(id, textIn(data, 'tool') ?? '');
      if (known.calls.size > MAX_CALLS) known.calls.delete(known.calls.keys().next().value ?? '');
      break;
    case 'tool_result':
      known.calls.delete(id);
      break;
    case 'permission_denied':
      known.denied += 1;
      break;
    case 'thread_end':
      known.reason = textIn(data, 'reason', MAX_REASON);
      known.code = textIn(data, 'code');
      break;
    case 'status':
      if (getOwn(data, 'status') === 'running') known.reason = known.code = undefined;
      else known.reason = textIn(data, 'reason', MAX_REASON) ?? known.reason;
      break;
    case 'retry':
      if (getOwn(data, 'attempt') !== undefined) known.calls.clear();
      break;
    case 'hook':
    case 'signal':
      return isObject(getOwn(data, 'limits'));
    default:
  }
  return false;
}

/** The operation that a person is asked about; a name. */
function askedName(approval: Approval): string {
  const { shown, binding, kind } = approval;
  const name =
    textIn(shown, 'operation') ?? textIn(binding, 'capability') ?? textIn(shown, 'limit');
  return name ?? kind;
}

function nowOf({ status }: ThreadSummary, known: RememberedThread, waits: readonly Approval[]) {
  if (isEnded(status)) return undefined;
  const asked = waits.at(-1);
  if (asked) return askedName(asked);
  if (status !== 'running' && status !== 'waiting' && status !== 'terminating') return undefined;
  return [...known.calls.values()].at(-1) ?? (known.isReplying ? 'reply' : undefined);
}

/** How often calls of each were denied: one question for all, more only where there was something. */
async function countDenied(
  store: Pick<Store, 'countEvents'>,
  ids: readonly string[],
): Promise<Outcome<ReadonlyMap<string, number>>> {
  const counts = new Map<string, number>();
  const count = async (some: readonly string[]): Promise<Outcome<null>> => {
    const found = await store.countEvents(some, 'permission_denied');
    if (!found.ok) return found;
    const [first = ''] = some;
    if (found.output === 0 || some.length === 0) return ok(null);
    if (some.length === 1) {
      counts.set(first, found.output);
      return ok(null);
    }
    const half = some.length >> 1;
    const left = await count(some.slice(0, half));
    return left.ok ? await count(some.slice(half)) : left;
  };
  const done = ids.length === 0 ? ok(null) : await count(ids);
  return done.ok ? ok(counts) : done;
}

/** From its first and last events; the rest of the journal is not read. */
async function meet(store: Store, id: string): Promise<Outcome<RememberedThread>> {
  const [row, first, events] = await Promise.all([
    store.thread(id),
    store.read(id, { limit: BEGINNING }),
    store.read(id, { last: LOOK_BACK }),
  ]);
  if (!row.ok) return row;
  if (!first.ok) return first;
  if (!events.ok) return events;
  const start = first.output.find(({ type }) => type === 'thread_start');
  const began = getOwn(start?.data, 'limits');
  const known: RememberedThread = {
    seq: 0,
    denied: 0,
    limits: isObject(began) ? began : row.output.limits,
    raisedFrom: new Map(),
    calls: new Map(),
    isReplying: false,
    reason: undefined,
    code: undefined,
  };
  noteRaised(known, row.output.limits);
  for (const event of events.output) follow(known, event);
  return ok(known);
}

/** Events after the ones it knows; others are left alone. */
async function hear(
  store: Store,
  id: string,
  known: RememberedThread,
  events: readonly StoredEvent[],
): Promise<Outcome<null>> {
  let isRaised = false;
  for (const event of events) {
    if (event.seq === known.seq + 1) isRaised = follow(known, event) || isRaised;
  }
  if (!isRaised) return ok(null);
  const row = await store.thread(id);
  if (row.ok) noteRaised(known, row.output.limits);
  return row.ok ? ok(null) : row;
}

/** What is known of threads, brought up to date when it is asked for. */
function createMemory(store: Store) {
  const all = createRecent<string, RememberedThread>(KEPT);

  /** `fresh` gets those that were not known before; nobody has counted their denials yet. */
  async function learnOne(
    { id, seq }: ThreadSummary,
    fresh: Map<string, RememberedThread>,
  ): Promise<Outcome<null>> {
    const before = all.get(id);
    if (before && before.seq >= seq) return ok(null);
    if (before && seq - before.seq <= FOLLOWED) {
      const events = await store.read(id, { after: before.seq });
      return events.ok ? await hear(store, id, before, events.output) : events;
    }
    const met = await meet(store, id);
    if (met.ok) fresh.set(id, met.output);
    // Pruned between the two questions: there is nothing to say of it.
    return met.ok || met.error.code === 'not_found' ? ok(null) : met;
  }

  return {
    get: all.get,
    async note(thread: string, events: readonly StoredEvent[]): Promise<Outcome<null>> {
      const known = all.get(thread);
      return known ? await hear(store, thread, known, events) : ok(null);
    },
    async learn(threads: readonly ThreadSummary[]): Promise<Outcome<null>> {
      const fresh = new Map<string, RememberedThread>();
      for (const done of await Promise.all(threads.map((thread) => learnOne(thread, fresh)))) {
        if (!done.ok) return done;
      }
      const denied = await countDenied(store, [...fresh.keys()]);
      if (!denied.ok) return denied;
      for (const [id, known] of fresh) {
        known.denied = denied.output.get(id) ?? 0;
        all.set(id, known);
      }
      return ok(null);
    },
  };
}

/** What lists show of a cost; all of it is in the thread's own view. */
const COSTS = ['turns', 'tokens', 'tool_calls', 'spend', 'duration_seconds', 'estimated'] as const;
function costOf(cost: JsonObject): JsonObject {
  const shown: JsonObject = {};
  for (const name of COSTS) if (cost[name] !== undefined) shown[name] = cost[name];
  return shown;
}

function rowOf(
  thread: ThreadSummary,
  known: RememberedThread,
  waits: readonly Approval[],
  budgets: Budgets,
  place: Pick<ListedRun, 'here' | 'worker' | 'queue'>,
): ListedRun {
  const { id, parent, root, depth, kind, directive, version, runner, detached, title } = thread;
  const { status, seq, attempt, created, updated, ended, cost } = thread;
  const now = nowOf(thread, known, waits);
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
    meters: METERS.flatMap((name) => meterOf(name, thread, known, budgets) ?? []),
    denied: known.denied,
    failed: numberIn(cost, 'failed_calls') ?? 0,
    due: waits.length,
    ...(now === undefined || now === '' ? {} : { now }),
    ...(known.reason === undefined ? {} : { reason: known.reason }),
    ...(known.code === undefined ? {} : { code: known.code }),
    ...place,
  };
}

/** Nobody holds them, and a worker should. */
const QUEUED: ReadonlySet<string> = new Set(['spawning', 'running', 'terminating', 'interrupted']);

/** Where it runs; who holds it is said where workers do. */
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
  const memory = createMemory(store);
  return {
    /** What somebody read anyway; it is not read again. */
    note: memory.note,

    /** `pending`: all approvals that wait now. Threads that are gone meanwhile are left out. */
    async rows(
      threads: readonly ThreadSummary[],
      pending: readonly Approval[],
    ): Promise<Outcome<ListedRun[]>> {
      const waits = Map.groupBy(pending, ({ thread }) => thread ?? '');
      const stateOf = ({ id, seq, status, updated, epoch, owner = '' }: ThreadSummary): string => {
        const asked = (waits.get(id) ?? []).map((one) => one.id).join();
        return `${seq} ${status} ${updated} ${epoch} ${isHere(id)} ${owner} ${asked}`;
      };
      const keys = new Map(threads.map((thread) => [thread.id, stateOf(thread)]));
      const moved = threads.filter(({ id }) => memory.get(id)?.row?.key !== keys.get(id));
      const learned = await memory.learn(moved);
      if (!learned.ok) return learned;
      const read = await store.budgets(moved.map(({ id }) => id));
      if (!read.ok) return read;
      const budgets: Budgets = new Map(read.output.map((budget) => [budget.thread, budget]));
      for (const thread of moved) {
        const { id } = thread;
        const known = memory.get(id);
        if (!known) continue;
        const made = rowOf(thread, known, waits.get(id) ?? [], budgets, placeOf(thread, ports));
        known.row = { key: keys.get(id) ?? '', made };
      }
      return ok(threads.flatMap(({ id }) => memory.get(id)?.row?.made ?? []));
    },
  };
}
