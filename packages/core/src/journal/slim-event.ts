// Adds two columns to the event table: the slim form of an event, for lists of thousands, and its content, for a
// detail view. They are not in `events.ts`, because the page loads that file and only the server needs them.
// INVARIANT: a slim event is always small. Its texts have at most 200 characters, its names at most 120.
import { getOwn, isObject, type Json, type JsonObject, masked } from '../base/index.ts';
import type { StoredEvent } from '../store/index.ts';
import { eventLine } from './event-facts.ts';
import {
  argumentsText,
  type EventTone,
  hookDecision,
  messageText,
  replyText,
} from './event-text.ts';
import type { DataOf, EventType } from './events.ts';
import { decode, type Recorded } from './read-journal.ts';
import type { AssistantMessage } from './shapes.ts';

/**
 * An event without its content. A field is absent if the event does not have it. `text`, `preview`, `reason` and
 * `target` can contain untrusted text.
 */
export interface SlimEvent {
  readonly seq: number;
  readonly ts: number;
  readonly turn: number;
  readonly type: string;
  /** Line of `threads show`, at most 200 characters. Absent: the event has no line. */
  readonly text?: string;
  readonly tone?: EventTone;
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
  /** Number of written bytes, as the tool reports it. */
  readonly wrote?: number;
  /** Labels, without those that only name a source (`src:`, `dir:`). */
  readonly labels?: readonly string[];
  readonly is_error?: boolean;
  readonly code?: string;
  /** Part of the runtime that refused the call: capability, limits, policy, guard, primitive. */
  readonly stage?: string;
  /** The name of the guard or rule that refused. */
  readonly rule?: string;
  /** The capability that a refused call lacked. */
  readonly missing?: string;
  /** The author of a message or signal: user, harness, model, plan, tool, hook, or a person. */
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
  readonly decision?: string;
  /** The checkpoint and the decision of a hook, as text. */
  readonly decision_text?: string;
  readonly took_ms?: number;
  readonly approval?: string;
  readonly state?: string;
  /** The limit that an event of type `limit` or `warning` names. */
  readonly limit?: string;
  readonly current?: number;
  readonly max?: number;
  /** The limits that this event raises, by name. */
  readonly raised?: { readonly [limit: string]: number };
  /** True: the stored event cannot be decoded. */
  readonly unreadable?: true;
}

/** The name of a limit on lists and on the page. The limit on time has its unit in its name. */
export const meterName = (limit: string): string =>
  limit === 'duration' ? 'duration_seconds' : limit;

const utf8 = new TextEncoder();
const scratch = new Uint8Array(64 * 1024);
const MAX_TEXT = 200;
const MAX_NAME = 120;
/** Maximum number of names in a list, and their maximum total length. */
const [MAX_NAMES, MAX_NAMES_TEXT] = [20, 600];

/** Fields of one event. A field that is `undefined` or empty is dropped. */
type SlimParts = { readonly [name in keyof SlimEvent]?: SlimEvent[name] | undefined };

