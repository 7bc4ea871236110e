// Limits of a tree. INVARIANT: what is used plus what is reserved never passes a thread's limit or
// any ancestor's, however many processes ask at once: the worst case is reserved along the whole
// chain before anything starts, and settled with what it really took. Only a provider that reports
// more than was reserved can push `used` further; then the next unit stops.
//
// A commit's wishes are worked out here, in memory, before anything is written: what is refused has
// changed nothing. A reservation can be drawn from: what hooks and detached children need is set
// aside in one large reservation first, and their requests take from it instead of from what others
// have left.
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import {
  type Amounts,
  add,
  BUDGET_KINDS,
  type BudgetKind,
  plus,
  positive,
  without,
} from '../amounts.ts';
import type { Commit, NewThread, Reserve, Settle } from '../port.ts';
import { noThread } from '../thread-id.ts';
import type { Account, Accounts, Reservation } from './account.ts';
import type { Connection } from './file/connection.ts';
import { ENDED } from './file/schema.ts';

interface Shortage {
  current: bigint;
  reserved: bigint;
  standing: bigint;
  max: bigint;
  requested: bigint;
}

/** Counts as numbers; money keeps every digit. */
const shown = (kind: BudgetKind, amount: bigint): Json =>
  kind === 'spend' ? String(amount) : Number(amount);

function exceeded(kind: BudgetKind, thread: string, facts: Shortage): Outcome<never> {
  // The amounts are data, money in nano-units: whoever asked has words for them.
  const message = `the limit \`${kind}\` of thread \`${thread}\` does not leave enough`;
  const amounts = Object.entries(facts).map(([name, amount]) => [name, shown(kind, amount)]);
  return fail(`${kind}_exceeded`, message, { ...Object.fromEntries(amounts), limit: kind, thread });
}

const ELSEWHERE = `SELECT 1 FROM threads WHERE status NOT IN (${ENDED}) AND EXISTS
  (SELECT 1 FROM json_each(budget, '$.open') WHERE value ->> 'key' = ?)`;
const TREE = `SELECT id, owner, lease_until, chain FROM threads JOIN thread_data ON thread = id
  WHERE root = ?`;

interface TreeRow {
  id: string;
  owner: string | null;
  lease_until: number | null;
  chain: string;
}

/** An open reservation, and the part of the chain that it was made along. */
interface Found {
  reservation: Reservation;
  along: readonly string[];
}

/** One commit that is worked out. Nothing of it throws; every answer is an outcome. */
interface Work {
  readonly connection: Connection;
  readonly accounts: Pick<Accounts, 'get'>;
  readonly now: number;
  readonly reserved: string[];
  readonly changed: Map<string, Account>;
}

/** To be read only: it may be what all know. */
function accountOf(work: Work, thread: string): Readonly<Account> | undefined {
  return work.changed.get(thread) ?? work.accounts.get(thread);
}

/** To be changed: a copy of its own. One that is not there is changed for nobody. */
function draftOf(work: Work, thread: string): Account {
  const drafted = work.changed.get(thread);
  if (drafted) return drafted;
  const account = work.accounts.get(thread);
  const draft = account ? { ...account } : { limits: {}, used: {}, reserved: {}, open: [] };
  if (account) work.changed.set(thread, draft);
  return draft;
}

function find(work: Work, chain: readonly string[], key: string): Found | undefined {
  for (let at = 0; at < chain.length; at++) {
    for (const reservation of accountOf(work, chain[at] ?? '')?.open ?? []) {
      if (reservation.key === key) return { reservation, along: at ? chain.slice(at) : chain };
    }
  }
  return undefined;
}

function missing(work: Work, key: string): Outcome<never> {
  return work.connection.get(ELSEWHERE, key)
    ? fail('invalid_input', `reservation \`${key}\` belongs to other threads`, { key })
    : fail('not_found', `there is no open reservation \`${key}\``, { key });
}

