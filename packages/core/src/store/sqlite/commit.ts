// The one way in which whoever holds a thread writes. First everything that may be refused is worked
// out without writing, the fence before the rest; then the parts are written. INVARIANT: a refusal
// comes before the first write, so the others of a group never have to be undone for it. INVARIANT:
// sequence, epoch and lease are looked at inside the transaction that changes the row, so a process
// that was frozen past its lease, or lost the thread to another, writes nothing. The row as the last
// commit left it counts as looked at when nobody, of this process or another, wrote since.
import type { SQLInputValue } from 'node:sqlite';
import { fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { CommitText, ThreadText } from '../encode.ts';
import type { Approval, AuditEntry, Commit, Committed, Held } from '../port.ts';
import { isEnded, noThread, threadExists } from '../thread-id.ts';
import { bornAccount, writeAccount } from './account.ts';
import {
  approvalExists,
  askApproval,
  askedForOther,
  isApproval,
  planUses,
  type UsePlan,
  writeUses,
} from './approvals.ts';
import { type BudgetPlan, planBudgets } from './budget.ts';
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

const FREE = ok(null);

/** The thread as this process knows it; one that it learned about elsewhere is looked up. */
function heldOf({ held, connection }: Registry, thread: string, row: FenceRow): HeldThread {
  const known = held.get(thread);
  return known?.epoch === row.epoch
    ? known
    : held.add(thread, { ...row, chain: chainOf(connection, thread) });
}

/** May whoever sends this commit write? */
function checkFence(
  registry: Registry,
  row: FenceRow,
  thread: string,
  { expect, heard = 0, events }: Commit,
  now: number,
): Outcome<null> {
  const { seq, epoch, lease_until: until } = row;
  const detail = { thread, seq, epoch };
  if (epoch !== expect.epoch) {
    return fail('stale_epoch', `thread \`${thread}\` is held by somebody else now`, detail);
  }
  if (seq !== expect.seq) {
    const message = `thread \`${thread}\` is at event ${seq}, not ${expect.seq}`;
    return fail('conflict', message, { ...detail, expected: expect.seq });
  }
  if (until === null || until <= now) {
    const message = `the lease of thread \`${thread}\` ${until === null ? 'was given back' : 'ran out'}`;
    return fail('lease_expired', message, { ...detail, until });
  }
  if (seq + events.length >= EVENTS_A_THREAD) {
    return fail('invalid_input', `thread \`${thread}\` has no room for more events`, detail);
  }
  const obeyed = Math.max(row.heard, heard);
  if (!expect.quiet || row.wakes <= obeyed) return FREE;
  const unheard = signalsAfter(registry.connection, thread, obeyed);
  registry.held.setTold(heldOf(registry, thread, row), unheard.at(-1)?.number ?? 0);
  const signals = unheard.map((signal): JsonObject => ({ ...signal }));
  return fail('signalled', `thread \`${thread}\` was spoken to meanwhile`, { thread, signals });
}

// Most commits are events, cost and amounts: columns without an index.
const ALWAYS = `UPDATE threads SET seq = ?, updated = ?, cost = coalesce(?, cost),
  attempt = coalesce(?, attempt), budget = coalesce(?, budget)`;

/** Writes the row, with the account when that changes; answers with what it is now. */
function writeFenced(
  connection: Connection,
  row: FenceRow,
  { commit, events, cost }: CommitText,
  budget: string | undefined,
  now: number,
): FenceRow {
  const { status = row.status, attempt, release } = commit;
  // Nobody hears what was not said.
  const heard = Math.max(row.heard, Math.min(commit.heard ?? 0, row.wakes));
  const seq = row.seq + events.length;
  let sql = ALWAYS;
  const values: SQLInputValue[] = [seq, now, cost ?? null, attempt ?? null, budget ?? null];
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
    // Parked or over. INVARIANT: what was let go with an unheard signal is queued, so nobody is stuck.
    const wake = row.wakes > heard ? now : release === true ? null : release.wake;
    sql += ', owner = NULL, lease_until = NULL, queued = ?';
    values.push(isEnded(status) ? null : wake);
  }
  connection.run(`${sql} WHERE number = ?`, ...values, row.number);
  return { ...row, seq, status, heard, lease_until: release ? null : row.lease_until };
}

interface Checked {
  plan: BudgetPlan;
  uses: readonly UsePlan[];
}

/** Whoever is told so has lost the thread. */
const LOST = ['stale_epoch', 'conflict', 'lease_expired'];

/** Refuses an id that somebody has already, or that stands twice. */
function checkIds(
  made: readonly { id: string }[],
  isTaken: (id: string) => boolean,
  refuse: (id: string) => Outcome<never>,
): Outcome<null> {
  const ids = made.map(({ id }) => id);
  const taken = ids.find((id, index) => ids.indexOf(id) !== index || isTaken(id));
  return taken === undefined ? ok(null) : refuse(taken);
}

const NO_USES = ok([]);

/** Checks everything besides the fence, in the order of `Commit`. Writes nothing. */
function check(
  registry: Registry,
  commit: Commit,
  chain: readonly string[],
  now: number,
): Outcome<Checked> {
  const { connection } = registry;
  const { ask, use, secrets, children = [] } = commit;
  const free =
    children.length > 0 ? checkIds(children, (id) => isThread(connection, id), threadExists) : FREE;
  if (!free.ok) return free;
  const plan = planBudgets(registry, commit, chain, children, now);
  if (!plan.ok) return plan;
  const kept = secrets ? checkSecrets(connection, chain[0] ?? '', secrets) : FREE;
  if (!kept.ok) return kept;
  const asked = ask ? checkIds(ask, (id) => isApproval(connection, id), approvalExists) : FREE;
  if (!asked.ok) return asked;
  const other = ask?.find((one) => one.thread !== undefined && !chain.includes(one.thread));
  if (other) return askedForOther(other);
  const uses = use ? planUses(connection, use, chain, now) : NO_USES;
  return uses.ok ? ok({ plan: plan.output, uses: uses.output }) : uses;
}

function bear(
  registry: Registry,
  children: readonly ThreadText[],
  { changed }: BudgetPlan,
  parent: Parent,
  now: number,
): Held[] {
  return children.map((child) => {
    const { id } = child.thread;
    insertThread(registry, child, { parent, budget: bornAccount(changed, id) }, now);
    const held = holdThread(registry, id, now);
    // It was inserted a moment ago in the same transaction.
    if (!held.ok) throw new Error(held.error.detail.message);
    return held.output;
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
  const passed = checkFence(registry, row, thread, commit, now);
  if (!passed.ok) {
    if (LOST.includes(passed.error.code))
      connection.afterCommit(() => held.drop(thread, expect.epoch));
    return passed;
  }
  const known = heldOf(registry, thread, row);
  const { chain } = known;
  const checked = check(registry, commit, chain, now);
  if (!checked.ok) return checked;
  const { plan, uses } = checked.output;
  const account = plan.changed.get(thread);
  const written = writeFenced(connection, row, encoded, account && writeAccount(account), now);
  held.keepRow(known, written);
  const { seq, status } = written;
  insertEvents(connection, row.number, row.seq, events, now);
  accounts.change(plan.changed, chain);
  const { root, depth } = row;
  const parent = { id: thread, root, depth, chain };
  const children = born.length > 0 ? bear(registry, born, plan, parent, now) : [];
  const approvals = writeRest(registry, thread, encoded, uses, now);
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
    reserved: plan.reserved,
    children,
    approvals,
    ...(revoked === undefined ? {} : { revoked }),
  });
}
