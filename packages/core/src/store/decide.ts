// The rules of a commit: fence, ids of children, budgets. A store supplies the rows and accounts that it
// read and writes the decision. This file does no I/O and has no clock, so every store can use it.
//
// INVARIANT: used plus reserved never exceeds a limit of a thread or of any ancestor. The worst case is
// reserved along the whole chain before a unit starts, and settled with the actual amounts. Only a
// provider that reports more than was reserved can push `used` further; then the next unit is refused.
//
// A reservation can be the source of others: one large reservation covers hooks and detached children,
// and their requests draw from it instead of from the rest of the chain.
import { type Failure, fail, type Json } from '../base/index.ts';
import {
  type Amounts,
  add,
  BUDGET_KINDS,
  type BudgetKind,
  plus,
  positive,
  without,
} from './amounts.ts';
import type { Commit, NewThread, OpenReservation, Reserve, Settle, Signal } from './port.ts';
import { isEnded, type ThreadStatus, threadExists } from './thread-id.ts';

interface Reservation extends OpenReservation {
  standing?: boolean;
}

/** Limits of a thread, and the amounts that it and all threads below it have used and reserved. */
export interface Account {
  readonly thread: string;
  readonly limits: Amounts;
  readonly used: Amounts;
  readonly reserved: Amounts;
  /** Reservations of this thread. They count in `reserved` here and at every ancestor. */
  readonly open: readonly Reservation[];
}

/** The columns of a thread that the fence compares with a commit. */
export interface Fence {
  seq: number;
  epoch: number;
  status: ThreadStatus;
  lease_until: number | null;
  /** Number of the last signal to the thread. */
  wakes: number;
  /** Number of the last signal that the thread acknowledged. */
  heard: number;
}

export interface ChainView {
  readonly thread: string;
  readonly fence: Fence;
  /** The thread first, its root last. Empty is allowed if `changesBudgets` is false. */
  readonly accounts: readonly Account[];
  /** The first child of the commit whose id is in use. */
  readonly takenId?: string | undefined;
}

/** New values of the columns in `Fence`. */
export interface RowChange {
  readonly seq: number;
  readonly status: ThreadStatus;
  readonly heard: number;
  /** The lease ends, and the thread is queued from this time on; null: it is not queued. */
  readonly release?: { readonly queued: number | null };
}

interface BudgetDecision {
  readonly kind: 'write';
  /** Accounts of the chain that change. */
  readonly accounts: readonly Account[];
  /** Accounts of the new children, in the order of the commit. */
  readonly children: readonly Account[];
  /** Keys of the new reservations. */
  readonly reserved: readonly string[];
}

interface WriteDecision extends BudgetDecision {
  readonly row: RowChange;
}

interface PlainRefusal {
  readonly kind: 'refuse';
  readonly facts?: undefined;
  readonly failure: Failure;
}

/** Needed: the signals after number `after`. */
interface SignalRefusal {
  readonly kind: 'refuse';
  readonly facts: 'signals';
  readonly thread: string;
  readonly after: number;
}

/** Needed: is a reservation with this key open in any thread that has not ended? */
interface MissingRefusal {
  readonly kind: 'refuse';
  readonly facts: 'reservation_elsewhere';
  readonly key: string;
}

/** Needed: the open reservations at `thread` and below it, in the tree of `root`. */
interface ExceededRefusal {
  readonly kind: 'refuse';
  readonly facts: 'standing';
  readonly limit: BudgetKind;
  readonly thread: string;
  readonly root: string;
  readonly requested: bigint;
  /** Of the account of `thread`, or of the reservation that the request draws from. */
  readonly from:
    | { readonly current: bigint; readonly reserved: bigint; readonly max: bigint }
    | { readonly source: string; readonly left: bigint };
  /** Accounts of the chain as the commit has changed them so far. They replace those of the store. */
  readonly accounts: readonly Account[];
}

export type BudgetRefusal = PlainRefusal | MissingRefusal | ExceededRefusal;
/** A refusal with `facts` needs one more query before `explainRefusal` can report it. */
export type Refusal = BudgetRefusal | SignalRefusal;
type Decision = WriteDecision | Refusal;

/** `isLeft`: its thread has no live lease, so no process waits for it. */
export type ReservationBelow = Reservation & { readonly isLeft: boolean };

