// Stores approval requests and decisions. An approval is bound to one exact call, or to a named capability or limit.
// INVARIANT: a request is decided at most once, over a human channel, and an approval is never used more often or
// later than the decision allows, on the clock of the server. The row of the thread is locked first.
import { canonicalJson, type Failure, fail } from '@kernmantle/core/base';
import type {
  Answer,
  Approval,
  ApprovalFilter,
  ApprovalState,
  Approvals,
  ApprovalUse,
  AuditEntry,
  Decision,
  NewApproval,
} from '@kernmantle/core/store';
import {
  approvalTexts,
  checkApproval,
  damagedDecision,
  damageOf,
  withdrawRefusal,
} from '@kernmantle/core/store';
import type { Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';
import type { ServerRegistry, ServerTime } from './registry.ts';
import { auditRowsOf, presentOnly, type ServerColumns } from './rows.ts';

type ApprovalColumns = ServerColumns<Omit<Approval, 'uses' | 'binding' | 'shown' | 'answer'>> &
  Record<'binding' | 'shown', string> & { answer: string | null; uses_left: number; now: number };

const COLUMNS =
  'id, thread, kind, binding, shown, state, uses_left, expires, asked, decided, who, channel, why, answer';
const SELECT = `SELECT ${COLUMNS}, km_now() AS now FROM approvals`;
const ONE = `${SELECT} WHERE id = $1`;
const LOCK_ONE = `${ONE} FOR UPDATE`;
// If two equal requests come at the same time, the second one waits and finds the first.
const ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1, 0))";
const OPEN = `${SELECT} WHERE md5(binding) = md5($1) AND binding = $1 AND thread IS NOT DISTINCT FROM $2
  AND kind = $3 AND state = 'pending' ORDER BY asked DESC, id DESC LIMIT 1`;
const INSERT = `INSERT INTO approvals (id, thread, kind, binding, shown, state, uses_left, expires, asked)
  VALUES ($1, $2, $3, $4, $5, 'pending', $6, km_when($7, $8), km_now()) RETURNING ${COLUMNS}, km_now() AS now`;
const WITHDRAW = "UPDATE approvals SET answer = NULL WHERE id = $1 AND state = 'approved'";
const RESTATE = "UPDATE approvals SET shown = $2 WHERE id = $1 AND state = 'pending'";
const TAKEN = 'SELECT taken FROM approval_uses WHERE approval = $1 AND thread = $2';
const SET_LEFT = 'UPDATE approvals SET uses_left = $2 WHERE id = $1';
const TAKE = `INSERT INTO approval_uses (approval, thread, taken) VALUES ($1, $2, $3)
  ON CONFLICT (approval, thread) DO UPDATE SET taken = excluded.taken`;
const CHAIN = 'SELECT chain FROM threads WHERE id = $1';
const LOCK_THREAD =
  'SELECT id FROM threads WHERE id = (SELECT thread FROM approvals WHERE id = $1) FOR UPDATE';
const DECIDE = `UPDATE approvals SET state = $2, uses_left = $3, expires = coalesce(km_when($4, $10), expires), decided = $5, who = $6,
  channel = $7, why = $8, answer = $9 WHERE id = $1 RETURNING ${COLUMNS}, km_now() AS now`;

const REFUSALS: Readonly<Record<Exclude<ApprovalState, 'approved'>, string>> = {
  pending: 'is pending',
  denied: 'was denied',
  expired: 'has expired',
  used: 'was used as often as allowed',
};

/** Returns the state at the time of the query. The row does not store that an approval has expired. */
function stateOf(row: ApprovalColumns): ApprovalState {
  const { state, expires, uses_left, now } = row;
  if (state !== 'pending' && state !== 'approved') return state;
  if (expires !== null && expires <= now) return 'expired';
  if (state === 'approved' && uses_left === 0) return 'used';
  return state === 'approved' && damageOf(row) !== undefined ? 'denied' : state;
}

function approvalOf(row: ApprovalColumns, time: ServerTime): Approval {
  const { binding: _, shown: _1, answer: _2, uses_left: uses, now, ...rest } = row;
  const { expires } = rest;
  return {
    ...presentOnly({ ...rest, expires: expires === null ? null : time.here(expires, now) }),
    ...approvalTexts(row),
    state: stateOf(row),
    uses,
  };
}

function refuse(failure: Failure): never {
  throw new RefusedWrite(failure);
}

const notFound = (id: string): Failure =>
  fail('not_found', `approval \`${id}\` not found`, { approval: id });

async function askOne(
  sql: Sql,
  time: ServerTime,
  { id, kind, binding, shown, uses = 1, expires }: NewApproval,
  thread: string | undefined,
): Promise<Approval> {
  const bound = canonicalJson(binding);
  await sql.all(ALONE, bound);
  const before = await sql.get<ApprovalColumns>(OPEN, bound, thread ?? null, kind);
  const isOpen = before && stateOf(before) === 'pending' && damageOf(before) === undefined;
  if (isOpen) return approvalOf(before, time);
  const values = [id, thread ?? null, kind, bound, JSON.stringify(shown), uses, expires ?? null];
  const row = await sql.get<ApprovalColumns>(INSERT, ...values, time.said());
  return row ? approvalOf(row, time) : refuse(notFound(id));
}

