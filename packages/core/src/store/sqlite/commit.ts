// The one way in which whoever holds a thread writes. First everything that may be refused is worked
// out without writing, the fence before the rest; then the parts are written. INVARIANT: a refusal
// comes before the first write, so the others of a group never have to be undone for it. INVARIANT:
// sequence, epoch and lease are looked at inside the transaction that changes the row, so a process
// that was frozen past its lease, or lost the thread to another, writes nothing. The row as the last
// commit left it counts as looked at when nobody, of this process or another, wrote since.
import type { SQLInputValue } from 'node:sqlite';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import {
  type Account,
  type ChainView,
  changesBudgets,
  decide,
  explainRefusal,
  LEASE_LOST,
  type Refusal,
  type RowChange,
} from '../decide.ts';
import type { CommitText, ThreadText } from '../encode.ts';
import type { Approval, AuditEntry, Commit, Committed, Held } from '../port.ts';
import { isEnded, noThread } from '../thread-id.ts';
import { writeAccount } from './account.ts';
import {
  approvalExists,
  askApproval,
  askedForOther,
  isApproval,
  planUses,
  type UsePlan,
  writeUses,
} from './approvals.ts';
import { explainBudget } from './budget.ts';
import type { Connection } from './file/connection.ts';
import { EVENTS_A_THREAD } from './file/schema.ts';
import { type FenceRow, type HeldThread, REVOKING } from './leased-thread.ts';
import { AUDIT, checkSecrets, keepSecrets } from './records.ts';
import { sendSignal, signalsAfter, untoldSignals } from './signals.ts';
import {
  chainOf,
  holdThread,
  insertEvents,
  insertThread,
  isThread,
  type Parent,
  type Registry,
} from './threads.ts';

const ROW = `SELECT number, root, depth, seq, epoch, status, lease_until, wakes, heard
  FROM threads WHERE id = ?`;

/** The thread as this process knows it; one that it learned about elsewhere is looked up. */
function heldOf({ held, connection }: Registry, thread: string, row: FenceRow): HeldThread {
  const known = held.get(thread);
  return known?.epoch === row.epoch
    ? known
    : held.add(thread, { ...row, chain: chainOf(connection, thread) });
}

/** The accounts of a chain, the thread first. */
function accountsOf({ accounts }: Registry, chain: readonly string[]): Outcome<Account[]> {
  const found: Account[] = [];
  for (const thread of chain) {
    const account = accounts.get(thread);
    if (!account) return noThread(thread);
    found.push(account);
  }
  return ok(found);
}

function explain(registry: Registry, row: FenceRow, refusal: Refusal, now: number): Failure {
  if (refusal.facts !== 'signals') return explainBudget(registry, refusal, now);
  const { thread, after } = refusal;
  const signals = signalsAfter(registry.connection, thread, after);
  registry.held.setTold(heldOf(registry, thread, row), signals.at(-1)?.number ?? 0);
  return explainRefusal({ ...refusal, signals });
}

// Most commits are events, cost and amounts: columns without an index.
const ALWAYS = `UPDATE threads SET seq = ?, updated = ?, cost = coalesce(?, cost),
  attempt = coalesce(?, attempt), budget = coalesce(?, budget)`;

/** Writes the row, with the account if that changes. Returns the row as it is now. */
function writeFenced(
  connection: Connection,
  row: FenceRow,
  { commit, cost }: CommitText,
  { seq, status, heard, release }: RowChange,
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
  if (heard !== row.heard) {
    sql += ', heard = ?';
    values.push(heard);
  }
  if (release) {
    sql += ', owner = NULL, lease_until = NULL, queued = ?';
    values.push(release.queued);
  }
  connection.run(`${sql} WHERE number = ?`, ...values, row.number);
  return { ...row, seq, status, heard, lease_until: release ? null : row.lease_until };
}

const NO_USES = ok([]);

