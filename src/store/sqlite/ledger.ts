// Limits of a tree. INVARIANT: what is used plus what is reserved never passes a thread's limit or
// any ancestor's, however many processes ask at once: the worst case is reserved along the whole
// chain before anything starts, and settled with what it really took. Only a provider that reports
// more than was reserved can push `used` further; then the next unit stops.
//
// A commit's wishes are worked out here, in memory, before anything is written: what is refused has
// changed nothing. A reservation can be drawn from: what hooks and detached children need is set
// aside in one large reservation first, and their requests take from it instead of from what others
// have left.
import { fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { type Amounts, BUDGET_KINDS, type BudgetKind, plus, without } from '../amounts.ts';
import type { Commit, NewThread, Reserve, Settle } from '../port.ts';
import { noThread } from '../thread-id.ts';
import {
  type Account,
  type Delta,
  type LedgerRows,
  type Reservation,
  sumOf,
} from './ledger-rows.ts';

export interface Booking extends Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve'> {
  /** The thread first, its root last; empty for the birth of a root. */
  chain: readonly string[];
  children?: readonly Pick<NewThread, 'id' | 'budget' | 'reserve'>[];
  now: number;
}

/** What is to be written. */
export interface LedgerPlan {
  reserved: readonly string[];
  write(): void;
}

interface Entry {
  reservation: Reservation;
  state: 'as it was' | 'changed' | 'made' | 'closed';
}

const NO_CHANGE: Delta = { use: {}, reserve: {} };
const EMPTY: Account = {
  limits: {},
  used: { spawns: 0n, tokens: 0n, input_tokens: 0n, output_tokens: 0n, spend: 0n },
  reserved: { spawns: 0n, tokens: 0n, input_tokens: 0n, output_tokens: 0n, spend: 0n },
};

function negated(amounts: Amounts): Amounts {
  const turned: { [kind in BudgetKind]?: bigint } = {};
  for (const kind of BUDGET_KINDS) {
    const amount = amounts[kind];
    if (amount !== undefined) turned[kind] = -amount;
  }
  return turned;
}

/** Counts as numbers; money keeps every digit. */
const shown = (kind: BudgetKind, amount: bigint): Json =>
  kind === 'spend' ? String(amount) : Number(amount);

interface Shortage {
  current: bigint;
  reserved: bigint;
  standing: bigint;
  max: bigint;
  requested: bigint;
}

export function exceeded(kind: BudgetKind, thread: string, facts: Shortage): Outcome<never> {
  const { current, max, requested } = facts;
  const message = `${requested} more ${kind} would pass the limit of thread \`${thread}\`: ${current} of ${max} are used or reserved`;
  const amounts = Object.entries(facts).map(([name, amount]) => [name, shown(kind, amount)]);
  return fail(`${kind}_exceeded`, message, { ...Object.fromEntries(amounts), limit: kind, thread });
}

/** Works out one commit. Throws nothing; every answer is an outcome. */
class Work {
  readonly deltas = new Map<string, Delta>();
  readonly entries = new Map<string, Entry>();
  readonly reserved: string[] = [];
  private readonly accounts = new Map<string, Account>();
  private readonly rows: LedgerRows;
  private readonly now: number;

  constructor(rows: LedgerRows, now: number) {
    this.rows = rows;
    this.now = now;
  }

  load(threads: readonly string[], kinds: readonly BudgetKind[]): void {
    if (threads.length === 0 || kinds.length === 0) return;
    for (const [thread, account] of this.rows.accounts(threads, kinds)) {
      this.accounts.set(thread, account);
    }
  }

  born(thread: string, limits: Amounts): void {
    this.accounts.set(thread, { ...EMPTY, limits });
  }

  private change(threads: readonly string[], { use, reserve }: Delta): void {
    for (const thread of threads) {
      const before = this.deltas.get(thread) ?? NO_CHANGE;
      const after = { use: plus(before.use, use), reserve: plus(before.reserve, reserve) };
      this.deltas.set(thread, after);
    }
  }

  private entry(key: string): Entry | undefined {
    const known = this.entries.get(key);
    if (known) return known.state === 'closed' ? undefined : known;
    const reservation = this.rows.find(key);
    if (!reservation) return undefined;
    const found: Entry = { reservation, state: 'as it was' };
    this.entries.set(key, found);
    return found;
  }

  private set(entry: Entry, amounts: Amounts): void {
    entry.reservation = { ...entry.reservation, amounts };
    if (entry.state === 'as it was') entry.state = 'changed';
  }