async function chainOf(sql: Sql, thread: string): Promise<readonly string[]> {
  return (await sql.get<{ chain: string[] }>(CHAIN, thread))?.chain ?? [];
}

/** Creates the requests of a thread, for itself or (from a hook) for an ancestor. */
export async function askInThread(
  sql: Sql,
  time: ServerTime,
  thread: string,
  all: readonly NewApproval[],
): Promise<Approval[]> {
  const ids = all.map(({ id }) => id);
  const chain = await chainOf(sql, thread);
  for (const [index, { id, thread: other }] of all.entries()) {
    if (ids.indexOf(id) !== index || (await sql.get(ONE, id))) {
      refuse(fail('invalid_input', `approval \`${id}\` already exists`, { approval: id }));
    }
    if (other === undefined || chain.includes(other)) continue;
    const message = `approval \`${id}\` is for thread \`${other}\`, which is not an ancestor`;
    refuse(fail('invalid_input', message, { approval: id, thread: other }));
  }
  const approvals: Approval[] = [];
  for (const one of all) approvals.push(await askOne(sql, time, one, one.thread ?? thread));
  return approvals;
}

/** Returns the requests of a commit that was written, or the pending ones that it found. */
export async function approvalsOf(
  sql: Sql,
  time: ServerTime,
  thread: string,
  all: readonly NewApproval[],
): Promise<Approval[]> {
  const approvals: Approval[] = [];
  for (const { id, kind, binding, thread: other = thread } of all) {
    const row =
      (await sql.get<ApprovalColumns>(ONE, id)) ??
      (await sql.get<ApprovalColumns>(OPEN, canonicalJson(binding), other, kind));
    if (row) approvals.push(approvalOf(row, time));
  }
  return approvals;
}

interface Uses {
  left: number;
  taken: number;
}

/** Checks that the approval belongs to the caller and to this binding. */
function checkUse(approval: Approval, use: ApprovalUse, chain: readonly string[]): void {
  const isTheirs =
    chain.length === 0
      ? approval.thread === undefined
      : approval.thread !== undefined && chain.includes(approval.thread);
  if (isTheirs && canonicalJson(approval.binding) === canonicalJson(use.binding)) return;
  const message = `approval \`${approval.id}\` is for another thread or subject`;
  refuse(fail('permission_denied', message, { approval: approval.id }));
}

const refused = (id: string, state: Exclude<ApprovalState, 'approved'>): never =>
  refuse(
    fail(`approval_${state}`, `approval \`${id}\` ${REFUSALS[state]}`, { approval: id, state }),
  );

function count(id: string, { left, taken }: Uses, back: boolean, state: ApprovalState): Uses {
  if (back) {
    if (taken > 0) return { left: left + 1, taken: taken - 1 };
    const message = `no use of approval \`${id}\` can be returned; this thread took none`;
    return refuse(fail('invalid_input', message, { approval: id }));
  }
  // Earlier uses in this commit count, so the state in the row can be outdated.
  const now = state === 'used' && left > 0 ? 'approved' : state;
  if (now !== 'approved') return refused(id, now);
  return left > 0 ? { left: left - 1, taken: taken + 1 } : refused(id, 'used');
}

/** Uses approvals for a thread, or outside threads if the chain is empty. */
async function useAll(
  sql: Sql,
  time: ServerTime,
  uses: readonly ApprovalUse[],
  chain: readonly string[],
): Promise<void> {
  const [thread = ''] = chain;
  const ids = [...new Set(uses.map(({ approval }) => approval))].sort();
  const rows = new Map<string, ApprovalColumns>();
  const counts = new Map<string, Uses>();
  for (const id of ids) {
    const row = await sql.get<ApprovalColumns>(LOCK_ONE, id);
    if (!row) continue;
    const taken = await sql.get<{ taken: number }>(TAKEN, id, thread);
    rows.set(id, row);
    counts.set(id, { left: row.uses_left, taken: taken?.taken ?? 0 });
  }
  for (const use of uses) {
    const { approval: id, back = false } = use;
    const [row, before] = [rows.get(id), counts.get(id)];
    if (!row || !before) return refuse(notFound(id));
    checkUse(approvalOf(row, time), use, chain);
    counts.set(id, count(id, before, back, stateOf(row)));
  }
  for (const [id, { left, taken }] of counts) {
    await sql.all(SET_LEFT, id, left);
    await sql.all(TAKE, id, thread, taken);
  }
}

export async function useInThread(
  sql: Sql,
  time: ServerTime,
  thread: string,
  uses: readonly ApprovalUse[],
): Promise<void> {
  await useAll(sql, time, uses, await chainOf(sql, thread));
}

