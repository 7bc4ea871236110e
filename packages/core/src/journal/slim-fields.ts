// Parts of slim events: names, codes, numbers and previews, for lists that hold thousands of events.
// INVARIANT: a slim event is small for any content. Texts have at most 200 characters, names at most 120.
import { getOwn, isObject, type Json, type JsonObject, masked } from '../base/index.ts';
import { replyText } from './event-text.ts';
import type { AssistantMessage } from './shapes.ts';

export const MAX_TEXT = 200;
const MAX_NAME = 120;
const MAX_LABELS = 20;

/** Fields of a slim event. An absent field was not in the event. `preview`, `reason` and `target` are untrusted. */
export interface SlimFields {
  readonly call_id?: string;
  readonly tool?: string;
  readonly verb?: string;
  readonly effect?: string;
  /** The target of a call: a path, a host, an id. */
  readonly target?: string;
  /** Preview of arguments, of a result or of a message. */
  readonly preview?: string;
  /** The length of the whole content, in bytes. */
  readonly bytes?: number;
  /** The number of bytes that the tool reports as written. */
  readonly wrote?: number;
  /** Labels, without those that only name a source (`src:`, `dir:`). */
  readonly labels?: readonly string[];
  readonly is_error?: boolean;
  readonly code?: string;
  /** The part that refused: capability, limits, policy, guard, primitive. */
  readonly stage?: string;
  /** The name of the guard or rule that refused. */
  readonly rule?: string;
  /** The capability that a refused call lacked. */
  readonly missing?: string;
  /** The author of a message or signal: user, harness, model, tool, hook, or a person. */
  readonly by?: string;
  readonly usage?: {
    readonly input: number;
    readonly cached: number;
    readonly output: number;
    readonly tokens: number;
    readonly estimated: boolean;
  };
  /** Money that this reply or a child cost. */
  readonly spend?: number;
  readonly model?: string;
  readonly price_row?: string;
  readonly stop?: string;
  /** The thread of the child or of the hook. */
  readonly thread?: string;
  readonly directive?: string;
  readonly status?: string;
  readonly reason?: string;
  /** The checkpoint of a hook, the kind of a signal or of an approval request. */
  readonly event?: string;
  readonly deed?: string;
  /** The checkpoint and the decision of a hook, as text. */
  readonly decision?: string;
  readonly took_ms?: number;
  readonly approval?: string;
  readonly state?: string;
  /** The limit that an event of type `limit` or `warning` names. */
  readonly limit?: string;
  readonly current?: number;
  readonly max?: number;
  /** The limits that this event raises, by name. */
  readonly raised?: { readonly [limit: string]: number };
}

/** Fields of one event; a field that is `undefined` or empty is left out. */
export type SlimParts = { readonly [name in keyof SlimFields]?: SlimFields[name] | undefined };

/** The name of a limit on lists and on the page. The limit on time has its unit in its name. */
export const meterName = (limit: string): string =>
  limit === 'duration' ? 'duration_seconds' : limit;

/** Masks secrets, then cuts the text. A secret that the cut would split is dropped. */
export function preview(text: string, max = MAX_TEXT): string {
  // References to secrets are longer than their masks, so more text is masked than is kept.
  const reach = 5 * max + 64;
  const isWhole = text.length <= reach;
  const start = isWhole
    ? masked(text)
    : masked(text.slice(0, reach)).replace(/\{secret [^{}]*$/, '');
  if (isWhole && start.length <= max) return start;
  return `${start.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

export const shortName = (text: string): string => preview(text, MAX_NAME);
/** The same for a name that may be absent or empty. */
export const optionalName = (text: string | undefined): string | undefined =>
  text === undefined || text === '' ? undefined : shortName(text);
export const nameInJson = (value: Json | undefined): string | undefined =>
  typeof value === 'string' ? optionalName(value) : undefined;

const encoder = new TextEncoder();
export const textParts = (text: string): SlimParts =>
  text === '' ? {} : { preview: preview(text), bytes: encoder.encode(text).length };
export const jsonParts = (value: Json): SlimParts =>
  textParts(typeof value === 'string' ? value : JSON.stringify(value));

/** Reads a number. Money is a text in the journal. */
export function amountIn(value: Json | undefined): number | undefined {
  const read = typeof value === 'string' || typeof value === 'number' ? Number(value) : Number.NaN;
  return Number.isFinite(read) ? read : undefined;
}

/** Labels without those that only name a source. */
export function labelsIn({
  taint,
}: {
  readonly taint: readonly string[];
}): readonly string[] | undefined {
  const labels = taint.filter((label) => !/^(src|dir):/.test(label));
  return labels.length === 0 ? undefined : labels.slice(0, MAX_LABELS).map(shortName);
}

/** Reads limits that `packLimits` wrote, and limits that are plain numbers. */
export function raisedIn(limits: JsonObject | undefined): SlimFields['raised'] | undefined {
  const entries = Object.entries(limits ?? {}).flatMap(([limit, entry]) => {
    const value = amountIn(isObject(entry) ? getOwn(entry, 'value') : entry);
    return value === undefined || limit === 'context_warn'
      ? []
      : [[shortName(meterName(limit)), value] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries.slice(0, 20));
}

/** The number of bytes that a result reports as written. */
export function bytesIn(content: Json): number | undefined {
  const bytes = getOwn(content, 'bytes') ?? getOwn(getOwn(content, 'output'), 'bytes');
  return typeof bytes === 'number' && Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : undefined;
}

export function messageParts(data: AssistantMessage): SlimParts {
  if (data.injected) return { by: 'harness' };
  const { usage, spend, model, price_row, stop, withheld, open, apart } = data;
  return {
    by: 'model',
    ...textParts(replyText(data.content)),
    usage: {
      input: usage.input_tokens,
      cached: usage.cache_read_tokens,
      output: usage.output_tokens,
      tokens: usage.tokens,
      estimated: usage.estimated,
    },
    spend: amountIn(spend),
    model: shortName(model),
    price_row: optionalName(price_row),
    stop,
    state: withheld ? 'withheld' : open ? 'open' : apart ? 'apart' : undefined,
  };
}

export const faultParts = (data: {
  readonly code: string;
  readonly detail: { readonly message: string; readonly [field: string]: Json };
}): SlimParts => ({
  code: shortName(data.code),
  reason: preview(data.detail.message),
  rule: nameInJson(data.detail['guard']) ?? nameInJson(data.detail['rule']),
  missing: nameInJson(data.detail['missing']),
});

export const limitParts = (data: {
  readonly code: string;
  readonly limit: string;
  readonly current: number;
  readonly max: number;
}): SlimParts => ({
  code: data.code,
  limit: meterName(data.limit),
  current: data.current,
  max: data.max,
});
