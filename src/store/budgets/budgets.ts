// Limits of a tree. INVARIANT: what is used plus what is reserved never passes a thread's limit or
// any ancestor's, however many processes ask at once: the worst case is reserved along the whole
// chain in one transaction before anything starts, and settled with what it really took. Only a
// provider that reports more than was reserved can push `used` further; then the next unit stops.
//
// A reservation can be drawn from: what hooks and detached children need is set aside in one large
// reservation first, and their requests then take from it instead of from what others have left.
import { type Clock, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import {
  type Amounts,
  amountsToText,
  BUDGET_KINDS,
  type BudgetKind,
  type BudgetLimits,
  checkAmounts,
  plus,
  without,
} from '../amounts.ts';
import type { Database } from '../database/database.ts';
import { noThread } from '../thread-id.ts';
import {
  type Account,
  createAccounts,
  createReservations,
  type OpenedReservation,
  type Reservation,
} from './rows.ts';

export interface BudgetState {
  limits: BudgetLimits;
  used: Required<Amounts>;
  reserved: Required<Amounts>;
}

export interface OpenReservation {
  key: string;
  amounts: Amounts;
  drawn_from?: string;
}

export interface Budgets {
  /** Part of creating a thread. */
  open(thread: string, limits: BudgetLimits): Outcome<null>;
  /** Part of an append, which is undone as a whole: as `settle`. */
  charge(key: string, actual: Amounts): Outcome<null>;
  /**
   * `chain`: the thread first, its root last. Refused with `<kind>_exceeded` `{limit, current, max,
   * requested, thread}`, where `thread` is the nearest one that has not enough left; amounts are
   * numbers, money a string of nano-units. The same request under the same key is made once.
   */
  reserve(
    chain: readonly string[],
    amounts: Amounts,
    key: string,
    options?: { from?: string },
  ): Outcome<null>;
  /** Charges `actual` and frees the rest, once; also after `cancel`, because spent is spent. */
  settle(key: string, actual: Amounts): Outcome<null>;
  /** Frees a reservation that was not needed. Nothing happens to a settled one. */
  cancel(key: string): Outcome<null>;
  /** What a crash may have left open. */
  openReservations(thread: string): Outcome<OpenReservation[]>;
  budget(thread: string): Outcome<BudgetState>;
  /** Only upwards; the ancestors' limits hold as before. */
  raiseLimit(thread: string, kind: BudgetKind, to: bigint): Outcome<null>;
}

/** Counts as numbers; money keeps every digit. */
const shown = (kind: BudgetKind, amount: bigint): Json =>
  kind === 'spend' ? String(amount) : Number(amount);

function exceeded(
  kind: BudgetKind,
  thread: string,
  facts: { current: bigint; max: bigint; requested: bigint },
): Outcome<never> {
  const { current, max, requested } = facts;
  return fail(
    `${kind}_exceeded`,
    `${requested} more ${kind} would pass the limit of thread \`${thread}\`: ${current} of ${max} are used or reserved`,
    {
      limit: kind,
      current: shown(kind, current),
      max: shown(kind, max),
      requested: shown(kind, requested),
      thread,
    },
  );
}

function checkRoom(thread: string, account: Account, amounts: Amounts): Outcome<null> {
  for (const kind of BUDGET_KINDS) {
    const [requested, max] = [amounts[kind] ?? 0n, account.limits[kind]];
    if (max === undefined || requested === 0n) continue;
    const current = account.used[kind] + account.reserved[kind];
    if (current + requested > max) return exceeded(kind, thread, { current, max, requested });
  }
  return ok(null);
}

/** The same request again finds its reservation; anything else under that key is a mistake. */
function repeated(
  before: Reservation,
  chain: readonly string[],
  amounts: Amounts,
  from: string | undefined,
): Outcome<null> {
  const { key, state } = before;
  const isSame =
    before.chain.join() === chain.join() &&
    before.drawnFrom === from &&
    amountsToText(before.requested) === amountsToText(amounts);
  if (isSame && state === 'open') return ok(null);
  const why = isSame ? 'was settled already' : 'was made for something else';
  return fail('conflict', `reservation \`${key}\` ${why}; use another key`, { key, state });
}

/** What every step of a budget works on. */
interface Books {
  accounts: ReturnType<typeof createAccounts>;
  reservations: ReturnType<typeof createReservations>;
}

/** The accounts of a chain that really leads from a thread to its root. */
function readChain(
  { accounts }: Books,
  chain: readonly string[],
  amounts: Amounts,
): Outcome<Account[]> {
  const found: Account[] = [];
  const kinds = BUDGET_KINDS.filter((kind) => amounts[kind] !== undefined);
  for (const [index, thread] of chain.entries()) {
    const account = accounts.read(thread, kinds);
    if (!account) return noThread(thread);
    if (account.parent !== (chain[index + 1] ?? null)) {
      const message = `the chain after thread \`${thread}\` does not lead to its root`;
      return fail('invalid_input', message, { thread });
    }
    found.push(account);
  }
  if (found.length > 0) return ok(found);
  return fail('invalid_input', 'a chain holds at least one thread');
}

/** Takes `amounts` out of an open reservation; answers with the threads it was made along. */
function draw(
  { reservations }: Books,
  key: string,
  chain: readonly string[],
  amounts: Amounts,
): Outcome<readonly string[]> {
  const source = reservations.find(key);
  if (!source || source.state !== 'open') {
    return fail('not_found', `there is no open reservation \`${key}\` to draw from`, { key });
  }
  if (!source.chain.every((thread) => chain.includes(thread))) {
    return fail('invalid_input', `reservation \`${key}\` belongs to other threads`, { key });
  }
  for (const kind of BUDGET_KINDS) {
    const [requested, left] = [amounts[kind] ?? 0n, source.amounts[kind] ?? 0n];
    if (requested > left) {
      return exceeded(kind, source.chain[0] ?? '', { current: 0n, max: left, requested });
    }
  }
  reservations.update(key, 'open', without(source.amounts, amounts));
  return ok(source.chain);
}

function reserve(
  books: Books,
  chain: readonly string[],
  amounts: Amounts,
  key: string,
  from: string | undefined,
): Outcome<null> {
  const { accounts, reservations } = books;
  const drawnFrom = from === undefined ? {} : { drawnFrom: from };
  const made: Reservation = {
    key,
    chain,
    requested: amounts,
    amounts,
    state: 'open',
    ...drawnFrom,
  };
  // Written before anything is known about it: whoever is refused is undone.
  if (!reservations.add(made)) {
    const before = reservations.find(key);
    if (before && before.state !== 'cancelled') return repeated(before, chain, amounts, from);
    reservations.write(made);
  }
  const found = readChain(books, chain, amounts);
  if (!found.ok) return found;
  const covered = from === undefined ? ok([]) : draw(books, from, chain, amounts);
  if (!covered.ok) return covered;
  // What was drawn from is reserved along its chain already: there it only changes its name.
  const isFresh = (thread: string): boolean => !covered.output.includes(thread);
  for (const [index, account] of found.output.entries()) {
    const thread = chain[index] ?? '';
    const room = isFresh(thread) ? checkRoom(thread, account, amounts) : ok(null);
    if (!room.ok) return room;
  }
  for (const thread of chain.filter(isFresh)) accounts.change(thread, { reserve: amounts });
  return ok(null);
}

/** What is left goes back to where it was drawn from, if that is still open. */
function giveBack(
  { accounts, reservations }: Books,
  reservation: OpenedReservation,
  actual: Amounts,
): void {
  const source = reservation.drawnFrom ? reservations.find(reservation.drawnFrom) : undefined;
  if (source?.state !== 'open') return;
  const left = without(reservation.amounts, actual);
  reservations.update(source.key, 'open', plus(source.amounts, left));
  for (const thread of source.chain) accounts.change(thread, { reserve: left });
}

function close(
  books: Books,
  key: string,
  actual: Amounts,
  state: 'settled' | 'cancelled',
): Outcome<null> {
  const { accounts, reservations } = books;
  const open = reservations.close(key, state);
  if (open) {
    for (const thread of open.chain) accounts.change(thread, { free: open.amounts, use: actual });
    giveBack(books, open, actual);
    return ok(null);
  }
  const reservation = reservations.find(key);
  if (!reservation) return fail('not_found', `there is no reservation \`${key}\``, { key });
  // Cancelled and yet used: spent is spent.
  if (reservation.state !== 'cancelled' || state === 'cancelled') return ok(null);
  for (const thread of reservation.chain) accounts.change(thread, { use: actual });
  reservations.update(key, state, reservation.amounts);
  return ok(null);
}

export function createBudgets(database: Database, clock: Clock): Budgets {
  const books: Books = {
    accounts: createAccounts(database),
    reservations: createReservations(database, clock),
  };
  const { accounts, reservations } = books;

  function charge(key: string, actual: Amounts): Outcome<null> {
    const valid = checkAmounts(actual);
    return valid.ok ? close(books, key, actual, 'settled') : valid;
  }

  return {
    open(thread, limits) {
      const valid = checkAmounts(limits);
      if (valid.ok) accounts.open(thread, limits);
      return valid;
    },
    reserve(chain, amounts, key, options = {}) {
      const valid = checkAmounts(amounts);
      return valid.ok
        ? database.write(() => reserve(books, chain, amounts, key, options.from))
        : valid;
    },
    charge,
    settle: (key, actual) => database.write(() => charge(key, actual)),
    cancel: (key) => database.write(() => close(books, key, {}, 'cancelled')),
    openReservations: (thread) => database.read(() => ok(reservations.openOf(thread))),
    budget: (thread) =>
      database.read(() => {
        const account = accounts.read(thread);
        if (!account) return noThread(thread);
        const { limits, used, reserved } = account;
        return ok({ limits, used, reserved });
      }),
    raiseLimit(thread, kind, to) {
      const valid = checkAmounts({ [kind]: to });
      if (!valid.ok) return valid;
      return database.write(() => {
        const account = accounts.read(thread);
        if (!account) return noThread(thread);
        const now = account.limits[kind];
        if (now === undefined || to < now) {
          const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'}; ${to} would not raise it`;
          return fail('invalid_input', message, { thread, limit: kind });
        }
        accounts.limit(thread, kind, to);
        return ok(null);
      });
    },
  };
}
