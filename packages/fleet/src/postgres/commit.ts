// Writes a commit of a leased thread. `decide` makes the decision from a view of the rows. `km_write` writes it
// if the rows are unchanged, else it returns them for the next decision. A plain commit is one call, which is
// its own transaction. A commit that also changes other threads, jobs or approvals is several statements in
// one transaction.
import { ok } from '@kernmantle/core/base';
import type { Answer, Commit, Committed, Journal, Signal } from '@kernmantle/core/store';
import {
  type CommitText,
  changesBudgets,
  decide,
  encodeCommit,
  isEnded,
  LEASE_LOST,
  secretExists,
  writeAccount,
} from '@kernmantle/core/store';
import { approvalsOf, askInThread, useInThread } from './approvals.ts';
import type { Sql, SqlWriting } from './connection.ts';
import { RefusedWrite, SERIALIZATION_FAILURE } from './errors.ts';
import type { CachedRow, VersionedAccount } from './leased-thread.ts';
import type { ServerRegistry } from './registry.ts';
import { auditRowsOf, childRow, sealedRows } from './rows.ts';
import { type SignalColumns, signalOf, signalsAfter } from './signals.ts';
import {
  cacheLeases,
  claimChildren,
  countJournal,
  journalFields,
  notifyChildren,
  readJournal,
} from './threads.ts';
import {
  cachedView,
  explainRefusal,
  freshView,
  readView,
  type ServerView,
  type ViewColumns,
} from './view.ts';

const WRITE = `SELECT * FROM km_write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`;

interface WriteColumns {
  o_view: ViewColumns | null;
  o_lease_ms: number;
  /** Number of signals. Null: the commit was not written. */
  o_wakes: number | null;
  o_signals: SignalColumns[] | null;
  o_revoked: string | null;
}

type Write = Extract<ReturnType<typeof decide>, { kind: 'write' }>;

/** Returns the parts that few commits have, as JSON. Null: the commit has none of them. */
function moreOf(
  { commit, result, limits, search, children, tell }: CommitText,
  decision: Write | undefined,
  registry: ServerRegistry,
): string | null {
  const changed = decision?.accounts.map((account) => [account.thread, writeAccount(account)]);
  const more = {
    result,
    limits,
    search,
    items: commit.items,
    accounts: changed && changed.length > 0 ? Object.fromEntries(changed) : undefined,
    children:
      children.length > 0
        ? children.map((child, at) => childRow(child, decision?.children[at], registry))
        : undefined,
    tell: tell.length > 0 ? tell : undefined,
    secrets: sealedRows(commit.secrets),
    audit: auditRowsOf(commit.audit),
  };
  const text = JSON.stringify(more);
  return text === '{}' ? null : text;
}

/** Returns the parameters of `km_write`. `now`: the time of the decision. */
function valuesOf(
  registry: ServerRegistry,
  thread: string,
  encoded: CommitText,
  { fence, chain, accounts }: ServerView,
  decision: Write,
  now: number,
): unknown[] {
  const { commit, events, cost = null } = encoded;
  const { expect, acknowledged, status = null, attempt = null } = commit;
  const { row } = decision;
  // The decision depends on the number of signals only in these cases.
  const wakes = expect.quiet || row.release || acknowledged !== undefined ? fence.wakes : null;
  const queued = row.release?.queued ?? null;
  const isBudget = changesBudgets(commit);
  // biome-ignore format: in the order of the function
  return [
    thread, expect.seq, expect.epoch, wakes,
    isBudget ? chain.toReversed() : null,
    isBudget ? accounts.map(({ version }) => version).reverse() : null,
    events.map(({ type }) => type), events.map(({ turn }) => turn),
    events.map(({ ts }) => ts ?? null), events.map(({ text }) => text),
    deliveredOf(registry, thread, commit), row.acknowledged, status, cost, attempt, row.release !== undefined,
    // The time is relative to now, because the clock of the server can differ.
    queued === null ? null : Math.round(queued - now),
    moreOf(encoded, decision, registry),
  ];
}

/** Returns the number of the last signal that was delivered to this process. */
function deliveredOf({ held }: ServerRegistry, thread: string, commit: Commit): number {
  const lease = held.get(thread);
  return lease?.epoch === commit.expect.epoch ? lease.delivered : (commit.acknowledged ?? 0);
}

