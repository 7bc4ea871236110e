// Computes with limits as whole numbers: counts, milliseconds and nano-units of money. Before a unit of work
// starts, the limits must cover the use so far and the worst case of the unit together.
import { type Failure, type Fault, fail, type JsonObject } from '../../base/index.ts';
import { type CompactMode, LIMIT_NAMES } from '../../flow/index.ts';
import { formatMoney, type Price, parseMoney, worstCost } from '../../llm/index.ts';

export type LimitName = (typeof LIMIT_NAMES)[number];

/** Amounts by limit. An absent amount is zero. */
export type LimitAmounts = { readonly [name in LimitName]?: bigint };

export interface EffectiveLimit {
  readonly value: bigint;
  /** Source of the limit, such as `directive`, `caller`, `policy`, `parent`, `hook` or `default (bundle)`. */
  readonly from: string;
  /** True if the thread or an ancestor declared the limit. A default is not declared. */
  readonly declared: boolean;
}

/** The limits of a thread. Absent `context`: the window of the model. The two kinds of tokens can be absent. */
export type EffectiveLimits = { readonly [name in LimitName]: EffectiveLimit | undefined } & {
  /** Currency of `spend` and of the price table, so that no amount is converted. */
  readonly spend_currency: string;
  /** Share of `context`, from 0 to 1, at which the model is warned. */
  readonly context_warn: number;
  readonly context_compact: Compaction;
};

/** How the harness makes room in the context window. `from`: source of the mode. */
export interface Compaction {
  readonly value: CompactMode;
  readonly from: string;
  /** Share of the usable window at which a pass starts, and the number of last turns that it keeps word for word. */
  readonly at: number;
  readonly keep: number;
}

export interface LimitEvent {
  readonly name: 'limit';
  readonly code: `${LimitName}_exceeded`;
  readonly limit: LimitName;
  /** Use so far, in user units such as seconds or units of the currency. */
  readonly current: number;
  readonly max: number;
  /** Amount that other requests have reserved. */
  readonly reserved?: number;
  /** Least amount of the unit that did not start. */
  readonly needed?: number;
  /** Ancestor that has the limit. Absent: the thread itself has it. */
  readonly thread?: string;
}

export interface WarningEvent extends Omit<LimitEvent, 'name' | 'code'> {
  readonly name: 'warning';
  readonly code: `${LimitName}_warning`;
  readonly percent: number;
}

/** Limits that apply to each unit of work alone. Their amounts do not add up. */
const PER_UNIT = new Set<LimitName>(['context', 'depth']);

const NANO = 1_000_000_000n;
/** Returns the number of counted units in one user unit. */
const grainOf = (name: LimitName): bigint =>
  name === 'spend' ? 1n : name === 'duration' ? 1_000_000n : NANO;

/** Reads a limit in user units and drops a finer fraction. Returns `undefined` for an invalid value. */
export function readLimit(name: LimitName, value: unknown): bigint | undefined {
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  // A small number would print with an exponent.
  const text = typeof value === 'number' && value < 1 ? value.toFixed(12) : String(value).trim();
  const parsed = parseMoney(text.replace(/(\.\d{9})\d+$/, '$1'));
  return parsed.ok ? parsed.output / grainOf(name) : undefined;
}

/** Returns an amount in user units, for conditions and people. */
export const limitNumber = (name: LimitName, value: bigint): number =>
  Number(formatMoney(value * grainOf(name)));

/**
 * Returns the first limit that the unit would exceed. `current` is the use so far; for `context` and `depth` it
 * is the size of the unit.
 */
export function firstExceeded(
  used: LimitAmounts,
  unit: LimitAmounts,
  limits: EffectiveLimits,
): LimitEvent | undefined {
  for (const name of LIMIT_NAMES) {
    const max = limits[name]?.value;
    if (max === undefined) continue;
    const own = unit[name] ?? 0n;
    const before = PER_UNIT.has(name) ? 0n : (used[name] ?? 0n);
    if (before + own > max) return limitEvent(name, PER_UNIT.has(name) ? own : before, max);
  }
  return undefined;
}

