// Computes the limits of a thread and the source of each: the directive or a default, at most what the caller,
// the policy and the ancestors allow. It also computes how far a hook can raise them.
import {
  fail,
  getOwn,
  type JsonObject,
  numberAt,
  type Outcome,
  objectAt,
  ok,
  suggestion,
  textAt,
} from '../../base/index.ts';
import { COMPACT, LIMIT_NAMES, strictestMode } from '../../flow/index.ts';
import type { DataLayer, Directive, DirectiveLimits, Library } from '../../items/index.ts';
import { formatMoney } from '../../llm/index.ts';
import {
  type Compaction,
  type EffectiveLimit,
  type EffectiveLimits,
  type LimitAmounts,
  type LimitName,
  limitNumber,
  readLimit,
} from './limit.ts';
import { ceilingOf, type RaiseRoom } from './limit-ceiling.ts';

export interface LimitSources {
  readonly declared: DirectiveLimits | undefined;
  /** Limits of the caller. They narrow the directive's limits and replace defaults. */
  readonly caller?: DirectiveLimits;
  /** Layers of `limits.yaml`, the strongest last. */
  readonly layers: readonly Pick<DataLayer, 'source' | 'value'>[];
  /** Limits of the operator, in the currency of the price table. */
  readonly policy: Readonly<Record<string, number | string>>;
  /** Amounts that the ancestors have left, and whether one of them declared the limit. */
  readonly left?: { readonly [name in LimitName]?: { value?: bigint; declared: boolean } };
}

/** Limits that can be absent. Without one of the other limits a thread could run forever. */
const OPTIONAL = new Set<LimitName>(['context', 'input_tokens', 'output_tokens']);
const CURRENCY = 'USD';
const DEFAULT_WARN = 0.8;

const defaultsOf = ({ value }: Pick<DataLayer, 'value'>): JsonObject => objectAt(value, 'defaults');

interface Candidate extends EffectiveLimit {
  /** Currency of a spend limit. Absent: the currency of the price table. */
  readonly currency?: string | undefined;
}

/** Returns the strongest layer with a readable value. A mistake in one layer does not lift the limit. */
function defaultLimit(name: LimitName, layers: LimitSources['layers']): Candidate | undefined {
  for (const layer of layers.toReversed()) {
    const value = readLimit(name, getOwn(defaultsOf(layer), name));
    if (value === undefined) continue;
    const currency = layers
      .map((each) => getOwn(defaultsOf(each), 'spend_currency'))
      .findLast((each) => typeof each === 'string');
    return { value, from: `default (${layer.source})`, declared: false, currency };
  }
  return undefined;
}

function candidatesFor(name: LimitName, sources: LimitSources): Outcome<Candidate[]> {
  const { declared, caller, layers, policy } = sources;
  const candidates: Candidate[] = [];
  for (const [from, limits] of Object.entries({ directive: declared, caller })) {
    const raw = limits?.[name];
    if (raw === undefined) continue;
    const value = readLimit(name, raw);
    if (value === undefined) {
      const message = `limit \`${name}\` cannot be \`${String(raw)}\``;
      return fail('invalid_input', message, { hint: 'use 0 or more; 0 allows nothing' });
    }
    candidates.push({ value, from, declared: true, currency: limits?.spend_currency });
  }
  if (candidates.length === 0) {
    const fallback = defaultLimit(name, layers);
    if (fallback) candidates.push(fallback);
    else if (!OPTIONAL.has(name)) {
      return fail('config_invalid', `limit \`${name}\` has no default`, {
        hint: 'reinstall kernmantle, or add the limit to `defaults` in `config/limits.yaml`',
      });
    }
  }
  if (Object.hasOwn(policy, name)) {
    // An unreadable limit of a policy allows nothing.
    candidates.push({ value: readLimit(name, policy[name]) ?? 0n, from: 'policy', declared: true });
  }
  const rest = sources.left?.[name];
  if (rest?.value !== undefined) {
    const value = rest.value > 0n ? rest.value : 0n;
    candidates.push({ value, from: 'parent', declared: rest.declared });
  }
  return ok(candidates);
}

