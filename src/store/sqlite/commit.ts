// The one way in which whoever holds a thread writes. First everything that may be refused is worked
// out without writing; then the fence is passed; then the parts are written. INVARIANT: a refusal
// comes before the first write, so the others of a group never have to be undone for it.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { CommitText } from '../encode.ts';
import type { Approval, Commit, Committed, Held, Signal } from '../port.ts';
import { isEnded, type ThreadStatus } from '../thread-id.ts';
import type { ApprovalRows, UsePlan } from './approvals.ts';
import type { Feed } from './feed.ts';
import { passFence, whyNot } from './fence.ts';
import type { Connection } from './file/connection.ts';
import type { Effects } from './file/group.ts';
import { type HeldThread, type HeldThreads, REVOKING } from './held.ts';
import { type LedgerPlan, planBudgets } from './ledger.ts';
import type { LedgerRows } from './ledger-rows.ts';
import type { RecordRows } from './records.ts';
import type { SignalRows } from './signals.ts';
import { type Parent, type ThreadRows, taken } from './threads.ts';

export interface CommitParts {
  connection: Connection;
  held: HeldThreads;
  ledger: LedgerRows;
  threads: ThreadRows;
  signals: SignalRows;
  approvals: ApprovalRows;
  records: RecordRows;
  feed: Pick<Feed, 'moved' | 'queued'>;
}

interface Checked {
  plan: LedgerPlan | undefined;
  uses: readonly UsePlan[];
  parent: Parent | undefined;
}

const NOTHING: Checked = { plan: undefined, uses: [], parent: undefined };
const REFUSABLE = [
  'settle',
  'raise',
  'charge',
  'reserve',
  'children',
  'ask',
  'use',
  'secrets',
] as const satisfies (keyof Commit)[];

const PLACE = 'SELECT root, depth FROM threads WHERE id = ?';

function checkChildren(parts: CommitParts, { children }: CommitText): Outcome<null> {
  const ids = new Set<string>();
  for (const { thread } of children) {
    if (ids.has(thread.id) || parts.threads.isTaken(thread.id)) return taken(thread.id);
    ids.add(thread.id);
  }
  return ok(null);
}

function checkAsked(parts: CommitParts, { ask = [] }: Commit): Outcome<null> {
  const ids = new Set<string>();
  for (const { id } of ask) {
    if (ids.has(id) || parts.approvals.isTaken(id)) {
      return fail('invalid_input', `there is an approval \`${id}\` already`, { approval: id });
    }
    ids.add(id);
  }
  return ok(null);
}

function placeOf(parts: CommitParts, thread: string, chain: readonly string[]): Parent | undefined {
  const row = parts.connection.get<Pick<Parent, 'root' | 'depth'>>(PLACE, thread);
  return row && { id: thread, ...row, chain };
}

/** Everything that may be refused besides the fence. Writes nothing. */
function check(
  parts: CommitParts,
  thread: string,
  encoded: CommitText,
  chain: readonly string[],
  now: number,
): Outcome<Checked> {
  const { commit, children } = encoded;
  const { settle, raise, charge, reserve, use = [], secrets = [] } = commit;
  const free = checkChildren(parts, encoded);
  if (!free.ok) return free;
  const asked = checkAsked(parts, commit);
  if (!asked.ok) return asked;
  const kept = parts.records.checkSecrets(thread, secrets);
  if (!kept.ok) return kept;
  const uses = use.length === 0 ? ok([]) : parts.approvals.planUses(use, chain, now);
  if (!uses.ok) return uses;
  const plan = planBudgets(parts.ledger, {
    chain,
    now,
    ...(settle && { settle }),
    ...(raise && { raise }),
    ...(charge && { charge }),
    ...(reserve && { reserve }),
    children: children.map((child) => child.thread),
  });
  if (!plan.ok) return plan;
  const parent = children.length === 0 ? undefined : placeOf(parts, thread, chain);
  return ok({ plan: plan.output, uses: uses.output, parent });
}

/** Children have their rows before their reservations are written. */
function bear(
  parts: CommitParts,
  { children }: CommitText,
  { parent, plan }: Checked,
  now: number,
  effects: Effects,
): Held[] {
  for (const child of children) {
    parts.threads.insert(child, parent, null, now);
    parts.records.keepSecrets(child.thread.id, child.thread.secrets ?? []);
    if ('queue' in child.thread.start) effects.after(() => parts.feed.queued());
  }
  plan?.write();
  return children.map(({ thread }) => {
    const held = parts.threads.hold(thread.id, now, effects);
    // It was inserted a moment ago in the same transaction.
    if (!held.ok) throw new Error(held.error.detail.message);
    const { seq, status } = held.output.row;
    effects.after(() => parts.feed.moved([{ thread: thread.id, seq, status }]));
    return held.output;
  });
}

