// Limits as whole numbers: counts as they are, time in milliseconds, money in nano-units. Before a
// unit of work starts, what was used and the unit's worst case must fit together.
import { type Failure, type Fault, fail, type JsonObject } from '../../base/index.ts';
import { LIMIT_NAMES } from '../../flow/index.ts';
import { formatMoney, type Price, parseMoney, worstCost } from '../../llm/index.ts';

export type LimitName = (typeof LIMIT_NAMES)[number];

/** Amounts by limit; one that is absent counts as nothing. */
export type LimitAmounts = { readonly [name in LimitName]?: bigint };

export interface EffectiveLimit {
  readonly value: bigint;
  /** `directive`, `caller`, `policy`, `parent`, `hook` or `default (bundle)` and so on. */
  readonly from: string;
  /** Did anybody ask for it, here or above? A default is nobody's wish. */
  readonly declared: boolean;
}

/** `context` may be absent: then it is the model's window. So may the two kinds of tokens. */
export type EffectiveLimits = { readonly [name in LimitName]: EffectiveLimit | undefined } & {
  /** Of `spend`, and of the price table: what is spent is compared without converting. */
  readonly spend_currency: string;
  /** The share of `context` from which the model is warned. */
  readonly context_warn: number;
};

export interface LimitEvent {
  readonly name: 'limit';
  readonly code: `${LimitName}_exceeded`;
  readonly limit: LimitName;
  /** What was used, as people count: seconds, units of the currency. */
  readonly current: number;
  readonly max: number;
  /** Set aside for others: it is not spent, and not free either. */
  readonly reserved?: number;
  /** What the unit that did not start would take at least. */
  readonly needed?: number;
  /** The one above whose limit it is; its own when absent. */
  readonly thread?: string;
}

export interface WarningEvent extends Omit<LimitEvent, 'name' | 'code'> {
  readonly name: 'warning';
  readonly code: `${LimitName}_warning`;
  readonly percent: number;
}

/** A unit has a size of its own here; earlier units do not add up with it. */
const PER_UNIT = new Set<LimitName>(['context', 'depth']);

const NANO = 1_000_000_000n;
/** Nano-units of the unit people write down, per unit that is counted. */
const grainOf = (name: LimitName): bigint =>
  name === 'spend' ? 1n : name === 'duration' ? 1_000_000n : NANO;

/** A limit as people write it; what is finer than can be counted is dropped. Undefined: no amount. */
export function readLimit(name: LimitName, value: unknown): bigint | undefined {
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  // Small numbers print with an exponent otherwise.
  const text = typeof value === 'number' && value < 1 ? value.toFixed(12) : String(value).trim();
  const parsed = parseMoney(text.replace(/(\.\d{9})\d+$/, '$1'));
  return parsed.ok ? parsed.output / grainOf(name) : undefined;
}

/** As conditions and people see it: seconds, units of the currency. */
export const limitNumber = (name: LimitName, value: bigint): number =>
  Number(formatMoney(value * grainOf(name)));

/**
 * The first limit that the unit about to start would pass. `current` is what counts against the limit
 * already; for `context` and `depth`, which are per unit, the size of the unit.
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

/** Used, set aside and needed, each by itself. */
export function limitWords(event: Omit<LimitEvent, 'name' | 'code'>): string {
  const { limit, current, max, reserved, needed, thread } = event;
  const whose = thread === undefined ? '' : ` of thread \`${thread}\``;
  const start = `limit \`${limit}\`${whose} reached: ${current}`;
  if (PER_UNIT.has(limit)) return `${start} is more than ${max}`;
  const held = reserved === undefined ? '' : `, ${reserved} reserved for others`;
  const next = needed === undefined ? '' : `, the next request needs ${needed}`;
  return `${start} of ${max} used${held}${next}`;
}

/** A limit that was reached; `least`: how high it would have to be for this unit, as it is counted. */
interface ReachedLimit {
  readonly event: LimitEvent;
  readonly least: bigint;
}

// INVARIANT: a fault is a limit because it was made here, never because of its code or its fields. The
// symbol stays with its detail when the fault is copied, and no JSON ever holds it.
const LIMIT = Symbol('limit');

/** Undefined: the fault is no limit, whatever it says. */
export const limitIn = ({ detail }: Fault): ReachedLimit | undefined =>
  (detail as { [LIMIT]?: ReachedLimit })[LIMIT];

export function limitFault(event: LimitEvent, least: bigint, more: JsonObject = {}): Failure {
  const { name: _, code, ...facts } = event;
  const at_least = formatMoney(least * grainOf(event.limit));
  const failure = fail(code, limitWords(event), { ...more, ...facts, at_least });
  Object.assign(failure.error.detail, { [LIMIT]: { event, least } });
  return failure;
}