// INVARIANT: no source ever lifts a limit of another source. The smallest limit counts.
function smallest(name: LimitName, sources: LimitSources): Outcome<EffectiveLimit | undefined> {
  const candidates = candidatesFor(name, sources);
  if (!candidates.ok) return candidates;
  const foreign = candidates.output.find(({ currency = CURRENCY }) => currency !== CURRENCY);
  if (name === 'spend' && foreign) {
    const message = `the spend limit is in \`${foreign.currency}\`, for which the price table has no rate`;
    return fail('config_invalid', message, { hint: `write it in ${CURRENCY}` });
  }
  const [least, ...others] = candidates.output.toSorted((a, b) => Number(a.value - b.value));
  if (!least) return ok(undefined);
  const { value, from } = least;
  const isAbove = sources.left?.[name]?.declared === true;
  const declared = isAbove || [least, ...others].some((one) => one.declared);
  return ok({ value, from, declared });
}

function effectiveLimits(sources: LimitSources): Outcome<EffectiveLimits> {
  const limits: { [name in LimitName]?: EffectiveLimit | undefined } = {};
  for (const name of LIMIT_NAMES) {
    const limit = smallest(name, sources);
    if (!limit.ok) return limit;
    limits[name] = limit.output;
  }
  const { declared } = sources;
  const warn = sources.layers
    .map((layer) => getOwn(defaultsOf(layer), 'context_warn'))
    .findLast((share) => typeof share === 'number');
  return ok({
    ...(limits as Record<LimitName, EffectiveLimit | undefined>),
    spend_currency: CURRENCY,
    context_warn: declared?.context_warn ?? warn ?? DEFAULT_WARN,
    context_compact: compactionOf(sources),
  });
}

/** Returns the mode of compaction and its source. No source makes it less strict than another one does. */
function compactionOf({ declared, caller, layers, policy }: LimitSources): Compaction {
  const figure = (name: string): number | undefined =>
    layers
      .map(({ value }) => numberAt(objectAt(value, 'compaction'), name))
      .findLast((each) => each !== undefined);
  const usual = layers.findLast((layer) => getOwn(defaultsOf(layer), COMPACT) !== undefined);
  const isStop = declared?.context !== undefined;
  const own = declared?.context_compact ?? (isStop ? 'off' : undefined);
  const fallback = usual ? getOwn(defaultsOf(usual), COMPACT) : 'auto';
  const candidates: [value: unknown, from: string][] = [
    own ? [own, 'directive'] : [fallback, `default (${usual?.source ?? 'bundle'})`],
  ];
  if (Object.hasOwn(policy, COMPACT)) candidates.unshift([policy[COMPACT], 'policy']);
  if (caller?.context_compact) candidates.push([caller.context_compact, 'caller']);
  const value = strictestMode(candidates.map(([mode]) => mode));
  const from = candidates.find(([mode]) => strictestMode([mode]) === value)?.[1] ?? 'default';
  return {
    value,
    from,
    at: declared?.context_compact_at ?? caller?.context_compact_at ?? figure('at') ?? 0.8,
    keep: declared?.context_keep ?? caller?.context_keep ?? figure('keep') ?? 4,
  };
}

export const directiveLimits = (
  library: Pick<Library, 'config'>,
  policy: LimitSources['policy'],
  { limits }: Pick<Directive, 'limits'>,
  more: Pick<LimitSources, 'caller' | 'left'> = {},
): Outcome<EffectiveLimits> =>
  effectiveLimits({ declared: limits, layers: library.config('limits').layers, policy, ...more });

/** Percentage of its estimate that one request of a hook can cost, because hooks get the event as input. */
export const HOOK_MARGIN = 115n;

const SET_ASIDE = ['tokens', 'input_tokens', 'output_tokens', 'spend', 'duration'] as const;

/**
 * Divides the limits between the thread and its hooks, so that hooks can run when a limit is reached. INVARIANT:
 * both parts always add up to the limit.
 */
