// Implements `commit`. It checks the fence, then every other reason for a refusal, and writes only after
// all checks have passed. INVARIANT: a refusal always comes before the first write, so the other commits
// of a group are never undone for it. INVARIANT: the transaction that changes the row always checks
// sequence, epoch and lease, so a process that has lost its lease writes nothing. The row of the last
// commit is used again if no process has written since.
import type { SQLInputValue } from 'node:sqlite';
import { fail, type Outcome, ok } from '../../base/index.ts';
import { writeAccount } from '../account.ts';
import { type Account, changesBudgets, decide, LEASE_LOST, type RowChange } from '../decide.ts';
import type { CommitText, ThreadText } from '../encode.ts';
import type { Approval, AuditEntry, Commit, Committed, LeasedThread } from '../port.ts';
import { isEnded, noThread, REVOKING } from '../thread-id.ts';
import {
  approvalExists,
  askApproval,
  askedForOther,
  isApproval,
  planUses,
  type UsePlan,
  writeUses,
} from './approvals.ts';
import type { Connection } from './file/connection.ts';
import { EVENTS_A_THREAD } from './file/schema.ts';
import type { FenceRow } from './leased-thread.ts';
import { AUDIT, checkSecrets, keepSecrets } from './records.ts';
import { sendSignal, signalsAfter, undelivered } from './signals.ts';
import {
  chainOf,
  holdThread,
  insertEvents,
  insertThread,
  isThread,
  type Parent,
  type Registry,
} from './threads.ts';

const ROW = `SELECT number, root, depth, seq, epoch, status, lease_until, wakes, acknowledged
  FROM threads WHERE id = ?`;

// Most commits change only these columns. They have no index.
const ALWAYS = `UPDATE threads SET seq = ?, updated = ?, cost = coalesce(?, cost),
  attempt = coalesce(?, attempt), budget = coalesce(?, budget)`;

/** Writes the row, with the account if that changes. Returns the row as it is now. */
function writeFenced(
  connection: Connection,
  row: FenceRow,
  { commit, cost }: CommitText,
  { seq, status, acknowledged, release }: RowChange,
  budget: string | undefined,
  now: number,
): FenceRow {
  let sql = ALWAYS;
  const values: SQLInputValue[] = [seq, now, cost ?? null, commit.attempt ?? null, budget ?? null];
  if (commit.status !== undefined) {
    sql += ', status = ?, ended = ?';
    values.push(status, isEnded(status) ? now : null);
  }
  if (commit.items !== undefined) {
    sql += ', items = ?';
    values.push(commit.items);
  }
  if (acknowledged !== row.acknowledged) {
    sql += ', acknowledged = ?';
    values.push(acknowledged);
  }
  if (release) {
    sql += ', owner = NULL, lease_until = NULL, queued = ?';
    values.push(release.queued);
  }
  connection.run(`${sql} WHERE number = ?`, ...values, row.number);
  return { ...row, seq, status, acknowledged, lease_until: release ? null : row.lease_until };
}

const NO_USES = ok([]);
const NO_ACCOUNTS: readonly Account[] = [];

/** Checks secrets, approval requests and uses of approvals, in the order of the port. Writes nothing. */
function checkRest(
  connection: Connection,
  commit: Commit,
  chain: readonly string[],
  now: number,
): Outcome<readonly UsePlan[]> {
  if (!commit.ask && !commit.use && !commit.secrets) return NO_USES;
  const { ask = [], use, secrets } = commit;
  const secretCheck = secrets ? checkSecrets(connection, chain[0] ?? '', secrets) : NO_USES;
  if (!secretCheck.ok) return secretCheck;
  const ids = ask.map(({ id }) => id);
  const taken = ids.find((id, at) => ids.indexOf(id) !== at || isApproval(connection, id));
  if (taken !== undefined) return approvalExists(taken);
  const other = ask.find((one) => one.thread !== undefined && !chain.includes(one.thread));
  if (other) return askedForOther(other);
  return use ? planUses(connection, use, chain, now) : NO_USES;
}

function insertChildren(
  registry: Registry,
  children: readonly ThreadText[],
  accounts: readonly Account[],
  parent: Parent,
  now: number,
): LeasedThread[] {
  return accounts.flatMap((account, at) => {
    const child = children[at];
    if (!child) return [];
    insertThread(registry, child, { parent, budget: writeAccount(account) }, now);
    registry.accounts.add(account);
    const lease = holdThread(registry, account.thread, now);
    // This transaction has inserted the thread, so a failure is a bug.
    if (!lease.ok) throw new Error(lease.error.detail.message);
    return [lease.output];
  });
}

