// What hooks live on: a share of the thread's budget, set aside when it starts, so that they can run
// when a limit is reached. Taken out of the thread's own limits; nothing is lent out on top.
import { getOwn } from '../base/index.ts';
import type { Amounts } from '../store/index.ts';
import { setAside } from './effective-limits.ts';
import type { CompiledHook } from './hook.ts';
import type { EffectiveLimit, EffectiveLimits, LimitAmounts, LimitName } from './limit.ts';
import type { LimitsLeft } from './prepare-thread.ts';
import type { ThreadContext } from './thread-context.ts';
import { amountsOf } from './turn-account.ts';
import type { World } from './world.ts';

/** Reservations that a thread's hooks draw from begin so. */
const reservePrefix = (id: string): string => `${id}:hooks`;

/** A hook that is a script asks no model and needs no budget. */
function asksModel({ library }: World, { hook }: CompiledHook): boolean {
  const found = library.find('directive', hook.directive);
  return found.ok && found.output.directive?.process.script === undefined;
}

/** What the thread itself may use, and what is kept for its hooks. */
export function splitLimits(
  world: World,
  limits: EffectiveLimits,
  hooks: readonly CompiledHook[],
): { own: EffectiveLimits; hooks: LimitAmounts } {
  const share = getOwn(world.library.config('limits').value, 'hook_reserve');
  const isNeeded = hooks.some((hook) => asksModel(world, hook));
  return setAside(limits, isNeeded && typeof share === 'number' ? share : 0);
}

/** What a lost process had set aside; a settled reservation is history and is not found here. */
function openReserve({ world, id }: ThreadContext): string | undefined {
  const open = world.store.openReservations(id);
  return (open.ok ? open.output : []).find(({ key }) => key.startsWith(reservePrefix(id)))?.key;
}

/**
 * Sets it aside along the whole chain; the same again after a restart. A thread that ended and was
 * opened again has given its reserve back, so the new one is named by the epoch.
 */
export function reserveForHooks(thread: ThreadContext, epoch: number): void {
  const { tokens = 0n } = thread.hookLimits;
  if (tokens === 0n) return;
  // A kind that nobody limits is set aside too, because requests draw all kinds from here.
  const amounts = amountsOf({ input_tokens: tokens, output_tokens: tokens, ...thread.hookLimits });
  thread.hookReserve = openReserve(thread);
  if (thread.hookReserve !== undefined) return;
  const key = `${reservePrefix(thread.id)}:${epoch}`;
  if (thread.reserve(amounts, key).ok) thread.hookReserve = key;
}

const DRAWN = ['tokens', 'input_tokens', 'output_tokens', 'spend'] as const;

/** What a hook's own limits may not pass: what is left in the reserve, and of its time. */
export function hookLimitsLeft(thread: ThreadContext): LimitsLeft {
  const { world, id, hookReserve, hookLimits, limits, meter } = thread;
  const open = world.store.openReservations(id);
  const reserve = (open.ok ? open.output : []).find(({ key }) => key === hookReserve);
  const left: { [name in LimitName]?: Pick<EffectiveLimit, 'value' | 'declared'> } = {};
  const put = (name: LimitName, value: bigint): void => {
    left[name] = { value, declared: limits[name]?.declared ?? false };
  };
  if (!reserve) return left;
  const amounts: Amounts = reserve.amounts;
  for (const name of DRAWN) if (limits[name]) put(name, amounts[name] ?? 0n);
  const used = BigInt(Math.ceil(meter.read().hooks.duration_ms));
  if (hookLimits.duration !== undefined) put('duration', hookLimits.duration - used);
  return left;
}