type ExplainedRefusal =
  | PlainRefusal
  | (SignalRefusal & { readonly signals: readonly Signal[] })
  | (MissingRefusal & { readonly isElsewhere: boolean })
  | (ExceededRefusal & { readonly open: Iterable<ReservationBelow> });

const refuse = (failure: Failure): PlainRefusal => ({ kind: 'refuse', failure });
const missing = (key: string): MissingRefusal => ({
  kind: 'refuse',
  facts: 'reservation_elsewhere',
  key,
});

/** Codes of a fence after which the process has lost the lease. */
export const LEASE_LOST: readonly string[] = ['stale_epoch', 'conflict', 'lease_expired'];

function checkFence(
  { thread, fence }: ChainView,
  { expect, heard = 0 }: Commit,
  now: number,
): Refusal | undefined {
  const { seq, epoch, lease_until: until } = fence;
  const detail = { thread, seq, epoch };
  if (epoch !== expect.epoch) {
    const message = `thread \`${thread}\` is held by somebody else now`;
    return refuse(fail('stale_epoch', message, detail));
  }
  if (seq !== expect.seq) {
    const message = `thread \`${thread}\` is at event ${seq}, not ${expect.seq}`;
    return refuse(fail('conflict', message, { ...detail, expected: expect.seq }));
  }
  if (until === null || until <= now) {
    const message = `the lease of thread \`${thread}\` ${until === null ? 'was given back' : 'ran out'}`;
    return refuse(fail('lease_expired', message, { ...detail, until }));
  }
  const after = Math.max(fence.heard, heard);
  if (!expect.quiet || fence.wakes <= after) return undefined;
  return { kind: 'refuse', facts: 'signals', thread, after };
}

function changeRow(fence: Fence, commit: Commit, now: number): RowChange {
  const { events, release, status = fence.status } = commit;
  // A thread cannot acknowledge a signal that was not sent.
  const heard = Math.max(fence.heard, Math.min(commit.heard ?? 0, fence.wakes));
  const row = { seq: fence.seq + events.length, status, heard };
  if (!release) return row;
  // INVARIANT: a thread that is released with a new signal is queued, so no signal is lost.
  const wake = fence.wakes > heard ? now : release === true ? null : release.wake;
  return { ...row, release: { queued: isEnded(status) ? null : wake } };
}

function find(chain: readonly Account[], key: string) {
  for (let at = 0; at < chain.length; at++) {
    for (const reservation of chain[at]?.open ?? []) {
      if (reservation.key === key) return { at, reservation };
    }
  }
  return undefined;
}

/** Changes the accounts from `first` up to, and without, `end`. */
function changeAccounts(
  chain: Account[],
  first: number,
  end: number,
  change: (account: Account) => Account,
): void {
  for (let at = first; at < end; at++) {
    const account = chain[at];
    if (account) chain[at] = change(account);
  }
}

/** Puts `next` in the place of an open reservation. The reservation is closed if `next` is absent. */
function replaceOpen(chain: Account[], at: number, before?: Reservation, next?: Reservation): void {
  const account = chain[at];
  if (!account) return;
  const others = before ? account.open.filter((one) => one !== before) : account.open;
  chain[at] = { ...account, open: next ? [...others, next] : others };
}

function addReserved(chain: Account[], first: number, end: number, amounts: Amounts): void {
  changeAccounts(chain, first, end, (account) => ({
    ...account,
    reserved: plus(account.reserved, amounts),
  }));
}

function settle(chain: Account[], { key, actual }: Settle): BudgetRefusal | undefined {
  const found = find(chain, key);
  if (!found) return missing(key);
  const { at, reservation } = found;
  const { amounts, from } = reservation;
  replaceOpen(chain, at, reservation);
  changeAccounts(chain, at, chain.length, (account) => ({
    ...account,
    used: plus(account.used, actual),
    reserved: without(account.reserved, amounts),
  }));
  const source = from === undefined ? undefined : find(chain, from);
  if (!source) return undefined;
  // The rest returns to the source if that is still open.
  const rest = without(amounts, actual);
  const refilled = { ...source.reservation, amounts: plus(source.reservation.amounts, rest) };
  replaceOpen(chain, source.at, source.reservation, refilled);
  addReserved(chain, source.at, chain.length, rest);
  return undefined;
}