  /** An open reservation of this chain, and the part of the chain that it was made along. */
  private openIn(
    chain: readonly string[],
    key: string,
  ): Outcome<{ entry: Entry; along: readonly string[] }> {
    const entry = this.entry(key);
    if (!entry) return fail('not_found', `there is no open reservation \`${key}\``, { key });
    const at = chain.indexOf(entry.reservation.thread);
    if (at === -1) {
      return fail('invalid_input', `reservation \`${key}\` belongs to other threads`, { key });
    }
    return ok({ entry, along: chain.slice(at) });
  }

  settle(chain: readonly string[], { key, actual }: Settle): Outcome<null> {
    const found = this.openIn(chain, key);
    if (!found.ok) return found;
    const { entry, along } = found.output;
    const { amounts, from } = entry.reservation;
    entry.state = 'closed';
    this.change(along, { use: actual, reserve: negated(amounts) });
    if (from === undefined) return ok(null);
    // What is left goes back to where it was drawn from, if that is still open.
    const source = this.openIn(chain, from);
    if (!source.ok) return ok(null);
    const left = without(amounts, actual);
    this.set(source.output.entry, plus(source.output.entry.reservation.amounts, left));
    this.change(source.output.along, { use: {}, reserve: left });
    return ok(null);
  }

  raise(thread: string, to: Amounts): Outcome<null> {
    const account = this.accounts.get(thread);
    if (!account) return noThread(thread);
    for (const kind of BUDGET_KINDS) {
      const [wanted, now] = [to[kind], account.limits[kind]];
      if (wanted === undefined || (now !== undefined && wanted >= now)) continue;
      const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'}; ${wanted} would not raise it`;
      return fail('invalid_input', message, { thread, limit: kind });
    }
    this.accounts.set(thread, { ...account, limits: { ...account.limits, ...to } });
    return ok(null);
  }

  private shortage(
    root: string,
    thread: string,
    kind: BudgetKind,
    facts: Omit<Shortage, 'standing'>,
  ) {
    const found = this.rows.standing({ root, thread, kind, now: this.now });
    for (const [key, { reservation, state }] of this.entries) {
      found.delete(key);
      if (state !== 'closed' && reservation.standing)
        found.set(key, reservation.amounts[kind] ?? 0n);
    }
    return exceeded(kind, thread, { ...facts, standing: sumOf(found.values()) });
  }

  /** The nearest thread that has not enough left, and the first kind of it. */
  private room(chain: readonly string[], threads: readonly string[], amounts: Amounts) {
    const asked = BUDGET_KINDS.filter((kind) => (amounts[kind] ?? 0n) > 0n);
    for (const thread of asked.length === 0 ? [] : threads) {
      const account = this.accounts.get(thread);
      if (!account) return noThread(thread);
      const { use, reserve } = this.deltas.get(thread) ?? NO_CHANGE;
      for (const kind of asked) {
        const [requested, max] = [amounts[kind] ?? 0n, account.limits[kind]];
        if (max === undefined) continue;
        const held = account.reserved[kind] + (reserve[kind] ?? 0n);
        const reserved = held > 0n ? held : 0n;
        const current = account.used[kind] + (use[kind] ?? 0n) + reserved;
        if (current + requested <= max) continue;
        const root = chain.at(-1) ?? thread;
        return this.shortage(root, thread, kind, { current, reserved, max, requested });
      }
    }
    return ok(null);
  }

  charge(chain: readonly string[], amounts: Amounts): Outcome<null> {
    const room = this.room(chain, chain, amounts);
    if (room.ok) this.change(chain, { use: amounts, reserve: {} });
    return room;
  }

  /** Takes out of an open reservation; answers with the threads it was made along. */
  private drawable(
    chain: readonly string[],
    key: string,
    amounts: Amounts,
  ): Outcome<{ entry: Entry; along: readonly string[] }> {
    const source = this.openIn(chain, key);
    if (!source.ok) return source;
    const { reservation } = source.output.entry;
    for (const kind of BUDGET_KINDS) {
      const [requested, max] = [amounts[kind] ?? 0n, reservation.amounts[kind] ?? 0n];
      if (requested <= max) continue;
      const facts = { current: 0n, reserved: 0n, standing: 0n, max, requested };
      return exceeded(kind, reservation.thread, facts);
    }
    return source;
  }

