// Counts the use of a thread with its children and hooks. Tokens and money are totals; turns, calls and time are
// the thread's own. Counts only grow, except that an interrupted turn is uncounted and a new attempt counts
// turns and calls from zero. Money is in whole nano-units.
import { fail, getOwn, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { formatMoney, parseMoney, type Usage } from '../../llm/index.ts';
import type { LimitAmounts } from './limit.ts';

export interface Cost {
  readonly turns: number;
  readonly tokens: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly tool_calls: number;
  /** Number of calls in all attempts whose last result was a failure. Denied calls are not counted. */
  readonly failed_calls: number;
  readonly spawns: number;
  /** Number of passes that made room in the context window. */
  readonly compactions: number;
  /** Input tokens of the last request, cached ones included. */
  readonly context_tokens: number;
  readonly duration_ms: number;
  readonly spend: bigint;
  /** True if the provider did not report a part of the use. That part is an estimate. */
  readonly estimated: boolean;
  readonly hooks: HookCost;
  /** Counts of earlier attempts. A new attempt counts from zero. */
  readonly before: Pick<Cost, 'turns' | 'tool_calls'>;
}

/** Use of hooks. It is part of the total and does not count against the thread's own limits. */
type HookCost = Pick<Cost, (typeof HOOK_COUNTS)[number] | 'duration_ms' | 'spend'>;

const NO_HOOK_COST: HookCost = {
  turns: 0,
  tool_calls: 0,
  tokens: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  duration_ms: 0,
  spend: 0n,
};

export const NO_COST: Cost = {
  ...NO_HOOK_COST,
  failed_calls: 0,
  spawns: 0,
  compactions: 0,
  context_tokens: 0,
  estimated: false,
  hooks: NO_HOOK_COST,
  before: { turns: 0, tool_calls: 0 },
};

const TOKENS = [
  ...(['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens'] as const),
];

const HOOK_COUNTS = ['turns', 'tool_calls', 'tokens', ...TOKENS] as const;

type TokenCounts = Pick<Cost, (typeof TOKENS)[number] | 'tokens'>;

/** Returns the count, rounded up. An invalid count from a provider counts as zero. */
const count = (value: number): number =>
  Number.isFinite(value) && value > 0 ? Math.ceil(value) : 0;

export type CostMeter = ReturnType<typeof createCostMeter>;

/** Creates a meter. `now` returns monotonic milliseconds. `from`: use before a restart. */
export function createCostMeter(now: () => number, from: Cost = NO_COST) {
  const cost: { -readonly [name in keyof Cost]: Cost[name] } = { ...from };
  let startedAt: number | undefined = now();

  const sinceStart = (): number =>
    startedAt === undefined ? 0 : Math.max(0, Math.round(now() - startedAt));
  /** Returns a copy, so that a value that a hook has read does not change. */
  const read = (): Cost => ({ ...cost, duration_ms: cost.duration_ms + sinceStart() });

  function addTokens(used: TokenCounts): void {
    let sum = 0;
    for (const kind of TOKENS) {
      const tokens = count(used[kind]);
      cost[kind] += tokens;
      sum += tokens;
    }
    // The total is at least the sum of the kinds, whatever was reported.
    cost.tokens += Math.max(count(used.tokens), sum);
  }

  return {
    countTurn: (): number => ++cost.turns,
    /** Uncounts an interrupted turn. Its tokens and money stay counted. */
    giveBackTurn() {
      cost.turns = Math.max(0, cost.turns - 1);
    },
    countRequest(usage: Usage, spend: bigint) {
      addTokens(usage);
      if (spend > 0n) cost.spend += spend;
      cost.context_tokens = count(usage.context_tokens);
      cost.estimated ||= usage.estimated;
    },
    countToolCall: (): number => ++cost.tool_calls,
    /** Uncounts an open call of a lost process. The call is made again, or its outcome is unknown. */
    giveBackToolCall() {
      cost.tool_calls = Math.max(0, cost.tool_calls - 1);
    },
    countFailure() {
      cost.failed_calls += 1;
    },
    countCompaction() {
      cost.compactions += 1;
    },
    countSpawn() {
      cost.spawns += 1;
    },
    giveBackSpawn() {
      cost.spawns = Math.max(0, cost.spawns - 1);
    },
    /** Adds the use of a child: tokens, money and spawns. */
    countChild(child: TokenCounts & Pick<Cost, 'spawns' | 'spend' | 'estimated'>) {
      addTokens(child);
      cost.spawns += count(child.spawns);
      cost.estimated ||= child.estimated;
      if (child.spend > 0n) cost.spend += child.spend;
    },
    /** Adds the use of a hook's thread to the total and to the part of hooks. */
    countHook(hook: Cost) {
      const hooks = { ...cost.hooks };
      for (const name of HOOK_COUNTS) hooks[name] += count(hook[name]);
      for (const name of ['turns', 'tool_calls'] as const) {
        hooks[name] += count(hook.before[name]) + count(hook.hooks[name]);
      }
      hooks.duration_ms += count(hook.duration_ms) + count(hook.hooks.duration_ms);
      addTokens(hook);
      cost.estimated ||= hook.estimated;
      if (hook.spend > 0n) {
        hooks.spend += hook.spend;
        cost.spend += hook.spend;
      }
      cost.hooks = hooks;
    },
    /** Starts a new attempt: turns, calls and window from zero. Tokens, money and time continue. */
    newAttempt() {
      const { turns, tool_calls, before } = cost;
      cost.before = { turns: before.turns + turns, tool_calls: before.tool_calls + tool_calls };
      cost.turns = 0;
      cost.tool_calls = 0;
      cost.context_tokens = 0;
    },
    /** Stops the time of the thread while a hook runs or a person is asked. */
    stopClock() {
      cost.duration_ms += sinceStart();
      startedAt = undefined;
    },
    startClock() {
      startedAt ??= now();
    },
    read,
    view: () => costView(read()),
  };
}

/** Returns the cost as numbers, for conditions in `<when>`. Turns and calls are those of this attempt. */
function costView(cost: Cost): JsonObject {
  const { hooks: _, before: __, estimated: ___, failed_calls: ____, ...totals } = cost;
  const { duration_ms, spend, ...counts } = totals;
  const duration_seconds = duration_ms / 1000;
  return {
    ...counts,
    duration_seconds,
    duration: duration_seconds,
    spend: Number(formatMoney(spend)),
  };
}

/** Returns the amounts that count against the thread's own limits. `context` and `depth` do not add up. */
export const usedAmounts = (cost: Cost): LimitAmounts => ({
  turns: BigInt(cost.turns),
  tokens: BigInt(cost.tokens - cost.hooks.tokens),
  input_tokens: BigInt(cost.input_tokens - cost.hooks.input_tokens),
  output_tokens: BigInt(cost.output_tokens - cost.hooks.output_tokens),
  spawns: BigInt(cost.spawns),
  duration: BigInt(Math.ceil(cost.duration_ms)),
  spend: cost.spend - cost.hooks.spend,
  tool_calls: BigInt(cost.tool_calls),
});

const NO_HOOKS: JsonObject = Object.freeze({
  turns: 0,
  tool_calls: 0,
  tokens: 0,
  duration_seconds: 0,
  spend: '0.00',
});

/** Packs the use of hooks. Old records have no `in_total`; they counted hooks apart from the total. */
function packHooks({ duration_ms, spend, ...counts }: HookCost): JsonObject {
  const isNone = duration_ms === 0 && spend === 0n && Object.values(counts).every((one) => !one);
  if (isNone) return NO_HOOKS;
  const sums = { duration_seconds: duration_ms / 1000, spend: formatMoney(spend) };
  return { ...counts, ...sums, in_total: true };
}

/** Returns the cost for the journal and the result, with money as exact decimal text. Hot: twice per turn. */
export const packCost = (cost: Cost): JsonObject => ({
  turns: cost.before.turns + cost.turns,
  tokens: cost.tokens,
  input_tokens: cost.input_tokens,
  output_tokens: cost.output_tokens,
  cache_read_tokens: cost.cache_read_tokens,
  cache_write_tokens: cost.cache_write_tokens,
  tool_calls: cost.before.tool_calls + cost.tool_calls,
  ...(cost.failed_calls > 0 && { failed_calls: cost.failed_calls }),
  spawns: cost.spawns,
  ...(cost.compactions > 0 && { compactions: cost.compactions }),
  context_tokens: cost.context_tokens,
  estimated: cost.estimated,
  duration_seconds: cost.duration_ms / 1000,
  spend: formatMoney(cost.spend),
  hooks: cost.hooks === NO_COST.hooks ? NO_HOOKS : packHooks(cost.hooks),
  ...(cost.before !== NO_COST.before && {
    attempt: { turns: cost.turns, tool_calls: cost.tool_calls },
  }),
});

const COUNTS = [
  ...(['turns', 'tokens', ...TOKENS, 'tool_calls', 'spawns', 'context_tokens'] as const),
];

type CostParts<Name extends string> = Record<Name, number> & { duration_ms: number; spend: bigint };

function countsOf<Name extends string>(
  packed: Json,
  names: readonly Name[],
): Record<Name, number> | undefined {
  const counts = names.map((name) => [name, getOwn(packed, name)] as const);
  const isWhole = counts.every(([, value]) => Number.isSafeInteger(value) && Number(value) >= 0);
  return isWhole ? (Object.fromEntries(counts) as Record<Name, number>) : undefined;
}

/** Returns counts, time and money of a record, and `undefined` if one is missing or invalid. */
function partsOf<Name extends string>(
  packed: Json,
  names: readonly Name[],
): CostParts<Name> | undefined {
  const counts = countsOf(packed, names);
  const [seconds, text] = [getOwn(packed, 'duration_seconds'), getOwn(packed, 'spend')];
  const spend = typeof text === 'string' ? parseMoney(text) : undefined;
  if (!counts || typeof seconds !== 'number' || !(seconds >= 0) || !spend?.ok) return;
  return { ...counts, duration_ms: Math.round(seconds * 1000), spend: spend.output };
}

/** Reads a record that counted hooks apart from the total. */
function oldHooks(packed: Json): HookCost | undefined {
  const parts = partsOf(packed, ['turns', 'tool_calls', 'tokens']);
  return parts && { ...NO_COST.hooks, ...parts };
}

/** Reads a packed cost. Fails if a part is invalid, because too small a cost would lift a limit. */
export function unpackCost(packed: Json): Outcome<Cost> {
  const hooks = getOwn(packed, 'hooks') ?? null;
  const own = partsOf(packed, COUNTS);
  const isOld = getOwn(hooks, 'in_total') !== true;
  const ofHooks = isOld ? oldHooks(hooks) : partsOf(hooks, HOOK_COUNTS);
  const attempt = getOwn(packed, 'attempt');
  const now = attempt === undefined ? own : countsOf(attempt, ['turns', 'tool_calls']);
  if (!own || !ofHooks || !now) {
    return fail('invalid_input', 'the recorded cost of the thread cannot be read');
  }
  const { turns, tool_calls } = now;
  const { failed_calls = 0 } = countsOf(packed, ['failed_calls']) ?? {};
  const { compactions = 0 } = countsOf(packed, ['compactions']) ?? {};
  return ok({
    ...own,
    turns,
    tool_calls,
    failed_calls,
    compactions,
    tokens: own.tokens + (isOld ? ofHooks.tokens : 0),
    spend: own.spend + (isOld ? ofHooks.spend : 0n),
    estimated: getOwn(packed, 'estimated') === true,
    hooks: ofHooks,
    before:
      attempt === undefined
        ? NO_COST.before
        : { turns: own.turns - turns, tool_calls: own.tool_calls - tool_calls },
  });
}