/** Checks what is left after the decision, in the order of the port. Writes nothing. */
function checkRest(
  connection: Connection,
  { ask = [], use, secrets }: Commit,
  chain: readonly string[],
  now: number,
): Outcome<readonly UsePlan[]> {
  const kept = secrets ? checkSecrets(connection, chain[0] ?? '', secrets) : NO_USES;
  if (!kept.ok) return kept;
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
): Held[] {
  return accounts.flatMap((account, at) => {
    const child = children[at];
    if (!child) return [];
    insertThread(registry, child, { parent, budget: writeAccount(account) }, now);
    registry.accounts.add(account);
    const held = holdThread(registry, account.thread, now);
    // It was inserted a moment ago in the same transaction.
    if (!held.ok) throw new Error(held.error.detail.message);
    return [held.output];
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
  // Who has ended, or is gone, is left out.
  for (const signal of tell) sendSignal(registry, signal, now);
  if (tell.length > 0) registry.held.forgetRows();
  const approvals = (commit.ask ?? []).map((asked) =>
    askApproval(connection, asked, asked.thread ?? thread, now),
  );
  if (uses.length > 0) writeUses(connection, uses, thread);
  if (commit.secrets) keepSecrets(connection, thread, commit.secrets);
  if (commit.audit) writeAudit(connection, commit.audit, now);
  return approvals;
}

/** Reads what `decide` needs. A commit without budget changes needs no account. */
function viewOf(
  registry: Registry,
  thread: string,
  fence: FenceRow,
  commit: Commit,
): Outcome<ChainView> {
  if (!changesBudgets(commit)) return ok({ thread, fence, accounts: [] });
  const { connection, held } = registry;
  const known = held.get(thread);
  const chain = known?.epoch === fence.epoch ? known.chain : chainOf(connection, thread);
  const accounts = accountsOf(registry, chain);
  if (!accounts.ok) return accounts;
  const taken = commit.children?.find(({ id }) => isThread(connection, id));
  return ok({ thread, fence, accounts: accounts.output, takenId: taken?.id });
}

export function runCommit(
  registry: Registry,
  thread: string,
  encoded: CommitText,
  now: number,
): Outcome<Committed> {
  const { connection, held, feed, accounts } = registry;
  const { commit, events, children: born } = encoded;
  const { expect, release } = commit;
  const row = held.rowOf(held.get(thread)) ?? connection.get<FenceRow>(ROW, thread);
  if (!row) return noThread(thread);
  const view = viewOf(registry, thread, row, commit);
  if (!view.ok) return view;
  const decision = decide(view.output, commit, now);
  if (decision.kind === 'refuse') {
    const failure = explain(registry, row, decision, now);
    if (LEASE_LOST.includes(failure.error.code)) {
      connection.afterCommit(() => held.drop(thread, expect.epoch));
    }
    return failure;
  }
  const { seq, status } = decision.row;
  if (seq >= EVENTS_A_THREAD) {
    const message = `thread \`${thread}\` has no room for more events`;
    return fail('invalid_input', message, { thread, seq: row.seq, epoch: row.epoch });
  }
  const known = heldOf(registry, thread, row);
  const { chain } = known;
  const uses = checkRest(connection, commit, chain, now);
  if (!uses.ok) return uses;
  const own = decision.accounts.find((account) => account.thread === thread);
  const budget = own && writeAccount(own);
  held.keepRow(known, writeFenced(connection, row, encoded, decision.row, budget, now));
  insertEvents(connection, row.number, row.seq, events, now);
  accounts.change(thread, decision.accounts);
  const { root, depth } = row;
  const parent = { id: thread, root, depth, chain };
  const children = insertChildren(registry, born, decision.children, parent, now);
  const approvals = writeRest(registry, thread, encoded, uses.output, now);
  if (commit.status !== undefined && REVOKING.includes(status)) held.forgetWords();
  connection.afterCommit(() => {
    if (release) held.drop(thread, expect.epoch);
    if (release && !isEnded(status)) feed.queued();
    feed.moved({ thread, seq, status });
  });
  const revoked = held.revokedIn(chain, known);
  return ok({
    seq,
    signals: untoldSignals(registry, thread, known, row.wakes),
    lease_ms: release || row.lease_until === null ? 0 : row.lease_until - now,
    reserved: decision.reserved,
    children,
    approvals,
    ...(revoked === undefined ? {} : { revoked }),
  });
}