/** Masks secrets, then cuts the text. A secret that the cut would split is dropped. */
function preview(text: string, max = MAX_TEXT): string {
  // References to secrets are longer than their masks, so more text is masked than the preview has.
  const reach = 5 * max + 64;
  const isWhole = text.length <= reach;
  const start = isWhole
    ? masked(text)
    : masked(text.slice(0, reach)).replace(/\{secret [^{}]*$/, '');
  if (isWhole && start.length <= max) return start;
  return `${start.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

const shortName = (text: string): string => preview(text, MAX_NAME);
/** Shortens a name that may be absent or empty. */
const optionalName = (text: string | undefined): string | undefined =>
  text === undefined || text === '' ? undefined : shortName(text);
const nameInJson = (value: Json | undefined): string | undefined =>
  typeof value === 'string' ? optionalName(value) : undefined;

/** Encodes a short text into one array for all texts. A character needs at most three bytes. */
const byteLength = (text: string): number =>
  text.length * 3 <= scratch.length
    ? utf8.encodeInto(text, scratch).written
    : utf8.encode(text).length;

const textParts = (text: string): SlimParts =>
  text === '' ? {} : { preview: preview(text), bytes: byteLength(text) };
const jsonParts = (value: Json): SlimParts =>
  textParts(typeof value === 'string' ? value : JSON.stringify(value));

/** Describes a message. A file has its name, its type and its own size. */
function messageWords(message: DataOf<'user_message'>): SlimParts {
  const { file } = message;
  return { ...textParts(messageText(message)), ...(file && { bytes: file.bytes }) };
}

/** Reads a number or a text with a number, because money is a text in the journal. */
function amountIn(value: Json | undefined): number | undefined {
  const read = typeof value === 'string' || typeof value === 'number' ? Number(value) : Number.NaN;
  return Number.isFinite(read) ? read : undefined;
}

/** Returns the first items whose names fit into a list. */
function fitting<Item>(items: readonly Item[], nameOf: (item: Item) => string): Item[] {
  let length = 0;
  return items.slice(0, MAX_NAMES).filter((item) => {
    length += nameOf(item).length;
    return length <= MAX_NAMES_TEXT;
  });
}

/** Returns the labels without those that only name a source. */
function labelsIn({ taint }: { readonly taint: readonly string[] }): readonly string[] | undefined {
  const labels = taint.filter((label) => !/^(src|dir):/.test(label));
  return labels.length === 0 ? undefined : fitting(labels.map(shortName), (label) => label);
}

/** Reads limits that `packLimits` wrote, and limits that are plain numbers. */
function raisedIn(limits: JsonObject | undefined): SlimEvent['raised'] | undefined {
  const entries = Object.entries(limits ?? {}).flatMap(([limit, entry]) => {
    const value = amountIn(isObject(entry) ? getOwn(entry, 'value') : entry);
    return value === undefined || limit === 'context_warn'
      ? []
      : [[shortName(meterName(limit)), value] as const];
  });
  return entries.length === 0
    ? undefined
    : Object.fromEntries(fitting(entries, ([limit]) => limit));
}

/** Returns the number of written bytes, as the result reports it. */
function bytesIn(content: Json): number | undefined {
  const bytes = getOwn(content, 'bytes') ?? getOwn(getOwn(content, 'output'), 'bytes');
  return typeof bytes === 'number' && Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : undefined;
}

function messageParts(data: AssistantMessage): SlimParts {
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

const faultParts = (data: {
  readonly code: string;
  readonly detail: { readonly message: string; readonly [field: string]: Json };
}): SlimParts => ({
  code: shortName(data.code),
  reason: preview(data.detail.message),
  rule: nameInJson(data.detail['guard']) ?? nameInJson(data.detail['rule']),
  missing: nameInJson(data.detail['missing']),
});

const limitParts = (data: {
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

type Slim<Type extends EventType> = (data: DataOf<Type>) => SlimParts;
const noFields = (): SlimParts => ({});

/** One function for each type of event. The compiler reports a missing type. */
const SLIM: { readonly [type in EventType]: Slim<type> } = {
  thread_start: (start) => ({
    directive: shortName(start.directive),
    model: shortName(start.model),
    by: optionalName(start.ran?.by.who),
    ...textParts(start.message),
  }),
  status: ({ status, by, reason }) => ({
    status,
    by: optionalName(by),
    reason: reason && preview(reason),
  }),
  user_message: (message) => ({
    by: 'user',
    ...messageWords(message),
    labels: labelsIn(message.marks),
  }),
  assistant_message: messageParts,
  tool_call: ({ call_id, tool, verb, effect, target, arguments: args, child }) => ({
    call_id: shortName(call_id),
    tool: shortName(tool),
    verb: shortName(verb),
    effect,
    target: target && preview(target),
    ...jsonParts(args),
    preview: preview(argumentsText(args, MAX_TEXT)),
    thread: optionalName(child),
  }),
  tool_result: ({ call_id, tool, content, is_error, marks }) => ({
    call_id: shortName(call_id),
    tool: optionalName(tool),
    is_error,
    code: is_error ? nameInJson(getOwn(getOwn(content, 'error'), 'code')) : undefined,
    ...jsonParts(content),
    wrote: is_error ? undefined : bytesIn(content),
    labels: labelsIn(marks),
  }),
  turn_start: ({ model }) => ({ model: shortName(model) }),
  turn_end: (end) => ({
    state: ['done', 'called_off', 'withheld', 'failed', 'unsent'].find((state) =>
      Object.hasOwn(end, state),
    ),
  }),
  cost_update: noFields,
  hook_start: ({ thread_id, directive, event, call_id }) => ({
    thread: shortName(thread_id),
    directive: shortName(directive),
    event: shortName(event),
    call_id: optionalName(call_id),
  }),
  hook: ({ directive, event, decision, duration_ms, thread_id, limits, model }) => ({
    directive: shortName(directive),
    event,
    decision: shortName(decision),
    decision_text: preview(hookDecision({ event, decision })),
    took_ms: duration_ms,
    thread: optionalName(thread_id),
    raised: raisedIn(limits),
    model: optionalName(model),
  }),
  criterion: ({ held, reason }) => ({
    is_error: !held,
    ...(reason !== undefined && textParts(reason)),
  }),
  compaction: ({ tier, by, model, upto, spend, facts = {}, summary = '', rejected }) => ({
    state: tier,
    by: optionalName(by) ?? 'harness',
    model: optionalName(model),
    current: upto,
    spend: amountIn(spend),
    reason: rejected && preview(rejected),
    ...(summary !== '' && textParts(summary)),
    bytes: JSON.stringify({ facts, summary }).length,
  }),
  hook_state: noFields,
  permission_denied: (denial) => ({
    ...faultParts(denial),
    call_id: optionalName(denial.call_id),
    stage: denial.stage,
  }),
  limit: (reached) => ({ ...limitParts(reached), thread: optionalName(reached.thread) }),
  warning: (data) =>
    data.code === 'seals_dropped' ? { code: data.code, current: data.count } : limitParts(data),
  loop_detected: faultParts,
  retry: (again) =>
    again.try === undefined
      ? { current: again.attempt, state: 'attempt' }
      : {
          current: again.try,
          state: 'try',
          reason: preview(again.because),
          model: optionalName(again.model),
        },
  model_fallback: ({ to, because }) => ({ model: shortName(to), reason: preview(because) }),
  spawn: ({ thread_id, directive }) => ({
    thread: shortName(thread_id),
    directive: shortName(directive),
  }),
  child_end: ({ thread_id, status, reason, cost }) => ({
    thread: shortName(thread_id),
    status,
    reason: preview(reason),
    spend: amountIn(cost['spend']),
  }),
  injected_message: (message) => ({
    by: shortName(message.by),
    ...messageWords(message),
    labels: labelsIn(message.marks),
  }),
  signal: ({ kind, by, reason, limits, model, code }) => ({
    event: shortName(kind),
    by: shortName(by),
    reason: reason && preview(reason),
    raised: raisedIn(limits),
    model: optionalName(model),
    code: optionalName(code),
  }),
  fork: ({ from, at, by, model, limits }) => ({
    thread: shortName(from),
    current: at,
    by: shortName(by),
    model: shortName(model),
    raised: raisedIn(limits),
  }),
  approval: (note) => ({
    approval: optionalName(note.approval),
    state: note.state,
    event: note.kind,
    call_id: 'call_id' in note ? optionalName(note.call_id) : undefined,
    by: 'by' in note ? optionalName(note.by) : undefined,
    reason: 'why' in note && note.why !== undefined ? preview(note.why) : undefined,
    directive: 'directive' in note ? shortName(note.directive) : undefined,
  }),
  plan: ({ number, text, after }) => ({
    by: 'plan',
    current: number,
    ...textParts(text),
    code: optionalName(after?.code),
  }),
  snapshot: ({ reason }) => ({ reason: preview(reason) }),
  error: faultParts,
  stream_error: (error) =>
    error.code === undefined
      ? { code: shortName(error.reason), reason: preview(error.message) }
      : faultParts(error),
  commits_lost: () => ({ event: 'commits_lost', by: 'harness' }),
  logged: ({ event_type, by }) => ({ event: shortName(event_type), by: shortName(by) }),
  thread_end: ({ status, reason, code }) => ({
    status,
    reason: reason === '' ? undefined : preview(reason),
    code: optionalName(code),
  }),
};

type Content<Type extends EventType> = (data: DataOf<Type>) => Json | undefined;
const messageIn = ({ detail }: { readonly detail: { readonly message: string } }): string =>
  detail.message;

/** Content of each type of event. A type without an entry has only names and numbers. */
const CONTENT: { readonly [type in EventType]?: Content<type> } = {
  thread_start: ({ message }) => message,
  user_message: messageText,
  injected_message: messageText,
  plan: ({ text }) => text,
  assistant_message: ({ content }) =>
    content
      .map((block) => (block.type === 'text' || block.type === 'thinking' ? block.text : ''))
      .filter((text) => text !== '')
      .join('\n\n'),
  tool_call: (call) => call.arguments,
  tool_result: ({ content }) => content,
  permission_denied: messageIn,
  loop_detected: messageIn,
  error: messageIn,
  hook: ({ notes }) => notes,
  thread_end: ({ reason }) => reason,
  status: ({ reason }) => reason,
  compaction: ({ facts = {}, summary }) => ({ ...(summary !== undefined && { summary }), facts }),
};

interface EventOf<Type extends EventType> {
  readonly type: Type;
  readonly data: DataOf<Type>;
}

function partsOf<Type extends EventType>({ type, data }: EventOf<Type>): SlimParts {
  const slim: Slim<Type> = SLIM[type];
  return slim(data);
}

/** Returns the content of an event for a detail view. `undefined`: the event has no content. */
export function eventContent<Type extends EventType>({
  type,
  data,
}: EventOf<Type>): Json | undefined {
  const content: Content<Type> | undefined = CONTENT[type];
  return content?.(data);
}

/** Adds the fields that are neither absent nor empty. */
function present(place: SlimEvent, parts: SlimParts): SlimEvent {
  const event: SlimEvent & Record<string, unknown> = { ...place };
  for (const [field, value] of Object.entries(parts)) {
    if (value !== undefined && value !== '') event[field] = value;
  }
  return event;
}

const placeOf = ({ seq, ts, turn, type }: StoredEvent | Recorded): SlimEvent => ({
  seq,
  ts,
  turn,
  type: shortName(type),
});

/** Converts a stored event. It never fails: an event that cannot be decoded gets `unreadable`. */
export function slimEvent(stored: StoredEvent): SlimEvent {
  const read = decode(stored);
  if (!read.ok) {
    const text = preview(read.error.detail.message);
    return { ...placeOf(stored), text, tone: 'bad', unreadable: true };
  }
  const event = read.output;
  const line = eventLine(event);
  const place = placeOf(event);
  return present(
    line ? { ...place, text: preview(line.text), tone: line.tone } : place,
    partsOf(event),
  );
}
