// The one way in which whoever holds a thread writes. First everything that may be refused is worked
// out without writing, the fence before the rest; then the parts are written. INVARIANT: a refusal
// comes before the first write, so the others of a group never have to be undone for it.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { CommitText } from '../encode.ts';
import type { Approval, Committed, Held, Signal } from '../port.ts';
import { isEnded, noThread } from '../thread-id.ts';
import { askApproval, isApproval, planUses, type UsePlan, writeUses } from './approvals.ts';
import { type BudgetPlan, planBudgets } from './budget.ts';
import { checkFence, type FenceRow, readFence, writeFenced } from './fence.ts';
import { type HeldThread, REVOKING } from './held.ts';
import { checkSecrets, keepSecrets, writeAudit } from './records.ts';
import { sendSignal, signalsAfter, untoldSignals } from './signals.ts';
import {
  chainOf,
  holdThread,
  insertEvents,
  insertThread,
  isThread,
  type Parent,
  type Registry,
  threadExists,
} from './threads.ts';

interface Checked {
  plan: BudgetPlan;
  uses: readonly UsePlan[];
}

/** Whoever is told so has lost the thread. */
const LOST = ['stale_epoch', 'conflict', 'lease_expired'];

/** Refuses an id that somebody has already, or that stands twice. */
function checkIds(
  ids: readonly string[],
  isTaken: (id: string) => boolean,
  refuse: (id: string) => Outcome<never>,
): Outcome<null> {
  const taken = ids.find((id, index) => ids.indexOf(id) !== index || isTaken(id));
  return taken === undefined ? ok(null) : refuse(taken);
}

/** Everything that may be refused besides the fence. Writes nothing. */
function check(
  registry: Registry,
  { commit, children }: CommitText,
  chain: readonly string[],
  now: number,
): Outcome<Checked> {
  const { connection } = registry;
  const [thread = ''] = chain;
  const { ask = [], use = [], secrets = [] } = commit;
  const born = children.map((child) => child.thread);
  const free = checkIds(
    born.map(({ id }) => id),
    (id) => isThread(connection, id),
    threadExists,
  );
  if (!free.ok) return free;
  const asked = checkIds(
    ask.map(({ id }) => id),
    (id) => isApproval(connection, id),
    (id) => fail('invalid_input', `there is an approval \`${id}\` already`, { approval: id }),
  );
  if (!asked.ok) return asked;
  const kept = checkSecrets(connection, thread, secrets);
  if (!kept.ok) return kept;
  const uses = planUses(connection, use, chain, now);
  if (!uses.ok) return uses;
  const plan = planBudgets(registry, { ...commit, chain, children: born, now });
  return plan.ok ? ok({ plan: plan.output, uses: uses.output }) : plan;
}

function bear(
  registry: Registry,
  { children }: CommitText,
  plan: BudgetPlan,
  parent: Parent,
  now: number,
): Held[] {
  return children.map((child) => {
    const { thread } = child;
    insertThread(registry, child, { parent, budget: plan.textOf(thread.id) ?? '' }, now);
    const held = holdThread(registry, thread.id, now);
    // It was inserted a moment ago in the same transaction.
    if (!held.ok) throw new Error(held.error.detail.message);
    return held.output;
  });
}

function writeRest(
  registry: Registry,
  thread: string,
  { commit, tell, result }: CommitText,
  uses: readonly UsePlan[],
  now: number,
): Approval[] {
  const { connection } = registry;
  if (result !== undefined) {
    connection.run('UPDATE thread_data SET result = ? WHERE thread = ?', result, thread);
  }
  // Who has ended, or is gone, is left out.
  for (const signal of tell) sendSignal(registry, signal, now);
  const approvals = (commit.ask ?? []).map((asked) => askApproval(connection, asked, thread, now));
  writeUses(connection, uses, thread);
  keepSecrets(connection, thread, commit.secrets);
  if (commit.audit) writeAudit(connection, commit.audit, now);
  return approvals;
}

/** The thread as this process knows it; one that it learned about elsewhere is looked up. */
function heldOf({ held, connection }: Registry, thread: string, row: FenceRow): HeldThread {
  const known = held.get(thread);
  return known?.epoch === row.epoch
    ? known
    : held.add(thread, { ...row, chain: chainOf(connection, thread) });
}

export function runCommit(
  registry: Registry,
  thread: string,
  encoded: CommitText,
  now: number,
): Outcome<Committed> {
  const { connection, held, feed } = registry;
  const { commit, events } = encoded;
  const { expect, release } = commit;
  const row = readFence(connection, thread);
  if (!row) return noThread(thread);
  const unheard = (after: number): readonly Signal[] => {
    const signals = signalsAfter(connection, thread, after);
    held.setTold(heldOf(registry, thread, row), signals.at(-1)?.number ?? 0);
    return signals;
  };
  const passed = checkFence(row, thread, commit, now, unheard);
  if (!passed.ok) {
    if (LOST.includes(passed.error.code))
      connection.afterCommit(() => held.drop(thread, expect.epoch));
    return passed;
  }
  const known = heldOf(registry, thread, row);
  const { chain } = known;
  const checked = check(registry, encoded, chain, now);
  if (!checked.ok) return checked;
  const { plan, uses } = checked.output;
  const status = writeFenced(connection, row, encoded, plan.textOf(thread), now);
  insertEvents(connection, row.number, row.seq, events, now);
  plan.keep([thread, ...encoded.children.map((child) => child.thread.id)]);
  const { root, depth } = row;
  const children = bear(registry, encoded, plan, { id: thread, root, depth, chain }, now);
  const approvals = writeRest(registry, thread, encoded, uses, now);
  if (commit.status !== undefined && REVOKING.includes(status)) held.forgetWords();
  const seq = row.seq + events.length;
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
