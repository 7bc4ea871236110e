// The one way in which whoever holds a thread writes: a plain commit is one call of the server's
// function and its own transaction; what moves other threads, jobs or approvals is made in one that
// holds them all.
import { ok } from '@kernmantle/core/base';
import type { Answer, Commit, Committed, Journal, Signal } from '@kernmantle/core/store';
import {
  type CommitText,
  changesBudgets,
  encodeCommit,
  isEnded,
  LEASE_LOST,
  type ThreadStatus,
} from '@kernmantle/core/store';
import { approvalsOf, askInThread, useInThread } from './approvals.ts';
import type { Sql } from './connection.ts';
import type { ServerRegistry } from './registry.ts';
import { amountsArray, auditRowsOf, birthOf, reserveRows, sealedRows } from './rows.ts';
import {
  countJournal,
  holdThreads,
  journalFields,
  readJournal,
  rememberHeld,
  tellBirths,
} from './threads.ts';

const COMMIT = `SELECT * FROM km_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`;

interface CommitColumns {
  o_seq: number;
  o_lease_ms: number;
  o_signals: Signal[] | null;
  o_revoked: string | null;
  o_reserved: string[] | null;
  o_status: ThreadStatus;
}

/** Is there anything but what its row, its journal and its account say? */
const hasRest = ({ commit, result, limits, search, children, tell }: CommitText): boolean =>
  result !== undefined ||
  limits !== undefined ||
  search !== undefined ||
  children.length > 0 ||
  tell.length > 0 ||
  commit.secrets !== undefined ||
  commit.audit !== undefined;

/** What few commits carry, as JSON; null for most. */
function moreOf(encoded: CommitText, registry: ServerRegistry): string | null {
  const { commit, result, limits, search, children, tell } = encoded;
  const { settle, raise, charge, reserve, secrets, audit, items } = commit;
  const more = {
    result,
    limits,
    search,
    items,
    settle: settle?.map(({ key, actual }) => ({ key, actual: amountsArray(actual) })),
    raise: raise && amountsArray(raise, 'NULL'),
    charge: charge && amountsArray(charge),
    reserve: reserveRows(reserve),
    children: children.length > 0 ? children.map((child) => birthOf(child, registry)) : undefined,
    tell: tell.length > 0 ? tell : undefined,
    secrets: sealedRows(secrets),
    audit: auditRowsOf(audit),
  };
  const text = JSON.stringify(more);
  return text === '{}' ? null : text;
}

function valuesOf(registry: ServerRegistry, thread: string, encoded: CommitText): unknown[] {
  const { held, clock } = registry;
  const { commit, events, cost = null } = encoded;
  const { expect, heard = 0, status = null, attempt = null, release } = commit;
  const known = held.get(thread);
  const told = known?.epoch === expect.epoch ? known.told : heard;
  // How long from now: whoever asks may have another time than the server.
  const wakeIn = typeof release === 'object' ? Math.round(release.wake - clock.now()) : null;
  // biome-ignore format: in the order of the function
  return [
    thread, expect.seq, expect.epoch, expect.quiet === true, heard, told,
    events.map(({ type }) => type), events.map(({ turn }) => turn),
    events.map(({ ts }) => ts ?? null), events.map(({ text }) => text),
    status, cost, attempt, release !== undefined,
    wakeIn, changesBudgets(commit), hasRest(encoded), moreOf(encoded, registry),
  ];
}

/** As it is answered, with the status that it left. */
type CommitAnswer = Committed & { status: ThreadStatus };

const committedOf = (columns: CommitColumns): CommitAnswer => ({
  seq: columns.o_seq,
  signals: columns.o_signals ?? [],
  lease_ms: columns.o_lease_ms,
  reserved: columns.o_reserved ?? [],
  children: [],
  approvals: [],
  status: columns.o_status,
  ...(columns.o_revoked === null ? {} : { revoked: columns.o_revoked }),
});

async function send(sql: Sql, values: readonly unknown[]): Promise<CommitAnswer> {
  const row = await sql.get<CommitColumns>(COMMIT, ...values);
  if (!row) throw new Error('a commit answered nothing');
  return committedOf(row);
}