/** Answer of a commit, with the rows that it wrote. */
interface CommitAnswer {
  readonly committed: Committed;
  readonly row: CachedRow;
  readonly accounts: readonly VersionedAccount[];
}

const MAX_CONFLICTS = 3;

/** Decides and writes, again after a conflict. Throws a refusal. Undefined: too many conflicts. */
async function decideAndWrite(
  registry: ServerRegistry,
  sql: Sql,
  thread: string,
  encoded: CommitText,
): Promise<CommitAnswer | undefined> {
  const { clock } = registry;
  const { commit } = encoded;
  const read = (now: number): Promise<ServerView> =>
    readView(sql, thread, moreOf(encoded, undefined, registry), now);
  let view = cachedView(registry, thread, commit, changesBudgets(commit));
  for (let conflicts = 0; conflicts < MAX_CONFLICTS; ) {
    const now = clock.now();
    view ??= await read(now);
    const accounts = view.accounts.map(({ account }) => account);
    const decision = decide(
      { thread, fence: view.fence, accounts, takenId: view.taken },
      commit,
      now,
    );
    if (decision.kind === 'refuse') {
      if (!view.isFresh) {
        view = undefined;
        continue;
      }
      throw new RefusedWrite(
        decision.needs === 'signals'
          ? decision.explain(await signalsAfter(sql, thread, decision.after))
          : await explainRefusal(sql, decision),
      );
    }
    if (view.secret !== undefined) throw new RefusedWrite(secretExists(thread, view.secret));
    const values = valuesOf(registry, thread, encoded, view, decision, now);
    const row = await sql.get<WriteColumns>(WRITE, ...values);
    if (!row) throw new Error('a commit returned no row');
    if (row.o_wakes !== null) return toAnswer(row, row.o_wakes, view, decision);
    conflicts += 1;
    view = freshView(thread, row.o_view, clock.now());
  }
  return undefined;
}

function toAnswer(
  { o_lease_ms, o_signals, o_revoked }: WriteColumns,
  wakes: number,
  { chain, accounts }: ServerView,
  { row, reserved, accounts: written }: Write,
): CommitAnswer {
  const versions = new Map(accounts.map(({ account, version }) => [account.thread, version]));
  const changed = written.map((account) => ({
    account,
    version: (versions.get(account.thread) ?? 0) + 1,
  }));
  return {
    committed: {
      seq: row.seq,
      signals: (o_signals ?? []).map(signalOf),
      lease_ms: o_lease_ms,
      reserved,
      children: [],
      approvals: [],
      ...(o_revoked === null ? {} : { revoked: o_revoked }),
    },
    row: { chain, seq: row.seq, status: row.status, wakes, acknowledged: row.acknowledged },
    accounts: [...accounts, ...changed],
  };
}

/** Writes a commit and its effects on other threads, jobs and approvals in one transaction. */
async function writeWhole(
  registry: ServerRegistry,
  sql: Sql,
  thread: string,
  encoded: CommitText,
): Promise<CommitAnswer | undefined> {
  const { jobs, time } = registry;
  const { ask, use, children = [], tell = [], release } = encoded.commit;
  const written = await decideAndWrite(registry, sql, thread, encoded);
  if (!written) return undefined;
  const approvals = ask ? await askInThread(sql, time, thread, ask) : [];
  if (use) await useInThread(sql, time, thread, use);
  const ids = children.map(({ id }) => id);
  const moved = [...ids, ...tell.map((signal) => signal.thread), ...(release ? [thread] : [])];
  if (moved.length > 0) await jobs.follow(sql, [...new Set(moved)]);
  const leases = await claimChildren(sql, ids);
  const { committed, row, accounts } = written;
  return {
    committed: { ...committed, approvals, children: leases.all },
    row,
    accounts: [...accounts, ...leases.accounts],
  };
}

const WRITTEN = `SELECT seq, epoch, status, wakes, acknowledged, chain, coalesce(lease_until - km_now(), 0) AS lease_ms,
  km_revoked(chain) AS revoked, km_signals(id, $2) AS signals FROM threads WHERE id = $1`;
const OPEN = `SELECT r ->> 'key' AS key FROM budgets, jsonb_array_elements(account -> 'open') r
  WHERE thread = ANY ($1) AND r ->> 'key' = ANY ($2)`;

