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
import { type Account, type Accounts, type Reservation, writeAccount } from './account.ts';
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
  const { current, max, requested } = facts;
  const message = `${requested} more ${kind} would pass the limit of thread \`${thread}\`: ${current} of ${max} are used or reserved`;
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

/** Works out one commit. Throws nothing; every answer is an outcome. */
class Work {
  readonly reserved: string[] = [];
  readonly changed = new Map<string, Account>();
  private readonly connection: Connection;
  private readonly accounts: Accounts;
  private readonly now: number;

  constructor(connection: Connection, accounts: Accounts, now: number) {
    this.connection = connection;
    this.accounts = accounts;
    this.now = now;
  }

  private get(thread: string): Account | undefined {
    return this.changed.get(thread) ?? this.accounts.get(thread);
  }

  born(thread: string, limits: Amounts): void {
    this.changed.set(thread, { limits, used: {}, reserved: {}, open: [] });
  }

  private change(threads: readonly string[], by: (account: Account) => Partial<Account>): void {
    for (const thread of threads) {
      const account = this.get(thread);
      if (account) this.changed.set(thread, { ...account, ...by(account) });
    }
  }

  private setOpen(thread: string, key: string, reservation?: Reservation): void {
    this.change([thread], ({ open }) => {
      const others = open.filter((one) => one.key !== key);
      return { open: reservation ? [...others, reservation] : others };
    });
  }

  private find(chain: readonly string[], key: string): Found | undefined {
    for (const [at, thread] of chain.entries()) {
      const reservation = this.get(thread)?.open.find((one) => one.key === key);
      if (reservation) return { reservation, along: chain.slice(at) };
    }
    return undefined;
  }

  private missing(key: string): Outcome<never> {
    return this.connection.get(ELSEWHERE, key)
      ? fail('invalid_input', `reservation \`${key}\` belongs to other threads`, { key })
      : fail('not_found', `there is no open reservation \`${key}\``, { key });
  }

  settle(chain: readonly string[], { key, actual }: Settle): Outcome<null> {
    const found = this.find(chain, key);
    if (!found) return this.missing(key);
    const { along } = found;
    const { amounts, from } = found.reservation;
    this.setOpen(along[0] ?? '', key);
    this.change(along, ({ used, reserved }) => ({
      used: plus(used, actual),
      reserved: without(reserved, amounts),
    }));
    const source = from === undefined ? undefined : this.find(chain, from);
    if (!source) return ok(null);
    // What is left goes back to where it was drawn from, if that is still open.
    const left = without(amounts, actual);
    this.refill(source, plus(source.reservation.amounts, left));
    this.change(source.along, ({ reserved }) => ({ reserved: plus(reserved, left) }));
    return ok(null);
  }

  private refill({ reservation, along }: Found, amounts: Amounts): void {
    this.setOpen(along[0] ?? '', reservation.key, { ...reservation, amounts });
  }

  raise(thread: string, to: Amounts): Outcome<null> {
    const { limits = {} } = this.get(thread) ?? {};
    for (const kind of BUDGET_KINDS) {
      const [wanted, now] = [to[kind], limits[kind]];
      if (wanted === undefined || (now !== undefined && wanted >= now)) continue;
      const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'}; ${wanted} would not raise it`;
      return fail('invalid_input', message, { thread, limit: kind });
    }
    this.change([thread], () => ({ limits: { ...limits, ...to } }));
    return ok(null);
  }

  /** What nobody waits for, at a thread: standing ones, and those of threads without a live lease. */
  private standing(root: string, thread: string, kind: BudgetKind): bigint {
    let sum = 0n;
    for (const row of this.connection.all<TreeRow>(TREE, root)) {
      const chain: string[] = JSON.parse(row.chain);
      if (!chain.includes(thread)) continue;
      const isLeft = row.owner === null || (row.lease_until ?? 0) <= this.now;
      for (const { standing, amounts } of this.get(row.id)?.open ?? []) {
        if (standing || isLeft) sum = add(sum, amounts[kind] ?? 0n);
      }
    }
    return sum;
  }

