// Budgets in memory: done step by step on the rows themselves, and taken back by the transaction when
// a step is refused. On purpose not the way the SQLite store does it.
import { fail, type Json } from '@kernmantle/core/base';
import {
  type Amounts,
  add,
  BUDGET_KINDS,
  type BudgetKind,
  plus,
  without,
} from '../../../packages/core/src/store/amounts.ts';
import type { Commit, Reserve, Settle } from '../../../packages/core/src/store/port.ts';
import { need, type OpenReservation, RefusedCommit, refuse, type World } from './world.ts';

const ZERO = { spawns: 0n, tokens: 0n, input_tokens: 0n, output_tokens: 0n, spend: 0n };

export const openAccount = (world: World, thread: string, limits: Amounts): void =>
  void world.accounts.set(thread, { limits: { ...limits }, used: ZERO, reserved: ZERO });

const shown = (kind: BudgetKind, amount: bigint): Json =>
  kind === 'spend' ? String(amount) : Number(amount);

interface Short {
  current: bigint;
  reserved: bigint;
  standing: bigint;
  max: bigint;
  requested: bigint;
}

function exceeded(kind: BudgetKind, thread: string, short: Short): never {
  const detail = Object.fromEntries(
    Object.entries(short).map(([name, amount]) => [name, shown(kind, amount)]),
  );
  const message = `thread \`${thread}\` has not enough ${kind} left`;
  refuse(`${kind}_exceeded`, message, { ...detail, limit: kind, thread });
}

function change(
  world: World,
  thread: string,
  by: { use?: Amounts; reserve?: Amounts; free?: Amounts },
): void {
  const account = world.accounts.get(thread);
  if (!account) return;
  const [used, reserved] = [{ ...account.used }, { ...account.reserved }];
  for (const kind of BUDGET_KINDS) {
    used[kind] = add(used[kind], by.use?.[kind] ?? 0n);
    const left = add(reserved[kind], by.reserve?.[kind] ?? 0n) - (by.free?.[kind] ?? 0n);
    reserved[kind] = left > 0n ? left : 0n;
  }
  world.accounts.set(thread, { ...account, used, reserved });
}

/** Does nobody wait for it? */
function isStanding(world: World, { standing, thread }: OpenReservation): boolean {
  const { owner, lease_until = 0 } = world.threads.get(thread) ?? {};
  return standing || owner === undefined || lease_until <= world.clock.now();
}

const total = (list: readonly OpenReservation[], kind: BudgetKind): bigint =>
  list.reduce((sum, { amounts }) => add(sum, amounts[kind] ?? 0n), 0n);

/** Held at a thread by what nobody waits for. */
function standingAt(world: World, thread: string, kind: BudgetKind): bigint {
  const below = world.reservations.all().filter(({ chain }) => chain.includes(thread));
  return total(
    below.filter((one) => isStanding(world, one)),
    kind,
  );
}

function checkRoom(world: World, threads: readonly string[], amounts: Amounts): void {
  for (const thread of threads) {
    const account = world.accounts.get(thread);
    for (const kind of BUDGET_KINDS) {
      const [requested, max] = [amounts[kind] ?? 0n, account?.limits[kind]];
      if (!account || max === undefined || requested === 0n) continue;
      const reserved = account.reserved[kind];
      const current = account.used[kind] + reserved;
      if (current + requested <= max) continue;
      const standing = standingAt(world, thread, kind);
      exceeded(kind, thread, { current, reserved, standing, max, requested });
    }
  }
}

function openIn(world: World, chain: readonly string[], key: string): OpenReservation {
  const missing = fail('not_found', `there is no open reservation \`${key}\``, { key });
  const found = need(world.reservations.get(key), missing);
  if (chain.includes(found.thread)) return found;
  refuse('invalid_input', `reservation \`${key}\` belongs to other threads`, { key });
}

function settle(world: World, chain: readonly string[], { key, actual }: Settle): void {
  const closed = openIn(world, chain, key);
  world.reservations.delete(key);
  for (const thread of closed.chain) change(world, thread, { use: actual, free: closed.amounts });
  const source = closed.from === undefined ? undefined : world.reservations.get(closed.from);
  if (!source) return;
  const left = without(closed.amounts, actual);
  world.reservations.set(source.key, { ...source, amounts: plus(source.amounts, left) });
  for (const thread of source.chain) change(world, thread, { reserve: left });
}

function draw(
  world: World,
  chain: readonly string[],
  from: string,
  amounts: Amounts,
): OpenReservation {
  const source = openIn(world, chain, from);
  for (const kind of BUDGET_KINDS) {
    const [requested, left] = [amounts[kind] ?? 0n, source.amounts[kind] ?? 0n];
    if (requested <= left) continue;
    const drawn = world.reservations.all().filter((one) => one.from === from);
    const reserved = total(drawn, kind);
    const held = drawn.filter((one) => isStanding(world, one));
    const facts = { current: reserved, reserved, standing: total(held, kind) };
    exceeded(kind, source.thread, { ...facts, max: add(left, reserved), requested });
  }
  return source;
}

function setAside(world: World, chain: readonly string[], wish: Reserve): void {
  const { key, amounts, from, standing = false } = wish;
  if (world.reservations.get(key)) {
    refuse('invalid_input', `reservation \`${key}\` is open already`, { key });
  }
  const source = from === undefined ? undefined : draw(world, chain, from, amounts);
  const fresh = chain.filter((thread) => !source?.chain.includes(thread));
  checkRoom(world, fresh, amounts);
  if (source) {
    const left = without(source.amounts, amounts);
    world.reservations.set(source.key, { ...source, amounts: left });
  }
  for (const thread of fresh) change(world, thread, { reserve: amounts });
  const thread = chain[0] ?? '';
  const held = Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount > 0n));
  const drawn = from === undefined ? {} : { from };
  world.reservations.set(key, { key, thread, chain, amounts: held, standing, ...drawn });
}

/** The keys that were set aside. */
export function reserveAll(
  world: World,
  chain: readonly string[],
  wishes: readonly Reserve[],
): string[] {
  return wishes.flatMap((wish) => {
    const source = wish.from === undefined ? undefined : world.reservations.get(wish.from);
    if (wish.optional && source && !chain.includes(source.thread)) return [];
    try {
      setAside(world, chain, wish);
      return [wish.key];
    } catch (error) {
      const code = error instanceof RefusedCommit ? error.failure.error.code : '';
      if (wish.optional && (code === 'not_found' || code.endsWith('_exceeded'))) return [];
      throw error;
    }
  });
}

function raise(world: World, thread: string, to: Amounts): void {
  const account = world.accounts.get(thread);
  for (const kind of BUDGET_KINDS) {
    const [wanted, now] = [to[kind], account?.limits[kind]];
    if (wanted === undefined || (now !== undefined && wanted >= now)) continue;
    const message = `the ${kind} limit of thread \`${thread}\` is ${now ?? 'none'}; ${wanted} would not raise it`;
    refuse('invalid_input', message, { thread, limit: kind });
  }
  if (account) world.accounts.set(thread, { ...account, limits: { ...account.limits, ...to } });
}

export function changeBudgets(world: World, chain: readonly string[], commit: Commit): string[] {
  for (const one of commit.settle ?? []) settle(world, chain, one);
  if (commit.raise) raise(world, chain[0] ?? '', commit.raise);
  if (commit.charge) {
    checkRoom(world, chain, commit.charge);
    for (const thread of chain) change(world, thread, { use: commit.charge });
  }
  return reserveAll(world, chain, commit.reserve ?? []);
}