export const limitEvent = (
  limit: LimitName,
  current: bigint,
  max: bigint,
  { reserved = 0n, needed = 0n }: { reserved?: bigint; needed?: bigint } = {},
): LimitEvent => ({
  name: 'limit',
  code: `${limit}_exceeded`,
  limit,
  current: limitNumber(limit, current),
  max: limitNumber(limit, max),
  ...(reserved > 0n && { reserved: limitNumber(limit, reserved) }),
  ...(needed > 0n && { needed: limitNumber(limit, needed) }),
});

/** Returns the text of a limit event: used, reserved and needed amounts. */
export function limitWords(event: Omit<LimitEvent, 'name' | 'code'>): string {
  const { limit, current, max, reserved, needed, thread } = event;
  const whose = thread === undefined ? '' : ` of thread \`${thread}\``;
  const start = `limit \`${limit}\`${whose} reached: ${current}`;
  if (PER_UNIT.has(limit)) return `${start} is more than ${max}`;
  const otherUse = reserved === undefined ? '' : `, ${reserved} reserved for others`;
  const next = needed === undefined ? '' : `, the next request needs ${needed}`;
  return `${start} of ${max} used${otherUse}${next}`;
}

/** A limit that was reached. `least`: smallest value that allows the unit, in counted units. */
interface ReachedLimit {
  readonly event: LimitEvent;
  readonly least: bigint;
}

// INVARIANT: a fault counts as a limit only if this file created it, never because of its code or fields. A copy
// of the fault keeps the symbol, and JSON cannot contain it.
const LIMIT = Symbol('limit');

/** Returns the limit that caused a fault, or `undefined` if this file did not create the fault. */
export const limitIn = ({ detail }: Fault): ReachedLimit | undefined =>
  (detail as { [LIMIT]?: ReachedLimit })[LIMIT];

export function limitFault(event: LimitEvent, least: bigint, more: JsonObject = {}): Failure {
  const { name: _, code, ...facts } = event;
  const at_least = formatMoney(least * grainOf(event.limit));
  const failure = fail(code, limitWords(event), { ...more, ...facts, at_least });
  Object.assign(failure.error.detail, { [LIMIT]: { event, least } });
  return failure;
}

/** Restores the limit of a fault whose recorded event was a limit. */
export function asLimitFault(failure: Failure): Failure {
  const { limit: name, current, max, reserved, needed, thread, at_least } = failure.error.detail;
  const limit = LIMIT_NAMES.find((one) => one === name);
  if (limit === undefined || typeof current !== 'number' || typeof max !== 'number') return failure;
  const event: LimitEvent = {
    name: 'limit',
    code: `${limit}_exceeded`,
    limit,
    current,
    max,
    ...(typeof reserved === 'number' && { reserved }),
    ...(typeof needed === 'number' && { needed }),
    ...(typeof thread === 'string' && { thread }),
  };
  const { code, detail } = failure.error;
  const reached = { event, least: readLimit(limit, at_least) ?? 0n };
  return { ok: false, error: { code, detail: Object.assign({ ...detail }, { [LIMIT]: reached }) } };
}

/** Amounts of each kind of unit, without tokens. Each needs some time before the deadline. */
export const UNITS = {
  turn: { turns: 1n, duration: 1n },
  tool: { tool_calls: 1n, duration: 1n },
  spawn: (depth: number): LimitAmounts => ({ spawns: 1n, depth: BigInt(depth), duration: 1n }),
} as const;

/** Percentages of a limit at which a warning is raised, in ascending order. */
const MARKS = [80n, 95n] as const;

/** Returns the key of a warning, such as `turns:80`. */
export const markKey = ({ limit, percent }: Pick<WarningEvent, 'limit' | 'percent'>): string =>
  `${limit}:${percent}`;

/** Returns a warning for each percentage that was crossed and not reported. A limit of zero has no warnings. */
export function crossedMarks(
  used: LimitAmounts,
  limits: EffectiveLimits,
  alreadyWarned: ReadonlySet<string>,
): WarningEvent[] {
  const events: WarningEvent[] = [];
  for (const limit of LIMIT_NAMES) {
    const max = limits[limit]?.value ?? 0n;
    const current = used[limit] ?? 0n;
    if (PER_UNIT.has(limit) || max === 0n) continue;
    for (const percent of MARKS) {
      if (current * 100n < max * percent) break;
      if (alreadyWarned.has(markKey({ limit, percent: Number(percent) }))) continue;
      events.push(warningEvent(limit, Number(percent), current, max));
    }
  }
  return events;
}

