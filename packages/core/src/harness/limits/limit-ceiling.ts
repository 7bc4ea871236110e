// The ceiling of a raised limit. A hook may ask for a higher limit; its ancestors, the policy, a multiple of the
// first limit and the model's window decide how high it may be.
import { type EffectiveLimits, type LimitAmounts, type LimitName, readLimit } from './limit.ts';

export interface RaiseRoom {
  readonly isRoot: boolean;
  /** As they were when the run began: multiples are of these, however often they were raised. */
  readonly initial: EffectiveLimits;
  /** A limit may become this many times what it was; data, 2 unless somebody changed it. */
  readonly factor: number;
  readonly policy: Readonly<Record<string, number | string>>;
  /** For a child: the most it may have in all, which is what it used and what its ancestors have left. */
  readonly ancestors?: LimitAmounts;
  readonly window?: bigint;
}

/** All others are charged to every ancestor, so it is they who say how much a child may have. */
const OWN = new Set<LimitName>(['turns', 'context', 'tool_calls']);

const least = (amounts: readonly (bigint | undefined)[]): bigint | undefined =>
  amounts.reduce((a, b) => (a === undefined || (b !== undefined && b < a) ? b : a), undefined);

/** The highest this limit may ever be in this run. */
export function ceilingOf(name: LimitName, room: RaiseRoom): bigint {
  const initial = room.initial[name]?.value ?? 0n;
  // INVARIANT: the root's spend limit is the ceiling of the whole tree; no hook raises it.
  if (name === 'spend' && room.isRoot) return initial;
  const thousandths = BigInt(Math.round(Math.max(1, room.factor || 1) * 1000));
  const multiple = (initial * thousandths) / 1000n;
  const fromAbove = !OWN.has(name) && !room.isRoot;
  const policy = Object.hasOwn(room.policy, name)
    ? (readLimit(name, room.policy[name]) ?? 0n)
    : undefined;
  const own = fromAbove ? (room.ancestors?.[name] ?? initial) : multiple;
  return least([own, policy, name === 'context' ? room.window : undefined]) ?? initial;
}
