// Computes the ceiling of a raised limit. A hook can request a higher limit. The ancestors, the policy, a multiple
// of the first limit and the model's window decide how high the limit can be.
import { type EffectiveLimits, type LimitAmounts, type LimitName, readLimit } from './limit.ts';

export interface RaiseRoom {
  readonly isRoot: boolean;
  /** Limits at the start of the run. The factor applies to these, however often they were raised. */
  readonly initial: EffectiveLimits;
  /** Highest multiple of the first limit. The default is 2; `raise_factor` in `limits.yaml` changes it. */
  readonly factor: number;
  readonly policy: Readonly<Record<string, number | string>>;
  /** For a child: its use plus what its ancestors have left. */
  readonly ancestors?: LimitAmounts;
  readonly window?: bigint;
}

/** Limits that no ancestor is charged for. Ancestors bound all others. */
const OWN = new Set<LimitName>(['turns', 'context', 'tool_calls']);

const least = (amounts: readonly (bigint | undefined)[]): bigint | undefined =>
  amounts.reduce((a, b) => (a === undefined || (b !== undefined && b < a) ? b : a), undefined);

/** Returns the highest value that the limit can get in this run. */
export function ceilingOf(name: LimitName, room: RaiseRoom): bigint {
  const initial = room.initial[name]?.value ?? 0n;
  // INVARIANT: no hook ever raises the root's spend limit, which bounds the whole tree.
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
