// Reads the rows of threads and inserts new ones with their data, account and first events.
import { type Clock, type Json, type Outcome, ok } from '../../base/index.ts';
import { costAndTitle, type EventText, eventData, type ThreadText } from '../encode.ts';
import type {
  EventFields,
  EventRange,
  LeasedThread,
  NewThread,
  SpentThread,
  StoredEvent,
  ThreadFilter,
  ThreadPage,
  ThreadRow,
  ThreadSummary,
  WantedFields,
} from '../port.ts';
import { threadQuery } from '../thread-filter.ts';
import { noThread } from '../thread-id.ts';
import type { Accounts } from './account.ts';
import type { Feed } from './feed.ts';
import { type Columns, type Connection, present } from './file/connection.ts';
import { EVENTS_A_THREAD } from './file/schema.ts';
import type { LeaseTable } from './leased-thread.ts';
import { keepSecrets } from './records.ts';

/** Connection, clock and caches that all queries of the registry use. */
export interface Registry {
  connection: Connection;
  clock: Clock;
  held: LeaseTable;
  feed: Feed;
  accounts: Accounts;
  /** True if the owner of a lease certainly does not exist. */
  isGone: (owner: string) => boolean;
}

/** Longest lease. A later deadline was set before the clock was set back, so it does not count. */
export const MAX_LEASE_MS = 600_000;
const MAX_READ = 10_000;

const SUMMARY =
  'id, parent, root, depth, kind, directive, version, runner, project, detached, status, seq, ' +
  'epoch, attempt, owner, lease_until, created, updated, ended, cost, tenant, items, title';

type SummaryRow = Columns<Omit<ThreadSummary, 'cost' | 'detached'>> & {
  cost: string;
  detached: number;
};

/** Converts a row. A NULL column becomes an absent field. */
const toSummary = ({ cost, title, detached, ...rest }: SummaryRow): ThreadSummary => ({
  ...present(rest),
  detached: detached === 1,
  ...costAndTitle(cost, title),
});

interface FoundRow extends SummaryRow {
  chain: string;
  limits: string;
  inputs: string;
  result: string | null;
  wakes: number;
  acknowledged: number;
}

const FIND = `SELECT ${SUMMARY}, chain, limits, inputs, result, wakes, acknowledged
  FROM threads JOIN thread_data ON thread = id WHERE id = ?`;

function toRow({ held: leases }: Registry, row: FoundRow): ThreadRow {
  const { chain: text, limits, inputs, result, wakes: _, acknowledged: _1, ...summary } = row;
  const chain: string[] = JSON.parse(text);
  const revoked = leases.revokedIn(chain);
  return {
    ...toSummary(summary),
    chain,
    limits: JSON.parse(limits),
    inputs: JSON.parse(inputs),
    ...(result === null ? {} : { result: JSON.parse(result) }),
    ...(revoked === undefined ? {} : { revoked }),
  };
}

export function findThread(registry: Registry, id: string): Outcome<ThreadRow> {
  const row = registry.connection.get<FoundRow>(FIND, id);
  return row ? ok(toRow(registry, row)) : noThread(id);
}

const SQL_FORM = { mark: '?', idType: '', position: 'instr' } as const;

export function queryThreads(connection: Connection, filter: ThreadFilter): Outcome<ThreadPage> {
  const query = threadQuery(filter, SUMMARY, SQL_FORM);
  if (!query.ok) return query;
  const { find, cut, limit, pageOf } = query.output;
  const rows = connection.all<SummaryRow>(find.sql, ...find.values).map(toSummary);
  if (!cut || rows.length > limit) return ok(pageOf(rows));
  return ok(pageOf(rows, connection.get<SummaryRow>(cut.sql, ...cut.values)));
}

/** Returns a thread with all data to run it. If it has a lease, the lease is cached. */
export function holdThread(registry: Registry, id: string, now: number): Outcome<LeasedThread> {
  const { connection, held: leases, accounts } = registry;
  const row = connection.get<FoundRow>(FIND, id);
  if (!row) return noThread(id);
  const { acknowledged, wakes } = row;
  const threadRow = toRow(registry, row);
  const { epoch, chain, lease_until } = threadRow;
  if (lease_until !== undefined) {
    connection.afterCommit(() => void leases.add(id, { epoch, chain, acknowledged, wakes }));
  }
  const lease_ms = lease_until === undefined ? 0 : lease_until - now;
  const open = accounts.openOf(id);
  return ok({ thread: id, epoch, row: threadRow, acknowledged, lease_ms, open });
}

export function chainOf(connection: Connection, id: string): readonly string[] {
  const sql = 'SELECT chain FROM thread_data WHERE thread = ?';
  const row = connection.get<{ chain: string }>(sql, id);
  return row ? JSON.parse(row.chain) : [];
}

const TAKEN = `SELECT 1 FROM threads WHERE id = ?1
  UNION ALL SELECT 1 FROM pruned_budgets WHERE thread = ?1`;

