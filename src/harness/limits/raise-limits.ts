// A hook may answer "go on, up to here". How far "here" may be is decided outside the hook: by the
// ancestors, by the policy, by a multiple of what was there at the start, by the model's window.
import { type JsonObject, nearest } from '../../base/index.ts';
import {
  type EffectiveLimit,
  type EffectiveLimits,
  LIMIT_NAMES,
  type LimitAmounts,
  type LimitName,
  readLimit,
} from './limit.ts';

export interface RaiseRoom {
  readonly isRoot: boolean;
  /** As they were when the run began: multiples are of these, however often they were raised. */
  readonly initial: EffectiveLimits;
  /** A limit may become this many times what it was; data, 2 unless somebody changed it. */
  readonly factor: number;
  readonly policy: Readonly<Record<string, number | string>>;
  /** For a child: the most it may have in all, which is what it used and what its ancestors have left. */
  readonly ancestors?: LimitAmounts;
  /** What the model can take in. */
  readonly window?: bigint;
}

interface Refused {
  readonly refused: string;
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

function readWanted(wanted: JsonObject): Map<LimitName, bigint> | Refused {
  const values = new Map<LimitName, bigint>();
  for (const [key, given] of Object.entries(wanted)) {
    if (key === 'spend_currency') continue;
    const name = LIMIT_NAMES.find((each) => each === key);
    const value = name && readLimit(name, given);
    if (name === undefined) {
      const near = nearest(key, LIMIT_NAMES);
      return { refused: `there is no limit \`${key}\`${near ? `; did you mean \`${near}\`` : ''}` };
    }
    if (value === undefined) return { refused: `the new limit \`${key}\` is no amount` };
    values.set(name, value);
  }
  return values;
}

/**
 * The limits with the hook's wishes in them, each as far as it may go; nothing is lowered. Refused
 * when the limit that was reached would still not cover `needed`, so every raise lets one unit start.
 */
export function raisedLimits(
  wanted: JsonObject,
  limits: EffectiveLimits,
  room: RaiseRoom,
  reached?: { limit: LimitName; needed: bigint },
): { limits: EffectiveLimits; raised: LimitName[] } | Refused {
  const values = readWanted(wanted);
  if ('refused' in values) return values;
  const raised: { [name in LimitName]?: EffectiveLimit } = {};
  for (const [name, value] of values) {
    const now = limits[name];
    if (name === 'context' && value > (room.window ?? 0n)) {
      return { refused: 'the new limit `context` is larger than the model’s window' };
    }
    const ceiling = ceilingOf(name, room);
    const next = value < ceiling ? value : ceiling;
    if (now && next > now.value) raised[name] = { ...now, value: next, from: 'hook' };
  }
  const risen = reached && raised[reached.limit];
  if (reached && (!risen || risen.value < reached.needed)) {
    const asked = values.has(reached.limit);
    return {
      refused: asked
        ? `\`${reached.limit}\` may not be raised far enough to go on`
        : `the hook names no new limit for \`${reached.limit}\``,
    };
  }
  return {
    limits: { ...limits, ...raised },
    raised: LIMIT_NAMES.filter((name) => raised[name] !== undefined),
  };
}