interface WrittenColumns extends CachedRow {
  epoch: number;
  lease_ms: number;
  revoked: string | null;
  signals: SignalColumns[] | null;
}

/** Returns the lost answer of a commit. Undefined: the commit was not written. */
async function findWritten(
  registry: ServerRegistry,
  sql: Sql,
  thread: string,
  commit: Commit,
): Promise<CommitAnswer | undefined> {
  const { expect, events, ask, children = [], reserve = [], release } = commit;
  const delivered = deliveredOf(registry, thread, commit);
  const row = await sql.get<WrittenColumns>(WRITTEN, thread, delivered);
  if (row?.seq !== expect.seq + events.length || row.epoch !== expect.epoch) return undefined;
  const { seq, lease_ms, revoked, signals, chain, status, wakes, acknowledged } = row;
  const ids = children.map(({ id }) => id);
  const reserves = [reserve, ...children.map((child) => child.reserve ?? [])].flat();
  const keys = reserves.map(({ key }) => key);
  const open = keys.length > 0 ? await sql.all<{ key: string }>(OPEN, [thread, ...ids], keys) : [];
  const openKeys = new Set(open.map(({ key }) => key));
  const leases = await claimChildren(sql, ids);
  return {
    committed: {
      seq,
      signals: (signals ?? []).map(signalOf),
      lease_ms: release ? 0 : lease_ms,
      reserved: keys.filter((key) => openKeys.has(key)),
      children: leases.all,
      approvals: ask ? await approvalsOf(sql, registry.time, thread, ask) : [],
      ...(revoked === null ? {} : { revoked }),
    },
    row: { chain, seq, status, wakes, acknowledged },
    accounts: leases.accounts,
  };
}

async function commitThread(
  registry: ServerRegistry,
  thread: string,
  commit: Commit,
): Answer<Committed> {
  const { database, held: leases, accounts, clock, feed } = registry;
  const encoded = encodeCommit(commit);
  if (!encoded.ok) return encoded;
  const { expect, ask, use, children, tell, release } = commit;
  const { epoch } = expect;
  const start = clock.monotonic();
  const lease = leases.get(thread);
  const how: SqlWriting<CommitAnswer> = {
    plain: !ask && !use && !children && !tell && !release,
    lane: thread,
    // Commits of one tree change the same accounts, so this process makes them one after the other.
    tree: changesBudgets(commit) ? lease?.row?.chain.at(-1) : undefined,
    written: (sql) => findWritten(registry, sql, thread, commit),
    until: lease?.until,
    // Only committed rows are cached, so equal versions always have equal content.
    done(answer) {
      accounts.add(answer.accounts);
      leases.setRow(thread, epoch, answer.row);
    },
  };
  const answer = await database.write(async (sql) => {
    const tryWrite = how.plain ? decideAndWrite : writeWhole;
    const written = await tryWrite(registry, sql, thread, encoded.output);
    if (written) return written;
    // INVARIANT: the next try always ends. In a transaction, each conflict locks the rows that it returns.
    how.plain = false;
    throw Object.assign(new Error('the accounts changed'), { code: SERIALIZATION_FAILURE });
  }, how);
  if (!answer.ok) {
    const { code, detail } = answer.error;
    // After these refusals the row is as it was, because the fence has passed.
    const isUnchanged = code === 'signalled' || code.endsWith('_exceeded');
    if (!isUnchanged) leases.setRow(thread, epoch, undefined);
    if (LEASE_LOST.includes(code)) leases.drop(thread, epoch);
    // The refusal delivers these signals, so the next answer does not.
    if (code === 'signalled') leases.tell(thread, epoch, detail['signals'] as unknown as Signal[]);
    return answer;
  }
  const { committed, row } = answer.output;
  const { seq, signals, lease_ms, children: threads } = committed;
  const fresh = leases.tell(thread, epoch, signals);
  if (release) leases.drop(thread, epoch);
  else leases.renew(thread, epoch, start + lease_ms);
  cacheLeases(registry, { all: threads, accounts: [] }, start);
  notifyChildren(registry, threads);
  feed.moved({ thread, seq, status: row.status });
  if (release && !isEnded(row.status)) feed.queued();
  return ok({ ...committed, signals: fresh });
}

/** Returns the port without `watch` and `changes`, which need the feed. */
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