const warningEvent = (
  limit: LimitName,
  percent: number,
  current: bigint,
  max: bigint,
): WarningEvent => ({
  name: 'warning',
  code: `${limit}_warning`,
  limit,
  percent,
  current: limitNumber(limit, current),
  max: limitNumber(limit, max),
});

/** Returns the warning of the context window, once per crossing. `max`: the limit or the window. */
export function contextWarning(
  before: number,
  after: number,
  max: bigint,
  warn: number,
): WarningEvent | undefined {
  const threshold = Number(max) * warn;
  if (max === 0n || before >= threshold || after < threshold) return undefined;
  return warningEvent('context', Math.round(warn * 100), BigInt(after), max);
}

/** Returns the limits as numbers, for conditions in `<when>`. An absent limit is null. */
export function limitsView(limits: EffectiveLimits): JsonObject {
  const { spend_currency, context_warn } = limits;
  const entries = LIMIT_NAMES.map((name) => {
    return [name, limits[name] ? limitNumber(name, limits[name].value) : null] as const;
  });
  return { ...Object.fromEntries(entries), spend_currency, context_warn };
}

/** A planned model request. Its worst case is reserved before it is sent. */
export interface RequestPlan {
  readonly input: number;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly used: LimitAmounts;
  readonly limits: EffectiveLimits;
  /** Context window of the model, for input and answer together. */
  readonly window?: number;
  readonly price: Price;
  /** False for a request that is not a turn of the thread. It counts in tokens, money and time. Absent: true. */
  readonly isTurn?: boolean;
}

type RequestFit =
  | { readonly maxTokens: number; readonly unit: LimitAmounts }
  | { readonly event: LimitEvent; readonly needed: bigint };

function requestUnit(
  { input, price, isTurn = true }: Pick<RequestPlan, 'input' | 'price' | 'isTurn'>,
  output: number,
): LimitAmounts {
  return {
    ...UNITS.turn,
    turns: isTurn ? 1n : 0n,
    tokens: BigInt(input) + BigInt(output),
    input_tokens: BigInt(input),
    output_tokens: BigInt(output),
    spend: worstCost(input, output, price),
    context: BigInt(input),
  };
}

/** Limits from which one request takes more than one unit. */
const ADDS_UP = new Set<LimitName>(['tokens', 'input_tokens', 'output_tokens', 'spend']);

/** Returns the amounts of the smallest useful request. */
export const smallestRequest = (plan: RequestPlan): LimitAmounts =>
  requestUnit(plan, leastOf(plan));

const leastOf = ({ minTokens, maxTokens }: RequestPlan): number =>
  Math.max(1, Math.min(minTokens, maxTokens));

/** Returns the length of the longest answer that exceeds no limit. Costs grow with the length of the answer. */
function longestAnswer(plan: RequestPlan, least: number, most: number): number {
  let [good, bad] = [least, most];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    const unit = requestUnit(plan, middle);
    if (firstExceeded(plan.used, unit, plan.limits)) bad = middle;
    else good = middle;
  }
  return good;
}

/** Shortens the answer until it exceeds no limit. Refuses the request if that is below the useful minimum. */
export function fitRequest(plan: RequestPlan): RequestFit {
  const { input, window, limits, used } = plan;
  const least = leastOf(plan);
  const most = window === undefined ? plan.maxTokens : Math.min(plan.maxTokens, window - input);
  const largest = most < least ? undefined : requestUnit(plan, most);
  if (largest && !firstExceeded(used, largest, limits)) {
    return { maxTokens: most, unit: largest };
  }
  const smallest = requestUnit(plan, least);
  const event = firstExceeded(used, smallest, limits);
  if (event) {
    const { limit } = event;
    const before = PER_UNIT.has(limit) ? 0n : (used[limit] ?? 0n);
    const needed = smallest[limit] ?? 0n;
    const report = ADDS_UP.has(limit) ? { ...event, needed: limitNumber(limit, needed) } : event;
    return { event: report, needed: before + needed };
  }
  if (!largest) {
    const max = BigInt(window ?? 0);
    return { event: limitEvent('context', BigInt(input), max), needed: BigInt(input + least) };
  }
  const maxTokens = longestAnswer(plan, least, most);
  return { maxTokens, unit: requestUnit(plan, maxTokens) };
}
