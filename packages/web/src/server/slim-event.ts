// An event without its content, for lists that hold thousands: names, codes and numbers, the words of
// `threads show`, and the beginning of what was said. INVARIANT: whatever the event holds, what is made
// of it is small: texts end after 200 characters, names after 120. What cannot be read is told as such.
import { getOwn, isObject, type Json, type JsonObject, masked } from '@kernmantle/core/base';
import {
  argumentsText,
  type DataOf,
  decode,
  type EventType,
  eventLine,
  hookDecision,
  type Recorded,
  unreadableLine,
} from '@kernmantle/core/journal';
import type { StoredEvent } from '@kernmantle/core/store';
import { meterName, type SlimEvent } from '../model/api.ts';

const MAX_TEXT = 200;
const MAX_NAME = 120;
const MAX_LABELS = 20;

/** What an event adds to its place; `undefined` is left out. */
type Parts = { readonly [name in keyof SlimEvent]?: SlimEvent[name] | undefined };

/** Secrets are masked before the cut; one that the cut goes through is not begun. */
function beginning(text: string, max = MAX_TEXT): string {
  // References are longer than their mask: of what lies further behind nothing would be seen.
  const reach = 5 * max + 64;
  const isWhole = text.length <= reach;
  const start = isWhole
    ? masked(text)
    : masked(text.slice(0, reach)).replace(/\{secret [^{}]*$/, '');
  if (isWhole && start.length <= max) return start;
  return `${start.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

const name = (text: string): string => beginning(text, MAX_NAME);
const some = (text: string | undefined): string | undefined =>
  text === undefined || text === '' ? undefined : name(text);
const text = (value: Json | undefined): string | undefined =>
  typeof value === 'string' ? some(value) : undefined;
const said = (value: string): Parts =>
  value === '' ? {} : { preview: beginning(value), bytes: Buffer.byteLength(value) };
const shown = (value: Json): Parts =>
  said(typeof value === 'string' ? value : JSON.stringify(value));

/** A number as people count; money is text in the journal. */
function figure(value: Json | undefined): number | undefined {
  const read = typeof value === 'string' || typeof value === 'number' ? Number(value) : Number.NaN;
  return Number.isFinite(read) ? read : undefined;
}

/** What only names a source is asked for apart. */
function labelsOf({ taint }: { readonly taint: readonly string[] }): readonly string[] | undefined {
  const kept = taint.filter((label) => !/^(src|dir):/.test(label));
  return kept.length === 0 ? undefined : kept.slice(0, MAX_LABELS).map(name);
}

/** As `packLimits` wrote them, or plain numbers. */
function raisedOf(limits: JsonObject | undefined): SlimEvent['raised'] | undefined {
  const entries = Object.entries(limits ?? {}).flatMap(([limit, entry]) => {
    const value = figure(isObject(entry) ? getOwn(entry, 'value') : entry);
    return value === undefined || limit === 'context_warn'
      ? []
      : [[name(meterName(limit)), value] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries.slice(0, 20));
}

/** How much a tool says it left behind. */
function bytesIn(content: Json): number | undefined {
  const bytes = getOwn(content, 'bytes') ?? getOwn(getOwn(content, 'output'), 'bytes');
  return typeof bytes === 'number' && Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : undefined;
}

const replyText = (content: DataOf<'assistant_message'>['content']): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

function reply(data: DataOf<'assistant_message'>): Parts {
  if (data.injected) return { by: 'harness' };
  const { usage, spend, model, price_row, stop, withheld, open, apart } = data;
  return {
    by: 'model',
    ...said(replyText(data.content)),
    usage: {
      input: usage.input_tokens,
      cached: usage.cache_read_tokens,
      output: usage.output_tokens,
      tokens: usage.tokens,
      estimated: usage.estimated,
    },
    spend: figure(spend),
    model: name(model),
    price_row: some(price_row),
    stop,
    state: withheld ? 'withheld' : open ? 'open' : apart ? 'apart' : undefined,
  };
}

const refused = (data: {
  readonly code: string;
  readonly detail: { readonly message: string; readonly [field: string]: Json };
}): Parts => ({
  code: name(data.code),
  reason: beginning(data.detail.message),
  rule: text(data.detail['guard']) ?? text(data.detail['rule']),
  missing: text(data.detail['missing']) || undefined,
});

const reached = (data: DataOf<'limit'> | DataOf<'warning'>): Parts => ({
  code: data.code,
  limit: meterName(data.limit),
  current: data.current,
  max: data.max,
});

type Slim<Type extends EventType> = (data: DataOf<Type>) => Parts;
const nothing = (): Parts => ({});

/** One for each type: a new event must fail to compile here. */
const SLIM: { readonly [type in EventType]: Slim<type> } = {
  thread_start: ({ directive, model, message, ran }) => ({
    directive: name(directive),
    model: name(model),
    by: some(ran?.by.who),
    ...said(message),
  }),
  status: ({ status, by, reason }) => ({
    status,
    by: some(by),
    reason: reason && beginning(reason),
  }),
  user_message: (data) => ({ by: 'user', ...said(data.text), labels: labelsOf(data.marks) }),
  assistant_message: reply,
  tool_call: ({ call_id, tool, verb, effect, target, arguments: given, child }) => ({
    call_id: name(call_id),
    tool: name(tool),
    verb: name(verb),
    effect,
    target: target && beginning(target),
    ...shown(given),
    preview: beginning(argumentsText(given, MAX_TEXT)),
    thread: some(child),
  }),
  tool_result: ({ call_id, tool, content, is_error, marks }) => ({
    call_id: name(call_id),
    tool: some(tool),
    is_error,
    code: is_error ? text(getOwn(getOwn(content, 'error'), 'code')) : undefined,
    ...shown(content),
    wrote: is_error ? undefined : bytesIn(content),
    labels: labelsOf(marks),
  }),
  turn_start: ({ model }) => ({ model: name(model) }),
  turn_end: (data) => ({
    state: ['done', 'called_off', 'withheld', 'failed', 'unsent'].find((word) =>
      Object.hasOwn(data, word),
    ),
  }),
  cost_update: nothing,
  hook_start: ({ thread_id, directive, event, call_id }) => ({
    thread: name(thread_id),
    directive: name(directive),
    event: name(event),
    call_id: some(call_id),
  }),
  hook: ({ directive, event, deed, duration_ms, thread_id, limits, model }) => ({
    directive: name(directive),
    event,
    deed: name(deed),
    decision: beginning(hookDecision({ event, deed })),
    took_ms: duration_ms,
    thread: some(thread_id),
    raised: raisedOf(limits),
    model: some(model),
  }),
  hook_state: nothing,
  permission_denied: (data) => ({
    ...refused(data),
    call_id: some(data.call_id),
    stage: data.stage,
  }),
  limit: (data) => ({ ...reached(data), thread: some(data.thread) }),
  warning: reached,
  loop_detected: refused,
  retry: (data) =>
    data.try === undefined
      ? { current: data.attempt, state: 'attempt' }
      : {
          current: data.try,
          state: 'try',
          reason: beginning(data.because),
          model: some(data.model),
        },
  model_fallback: ({ to, because }) => ({ model: name(to), reason: beginning(because) }),
  spawn: ({ thread_id, directive }) => ({ thread: name(thread_id), directive: name(directive) }),
  child_end: ({ thread_id, status, reason, cost }) => ({
    thread: name(thread_id),
    status,
    reason: beginning(reason),
    spend: figure(cost['spend']),
  }),
  injected_message: (data) => ({
    by: name(data.by),
    ...said(data.text),
    labels: labelsOf(data.marks),
  }),
  signal: ({ kind, by, reason, limits, model, code }) => ({
    event: name(kind),
    by: name(by),
    reason: reason && beginning(reason),
    raised: raisedOf(limits),
    model: some(model),
    code: some(code),
  }),
  approval: (data) => ({
    approval: some(data.approval),
    state: data.state,
    event: data.kind,
    call_id: 'call_id' in data ? some(data.call_id) : undefined,
    by: 'by' in data ? some(data.by) : undefined,
    reason: 'why' in data && data.why !== undefined ? beginning(data.why) : undefined,
    directive: 'directive' in data ? name(data.directive) : undefined,
  }),
  plan: ({ number, text, after }) => ({
    current: number,
    ...said(text),
    code: some(after?.code),
  }),
  snapshot: ({ reason }) => ({ reason: beginning(reason) }),
  error: refused,
  stream_error: (data) =>
    data.code === undefined
      ? { code: name(data.reason), reason: beginning(data.message) }
      : refused(data),
  logged: ({ event_type, by }) => ({ event: name(event_type), by: name(by) }),
  thread_end: ({ status, reason, code }) => ({
    status,
    reason: reason === '' ? undefined : beginning(reason),
    code: some(code),
  }),
};

function partsOf<Type extends EventType>(event: {
  readonly type: Type;
  readonly data: DataOf<Type>;
}): Parts {
  const slim: Slim<Type> = SLIM[event.type];
  return slim(event.data);
}

/** Without what is not there, which JSON would leave out as well. */
function present(place: SlimEvent, parts: Parts): SlimEvent {
  const made: Record<string, unknown> = { ...place };
  for (const [field, value] of Object.entries(parts)) {
    if (value !== undefined && value !== '') made[field] = value;
  }
  return made as unknown as SlimEvent;
}

const placeOf = ({ seq, ts, turn, type }: StoredEvent | Recorded): SlimEvent => ({
  seq,
  ts,
  turn,
  type: name(type),
});

/** Never refused: what nobody can read is an event too. */
export function slimEvent(stored: StoredEvent): SlimEvent {
  const read = decode(stored);
  if (!read.ok) {
    const { tone, text: words } = unreadableLine(read);
    return { ...placeOf(stored), text: beginning(words), tone, unreadable: true };
  }
  const event = read.output;
  const told = eventLine(event);
  const words: Parts = told ? { text: beginning(told.text), tone: told.tone } : {};
  return present(placeOf(event), { ...words, ...partsOf(event) });
}