const INSERT_AUDIT = `INSERT INTO audit (${AUDIT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
const MAX_TEXT = 500;
const short = (text: string): string =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;

export function writeAudit(connection: Connection, rows: readonly AuditEntry[], now: number): void {
  const time = new Date(now).toISOString();
  for (const { surface, caller, subject, operation, target, decision, reason } of rows) {
    // biome-ignore format: in the order of the statement
    connection.run(
      INSERT_AUDIT, time, surface, caller, subject, short(operation), short(target), decision,
      short(reason),
    );
  }
}

const SET_SEARCH = `INSERT INTO search_texts (thread, first, last) VALUES (?, '', ?)
  ON CONFLICT (thread) DO UPDATE SET last = excluded.last`;

function writeRest(
  registry: Registry,
  thread: string,
  { commit, tell, result, limits, search }: CommitText,
  uses: readonly UsePlan[],
  now: number,
): Approval[] {
  const { connection } = registry;
  if (result !== undefined) {
    connection.run('UPDATE thread_data SET result = ? WHERE thread = ?', result, thread);
  }
  if (limits !== undefined) {
    connection.run('UPDATE thread_data SET limits = ? WHERE thread = ?', limits, thread);
  }
  if (search !== undefined) connection.run(SET_SEARCH, thread, search);
  // A thread that has ended or was removed gets no signal.
  for (const signal of tell) sendSignal(registry, signal, now);
  if (tell.length > 0) registry.held.forgetRows();
  const approvals = (commit.ask ?? []).map((request) =>
    askApproval(connection, request, request.thread ?? thread, now),
  );
  if (uses.length > 0) writeUses(connection, uses, thread);
  if (commit.secrets) keepSecrets(connection, thread, commit.secrets);
  if (commit.audit) writeAudit(connection, commit.audit, now);
  return approvals;
}

export function runCommit(
  registry: Registry,
  thread: string,
  encoded: CommitText,
  now: number,
): Outcome<Committed> {
  const { connection, held: leases, feed, accounts } = registry;
  const { commit, events, children: childTexts } = encoded;
  const { expect, release } = commit;
  const before = leases.get(thread);
  const fence = leases.rowOf(before) ?? connection.get<FenceRow>(ROW, thread);
  if (!fence) return noThread(thread);
  // A cached lease with another epoch is outdated, so its chain is read again.
  const same = before?.epoch === fence.epoch ? before : undefined;
  const chain = same?.chain ?? chainOf(connection, thread);
  const view = {
    thread,
    fence,
    accounts: changesBudgets(commit) ? chain.map(accounts.get) : NO_ACCOUNTS,
    takenId: commit.children?.find(({ id }) => isThread(connection, id))?.id,
  };
  const decision = decide(view, commit, now);
  if (decision.kind === 'refuse' && decision.needs !== 'signals') {
    const failure = accounts.explain(decision, now);
    if (LEASE_LOST.includes(failure.error.code)) {
      connection.afterCommit(() => leases.drop(thread, expect.epoch));
    }
    return failure;
  }
  const lease = same ?? leases.add(thread, { ...fence, chain });
  if (decision.kind === 'refuse') {
    const signals = signalsAfter(connection, thread, decision.after);
    leases.markDelivered(lease, signals.at(-1)?.number ?? 0);
    return decision.explain(signals);
  }
  const { seq, status } = decision.row;
  if (seq >= EVENTS_A_THREAD) {
    const message = `thread \`${thread}\` has reached the maximum number of events`;
    return fail('invalid_input', message, { thread, seq: fence.seq, epoch: fence.epoch });
  }
  const uses = checkRest(connection, commit, chain, now);
  if (!uses.ok) return uses;
  const own = decision.accounts.find((account) => account.thread === thread);
  const budget = own && writeAccount(own);
  leases.keepRow(lease, writeFenced(connection, fence, encoded, decision.row, budget, now));
  insertEvents(connection, fence.number, fence.seq, events, now);
  accounts.change(thread, decision.accounts);
  const parent = { id: thread, root: fence.root, depth: fence.depth, chain };
  const children = insertChildren(registry, childTexts, decision.children, parent, now);
  const approvals = writeRest(registry, thread, encoded, uses.output, now);
  if (commit.status !== undefined && REVOKING.includes(status)) leases.forgetWords();
  connection.afterCommit(() => {
    if (release) leases.drop(thread, expect.epoch);
    if (release && !isEnded(status)) feed.queued();
    feed.moved({ thread, seq, status });
  });
  const revoked = leases.revokedIn(chain, lease);
  return ok({
    seq,
    signals: undelivered(registry, thread, lease, fence.wakes),
    lease_ms: release || fence.lease_until === null ? 0 : fence.lease_until - now,
    reserved: decision.reserved,
    children,
    approvals,
    ...(revoked === undefined ? {} : { revoked }),
  });
}
