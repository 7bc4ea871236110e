// Stores approval requests and decisions. An approval is bound to one exact call, or to a named capability
// or limit. INVARIANT: a request is decided at most once, over a human channel, and an approval is never
// used more often or later than the decision allows. A thread can return a use that it did not exercise,
// but never more uses than it took.
import { canonicalJson, fail, type Outcome, ok } from '../../base/index.ts';
import { approvalTexts, damagedDecision, damageOf } from '../encode.ts';
import type {
  Approval,
  ApprovalFilter,
  ApprovalState,
  ApprovalUse,
  Decision,
  NewApproval,
} from '../port.ts';
import { type Columns, type Connection, present } from './file/connection.ts';

export interface UsePlan {
  id: string;
  left: number;
  taken: number;
}

const COLUMNS =
  'id, thread, kind, binding, shown, state, uses_left, expires, asked, decided, who, channel, why, answer';
const ONE = `SELECT ${COLUMNS} FROM approvals WHERE id = ?`;
const INSERT = `INSERT INTO approvals (${COLUMNS})
  VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, NULL, NULL, NULL, NULL, NULL) RETURNING ${COLUMNS}`;
const DECIDE = `UPDATE approvals SET state = ?, uses_left = ?, expires = ?, decided = ?, who = ?,
  channel = ?, why = ?, answer = ? WHERE id = ?`;
const OPEN = `SELECT ${COLUMNS} FROM approvals
  WHERE binding = ? AND thread IS ? AND kind = ? AND state = 'pending' ORDER BY asked DESC, id DESC LIMIT 1`;
const TAKE = `INSERT INTO approval_uses (approval, thread, taken) VALUES (?, ?, ?)
  ON CONFLICT DO UPDATE SET taken = excluded.taken`;

const REFUSALS: Readonly<Record<Exclude<ApprovalState, 'approved'>, string>> = {
  pending: 'is pending',
  denied: 'was denied',
  expired: 'has expired',
  used: 'was used as often as allowed',
};

/** Stored states of the rows that can be in a state now. */
const STORED_AS: Readonly<Record<ApprovalState, readonly ApprovalState[]>> = {
  pending: ['pending'],
  approved: ['approved'],
  denied: ['denied'],
  used: ['approved'],
  expired: ['pending', 'approved'],
};

type Texts = 'binding' | 'shown' | 'answer';
type ApprovalRow = Columns<Omit<Approval, 'uses' | Texts>> &
  Record<'binding' | 'shown', string> & { answer: string | null; uses_left: number };

/** Returns the state at a time. The row does not store that an approval has expired. */
function stateAt(row: ApprovalRow, now: number): ApprovalState {
  const { state, expires, uses_left } = row;
  if (state !== 'pending' && state !== 'approved') return state;
  if (expires !== null && expires <= now) return 'expired';
  if (state === 'approved' && uses_left === 0) return 'used';
  return state === 'approved' && damageOf(row) !== undefined ? 'denied' : state;
}

function toApproval(row: ApprovalRow, now: number): Approval {
  const { binding: _, shown: _1, answer: _2, uses_left: uses, ...rest } = row;
  return { ...present(rest), ...approvalTexts(row), state: stateAt(row, now), uses };
}

const refused = (id: string, state: Exclude<ApprovalState, 'approved'>): Outcome<never> =>
  fail(`approval_${state}`, `approval \`${id}\` ${REFUSALS[state]}`, { approval: id, state });

/** Fails with `permission_denied` unless the approval has this binding and belongs to the chain. */
function checkUse(approval: Approval, use: ApprovalUse, chain: readonly string[]): Outcome<null> {
  const isTheirs =
    chain.length === 0
      ? approval.thread === undefined
      : approval.thread !== undefined && chain.includes(approval.thread);
  if (isTheirs && canonicalJson(approval.binding) === canonicalJson(use.binding)) return ok(null);
  const message = `approval \`${approval.id}\` is for another thread or subject`;
  return fail('permission_denied', message, { approval: approval.id });
}

const notFound = (id: string): Outcome<never> =>
  fail('not_found', `approval \`${id}\` not found`, { approval: id });

export function findApproval(connection: Connection, id: string, now: number): Outcome<Approval> {
  const row = connection.get<ApprovalRow>(ONE, id);
  if (!row) return notFound(id);
  return ok(toApproval(row, now));
}

export const isApproval = (connection: Connection, id: string): boolean =>
  connection.get('SELECT 1 FROM approvals WHERE id = ?', id) !== undefined;

export const approvalExists = (id: string): Outcome<never> =>
  fail('invalid_input', `approval \`${id}\` already exists`, { approval: id });

/** Refuses a request for another thread. A thread can create requests for itself and for its ancestors. */
export function askedForOther({ id, thread = '' }: NewApproval): Outcome<never> {
  const message = `approval \`${id}\` is for thread \`${thread}\`, which is not an ancestor`;
  return fail('invalid_input', message, { approval: id, thread });
}