/** For a fault that an event of a journal tells to be a limit; the fault itself when it holds none. */
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

/** What each kind of unit takes besides its tokens. A turn at the deadline is already too late. */
export const UNITS = {
  turn: { turns: 1n, duration: 1n },
  tool: { tool_calls: 1n, duration: 1n },
  /** `depth` is the child's distance from the root. */
  spawn: (depth: number): LimitAmounts => ({ spawns: 1n, depth: BigInt(depth), duration: 1n }),
} as const;

/** Rising: whoever has not reached one has reached none after it. */
const MARKS = [80n, 95n] as const;

/** `turns:80`: what `crossedMarks` is told has been said already. */
export const markKey = ({ limit, percent }: Pick<WarningEvent, 'limit' | 'percent'>): string =>
  `${limit}:${percent}`;

/** Marks that are reached and were not reported yet. A limit of zero has none. */
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

/** Once per crossing: again when a shorter request came in between. `max` is the limit or window. */
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

/** For `<when>`: numbers; a limit that does not exist is null. */
export function limitsView(limits: EffectiveLimits): JsonObject {
  const { spend_currency, context_warn } = limits;
  const shown = LIMIT_NAMES.map((name) => {
    return [name, limits[name] ? limitNumber(name, limits[name].value) : null] as const;
  });
  return { ...Object.fromEntries(shown), spend_currency, context_warn };
}

/** The worst case of a model request. It is reserved before the request is sent. */
export interface RequestPlan {
  /** Estimated input, rounded up. */
  readonly input: number;
  /** The longest answer that is wanted. */
  readonly maxTokens: number;
  /** A shorter answer is not worth sending the request; data, 256 unless somebody changed it. */
  readonly minTokens: number;
  readonly used: LimitAmounts;
  readonly limits: EffectiveLimits;
  /** What the model can hold, input and answer together. */
  readonly window?: number;
  readonly price: Price;
}

type RequestFit =
  | { readonly maxTokens: number; readonly unit: LimitAmounts }
  | { readonly event: LimitEvent; readonly needed: bigint };

/** The worst case of the whole turn. */
function requestUnit(input: number, output: number, price: Price): LimitAmounts {
  return {
    ...UNITS.turn,
    tokens: BigInt(input) + BigInt(output),
    input_tokens: BigInt(input),
    output_tokens: BigInt(output),
    spend: worstCost(input, output, price),
    context: BigInt(input),
  };
}

/** Of these a request takes more than one at a time. */
const ADDS_UP = new Set<LimitName>(['tokens', 'input_tokens', 'output_tokens', 'spend']);

/** Less than this is not worth asking for. */
export const smallestRequest = (plan: RequestPlan): LimitAmounts =>
  requestUnit(plan.input, leastOf(plan), plan.price);

const leastOf = ({ minTokens, maxTokens }: RequestPlan): number =>
  Math.max(1, Math.min(minTokens, maxTokens));

/** The longest answer for which nothing is exceeded; found by halving, since costs only grow. */
function longestAnswer(plan: RequestPlan, least: number, most: number): number {
  let [good, bad] = [least, most];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    const unit = requestUnit(plan.input, middle, plan.price);
    if (firstExceeded(plan.used, unit, plan.limits)) bad = middle;
    else good = middle;
  }
  return good;
}

/** Lowers the answer to what is left; below the smallest useful answer the request is refused. */
export function fitRequest(plan: RequestPlan): RequestFit {
  const { input, price, window, limits, used } = plan;
  const least = leastOf(plan);
  const most = window === undefined ? plan.maxTokens : Math.min(plan.maxTokens, window - input);
  const wanted = most < least ? undefined : requestUnit(input, most, price);
  if (wanted && !firstExceeded(used, wanted, limits)) {
    return { maxTokens: most, unit: wanted };
  }
  const smallest = requestUnit(input, least, price);
  const event = firstExceeded(used, smallest, limits);
  if (event) {
    const { limit } = event;
    const before = PER_UNIT.has(limit) ? 0n : (used[limit] ?? 0n);
    const needed = smallest[limit] ?? 0n;
    const told = ADDS_UP.has(limit) ? { ...event, needed: limitNumber(limit, needed) } : event;
    return { event: told, needed: before + needed };
  }
  if (!wanted) {
    const max = BigInt(window ?? 0);
    return { event: limitEvent('context', BigInt(input), max), needed: BigInt(input + least) };
  }
  const maxTokens = longestAnswer(plan, least, most);
  return { maxTokens, unit: requestUnit(input, maxTokens, price) };
}
