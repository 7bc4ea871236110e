// What a thread has used. Counts only ever grow, except that an interrupted turn is given back and a
// new attempt counts its turns and calls from zero; money is whole nano-units.
import { fail, getOwn, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { formatMoney, parseMoney, type Usage } from '../../llm/index.ts';
import type { LimitAmounts } from './limit.ts';

/** What hooks used: it comes out of the reserve and counts for nothing else. */
export interface HookCost {
  readonly turns: number;
  readonly tool_calls: number;
  readonly tokens: number;
  readonly duration_ms: number;
  readonly spend: bigint;
}

export interface Cost {
  readonly turns: number;
  readonly tokens: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly tool_calls: number;
  readonly spawns: number;
  /** All input of the last request, cached included. */
  readonly context_tokens: number;
  readonly duration_ms: number;
  readonly spend: bigint;
  /** Was any of it not reported by the provider? */
  readonly estimated: boolean;
  readonly hooks: HookCost;
}

export const NO_HOOK_COST: HookCost = {
  turns: 0,
  tool_calls: 0,
  tokens: 0,
  duration_ms: 0,
  spend: 0n,
};

export const NO_COST: Cost = {
  turns: 0,
  tokens: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  tool_calls: 0,
  spawns: 0,
  context_tokens: 0,
  duration_ms: 0,
  spend: 0n,
  estimated: false,
  hooks: NO_HOOK_COST,
};

/** What a child used and this thread answers for: tokens, money and spawns, nothing per thread. */
export type ChildCost = Pick<
  Cost,
  | 'tokens'
  | 'input_tokens'
  | 'output_tokens'
  | 'cache_read_tokens'
  | 'cache_write_tokens'
  | 'spawns'
  | 'spend'
>;

export interface CostMeter {
  countTurn(): void;
  /** A person interrupted it: the turn did not happen, its tokens and money did. */
  giveBackTurn(): void;
  /** What a request used and cost. */
  countRequest(usage: Usage, spend: bigint): void;
  countToolCall(): void;
  /** A process was lost while it was made: it will be made again, or said to be unknown. */
  giveBackToolCall(): void;
  countSpawn(): void;
  /** It was refused after all. */
  giveBackSpawn(): void;
  countChild(cost: ChildCost): void;
  countHook(cost: HookCost): void;
  /** A fresh conversation: turns, calls and window from zero, tokens, money and time go on. */
  newAttempt(): void;
  /** While stopped no time passes for the thread: a hook runs, or a person was asked. */
  stopClock(): void;
  startClock(): void;
  /** A copy: what comes later does not change what a hook has already seen. */
  read(): Cost;
  view(): JsonObject;
}

/** A count can grow, never shrink: nonsense from outside is nothing. */
const count = (value: number): number =>
  Number.isFinite(value) && value > 0 ? Math.ceil(value) : 0;
const money = (value: bigint): bigint => (value > 0n ? value : 0n);

const TOKENS = [
  ...(['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens'] as const),
];

type TokenCounts = Pick<Cost, (typeof TOKENS)[number] | 'tokens'>;

/** All kinds together are at least the sum of the kinds, whatever was reported. */
function addTokens(cost: Cost, used: TokenCounts): TokenCounts {
  const [input, output, read, written] = TOKENS.map((kind) => count(used[kind])) as [
    ...[number, number, number, number],
  ];
  return {
    input_tokens: cost.input_tokens + input,
    output_tokens: cost.output_tokens + output,
    cache_read_tokens: cost.cache_read_tokens + read,
    cache_write_tokens: cost.cache_write_tokens + written,
    tokens: cost.tokens + Math.max(count(used.tokens), input + output + read + written),
  };
}

/** `now` must only grow. `from` is what was used before a restart; its time counts on. */
export function createCostMeter(now: () => number, from: Cost = NO_COST): CostMeter {
  let cost = from;
  let passed = from.duration_ms;
  let startedAt: number | undefined = now();

  const sinceStart = (): number =>
    startedAt === undefined ? 0 : Math.max(0, Math.round(now() - startedAt));
  const read = (): Cost => ({ ...cost, duration_ms: passed + sinceStart() });

  return {
    countTurn() {
      cost = { ...cost, turns: cost.turns + 1 };
    },
    giveBackTurn() {
      cost = { ...cost, turns: Math.max(0, cost.turns - 1) };
    },
    countRequest(usage, spend) {
      cost = {
        ...cost,
        ...addTokens(cost, usage),
        spend: cost.spend + money(spend),
        context_tokens: count(usage.context_tokens),
        estimated: cost.estimated || usage.estimated,
      };
    },
    countToolCall() {
      cost = { ...cost, tool_calls: cost.tool_calls + 1 };
    },
    giveBackToolCall() {
      cost = { ...cost, tool_calls: Math.max(0, cost.tool_calls - 1) };
    },
    countSpawn() {
      cost = { ...cost, spawns: cost.spawns + 1 };
    },
    giveBackSpawn() {
      cost = { ...cost, spawns: Math.max(0, cost.spawns - 1) };
    },
    countChild(child) {
      const spawns = cost.spawns + count(child.spawns);
      const spend = cost.spend + money(child.spend);
      cost = { ...cost, ...addTokens(cost, child), spawns, spend };
    },
    countHook(hook) {
      const { hooks } = cost;
      cost = {
        ...cost,
        hooks: {
          turns: hooks.turns + count(hook.turns),
          tool_calls: hooks.tool_calls + count(hook.tool_calls),
          tokens: hooks.tokens + count(hook.tokens),
          duration_ms: hooks.duration_ms + count(hook.duration_ms),
          spend: hooks.spend + money(hook.spend),
        },
      };
    },
    newAttempt() {
      cost = { ...cost, turns: 0, tool_calls: 0, context_tokens: 0 };
    },
    stopClock() {
      passed += sinceStart();
      startedAt = undefined;
    },
    startClock() {
      startedAt ??= now();
    },
    read,
    view: () => costView(read()),
  };
}

/** For `<when>`: numbers, money too; what hooks used is no business of a condition. */
export function costView(cost: Cost): JsonObject {
  const { hooks: _, estimated: __, duration_ms, spend, ...counts } = cost;
  const duration_seconds = duration_ms / 1000;
  return {
    ...counts,
    duration_seconds,
    duration: duration_seconds,
    spend: Number(formatMoney(spend)),
  };
}

/** What counts against limits. `context` and `depth` do not add up and are not here. */
export const usedAmounts = (cost: Cost): LimitAmounts => ({
  turns: BigInt(cost.turns),
  tokens: BigInt(cost.tokens),
  input_tokens: BigInt(cost.input_tokens),
  output_tokens: BigInt(cost.output_tokens),
  spawns: BigInt(cost.spawns),
  duration: BigInt(Math.ceil(cost.duration_ms)),
  spend: cost.spend,
  tool_calls: BigInt(cost.tool_calls),
});

/** For the journal and the result: exact, money as decimal text. */
export function packCost(cost: Cost): JsonObject {
  const { duration_ms, spend, hooks, ...counts } = cost;
  return {
    ...counts,
    duration_seconds: duration_ms / 1000,
    spend: formatMoney(spend),
    hooks: {
      turns: hooks.turns,
      tool_calls: hooks.tool_calls,
      tokens: hooks.tokens,
      duration_seconds: hooks.duration_ms / 1000,
      spend: formatMoney(hooks.spend),
    },
  };
}

const COUNTS = [
  ...(['turns', 'tokens', ...TOKENS, 'tool_calls', 'spawns', 'context_tokens'] as const),
];
const HOOK_COUNTS = ['turns', 'tool_calls', 'tokens'] as const;

type Parts<Name extends string> = Record<Name, number> & { duration_ms: number; spend: bigint };

/** Counts, time and money of a record; undefined when any of them is missing or no such thing. */
function partsOf<Name extends string>(
  packed: Json,
  names: readonly Name[],
): Parts<Name> | undefined {
  const counts = names.map((name) => [name, getOwn(packed, name)] as const);
  const [seconds, text] = [getOwn(packed, 'duration_seconds'), getOwn(packed, 'spend')];
  const spend = typeof text === 'string' ? parseMoney(text) : undefined;
  if (!counts.every(([, value]) => Number.isSafeInteger(value) && Number(value) >= 0)) return;
  if (typeof seconds !== 'number' || !(seconds >= 0) || !spend?.ok) return;
  const duration_ms = Math.round(seconds * 1000);
  return {
    ...(Object.fromEntries(counts) as Record<Name, number>),
    duration_ms,
    spend: spend.output,
  };
}

/** What `packCost` wrote. Refused rather than guessed: a cost that is too small would lift a limit. */
export function unpackCost(packed: Json): Outcome<Cost> {
  const hooks = getOwn(packed, 'hooks') ?? null;
  const own = partsOf(packed, COUNTS);
  const ofHooks = partsOf(hooks, HOOK_COUNTS);
  if (!own || !ofHooks) {
    return fail('invalid_input', 'the recorded cost of the thread cannot be read');
  }
  return ok({ ...own, estimated: getOwn(packed, 'estimated') === true, hooks: ofHooks });
}
