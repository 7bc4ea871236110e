// The rules of a commit: fence, ids of children, budgets. A store supplies the rows and accounts that it
// read and writes the decision. This file does no I/O and has no clock, so every store can use it.
//
// INVARIANT: used plus reserved never exceeds a limit of a thread or of any ancestor. The worst case is
// reserved along the whole chain before a unit starts, and settled with the actual amounts. Only a
// provider that reports more than was reserved can push `used` further; then the next unit is refused.
//
// A reservation can be the source of others: one large reservation covers hooks and detached children,
// and their requests draw from it instead of from the rest of the chain.
import { compact, type Failure, fail, type Json } from '../base/index.ts';
import {
  type Amounts,
  add,
  BUDGET_KINDS,
  type BudgetKind,
  plus,
  positive,
  without,
} from './amounts.ts';
import type { Commit, OpenReservation, Reserve, Settle, Signal } from './port.ts';
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
  acknowledged: number;
}

interface ChainView {
  readonly thread: string;
  readonly fence: Fence;
  /** Accounts from the thread up to its root. The list can be empty if `changesBudgets` is false. */
  readonly accounts: readonly Account[];
  /** First child of the commit whose id is in use. Absent: all ids are free. */
  readonly takenId?: string | undefined;
}

/** New values of the columns in `Fence`. */
export interface RowChange {
  readonly seq: number;
  readonly status: ThreadStatus;
  readonly acknowledged: number;
  /** Ends the lease. The thread is queued from this time on, or not queued (null). Absent: the lease stays. */
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

interface PlainRefusal {
  readonly kind: 'refuse';
  readonly needs?: undefined;
  readonly failure: Failure;
}

/** A refusal with `needs` requires one more query. The store passes the result to `explain`. */
interface Unexplained<Needs extends string, Reply> {
  readonly kind: 'refuse';
  readonly needs: Needs;
  explain(result: Reply): Failure;
}

/** `isLeft`: its thread has no live lease, so no process waits for its reservations. */
type AccountBelow = Account & { readonly isLeft: boolean };

/** Needs the accounts at `thread` and below it, in the tree of `root`. */
interface ExceededRefusal extends Unexplained<'accounts_below', Iterable<AccountBelow>> {
  readonly thread: string;
  readonly root: string;
}

/** Needs a boolean: is a reservation with this key open in a thread that has not ended? */
interface MissingRefusal extends Unexplained<'is_elsewhere', boolean> {
  readonly key: string;
}

/** Needs the signals after number `after`. */
interface SignalRefusal extends Unexplained<'signals', readonly Signal[]> {
  readonly after: number;
}

export type BudgetRefusal = PlainRefusal | MissingRefusal | ExceededRefusal;
type CommitRefusal = BudgetRefusal | SignalRefusal;
type CommitDecision = (BudgetDecision & { readonly row: RowChange }) | CommitRefusal;

const refuse = (failure: Failure): PlainRefusal => ({ kind: 'refuse', failure });

const missing = (key: string): MissingRefusal => ({
  kind: 'refuse',
  needs: 'is_elsewhere',
  key,
  explain: (isElsewhere) =>
    isElsewhere
      ? fail('invalid_input', `reservation \`${key}\` belongs to other threads`, { key })
      : fail('not_found', `open reservation \`${key}\` not found`, { key }),
});

/** Codes of a fence after which the process has lost the lease. */
export const LEASE_LOST: readonly string[] = ['stale_epoch', 'conflict', 'lease_expired'];

function checkFence(
  { thread, fence }: ChainView,
  { expect, acknowledged = 0 }: Commit,
  now: number,
): CommitRefusal | undefined {
  const { seq, epoch, lease_until: until } = fence;
  const detail = { thread, seq, epoch };
  if (epoch !== expect.epoch) {
    const message = `another process owns the lease of thread \`${thread}\``;
    return refuse(fail('stale_epoch', message, detail));
  }
  if (seq !== expect.seq) {
    const message = `thread \`${thread}\` is at event ${seq}, not ${expect.seq}`;
    return refuse(fail('conflict', message, { ...detail, expected: expect.seq }));
  }
  if (until === null || until <= now) {
    const message = `the lease of thread \`${thread}\` ${until === null ? 'was released' : 'expired'}`;
    return refuse(fail('lease_expired', message, { ...detail, until }));
  }
  const after = Math.max(fence.acknowledged, acknowledged);
  if (!expect.quiet || fence.wakes <= after) return undefined;
  const message = `thread \`${thread}\` has unhandled signals`;
  const explain = (signals: readonly Signal[]) =>
    fail('signalled', message, { thread, signals: signals.map((one) => ({ ...one })) });
  return { kind: 'refuse', needs: 'signals', after, explain };
}

function changeRow(fence: Fence, commit: Commit, now: number): RowChange {
  const { events, release, status = fence.status } = commit;
  // A thread cannot acknowledge a signal that was not sent.
  const acknowledged = Math.max(
    fence.acknowledged,
    Math.min(commit.acknowledged ?? 0, fence.wakes),
  );
  const row = { seq: fence.seq + events.length, status, acknowledged };
  if (!release) return row;
  // INVARIANT: a thread that is released with a new signal is queued, so no signal is lost.
  const wake = fence.wakes > acknowledged ? now : release === true ? null : release.wake;
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

/** Adds amounts to the accounts from `first` to before `end`. `settled` is subtracted from `reserved`. */
function book(
  chain: Account[],
  first: number,
  end: number,
  { used, reserved, settled }: { used?: Amounts; reserved?: Amounts; settled?: Amounts },
): void {
  for (let at = first; at < end; at++) {
    const account = chain[at];
    if (!account) return;
    const rest = settled ? without(account.reserved, settled) : account.reserved;
    chain[at] = {
      ...account,
      used: used ? plus(account.used, used) : account.used,
      reserved: reserved ? plus(rest, reserved) : rest,
    };
  }
}

/** Replaces the open reservation `before` by `next`. An absent `next` closes the reservation. */
function replaceOpen(chain: Account[], at: number, before?: Reservation, next?: Reservation): void {
  const account = chain[at];
  if (!account) return;
  const others = before ? account.open.filter((one) => one !== before) : account.open;
  chain[at] = { ...account, open: next ? [...others, next] : others };
}

function settle(chain: Account[], { key, actual }: Settle): BudgetRefusal | undefined {
  const entry = find(chain, key);
  if (!entry) return missing(key);
  const { at, reservation } = entry;
  const { amounts, from } = reservation;
  replaceOpen(chain, at, reservation);
  book(chain, at, chain.length, { used: actual, settled: amounts });
  const source = from === undefined ? undefined : find(chain, from);
  if (!source) return undefined;
  // The rest returns to the source if that is still open.
  const rest = without(amounts, actual);
  const refilled = { ...source.reservation, amounts: plus(source.reservation.amounts, rest) };
  replaceOpen(chain, source.at, source.reservation, refilled);
  book(chain, source.at, chain.length, { reserved: rest });
  return undefined;
}

function raise(chain: Account[], to: Amounts): BudgetRefusal | undefined {
  const [account] = chain;
  if (!account) return undefined;
  const { thread, limits } = account;
  for (const kind of BUDGET_KINDS) {
    const [next, now] = [to[kind], limits[kind]];
    if (next === undefined || (now !== undefined && next >= now)) continue;
    const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'} and cannot become ${next}`;
    return refuse(fail('invalid_input', message, { thread, limit: kind }));
  }
  chain[0] = { ...account, limits: { ...limits, ...to } };
  return undefined;
}

/** Counts are numbers. Money is a text, so that no digit is lost. */
const amountJson = (kind: BudgetKind, amount: bigint): Json =>
  kind === 'spend' ? String(amount) : Number(amount);

/** `from`: the account at `at`, or the reservation of it that the request draws from. */
function exceeded(
  chain: readonly Account[],
  at: number,
  limit: BudgetKind,
  requested: bigint,
  from: { current: bigint; reserved: bigint; max: bigint } | { source: string; left: bigint },
): ExceededRefusal {
  const thread = chain[at]?.thread ?? '';
  const root = chain.at(-1)?.thread ?? thread;
  function explain(below: Iterable<AccountBelow>): Failure {
    let [all, standing] = [0n, 0n];
    for (const { isLeft, ...account } of below) {
      // The commit has changed the accounts of its chain before it was refused.
      const draft = chain.find((one) => one.thread === account.thread) ?? account;
      for (const one of draft.open) {
        if ('source' in from && one.from !== from.source) continue;
        const amount = one.amounts[limit] ?? 0n;
        all = add(all, amount);
        if (one.standing || isLeft) standing = add(standing, amount);
      }
    }
    const sums =
      'source' in from ? { current: all, reserved: all, max: add(from.left, all) } : from;
    const amounts = Object.entries({ ...sums, standing, requested });
    const text = (value: bigint) => String(limit === 'spend' ? Number(value) / 1e9 : value);
    const used = text(sums.current - sums.reserved);
    const message = `limit \`${limit}\` of thread \`${thread}\` exceeded: ${used} used, ${text(sums.reserved)} reserved, ${text(requested)} requested, ${text(sums.max)} allowed`;
    return fail(`${limit}_exceeded`, message, {
      ...Object.fromEntries(amounts.map(([name, amount]) => [name, amountJson(limit, amount)])),
      limit,
      thread,
    });
  }
  return { kind: 'refuse', needs: 'accounts_below', thread, root, explain };
}

/** Checks the first `count` accounts. It reports the nearest one that `amounts` exceed, with the first kind. */
function checkLimits(
  chain: readonly Account[],
  count: number,
  amounts: Amounts,
): ExceededRefusal | undefined {
  for (let at = 0; at < count; at++) {
    const { limits = {}, used = {}, reserved: open = {} } = chain[at] ?? {};
    for (const limit of BUDGET_KINDS) {
      const [requested, max] = [amounts[limit] ?? 0n, limits[limit]];
      if (max === undefined || requested === 0n) continue;
      const reserved = open[limit] ?? 0n;
      const current = (used[limit] ?? 0n) + reserved;
      if (current + requested <= max) continue;
      return exceeded(chain, at, limit, requested, { current, reserved, max });
    }
  }
  return undefined;
}

function charge(chain: Account[], amounts: Amounts): BudgetRefusal | undefined {
  const refusal = checkLimits(chain, chain.length, amounts);
  if (!refusal) book(chain, 0, chain.length, { used: amounts });
  return refusal;
}

function checkSource(
  chain: readonly Account[],
  { at, reservation }: NonNullable<ReturnType<typeof find>>,
  amounts: Amounts,
): ExceededRefusal | undefined {
  const { key: source, amounts: available } = reservation;
  for (const limit of BUDGET_KINDS) {
    const [requested, left] = [amounts[limit] ?? 0n, available[limit] ?? 0n];
    if (requested > left) return exceeded(chain, at, limit, requested, { source, left });
  }
  return undefined;
}

/** Makes a reservation of the first thread of the chain. */
function reserve(chain: Account[], request: Reserve): BudgetRefusal | undefined {
  const { key, amounts, from, standing } = request;
  if (find(chain, key)) {
    const message = `reservation \`${key}\` is already open; use another key`;
    return refuse(fail('invalid_input', message, { key }));
  }
  const source = from === undefined ? undefined : find(chain, from);
  if (from !== undefined && !source) return missing(from);
  // The amounts of a source are already reserved at its thread and at all ancestors of it.
  const count = source ? source.at : chain.length;
  const shortage = source && checkSource(chain, source, amounts);
  const refusal = shortage ?? checkLimits(chain, count, amounts);
  if (refusal) return refusal;
  if (source) {
    const { at, reservation } = source;
    const drawn = { ...reservation, amounts: without(reservation.amounts, amounts) };
    replaceOpen(chain, at, reservation, drawn);
  }
  book(chain, 0, count, { reserved: amounts });
  const entry = compact<Reservation>({ key, amounts: positive(amounts), from, standing });
  replaceOpen(chain, 0, undefined, entry);
  return undefined;
}

/** Makes reservations. An optional one is skipped if it exceeds a limit or its source is not open. */
function reserveAll(
  chain: Account[],
  requests: readonly Reserve[],
  reserved: string[],
): BudgetRefusal | undefined {
  for (const one of requests) {
    const refusal = reserve(chain, one);
    if (!refusal) reserved.push(one.key);
    else if (!one.optional || !refusal.needs) return refusal;
  }
  return undefined;
}

const CHANGES = ['settle', 'raise', 'charge', 'reserve', 'children'] as const;
type BudgetChange = Pick<Commit, (typeof CHANGES)[number]>;

/** Returns true if a commit needs the accounts of its chain. */
export const changesBudgets = (change: BudgetChange): boolean =>
  CHANGES.some((part) => change[part] !== undefined);

/** Decides without a fence. The chain of a new root is empty. `takenId`: a child whose id is in use. */
export function decideBudgets(
  before: readonly Account[],
  change: BudgetChange,
  takenId?: string,
): BudgetDecision | BudgetRefusal {
  const ids = change.children?.map(({ id }) => id);
  const taken = takenId ?? ids?.find((id, at) => ids.indexOf(id) !== at);
  if (taken !== undefined) return refuse(threadExists(taken));
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
  for (const { id, budget: limits, reserve: requests = [] } of change.children ?? []) {
    const account: Account = { thread: id, limits, used: {}, reserved: {}, open: [] };
    const below = [account, ...chain];
    const unfit = reserveAll(below, requests, reserved);
    if (unfit) return unfit;
    const [child = account, ...above] = below;
    children.push(child);
    chain = above;
  }
  const accounts = chain.filter((account, at) => account !== before[at]);
  return { kind: 'write', accounts, children, reserved };
}

/** Decides about a commit. A refused commit changes nothing. */
export function decide(view: ChainView, commit: Commit, now: number): CommitDecision {
  const refusal = checkFence(view, commit, now);
  if (refusal) return refusal;
  const budgets = decideBudgets(view.accounts, commit, view.takenId);
  if (budgets.kind === 'refuse') return budgets;
  const { accounts, children, reserved } = budgets;
  return { kind: 'write', row: changeRow(view.fence, commit, now), accounts, children, reserved };
}