/** With what others see of it in the same transaction. */
async function sendWhole(
  { jobs, time }: ServerRegistry,
  sql: Sql,
  thread: string,
  commit: Commit,
  values: readonly unknown[],
): Promise<CommitAnswer> {
  const { ask, use, children = [], tell = [], release } = commit;
  const written = await send(sql, values);
  const approvals = ask ? await askInThread(sql, time, thread, ask) : [];
  if (use) await useInThread(sql, time, thread, use);
  const ids = children.map(({ id }) => id);
  const moved = [...ids, ...tell.map((signal) => signal.thread), ...(release ? [thread] : [])];
  if (moved.length > 0) await jobs.follow(sql, [...new Set(moved)]);
  return { ...written, approvals, children: ids.length > 0 ? await holdThreads(sql, ids) : [] };
}

const WHERE = `SELECT seq, epoch, status, coalesce(lease_until - km_now(), 0) AS lease_ms, km_revoked(chain) AS revoked,
  km_signals(id, $2) AS signals FROM threads WHERE id = $1`;
const OPEN = 'SELECT key FROM reservations WHERE thread = ANY ($1) AND key = ANY ($2)';

/** What a commit whose answer was lost would have been answered, if it is there. */
async function findWritten(
  { time }: ServerRegistry,
  sql: Sql,
  thread: string,
  commit: Commit,
  told: number,
): Promise<CommitAnswer | undefined> {
  const { expect, events, ask, children = [], reserve = [], release } = commit;
  const row = await sql.get<{
    seq: number;
    epoch: number;
    status: ThreadStatus;
    lease_ms: number;
    revoked: string | null;
    signals: Signal[] | null;
  }>(WHERE, thread, told);
  if (row?.seq !== expect.seq + events.length || row.epoch !== expect.epoch) return undefined;
  const ids = children.map(({ id }) => id);
  const wishes = [reserve, ...children.map((child) => child.reserve ?? [])].flat();
  const keys = wishes.map(({ key }) => key);
  const open = keys.length > 0 ? await sql.all<{ key: string }>(OPEN, [thread, ...ids], keys) : [];
  const made = new Set(open.map(({ key }) => key));
  return {
    seq: row.seq,
    status: row.status,
    signals: row.signals ?? [],
    lease_ms: release ? 0 : row.lease_ms,
    reserved: keys.filter((key) => made.has(key)),
    children: ids.length > 0 ? await holdThreads(sql, ids) : [],
    approvals: ask ? await approvalsOf(sql, time, thread, ask) : [],
    ...(row.revoked === null ? {} : { revoked: row.revoked }),
  };
}

async function commitThread(
  registry: ServerRegistry,
  thread: string,
  commit: Commit,
): Answer<Committed> {
  const { database, held, clock, feed } = registry;
  const encoded = encodeCommit(commit);
  if (!encoded.ok) return encoded;
  const { expect, ask, use, children, tell, release } = commit;
  const { epoch } = expect;
  const asked = clock.monotonic();
  const isPlain = !ask && !use && !children && !tell && !release;
  const values = valuesOf(registry, thread, encoded.output);
  const answer = await database.write(
    (sql) => (isPlain ? send(sql, values) : sendWhole(registry, sql, thread, commit, values)),
    {
      ...(isPlain ? { plain: true as const } : {}),
      lane: thread,
      written: (sql) => findWritten(registry, sql, thread, commit, Number(values[5])),
      until: held.get(thread)?.until,
    },
  );
  if (!answer.ok) {
    const { code, detail } = answer.error;
    if (LEASE_LOST.includes(code)) held.drop(thread, epoch);
    // What it was told now does not come with the next answer.
    if (code === 'signalled') held.tell(thread, epoch, detail['signals'] as unknown as Signal[]);
    return answer;
  }
  const { status, ...committed } = answer.output;
  const { seq, signals, lease_ms, children: born } = committed;
  const fresh = held.tell(thread, epoch, signals);
  if (release) held.drop(thread, epoch);
  else held.renew(thread, epoch, asked + lease_ms);
  rememberHeld(registry, born, asked);
  tellBirths(registry, born);
  feed.moved({ thread, seq, status });
  if (release && !isEnded(status)) feed.queued();
  return ok({ ...committed, signals: fresh });
}

/** Without `watch` and `changes`, which listen. */
export function serverJournal(
  registry: ServerRegistry,
): Pick<Journal, 'commit' | 'read' | 'countEvents' | 'fieldsOf'> {
  const { database } = registry;
  return {
    commit: (thread, commit) => commitThread(registry, thread, commit),
    read: (thread, range = {}) => database.read((sql) => readJournal(sql, thread, range)),
    countEvents: (threads, type) => database.read((sql) => countJournal(sql, threads, type)),
    fieldsOf: (threads, wanted) => database.read((sql) => journalFields(sql, threads, wanted)),
  };
}