/** Returns true for a thread, also for a pruned one, because its account stays under its id. */
export const isThread = (connection: Connection, id: string): boolean =>
  connection.get(TAKEN, id) !== undefined;

const INSERT_EVENTS = 'INSERT INTO thread_events (place, ts, turn, type, data) VALUES ';
/** Number of events in one statement, because each call of the database costs as much as a row. */
const MANY = 10;
const SOME_EVENTS = Array.from(
  { length: MANY + 1 },
  (_, count) => INSERT_EVENTS + Array.from({ length: count }, () => '(?, ?, ?, ?, ?)').join(', '),
);

/** Numbers the events of a thread from `after` + 1 on. */
export function insertEvents(
  connection: Connection,
  thread: number,
  after: number,
  list: readonly EventText[],
  now: number,
): void {
  let place = thread * EVENTS_A_THREAD + after;
  for (let at = 0; at < list.length; at += MANY) {
    const part = list.length > MANY ? list.slice(at, at + MANY) : list;
    const values: (number | string)[] = [];
    for (const { ts = now, turn, type, text } of part) values.push(++place, ts, turn, type, text);
    connection.run(SOME_EVENTS[part.length] ?? '', ...values);
  }
}

const EVENTS_BETWEEN = `SELECT place, ts, turn, type, data FROM thread_events
  WHERE place > ? AND place < ?`;
const EVENTS = `${EVENTS_BETWEEN} ORDER BY place`;
/** The column `type` is before `data`, so SQLite does not read the data of other types. */
const EVENTS_OF_TYPES = `${EVENTS_BETWEEN} AND type IN (SELECT value FROM json_each(?)) ORDER BY place`;

type EventRow = Omit<StoredEvent, 'thread' | 'seq' | 'data'> & { place: number; data: string };

/** Returns the events of one thread, oldest first. */
export function readEvents(
  connection: Connection,
  thread: string,
  range: EventRange,
): StoredEvent[] {
  const sql = 'SELECT number FROM threads WHERE id = ?';
  const { number } = connection.get<{ number: number }>(sql, thread) ?? {};
  if (number === undefined) return [];
  const start = number * EVENTS_A_THREAD;
  const end = start + EVENTS_A_THREAD;
  const toEvent = ({ place, data, ...row }: EventRow): StoredEvent => ({
    thread,
    seq: place - start,
    ...row,
    data: eventData(data),
  });
  if ('last' in range) {
    const count = Math.min(range.last, MAX_READ);
    const rows = connection.all<EventRow>(`${EVENTS} DESC LIMIT ?`, start, end, count);
    return rows.map(toEvent).reverse();
  }
  const { after = 0, limit = MAX_READ, types } = range;
  const count = Math.min(limit, MAX_READ);
  if (types) {
    const values = [start + after, end, JSON.stringify(types), count];
    return connection.all<EventRow>(`${EVENTS_OF_TYPES} LIMIT ?`, ...values).map(toEvent);
  }
  return connection.all<EventRow>(`${EVENTS} LIMIT ?`, start + after, end, count).map(toEvent);
}

const START = `t.number * ${EVENTS_A_THREAD}`;

/** Returns SQL for the values at these paths as a JSON list. With one path, `json_extract` makes no list. */
function valuesSql({ length }: readonly unknown[]): string {
  if (length === 0) return "'[]'";
  const list =
    length === 1
      ? "'[' || coalesce(data -> ?, 'null') || ']'"
      : `json_extract(data, ${Array.from({ length }, () => '?').join(', ')})`;
  const none = JSON.stringify(Array.from({ length }, () => null));
  return `CASE WHEN json_valid(data) THEN ${list} ELSE '${none}' END`;
}

/** Returns SQL with one row for each thread, because a row for each event costs more than its values. */
function fieldsSql(wanted: WantedFields): string {
  const kinds = Object.values(wanted);
  const cases = kinds.map((paths, at) => `WHEN ? THEN '[${at},' || ${valuesSql(paths)} || ']'`);
  return `SELECT t.id, (SELECT group_concat(told) FROM (
    SELECT CASE type ${cases.join(' ')} END AS told
    FROM thread_events WHERE place > ${START} AND place < ${START} + ${EVENTS_A_THREAD}
      AND type IN (${kinds.map(() => '?').join(', ')}) ORDER BY place)) AS told
  FROM json_each(?) AS wanted JOIN threads t ON t.id = wanted.value`;
}

const pathText = (path: readonly string[]): string =>
  `$${path.map((name) => `.${JSON.stringify(name)}`).join('')}`;