const SIGNAL = "SELECT * FROM km_signal($1, 'approval', $2, $3, $4, $5)";
const AUDIT = 'SELECT km_audit($1, km_now())';

async function decide(
  { database, jobs, feed, time }: ServerRegistry,
  id: string,
  input: Decision,
  audit: AuditEntry | undefined,
): Answer<Approval> {
  let now = 0;
  const decided = await database.write(
    async (sql) => {
      await sql.all(LOCK_THREAD, id);
      const row = await sql.get<ApprovalColumns>(LOCK_ONE, id);
      if (!row) return refuse(notFound(id));
      const state = stateOf(row);
      if (state !== 'pending') {
        const message = `approval \`${id}\` is already ${state}`;
        refuse(fail('conflict', message, { approval: id, state }));
      }
      const damaged = damagedDecision(row, input);
      if (damaged) refuse(damaged);
      now = row.now;
      const { decision, who, channel, why, uses = row.uses_left, expires = null } = input;
      const answer = input.answer === undefined ? null : JSON.stringify(input.answer);
      const values = [id, decision, uses, expires, now, who, channel, why, answer, time.said()];
      const updated = await sql.get<ApprovalColumns>(DECIDE, ...values);
      if (audit) await sql.all(AUDIT, JSON.stringify(auditRowsOf([audit])));
      if (row.thread !== null) {
        // A thread that has ended gets no signal.
        await sql.all(
          SIGNAL,
          row.thread,
          JSON.stringify({ approval: id }),
          `approval:${id}`,
          who,
          now,
        );
        await jobs.follow(sql, [row.thread]);
      }
      return approvalOf(updated ?? row, time);
    },
    {
      written: async (sql) => {
        const row = await sql.get<ApprovalColumns>(ONE, id);
        return row?.decided === now && row.who === input.who ? approvalOf(row, time) : undefined;
      },
    },
  );
  if (decided.ok && decided.output.thread !== undefined) feed.queued();
  return decided;
}

/** Stored states of the rows that can be in a state now. */
const STORED_AS: Readonly<Record<ApprovalState, readonly ApprovalState[]>> = {
  pending: ['pending'],
  approved: ['approved'],
  denied: ['denied'],
  used: ['approved'],
  expired: ['pending', 'approved'],
};
const ALL = ['pending', 'approved', 'denied'];
const LIST = `${SELECT} WHERE ($1::text IS NULL OR id = $1) AND ($2::text IS NULL OR thread = $2)
  AND ($3::text IS NULL OR (md5(binding) = md5($3) AND binding = $3)) AND state = ANY ($4)
  AND ($5::text IS NULL OR $5 = CASE WHEN state = 'denied' THEN state WHEN expires <= km_now() THEN 'expired'
    WHEN state = 'approved' AND uses_left = 0 THEN 'used' ELSE state END)
  ORDER BY asked, id LIMIT $6`;

async function listApprovals(
  sql: Sql,
  time: ServerTime,
  { id, thread, binding, state, limit = 100 }: ApprovalFilter,
): Promise<Approval[]> {
  const bound = binding && canonicalJson(binding);
  const stored = state === undefined ? ALL : STORED_AS[state];
  const rows = await sql.all<ApprovalColumns>(LIST, id, thread, bound, stored, state, limit);
  const approvals = rows.map((row) => approvalOf(row, time));
  return state === undefined ? approvals : approvals.filter((row) => row.state === state);
}

export function serverApprovals(registry: ServerRegistry): Approvals {
  const { database, time } = registry;
  return {
    async ask(approval) {
      const valid = checkApproval(approval);
      if (!valid.ok) return valid;
      return database.write((sql) => askOne(sql, time, approval, undefined));
    },
    restate: ({ id, shown }) =>
      database.write(async (sql) => {
        await sql.all(RESTATE, id, JSON.stringify(shown));
        const row = await sql.get<ApprovalColumns>(ONE, id);
        return row ? approvalOf(row, time) : refuse(notFound(id));
      }),
    withdraw: (id, audit) =>
      database.write(async (sql) => {
        await sql.all(LOCK_THREAD, id);
        const before = await sql.get<ApprovalColumns>(LOCK_ONE, id);
        if (!before) return refuse(notFound(id));
        const refused = withdrawRefusal(approvalOf(before, time));
        if (refused) refuse(refused);
        await sql.all(WITHDRAW, id);
        if (audit) await sql.all(AUDIT, JSON.stringify(auditRowsOf([audit])));
        const row = await sql.get<ApprovalColumns>(ONE, id);
        return approvalOf(row ?? before, time);
      }),
    use: (id, binding) =>
      database.write(async (sql) => {
        await useAll(sql, time, [{ approval: id, binding }], []);
        const row = await sql.get<ApprovalColumns>(ONE, id);
        return row ? approvalOf(row, time) : refuse(notFound(id));
      }),
    decide: (id, decision, audit) => decide(registry, id, decision, audit),
    approvals: (filter) => database.read((sql) => listApprovals(sql, time, filter)),
  };
}