  /** The nearest thread that has not enough left, and the first kind of it. */
  private room(chain: readonly string[], threads: readonly string[], amounts: Amounts) {
    for (const thread of threads) {
      const account = this.get(thread);
      if (!account) return noThread(thread);
      for (const kind of BUDGET_KINDS) {
        const [requested, max] = [amounts[kind] ?? 0n, account.limits[kind]];
        if (max === undefined || requested === 0n) continue;
        const reserved = account.reserved[kind] ?? 0n;
        const current = (account.used[kind] ?? 0n) + reserved;
        if (current + requested <= max) continue;
        const standing = this.standing(chain.at(-1) ?? thread, thread, kind);
        return exceeded(kind, thread, { current, reserved, standing, max, requested });
      }
    }
    return ok(null);
  }

  charge(chain: readonly string[], amounts: Amounts): Outcome<null> {
    const room = this.room(chain, chain, amounts);
    if (room.ok) this.change(chain, ({ used }) => ({ used: plus(used, amounts) }));
    return room;
  }

  /** The reservation to take from, if it has enough. */
  private source(chain: readonly string[], key: string, amounts: Amounts): Outcome<Found> {
    const source = this.find(chain, key);
    if (!source) return this.missing(key);
    for (const kind of BUDGET_KINDS) {
      const [requested, max] = [amounts[kind] ?? 0n, source.reservation.amounts[kind] ?? 0n];
      if (requested <= max) continue;
      const facts = { current: 0n, reserved: 0n, standing: 0n, max, requested };
      return exceeded(kind, source.along[0] ?? '', facts);
    }
    return ok(source);
  }

  private setAside(chain: readonly string[], wish: Reserve): Outcome<null> {
    const { key, amounts, from, standing } = wish;
    if (this.find(chain, key)) {
      const message = `reservation \`${key}\` is open already; use another key`;
      return fail('invalid_input', message, { key });
    }
    const source = from === undefined ? undefined : this.source(chain, from, amounts);
    if (source && !source.ok) return source;
    // What was drawn from is reserved along its chain already: there it only changes its name.
    const along = source?.output.along ?? [];
    const fresh = chain.filter((thread) => !along.includes(thread));
    const room = this.room(chain, fresh, amounts);
    if (!room.ok) return room;
    if (source) this.refill(source.output, without(source.output.reservation.amounts, amounts));
    this.change(fresh, ({ reserved }) => ({ reserved: plus(reserved, amounts) }));
    this.setOpen(chain[0] ?? '', key, {
      key,
      amounts: positive(amounts),
      ...(from === undefined ? {} : { from }),
      ...(standing && { standing }),
    });
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

interface Wishes extends Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve'> {
  /** The thread first, its root last; empty for the birth of a root. */
  chain: readonly string[];
  children: readonly Pick<NewThread, 'id' | 'budget' | 'reserve'>[];
  now: number;
}

export interface BudgetPlan {
  /** Keys of what was set aside. */
  reserved: readonly string[];
  /** The account of a thread that is written with its row; undefined when it stays as it was. */
  textOf(thread: string): string | undefined;
  /** Once these are written. */
  keep(written: readonly string[]): void;
}

export function planBudgets(
  { connection, accounts }: { connection: Connection; accounts: Accounts },
  { chain, settle = [], raise, charge, reserve = [], children, now }: Wishes,
): Outcome<BudgetPlan> {
  const work = new Work(connection, accounts, now);
  for (const { id, budget } of children) work.born(id, budget);
  for (const one of settle) {
    const settled = work.settle(chain, one);
    if (!settled.ok) return settled;
  }
  const raised = raise ? work.raise(chain[0] ?? '', raise) : ok(null);
  if (!raised.ok) return raised;
  const charged = charge ? work.charge(chain, charge) : ok(null);
  if (!charged.ok) return charged;
  const families = [{ along: chain, wishes: reserve }].concat(
    children.map((child) => ({ along: [child.id, ...chain], wishes: child.reserve ?? [] })),
  );
  for (const { along, wishes } of families) {
    for (const wish of wishes) {
      const made = work.reserve(along, wish);
      if (!made.ok) return made;
    }
  }
  return ok({
    reserved: work.reserved,
    textOf(thread) {
      const account = work.changed.get(thread);
      return account && writeAccount(account);
    },
    keep: (written) => accounts.change(work.changed, written),
  });
}