export function eventFields(
  connection: Connection,
  threads: readonly string[],
  wanted: WantedFields,
): EventFields[][] {
  const types = Object.keys(wanted);
  const cases = types.flatMap((type) => [type, ...(wanted[type] ?? []).map(pathText)]);
  const bound = [...cases, ...types, JSON.stringify(threads)];
  const rows = connection.all<{ id: string; told: string | null }>(fieldsSql(wanted), ...bound);
  const texts = new Map(rows.map(({ id, told }) => [id, told ?? '']));
  return threads.map((id) => {
    const events: [number, Json[]][] = JSON.parse(`[${texts.get(id) ?? ''}]`);
    return events.map(([at, values]) => ({ type: types[at] ?? '', values }));
  });
}

const SPENT = `SELECT id, parent, kind, directive, status, seq, created,
    budget ->> '$.used.tokens' AS tokens, budget ->> '$.used.spend' AS spend
  FROM threads WHERE created >= ? ORDER BY created DESC, id DESC`;

type SpentRow = Columns<Omit<SpentThread, 'used'>> & Record<'tokens' | 'spend', string | null>;

export const spentThreads = (connection: Connection, since: number): SpentThread[] =>
  connection
    .all<SpentRow>(SPENT, since)
    .map(({ id, parent, kind, directive, status, seq, created, tokens, spend }) => ({
      id,
      ...(parent !== null && { parent }),
      kind,
      directive,
      status,
      seq,
      created,
      used: { tokens: BigInt(tokens ?? 0), spend: BigInt(spend ?? 0) },
    }));

export interface Parent {
  id: string;
  root: string;
  depth: number;
  chain: readonly string[];
}

/** Returns the first lease or queue columns of a new thread. */
function startOf(start: NewThread['start'], now: number) {
  if ('lease' in start) {
    const { owner, ttlMs } = start.lease;
    const until = now + Math.min(ttlMs, MAX_LEASE_MS);
    return { status: 'running', epoch: 1, owner, until, queued: null, priority: 0 } as const;
  }
  const { priority = 0, after: queued = now } = start.queue;
  return { status: 'spawning', epoch: 0, owner: null, until: null, queued, priority } as const;
}

const INSERT = `INSERT INTO threads (${SUMMARY}, queued, priority, budget)
  VALUES (${SUMMARY.replace(/\w+/g, '?')}, ?, ?, ?) RETURNING number`;
const INSERT_DATA =
  'INSERT INTO thread_data (thread, chain, limits, inputs, birth) VALUES (?, ?, ?, ?, ?)';
/** A thread without a search text gets no row, so a search does not find it by text. */
const INSERT_SEARCH = 'INSERT INTO search_texts (thread, first) VALUES (?, ?)';
const OF_PARENT = 'SELECT tenant, items FROM threads WHERE id = ?';

/** Inserts a thread with its data, events and secrets. The id must be free. `budget`: its account. */
export function insertThread(
  { connection, feed }: Registry,
  { thread, events: first, limits, inputs, search }: ThreadText,
  { parent, birth, budget }: { parent?: Parent | undefined; birth?: string; budget: string },
  now: number,
): void {
  const { id, kind = 'thread', directive, version, runner, project, detached = false } = thread;
  const { status, epoch, owner, until, queued, priority } = startOf(thread.start, now);
  const depth = parent ? parent.depth + (kind === 'hook' ? 0 : 1) : 0;
  const seq = first.length + 1;
  type Placed = Columns<Pick<NewThread, 'tenant' | 'items'>>;
  const above = parent && connection.get<Placed>(OF_PARENT, parent.id);
  const tenant = (parent ? above?.tenant : thread.tenant) || null;
  const items = thread.items ?? above?.items ?? null;
  // biome-ignore format: one line a group, in the order of the columns
  const inserted = connection.get<{ number: number }>(
    INSERT, id, parent?.id ?? null, parent?.root ?? id, depth, kind, directive, version, runner, project,
    detached ? 1 : 0, status, seq, epoch, 1, owner, until, now, now, null, '{}', tenant, items,
    thread.title ?? null, queued, priority, budget,
  );
  const chain = JSON.stringify([id, ...(parent?.chain ?? [])]);
  connection.run(INSERT_DATA, id, chain, limits, inputs, birth ?? null);
  if (search !== undefined) connection.run(INSERT_SEARCH, id, search);
  const event = { type: 'status', turn: 0, ts: now, text: JSON.stringify({ status }) };
  insertEvents(connection, inserted?.number ?? 0, 0, [event, ...first], now);
  keepSecrets(connection, id, thread.secrets);
  connection.afterCommit(() => feed.moved({ thread: id, seq, status }));
  if (queued !== null) connection.afterCommit(() => feed.queued());
}

const COUNT = `SELECT count(*) AS count FROM thread_events, threads
  WHERE id = ? AND place > number * ${EVENTS_A_THREAD} AND place < (number + 1) * ${EVENTS_A_THREAD}
  AND type = ?`;

/** Counts events without a read of their data. */
export function countEvents(
  connection: Connection,
  threads: readonly string[],
  type: string,
): number {
  let sum = 0;
  for (const thread of threads) {
    sum += connection.get<{ count: number }>(COUNT, thread, type)?.count ?? 0;
  }
  return sum;
}
