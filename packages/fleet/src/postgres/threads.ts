// Creates and reads the rows of threads, and reads their journals.
import { ok } from '@kernmantle/core/base';
import type {
  Answer,
  EventFields,
  EventRange,
  LeasedThread,
  SpentThread,
  StoredEvent,
  ThreadRow,
  ThreadTable,
  WantedFields,
} from '@kernmantle/core/store';
import {
  decideBudgets,
  encodeThread,
  eventData,
  noThread,
  openReservations,
  threadQuery,
  valuesAt,
} from '@kernmantle/core/store';
import type { Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';
import type { VersionedAccount } from './leased-thread.ts';
import { pruneTrees } from './prune.ts';
import { writeArtifact } from './records.ts';
import type { ServerRegistry } from './registry.ts';
import {
  childRow,
  presentOnly,
  type ServerColumns,
  SUMMARY_COLUMNS,
  type SummaryColumns,
  summaryOf,
} from './rows.ts';
import { type AccountColumns, accountOf, explainRefusal } from './view.ts';

const MAX_READ = 10_000;

interface FoundColumns extends SummaryColumns {
  chain: string[];
  limits: string;
  inputs: string;
  result: string | null;
  revoked: string | null;
}

interface LeaseColumns extends FoundColumns {
  acknowledged: number;
  now: number;
  /** Accounts of all rows. Null: the first row has them. */
  accounts: AccountColumns[] | null;
}

/** Equals `km_revoked`, without a call for every row. */
const REVOKED = `(SELECT u.id FROM unnest(t.chain) WITH ORDINALITY u(id, at) JOIN threads a ON a.id = u.id
  WHERE a.killed OR km_revokes(a.status) ORDER BY u.at LIMIT 1) AS revoked`;
const FOUND = `${SUMMARY_COLUMNS}, chain, limits, inputs, result, ${REVOKED}`;
const FROM = 'FROM threads t JOIN thread_data d ON d.thread = t.id';
const FIND = `SELECT ${FOUND} ${FROM} WHERE id = $1`;
/** The first row has the accounts of all chains, so that siblings do not repeat those of their ancestors. */
const HOLD = `WITH found AS (SELECT ${FOUND}, acknowledged ${FROM} WHERE id = ANY ($1))
  SELECT *, km_now() AS now, CASE row_number() OVER () WHEN 1 THEN
    (SELECT json_agg(json_build_object('thread', thread, 'version', version, 'account', account::text))
      FROM budgets WHERE thread IN (SELECT unnest(chain) FROM found)) END AS accounts FROM found`;

function rowOf(columns: FoundColumns): ThreadRow {
  const { chain, limits, inputs, result, revoked, ...summary } = columns;
  return {
    ...summaryOf(summary),
    chain,
    limits: JSON.parse(limits),
    inputs: JSON.parse(inputs),
    ...(result === null ? {} : { result: JSON.parse(result) }),
    ...(revoked === null ? {} : { revoked }),
  };
}

/** Threads with the accounts of their chains, so that their first commit needs no view. */
interface LeasedRows {
  readonly all: readonly LeasedThread[];
  readonly accounts: readonly VersionedAccount[];
}

/** Reads the data to run each thread, in the order of `ids`. A missing thread is skipped. */
export async function claimChildren(sql: Sql, ids: readonly string[]): Promise<LeasedRows> {
  if (ids.length === 0) return { all: [], accounts: [] };
  const rows = await sql.all<LeaseColumns>(HOLD, ids);
  const accounts = new Map<string, VersionedAccount>();
  for (const columns of rows.flatMap((row) => row.accounts ?? [])) {
    accounts.set(columns.thread, accountOf(columns));
  }
  const threads = new Map<string, LeasedThread>();
  for (const { acknowledged, now, accounts: _, ...columns } of rows) {
    const row = rowOf(columns);
    const { id: thread, epoch, lease_until = now } = row;
    const entry = accounts.get(thread);
    if (!entry) throw new Error(`thread ${thread} has no account`);
    const open = openReservations(entry.account);
    threads.set(thread, { thread, epoch, row, acknowledged, lease_ms: lease_until - now, open });
  }
  return { all: ids.flatMap((id) => threads.get(id) ?? []), accounts: [...accounts.values()] };
}

/**
 * Caches the leases and the accounts. The caller has committed the transaction that read them. `sentAt`: time at
 * which the request was sent, on the monotonic clock.
 */
export function cacheLeases(
  { held: leases, accounts }: ServerRegistry,
  threads: LeasedRows,
  sentAt: number,
): void {
  accounts.add(threads.accounts);
  for (const { thread, epoch, row, acknowledged, lease_ms } of threads.all) {
    if (lease_ms <= 0) continue;
    // The number of signals can be higher on the server. `km_write` then returns it.
    const { chain, seq, status } = row;
    leases.add(thread, {
      epoch,
      until: sentAt + lease_ms,
      row: { chain, seq, status, acknowledged, wakes: acknowledged },
    });
  }
}

/** Announces new threads to waiting callers, after the threads are written. */
export function notifyChildren({ feed }: ServerRegistry, all: readonly LeasedThread[]): void {
  for (const { thread, row, lease_ms } of all) {
    feed.moved({ thread, seq: row.seq, status: row.status });
    if (lease_ms === 0) feed.queued();
  }
}

type NewRoot = Parameters<ThreadTable['createThread']>;

const CREATE = 'SELECT km_create($1, $2) AS made';
const TAKEN = 'SELECT 1 FROM budgets WHERE thread = $1';
const INITIAL_STATUS = 'SELECT 1 FROM thread_data WHERE thread = $1 AND birth = $2';

/** Encodes a new root. `insert` inserts it in a transaction, and throws refusals. */
export function prepareThread(registry: ServerRegistry, ...[thread, artifacts]: NewRoot) {
  const text = encodeThread(thread);
  if (!text.ok) return text;
  const birth = Buffer.from(registry.random(8)).toString('hex');
  const { id } = thread;
  return ok({
    written: async (sql: Sql) =>
      (await sql.get(INITIAL_STATUS, id, birth)) ? claimChildren(sql, [id]) : undefined,
    async insert(sql: Sql): Promise<LeasedRows> {
      const decide = (takenId?: string) => decideBudgets([], { children: [thread] }, takenId);
      let decision = decide();
      if (decision.kind === 'write') {
        const json = JSON.stringify(childRow(text.output, decision.children[0], registry));
        const result = await sql.get<{ made: boolean }>(CREATE, json, birth);
        if (!result?.made) decision = decide(id);
      } else if (await sql.get(TAKEN, id)) decision = decide(id);
      if (decision.kind === 'refuse') throw new RefusedWrite(await explainRefusal(sql, decision));
      if ('queue' in thread.start) await registry.jobs.follow(sql, [id]);
      for (const bytes of artifacts?.values() ?? []) await writeArtifact(sql, id, bytes);
      return claimChildren(sql, [id]);
    },
  });
}

async function createThread(registry: ServerRegistry, ...root: NewRoot): Answer<LeasedThread> {
  const [{ id }] = root;
  const prepared = prepareThread(registry, ...root);
  if (!prepared.ok) return prepared;
  const { insert, written } = prepared.output;
  const sentAt = registry.clock.monotonic();
  const result = await registry.database.write(insert, { lane: id, written });
  if (!result.ok) return result;
  cacheLeases(registry, result.output, sentAt);
  const { all } = result.output;
  notifyChildren(registry, all);
  const [lease] = all;
  return lease ? ok(lease) : noThread(id);
}

type EventColumns = Omit<StoredEvent, 'data' | 'thread'> & { data: string };

const EVENTS = `SELECT seq, ts, turn, type, data FROM thread_events
  WHERE thread = (SELECT number FROM threads WHERE id = $1)`;
const AFTER = `${EVENTS} AND seq > $2 ORDER BY seq LIMIT $3`;
const AFTER_OF = `${EVENTS} AND seq > $2 AND type = ANY ($4) ORDER BY seq LIMIT $3`;
const LAST = `SELECT * FROM (${EVENTS} ORDER BY seq DESC LIMIT $2) e ORDER BY seq`;
const COUNT = `SELECT count(*) AS count FROM thread_events e JOIN threads t ON t.number = e.thread
  WHERE t.id = ANY ($1) AND e.type = $2`;

/** Returns the events of a range, oldest first. */
export async function readJournal(
  sql: Sql,
  thread: string,
  range: EventRange,
): Promise<StoredEvent[]> {
  let rows: EventColumns[];
  if ('last' in range) {
    rows = await sql.all(LAST, thread, Math.min(range.last, MAX_READ));
  } else {
    const { after = 0, limit = MAX_READ, types } = range;
    const count = Math.min(limit, MAX_READ);
    rows = types
      ? await sql.all(AFTER_OF, thread, after, count, types)
      : await sql.all(AFTER, thread, after, count);
  }
  return rows.map(({ data, ...row }) => ({ thread, ...row, data: eventData(data) }));
}

/** Maximum number of events that one query reads. */
const MAX_FIELDS = 1000;
const FIELDS = `SELECT t.id, e.thread, e.seq, e.type, e.data
  FROM threads t JOIN thread_events e ON e.thread = t.number
  WHERE t.id = ANY ($1) AND e.type = ANY ($2) AND (e.thread, e.seq) > ($3::bigint, $4::int)
  ORDER BY e.thread, e.seq LIMIT ${MAX_FIELDS}`;

/** Reads fields here and not on the server, whose JSON types refuse some texts of a journal. */
export async function journalFields(
  sql: Sql,
  threads: readonly string[],
  wanted: WantedFields,
): Promise<EventFields[][]> {
  const types = Object.keys(wanted);
  const fields = new Map<string, EventFields[]>();
  for (let [thread, seq] = [-1, 0]; ; ) {
    type Row = Pick<StoredEvent, 'type' | 'seq'> & { id: string; thread: number; data: string };
    const rows = await sql.all<Row>(FIELDS, threads, types, thread, seq);
    for (const { id, type, data: text } of rows) {
      const events = fields.get(id) ?? [];
      fields.set(id, events);
      events.push({ type, values: valuesAt(eventData(text), wanted[type] ?? []) });
    }
    const last = rows.at(-1);
    if (!last || rows.length < MAX_FIELDS) return threads.map((id) => fields.get(id) ?? []);
    ({ thread, seq } = last);
  }
}

const SPENT = `SELECT t.id, t.parent, t.kind, t.directive, t.status, t.seq, t.created,
    b.account #>> '{used,tokens}' AS tokens, b.account #>> '{used,spend}' AS spend
  FROM threads t JOIN budgets b ON b.thread = t.id WHERE t.created >= $1
  ORDER BY t.created DESC, t.id DESC`;

type SpentColumns = ServerColumns<Omit<SpentThread, 'used'>> &
  Record<'tokens' | 'spend', string | null>;

async function spentThreads(sql: Sql, since: number): Promise<SpentThread[]> {
  const rows = await sql.all<SpentColumns>(SPENT, Math.ceil(since));
  return rows.map(({ tokens, spend, ...row }) => ({
    ...presentOnly(row),
    used: { tokens: BigInt(tokens ?? 0), spend: BigInt(spend ?? 0) },
  }));
}

export async function countJournal(
  sql: Sql,
  threads: readonly string[],
  type: string,
): Promise<number> {
  return (await sql.get<{ count: number }>(COUNT, threads, type))?.count ?? 0;
}

const SQL_FORM = { mark: '$', idType: '::text COLLATE "C"', position: 'strpos' } as const;

export function serverThreads(registry: ServerRegistry): ThreadTable {
  const { database } = registry;
  return {
    createThread: (...root) => createThread(registry, ...root),
    async thread(id) {
      const result = await database.read((sql) => sql.get<FoundColumns>(FIND, id));
      if (!result.ok) return result;
      return result.output ? ok(rowOf(result.output)) : noThread(id);
    },
    async query(filter = {}) {
      const query = threadQuery(filter, SUMMARY_COLUMNS, SQL_FORM);
      if (!query.ok) return query;
      const { find, cut, limit, pageOf } = query.output;
      return database.read(async (sql) => {
        const rows = await sql.all<SummaryColumns>(find.sql, ...find.values);
        const matches = rows.map(summaryOf);
        if (!cut || matches.length > limit) return pageOf(matches);
        return pageOf(matches, await sql.get<SummaryColumns>(cut.sql, ...cut.values));
      });
    },
    spent: (since) => database.read((sql) => spentThreads(sql, since)),
    prune: (options) => pruneTrees(database, options),
  };
}