function raise(chain: Account[], to: Amounts): BudgetRefusal | undefined {
  const [account] = chain;
  if (!account) return undefined;
  const { thread, limits } = account;
  for (const kind of BUDGET_KINDS) {
    const [wanted, now] = [to[kind], limits[kind]];
    if (wanted === undefined || (now !== undefined && wanted >= now)) continue;
    const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'}; ${wanted} would not raise it`;
    return refuse(fail('invalid_input', message, { thread, limit: kind }));
  }
  chain[0] = { ...account, limits: { ...limits, ...to } };
  return undefined;
}

/** Finds the nearest of the first `count` accounts that `amounts` exceed, and the first kind of it. */
function checkLimits(
  chain: readonly Account[],
  count: number,
  amounts: Amounts,
): ExceededRefusal | undefined {
  for (let at = 0; at < count; at++) {
    const account = chain[at];
    if (!account) break;
    const { thread, limits, used, reserved: open } = account;
    for (const limit of BUDGET_KINDS) {
      const [requested, max] = [amounts[limit] ?? 0n, limits[limit]];
      if (max === undefined || requested === 0n) continue;
      const reserved = open[limit] ?? 0n;
      const current = (used[limit] ?? 0n) + reserved;
      if (current + requested <= max) continue;
      return exceeded(chain, thread, limit, requested, { current, reserved, max });
    }
  }
  return undefined;
}

const exceeded = (
  accounts: readonly Account[],
  thread: string,
  limit: BudgetKind,
  requested: bigint,
  from: ExceededRefusal['from'],
): ExceededRefusal => {
  const root = accounts.at(-1)?.thread ?? thread;
  return { kind: 'refuse', facts: 'standing', limit, thread, root, requested, from, accounts };
};

function charge(chain: Account[], amounts: Amounts): BudgetRefusal | undefined {
  const refusal = checkLimits(chain, chain.length, amounts);
  if (refusal) return refusal;
  changeAccounts(chain, 0, chain.length, (account) => ({
    ...account,
    used: plus(account.used, amounts),
  }));
  return undefined;
}

/** Reserves for the first thread of the chain. */
function reserve(chain: Account[], wanted: Reserve): BudgetRefusal | undefined {
  const { key, amounts, from, standing } = wanted;
  if (find(chain, key)) {
    const message = `reservation \`${key}\` is open already; use another key`;
    return refuse(fail('invalid_input', message, { key }));
  }
  const source = from === undefined ? undefined : find(chain, from);
  if (from !== undefined && !source) return missing(from);
  const shortage = source && checkSource(chain, source, amounts);
  if (shortage) return shortage;
  // The amounts of a source are reserved at its thread and above already.
  const count = source ? source.at : chain.length;
  const refusal = checkLimits(chain, count, amounts);
  if (refusal) return refusal;
  if (source) {
    const rest = without(source.reservation.amounts, amounts);
    const drawn = { ...source.reservation, amounts: rest };
    replaceOpen(chain, source.at, source.reservation, drawn);
  }
  addReserved(chain, 0, count, amounts);
  replaceOpen(chain, 0, undefined, {
    key,
    amounts: positive(amounts),
    ...(from === undefined ? {} : { from }),
    ...(standing ? { standing } : {}),
  });
  return undefined;
}

function checkSource(
  chain: readonly Account[],
  {
    at,
    reservation: { key: source, amounts: available },
  }: { at: number; reservation: Reservation },
  amounts: Amounts,
): ExceededRefusal | undefined {
  for (const limit of BUDGET_KINDS) {
    const [requested, left] = [amounts[limit] ?? 0n, available[limit] ?? 0n];
    const thread = chain[at]?.thread ?? '';
    if (requested > left) return exceeded(chain, thread, limit, requested, { source, left });
  }
  return undefined;
}

/** Makes what fits. An optional reservation without a source, or beyond a limit, is left out. */
function reserveAll(
  chain: Account[],
  wanted: readonly Reserve[],
  reserved: string[],
): BudgetRefusal | undefined {
  for (const one of wanted) {
    const refusal = reserve(chain, one);
    if (!refusal) reserved.push(one.key);
    else if (!one.optional || refusal.facts === undefined) return refusal;
  }
  return undefined;
}