export function reserveAmounts(
  limits: EffectiveLimits,
  share: number,
  { least = {}, room = {} }: { least?: LimitAmounts; room?: LimitAmounts } = {},
): { own: EffectiveLimits; hooks: LimitAmounts } {
  const million = BigInt(Math.round(Math.min(1, Math.max(0, share || 0)) * 1_000_000));
  const hooks: { [name in LimitName]?: bigint } = {};
  const own: { [name in LimitName]?: EffectiveLimit } = {};
  for (const name of SET_ASIDE) {
    const limit = limits[name];
    if (!limit) continue;
    // The amounts that the ancestors have left are an upper bound.
    const above = room[name] ?? limit.value;
    const whole = above < limit.value ? above : limit.value;
    const part = (whole * million) / 1_000_000n;
    // Hooks get at least one request if the thread can still make one itself.
    const needed = million > 0n ? (least[name] ?? 0n) : 0n;
    const isRoom = (whole - needed) * HOOK_MARGIN >= needed * 100n;
    const reserve = part < needed && isRoom ? needed : part;
    hooks[name] = reserve;
    own[name] = { ...limit, value: limit.value - reserve };
  }
  return { own: { ...limits, ...own }, hooks };
}

/** Returns the limits for the store and for `explain`, in user units and with money as text. */
export function packLimits(limits: EffectiveLimits): JsonObject {
  const packed: JsonObject = {};
  for (const name of LIMIT_NAMES) {
    const limit = limits[name];
    if (!limit) continue;
    const { value, from, declared } = limit;
    const amount = name === 'spend' ? formatMoney(value) : limitNumber(name, value);
    packed[name] = { value: amount, from, declared };
  }
  const { spend_currency, context_warn, context_compact } = limits;
  return { ...packed, spend_currency, context_warn, context_compact: { ...context_compact } };
}

/** Reads packed limits. An unreadable entry allows nothing. */
export function unpackLimits(packed: JsonObject): EffectiveLimits {
  const compact = objectAt(packed, COMPACT);
  const limits: { [name in LimitName]?: EffectiveLimit | undefined } = {};
  for (const name of LIMIT_NAMES) {
    const entry = getOwn(packed, name);
    if (entry === undefined && OPTIONAL.has(name)) continue;
    limits[name] = {
      value: readLimit(name, getOwn(entry, 'value')) ?? 0n,
      from: textAt(entry, 'from') || 'unreadable',
      declared: getOwn(entry, 'declared') !== false,
    };
  }
  return {
    ...(limits as Record<LimitName, EffectiveLimit | undefined>),
    spend_currency: textAt(packed, 'spend_currency') || CURRENCY,
    context_warn: numberAt(packed, 'context_warn') ?? DEFAULT_WARN,
    context_compact: {
      value: strictestMode([textAt(compact, 'value')]),
      from: textAt(compact, 'from') || 'unreadable',
      at: numberAt(compact, 'at') ?? 0.8,
      keep: numberAt(compact, 'keep') ?? 4,
    },
  };
}

interface Refused {
  readonly refused: string;
}

function readWanted(request: JsonObject): Map<LimitName, bigint> | Refused {
  const values = new Map<LimitName, bigint>();
  for (const [key, raw] of Object.entries(request)) {
    if (key === 'spend_currency') continue;
    const name = LIMIT_NAMES.find((each) => each === key);
    const value = name && readLimit(name, raw);
    if (name === undefined) {
      return { refused: `limit \`${key}\` not found${suggestion(key, LIMIT_NAMES)}` };
    }
    if (value === undefined) return { refused: `the new limit \`${key}\` must be a number` };
    values.set(name, value);
  }
  return values;
}

/**
 * Returns the limits with the raises that a hook requested, each up to its ceiling. No limit is lowered. Fails
 * if the limit that was reached would still not cover `needed`.
 */
export function raisedLimits(
  request: JsonObject,
  limits: EffectiveLimits,
  room: RaiseRoom,
  reached?: { limit: LimitName; needed: bigint },
): { limits: EffectiveLimits; raised: LimitName[] } | Refused {
  const values = readWanted(request);
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
    const isRequested = values.has(reached.limit);
    return {
      refused: isRequested
        ? `limit \`${reached.limit}\` cannot be raised far enough to continue`
        : `the hook returned no new value for limit \`${reached.limit}\``,
    };
  }
  return {
    limits: { ...limits, ...raised },
    raised: LIMIT_NAMES.filter((name) => raised[name] !== undefined),
  };
}