/** Creates a request, or returns the identical pending one. Without `thread` it is outside threads. */
export function askApproval(
  connection: Connection,
  { id, kind, binding, shown, uses = 1, expires }: NewApproval,
  thread: string | undefined,
  now: number,
): Approval {
  const bound = canonicalJson(binding);
  const before = connection.get<ApprovalRow>(OPEN, bound, thread ?? null, kind);
  const isOpen = before && stateAt(before, now) === 'pending' && damageOf(before) === undefined;
  if (isOpen) return toApproval(before, now);
  // biome-ignore format: in the order of the statement
  const row = connection.get<ApprovalRow>(
    INSERT, id, thread ?? null, kind, bound, JSON.stringify(shown), uses, expires ?? null, now,
  );
  if (!row) throw new Error(`approval \`${id}\` was not written`);
  return toApproval(row, now);
}

function planUse(before: UsePlan, { back }: ApprovalUse, state: ApprovalState): Outcome<UsePlan> {
  const { id, left, taken } = before;
  if (back) {
    if (taken > 0) return ok({ id, left: left + 1, taken: taken - 1 });
    const message = `no use of approval \`${id}\` can be returned; this thread took none`;
    return fail('invalid_input', message, { approval: id });
  }
  // Earlier uses in this commit count, so the state in the row can be outdated.
  const now = state === 'used' && left > 0 ? 'approved' : state;
  if (now !== 'approved') return refused(id, now);
  return left > 0 ? ok({ id, left: left - 1, taken: taken + 1 }) : refused(id, 'used');
}

const TAKEN = 'SELECT taken FROM approval_uses WHERE approval = ? AND thread = ?';

/** Computes the uses of a thread, or outside threads if the chain is empty. Writes nothing. */
export function planUses(
  connection: Connection,
  uses: readonly ApprovalUse[],
  chain: readonly string[],
  now: number,
): Outcome<readonly UsePlan[]> {
  const plans = new Map<string, UsePlan>();
  for (const use of uses) {
    const result = findApproval(connection, use.approval, now);
    if (!result.ok) return result;
    const allowed = checkUse(result.output, use, chain);
    if (!allowed.ok) return allowed;
    const { id, uses: left, state } = result.output;
    const taken = Number(connection.get(TAKEN, id, chain[0] ?? '')?.['taken'] ?? 0);
    const plan = planUse(plans.get(id) ?? { id, left, taken }, use, state);
    if (!plan.ok) return plan;
    plans.set(id, plan.output);
  }
  return ok([...plans.values()]);
}

export function writeUses(connection: Connection, plans: readonly UsePlan[], thread: string): void {
  for (const { id, left, taken } of plans) {
    connection.run('UPDATE approvals SET uses_left = ? WHERE id = ?', left, id);
    connection.run(TAKE, id, thread, taken);
  }
}

export function decideApproval(
  connection: Connection,
  id: string,
  decision: Decision,
  now: number,
): Outcome<Approval> {
  const row = connection.get<ApprovalRow>(ONE, id);
  if (!row) return notFound(id);
  const [state, damaged] = [stateAt(row, now), damagedDecision(row, decision)];
  if (state !== 'pending') {
    const message = `approval \`${id}\` is already ${state}`;
    return fail('conflict', message, { approval: id, state });
  }
  if (damaged) return damaged;
  const { uses_left: uses, expires } = row;
  const answer = decision.answer === undefined ? null : JSON.stringify(decision.answer);
  // biome-ignore format: in the order of the statement
  connection.run(
    DECIDE, decision.decision, decision.uses ?? uses, decision.expires ?? expires, now, decision.who,
    decision.channel, decision.why, answer, id,
  );
  return findApproval(connection, id, now);
}

export function listApprovals(
  connection: Connection,
  { id, thread, binding, state, limit = 100 }: ApprovalFilter,
  now: number,
): Approval[] {
  const stored = state === undefined ? ['pending', 'approved', 'denied'] : STORED_AS[state];
  const wheres = [
    ['id = ?', id],
    ['thread = ?', thread],
    ['binding = ?', binding && canonicalJson(binding)],
  ] as const;
  const [texts, values]: [string[], string[]] = [[], []];
  for (const [text, value] of wheres) {
    if (value === undefined) continue;
    texts.push(text);
    values.push(value);
  }
  const where = [...texts, 'state IN (SELECT value FROM json_each(?))'].join(' AND ');
  const sql = `SELECT ${COLUMNS} FROM approvals WHERE ${where} ORDER BY asked, id`;
  return connection
    .all<ApprovalRow>(sql, ...values, JSON.stringify(stored))
    .map((row) => toApproval(row, now))
    .filter((row) => state === undefined || row.state === state)
    .slice(0, limit);
}