function settleOne(work: Work, chain: readonly string[], { key, actual }: Settle): Outcome<null> {
  const found = find(work, chain, key);
  if (!found) return missing(work, key);
  const { along, reservation } = found;
  const { amounts, from } = reservation;
  const owner = draftOf(work, along[0] ?? '');
  owner.open = owner.open.length === 1 ? [] : owner.open.filter((one) => one !== reservation);
  for (const thread of along) {
    const account = draftOf(work, thread);
    account.used = plus(account.used, actual);
    account.reserved = without(account.reserved, amounts);
  }
  const source = from === undefined ? undefined : find(work, chain, from);
  if (!source) return ok(null);
  // What is left goes back to where it was drawn from, if that is still open.
  const left = without(amounts, actual);
  refill(work, source, plus(source.reservation.amounts, left));
  for (const thread of source.along) {
    const account = draftOf(work, thread);
    account.reserved = plus(account.reserved, left);
  }
  return ok(null);
}

function refill(work: Work, { reservation, along }: Found, amounts: Amounts): void {
  const owner = draftOf(work, along[0] ?? '');
  const others = owner.open.filter((one) => one !== reservation);
  owner.open = [...others, { ...reservation, amounts }];
}

function raiseLimits(work: Work, thread: string, to: Amounts): Outcome<null> {
  const { limits = {} } = accountOf(work, thread) ?? {};
  for (const kind of BUDGET_KINDS) {
    const [wanted, now] = [to[kind], limits[kind]];
    if (wanted === undefined || (now !== undefined && wanted >= now)) continue;
    const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'}; ${wanted} would not raise it`;
    return fail('invalid_input', message, { thread, limit: kind });
  }
  draftOf(work, thread).limits = { ...limits, ...to };
  return ok(null);
}

/** Open reservations at a thread and below it; `isLeft`: nobody waits for it, its thread has no live lease. */
function* openBelow(
  work: Work,
  root: string,
  thread: string,
): Generator<Reservation & { isLeft: boolean }> {
  for (const row of work.connection.all<TreeRow>(TREE, root)) {
    const chain: string[] = JSON.parse(row.chain);
    if (!chain.includes(thread)) continue;
    const isLeft = row.owner === null || (row.lease_until ?? 0) <= work.now;
    for (const one of accountOf(work, row.id)?.open ?? []) yield { ...one, isLeft };
  }
}

/** What nobody waits for, at a thread: standing ones, and those of threads without a live lease. */
function standingOf(work: Work, root: string, thread: string, kind: BudgetKind): bigint {
  let sum = 0n;
  for (const { standing, isLeft, amounts } of openBelow(work, root, thread)) {
    if (standing || isLeft) sum = add(sum, amounts[kind] ?? 0n);
  }
  return sum;
}

/** What was drawn from a reservation and is not settled: some of it comes back. */
function drawnFrom(work: Work, { along, reservation: { key } }: Found, kind: BudgetKind) {
  let [reserved, standing] = [0n, 0n];
  for (const one of openBelow(work, along.at(-1) ?? '', along[0] ?? '')) {
    if (one.from !== key) continue;
    const amount = one.amounts[kind] ?? 0n;
    reserved = add(reserved, amount);
    if (one.standing || one.isLeft) standing = add(standing, amount);
  }
  return { reserved, standing };
}

/** The nearest thread that has not enough left, and the first kind of it. */
function checkRoom(
  work: Work,
  chain: readonly string[],
  threads: readonly string[],
  amounts: Amounts,
) {
  for (const thread of threads) {
    const account = accountOf(work, thread);
    if (!account) return noThread(thread);
    for (const kind of BUDGET_KINDS) {
      const [requested, max] = [amounts[kind] ?? 0n, account.limits[kind]];
      if (max === undefined || requested === 0n) continue;
      const reserved = account.reserved[kind] ?? 0n;
      const current = (account.used[kind] ?? 0n) + reserved;
      if (current + requested <= max) continue;
      const standing = standingOf(work, chain.at(-1) ?? thread, thread, kind);
      return exceeded(kind, thread, { current, reserved, standing, max, requested });
    }
  }
  return ok(null);
}