function writeRest(
  parts: CommitParts,
  thread: string,
  { commit, tell, result }: CommitText,
  { uses }: Checked,
  now: number,
  effects: Effects,
): Approval[] {
  if (result !== undefined) {
    parts.connection.run('UPDATE thread_data SET result = ? WHERE thread = ?', result, thread);
  }
  // Who has ended, or is gone, is left out.
  for (const signal of tell) parts.signals.send(signal, now, effects);
  const approvals: Approval[] = [];
  for (const asked of commit.ask ?? []) {
    const made = parts.approvals.ask(asked, thread, now);
    if (made.ok) approvals.push(made.output);
  }
  if (uses.length > 0) parts.approvals.writeUses(uses, thread);
  if (commit.secrets) parts.records.keepSecrets(thread, commit.secrets);
  if (commit.audit) parts.records.writeAudit(commit.audit, now);
  return approvals;
}

/** The thread as this process knows it; one that it learned about elsewhere is looked up. */
function heldOf(parts: CommitParts, thread: string, epoch: number): HeldThread | undefined {
  const known = parts.held.get(thread);
  if (known?.epoch === epoch) return known;
  const row = parts.connection.get<{ heard: number; wakes: number; epoch: number }>(
    'SELECT heard, wakes, epoch FROM threads WHERE id = ?',
    thread,
  );
  const chain = row && parts.threads.chainOf(thread);
  if (!row || !chain || row.epoch !== epoch) return undefined;
  return parts.held.add(thread, { ...row, chain });
}

/** What happens in memory when the commit is in the file. */
function remember(
  parts: CommitParts,
  thread: string,
  { commit, events }: CommitText,
  now: ThreadStatus,
  effects: Effects,
): void {
  const { expect, status, release } = commit;
  if (status !== undefined && REVOKING.includes(status)) parts.held.forgetWords(effects);
  effects.after(() => {
    if (release) parts.held.drop(thread, expect.epoch);
    if (release && !isEnded(now)) parts.feed.queued();
    parts.feed.moved([{ thread, seq: expect.seq + events.length, status: now }]);
  });
}

const LOST = ['stale_epoch', 'conflict', 'lease_expired'];

export function runCommit(
  parts: CommitParts,
  thread: string,
  encoded: CommitText,
  now: number,
  effects: Effects,
): Outcome<Committed> {
  const { commit } = encoded;
  const { seq, epoch } = commit.expect;
  const held = heldOf(parts, thread, epoch);
  const refuse = (otherwise?: Outcome<never>): Outcome<never> => {
    const unheard = (after: number): readonly Signal[] => {
      const signals = parts.signals.after(thread, after);
      if (held) parts.held.setTold(held, signals.at(-1)?.number ?? 0, effects);
      return signals;
    };
    const why = whyNot(parts.connection, thread, commit, now, unheard);
    if (why && !why.ok && LOST.includes(why.error.code)) {
      effects.after(() => parts.held.drop(thread, epoch));
    }
    return why ?? otherwise ?? fail('internal_error', `thread \`${thread}\` refused a commit`);
  };
  if (!held) return refuse();
  const isPlain = REFUSABLE.every((part) => commit[part] === undefined);
  const checked = isPlain ? ok(NOTHING) : check(parts, thread, encoded, held.chain, now);
  if (!checked.ok) return refuse(checked);
  const passed = passFence(parts.connection, thread, encoded, now);
  if (!passed) return refuse();
  parts.threads.events(thread, seq, encoded.events, now);
  const children = bear(parts, encoded, checked.output, now, effects);
  const approvals = writeRest(parts, thread, encoded, checked.output, now, effects);
  remember(parts, thread, encoded, passed.status, effects);
  const revoked = parts.held.revokedIn(held.chain, held);
  return ok({
    seq: seq + encoded.events.length,
    signals: parts.signals.untold(thread, held, passed.wakes, effects),
    lease_ms: passed.lease_ms,
    reserved: checked.output.plan?.reserved ?? [],
    children,
    approvals,
    ...(revoked === undefined ? {} : { revoked }),
  });
}