  private setAside(chain: readonly string[], wish: Reserve): Outcome<null> {
    const { key, amounts, from, standing = false } = wish;
    if (this.entry(key)) {
      return fail('invalid_input', `reservation \`${key}\` is open already; use another key`, {
        key,
      });
    }
    const source = from === undefined ? undefined : this.drawable(chain, from, amounts);
    if (source && !source.ok) return source;
    // What was drawn from is reserved along its chain already: there it only changes its name.
    const along = source?.output.along ?? [];
    const fresh = chain.filter((thread) => !along.includes(thread));
    const room = this.room(chain, fresh, amounts);
    if (!room.ok) return room;
    if (source) {
      const { entry } = source.output;
      this.set(entry, without(entry.reservation.amounts, amounts));
    }
    this.change(fresh, { use: {}, reserve: amounts });
    const owner = chain[0] ?? '';
    const made = { key, thread: owner, amounts, standing, ...(from === undefined ? {} : { from }) };
    this.entries.set(key, { reservation: made, state: 'made' });
    this.reserved.push(key);
    return ok(null);
  }

  reserve(chain: readonly string[], wish: Reserve): Outcome<null> {
    const made = this.setAside(chain, wish);
    const { code } = made.ok ? { code: '' } : made.error;
    const isShort = code === 'not_found' || code.endsWith('_exceeded');
    return wish.optional && isShort ? ok(null) : made;
  }
}

/** The kinds whose limits a commit can reach. */
function kindsOf({ raise = {}, charge = {}, reserve = [], children = [] }: Booking): BudgetKind[] {
  const wishes = [
    raise,
    charge,
    ...reserve.map(({ amounts }) => amounts),
    ...children.flatMap((child) => (child.reserve ?? []).map(({ amounts }) => amounts)),
  ];
  return BUDGET_KINDS.filter((kind) => wishes.some((amounts) => amounts[kind] !== undefined));
}

function workOut(work: Work, booking: Booking): Outcome<null> {
  const { chain, settle = [], raise, charge, reserve = [], children = [] } = booking;
  const steps: (() => Outcome<null>)[] = [
    ...settle.map((one) => () => work.settle(chain, one)),
    ...(raise ? [() => work.raise(chain[0] ?? '', raise)] : []),
    ...(charge ? [() => work.charge(chain, charge)] : []),
    ...reserve.map((one) => () => work.reserve(chain, one)),
    ...children.flatMap((child) =>
      (child.reserve ?? []).map((one) => () => work.reserve([child.id, ...chain], one)),
    ),
  ];
  for (const step of steps) {
    const done = step();
    if (!done.ok) return done;
  }
  return ok(null);
}

/** Threads that change alike are changed by one statement. */
function writeDeltas(rows: LedgerRows, deltas: ReadonlyMap<string, Delta>): void {
  const alike = new Map<string, { threads: string[]; delta: Delta }>();
  // Most threads stand alone.
  if (deltas.size === 1) {
    for (const [thread, delta] of deltas) rows.change([thread], delta);
    return;
  }
  for (const [thread, delta] of deltas) {
    const key = BUDGET_KINDS.map(
      (kind) => `${delta.use[kind] ?? 0n} ${delta.reserve[kind] ?? 0n}`,
    ).join();
    const found = alike.get(key);
    if (found) found.threads.push(thread);
    else alike.set(key, { threads: [thread], delta });
  }
  for (const { threads, delta } of alike.values()) rows.change(threads, delta);
}

function writeEntries(rows: LedgerRows, entries: ReadonlyMap<string, Entry>): void {
  for (const [key, { reservation, state }] of entries) {
    if (state === 'made') rows.add(reservation);
    if (state === 'changed') rows.update(reservation);
    if (state === 'closed') rows.remove(key);
  }
}

/** Undefined when a commit has nothing to do with budgets. */
export function planBudgets(rows: LedgerRows, booking: Booking): Outcome<LedgerPlan | undefined> {
  const { chain, settle = [], raise, charge, reserve = [], children = [] } = booking;
  const kinds = kindsOf(booking);
  if (kinds.length === 0 && settle.length + reserve.length === 0 && !raise && !charge) {
    if (!children.some((child) => child.reserve?.length)) return ok(undefined);
  }
  const work = new Work(rows, booking.now);
  work.load(chain, kinds);
  for (const { id, budget } of children) work.born(id, budget);
  const done = workOut(work, booking);
  if (!done.ok) return done;
  return ok({
    reserved: work.reserved,
    write() {
      writeEntries(rows, work.entries);
      writeDeltas(rows, work.deltas);
      if (raise) rows.raise(chain[0] ?? '', raise);
    },
  });
}