function chargeAll(work: Work, chain: readonly string[], amounts: Amounts): Outcome<null> {
  const room = checkRoom(work, chain, chain, amounts);
  if (!room.ok) return room;
  for (const thread of chain) {
    const account = draftOf(work, thread);
    account.used = plus(account.used, amounts);
  }
  return room;
}

/** The reservation to take from, if it has enough. */
function sourceOf(
  work: Work,
  chain: readonly string[],
  key: string,
  amounts: Amounts,
): Outcome<Found> {
  const source = find(work, chain, key);
  if (!source) return missing(work, key);
  for (const kind of BUDGET_KINDS) {
    const [requested, left] = [amounts[kind] ?? 0n, source.reservation.amounts[kind] ?? 0n];
    if (requested <= left) continue;
    const drawn = drawnFrom(work, source, kind);
    const facts = { current: drawn.reserved, ...drawn, max: add(left, drawn.reserved), requested };
    return exceeded(kind, source.along[0] ?? '', facts);
  }
  return ok(source);
}

function setAside(work: Work, chain: readonly string[], wish: Reserve): Outcome<null> {
  const { key, amounts, from, standing } = wish;
  if (find(work, chain, key)) {
    const message = `reservation \`${key}\` is open already; use another key`;
    return fail('invalid_input', message, { key });
  }
  const source = from === undefined ? undefined : sourceOf(work, chain, from, amounts);
  if (source && !source.ok) return source;
  // What was drawn from is reserved along its chain already: there it only changes its name.
  const fresh = source ? chain.slice(0, -source.output.along.length) : chain;
  const room = checkRoom(work, chain, fresh, amounts);
  if (!room.ok) return room;
  if (source) refill(work, source.output, without(source.output.reservation.amounts, amounts));
  for (const thread of fresh) {
    const account = draftOf(work, thread);
    account.reserved = plus(account.reserved, amounts);
  }
  const made: Reservation = { key, amounts: positive(amounts) };
  if (from !== undefined) made.from = from;
  if (standing) made.standing = standing;
  const owner = draftOf(work, chain[0] ?? '');
  owner.open = [...owner.open, made];
  work.reserved.push(key);
  return ok(null);
}

/** Goes without, when it may. */
const isDispensable = ({ optional }: Reserve, { error: { code } }: Failure): boolean =>
  optional === true && (code === 'not_found' || code.endsWith('_exceeded'));

type Wishes = Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve'>;
type Child = Pick<NewThread, 'id' | 'budget' | 'reserve'>;

export interface BudgetPlan {
  /** Keys of what was set aside. */
  readonly reserved: readonly string[];
  /** Accounts that do not stay as they were, by their threads. */
  readonly changed: ReadonlyMap<string, Account>;
}

/** `chain`: the thread first, its root last; empty for the birth of a root. */
export function planBudgets(
  { connection, accounts }: { connection: Connection; accounts: Pick<Accounts, 'get'> },
  { settle = [], raise, charge, reserve = [] }: Wishes,
  chain: readonly string[],
  children: readonly Child[],
  now: number,
): Outcome<BudgetPlan> {
  const work: Work = { connection, accounts, now, reserved: [], changed: new Map() };
  for (const { id, budget: limits } of children) {
    work.changed.set(id, { limits, used: {}, reserved: {}, open: [] });
  }
  for (const one of settle) {
    const settled = settleOne(work, chain, one);
    if (!settled.ok) return settled;
  }
  const raised = raise ? raiseLimits(work, chain[0] ?? '', raise) : undefined;
  if (raised && !raised.ok) return raised;
  const charged = charge ? chargeAll(work, chain, charge) : undefined;
  if (charged && !charged.ok) return charged;
  for (const wish of reserve) {
    const made = setAside(work, chain, wish);
    if (!made.ok && !isDispensable(wish, made)) return made;
  }
  for (const child of children) {
    for (const wish of child.reserve ?? []) {
      const made = setAside(work, [child.id, ...chain], wish);
      if (!made.ok && !isDispensable(wish, made)) return made;
    }
  }
  return ok(work);
}