type BudgetChange = Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve'> & {
  readonly children?: readonly Pick<NewThread, 'id' | 'budget' | 'reserve'>[];
};

/** Does a commit need the accounts of its chain? */
export const changesBudgets = (change: BudgetChange): boolean =>
  change.settle !== undefined ||
  change.raise !== undefined ||
  change.charge !== undefined ||
  change.reserve !== undefined ||
  change.children !== undefined;

const NO_CHANGE: BudgetDecision = { kind: 'write', accounts: [], children: [], reserved: [] };

/** Decides about budgets alone: for a new root, whose chain is empty. */
export function decideBudgets(
  before: readonly Account[],
  change: BudgetChange,
): BudgetDecision | BudgetRefusal {
  if (!changesBudgets(change)) return NO_CHANGE;
  let chain = [...before];
  const reserved: string[] = [];
  for (const one of change.settle ?? []) {
    const refusal = settle(chain, one);
    if (refusal) return refusal;
  }
  const refusal =
    (change.raise && raise(chain, change.raise)) ??
    (change.charge && charge(chain, change.charge)) ??
    reserveAll(chain, change.reserve ?? [], reserved);
  if (refusal) return refusal;
  const children: Account[] = [];
  for (const { id, budget: limits, reserve: wanted = [] } of change.children ?? []) {
    const account: Account = { thread: id, limits, used: {}, reserved: {}, open: [] };
    const below = [account, ...chain];
    const unfit = reserveAll(below, wanted, reserved);
    if (unfit) return unfit;
    const [child = account, ...above] = below;
    children.push(child);
    chain = above;
  }
  const accounts = chain.filter((account, at) => account !== before[at]);
  return { kind: 'write', accounts, children, reserved };
}

/** Decides about a commit. A refusal changes nothing. */
export function decide(view: ChainView, commit: Commit, now: number): Decision {
  const refusal = checkFence(view, commit, now);
  if (refusal) return refusal;
  const ids = commit.children?.map(({ id }) => id);
  const taken = view.takenId ?? ids?.find((id, at) => ids.indexOf(id) !== at);
  if (taken !== undefined) return refuse(threadExists(taken));
  const budgets = decideBudgets(view.accounts, commit);
  if (budgets.kind === 'refuse') return budgets;
  const { accounts, children, reserved } = budgets;
  return { kind: 'write', row: changeRow(view.fence, commit, now), accounts, children, reserved };
}

/** Counts are numbers. Money is a text, so that no digit is lost. */
const shown = (kind: BudgetKind, amount: bigint): Json =>
  kind === 'spend' ? String(amount) : Number(amount);

function explainExceeded(
  { limit, thread, requested, from }: ExceededRefusal,
  open: Iterable<ReservationBelow>,
): Failure {
  let [all, standing] = [0n, 0n];
  for (const one of open) {
    if ('source' in from && one.from !== from.source) continue;
    const amount = one.amounts[limit] ?? 0n;
    all = add(all, amount);
    if (one.standing || one.isLeft) standing = add(standing, amount);
  }
  const rest = 'source' in from ? { current: all, reserved: all, max: add(from.left, all) } : from;
  const amounts = Object.entries({ ...rest, standing, requested });
  // The amounts are data, money in nano-units: the caller has the text for them.
  const message = `the limit \`${limit}\` of thread \`${thread}\` does not leave enough`;
  return fail(`${limit}_exceeded`, message, {
    ...Object.fromEntries(amounts.map(([name, amount]) => [name, shown(limit, amount)])),
    limit,
    thread,
  });
}

/** Returns what the store reports: the refusal with the facts that it asked for. */
export function explainRefusal(refusal: ExplainedRefusal): Failure {
  switch (refusal.facts) {
    case undefined:
      return refusal.failure;
    case 'signals': {
      const { thread, signals } = refusal;
      const message = `thread \`${thread}\` was spoken to meanwhile`;
      return fail('signalled', message, { thread, signals: signals.map((one) => ({ ...one })) });
    }
    case 'reservation_elsewhere': {
      const { key } = refusal;
      return refusal.isElsewhere
        ? fail('invalid_input', `reservation \`${key}\` belongs to other threads`, { key })
        : fail('not_found', `there is no open reservation \`${key}\``, { key });
    }
    case 'standing':
      return explainExceeded(refusal, refusal.open);
  }
}
