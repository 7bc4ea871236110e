// The one way into a journal and the one way out of it. What comes out was checked field by field
// against the union of events: no reader has to doubt a shape, and what nobody wrote is refused
// (`journal_unreadable`) instead of being restored as something that happened. A journal of version 1
// has the same events; what came later is optional or a type of its own.
import {
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { type NewEvent, type StoredEvent, THREAD_STATUSES } from '../../store/index.ts';
import { LIMIT_NAMES } from '../limits/limit.ts';
import type { DataOf, EventType, JournalEvent, Opening, Recorded } from './journal-event.ts';

/** Where a value is not what it should be: '' for the value itself. Undefined: it is a `T`. */
type Problem = string | undefined;
interface Check<T> {
  (value: Json | undefined): Problem;
  /** Never there: it ties the check to the type that it checks for. */
  readonly proves?: T;
}

const is =
  <T>(holds: (value: Json | undefined) => boolean): Check<T> =>
  (value) =>
    holds(value) ? undefined : '';
const text = is<string>((value) => typeof value === 'string');
const number = is<number>((value) => typeof value === 'number');
const flag = is<boolean>((value) => typeof value === 'boolean');
const yes = is<true>((value) => value === true);
const data = is<JsonObject>(isObject);
/** What only another form of the same event has. */
const none = is<never>(() => false);
const json = is<Json>((value) => value !== undefined);
const word = <const T extends string>(...words: readonly T[]): Check<T> =>
  is((value) => words.some((one) => one === value));

const at = (name: string | number, problem: string): string =>
  problem === '' ? `${name}` : `${name}.${problem}`;

const list =
  <T>(item: Check<T>): Check<T[]> =>
  (value) => {
    if (!Array.isArray(value)) return '';
    for (const [index, one] of value.entries()) {
      const problem = item(one);
      if (problem !== undefined) return at(index, problem);
    }
    return undefined;
  };

type Checks<T> = { readonly [name in keyof T]-?: Check<T[name]> };

/** Fields that must be there, and those that may. What else is there is left alone. */
function fields<Must extends object>(must: Checks<Must>): Check<Must>;
function fields<Must extends object, May extends object>(
  must: Checks<Must>,
  may: Checks<May>,
): Check<Must & Partial<May>>;
function fields(must: object, may: object = {}): Check<unknown> {
  const needed = Object.entries(must) as [string, Check<unknown>][];
  const optional = Object.entries(may) as [string, Check<unknown>][];
  return (value) => {
    if (!isObject(value)) return '';
    for (const [name, check] of needed) {
      const problem = check(getOwn(value, name));
      if (problem !== undefined) return at(name, problem);
    }
    for (const [name, check] of optional) {
      const problem = Object.hasOwn(value, name) ? check(getOwn(value, name)) : undefined;
      if (problem !== undefined) return at(name, problem);
    }
    return undefined;
  };
}

/** The first that fits; the problem told is that of the last one. */
const either =
  <A, B>(one: Check<A>, other: Check<B>): Check<A | B> =>
  (value) =>
    one(value) === undefined ? undefined : other(value);

const status = word(...THREAD_STATUSES);
const limit = word(...LIMIT_NAMES);
const exceeded = word(...LIMIT_NAMES.map((name) => `${name}_exceeded` as const));
const warned = word(...LIMIT_NAMES.map((name) => `${name}_warning` as const));
const marks = fields({ labels: list(text), taint: list(text), sources: list(text) });
const detail = is<Fault['detail']>((value) => typeof getOwn(value, 'message') === 'string');
const fault = fields({ code: text, detail });
const failed = fields({ code: text, detail }, { next: word('wait', 'fallback') });
const numbers = is<Record<string, number>>(
  (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'number'),
);
const usage = fields({
  input_tokens: number,
  output_tokens: number,
  cache_read_tokens: number,
  cache_write_tokens: number,
  tokens: number,
  context_tokens: number,
  estimated: flag,
});
const spoken = either(
  fields({ type: word('text'), text }),
  fields({ type: word('thinking'), text }, { signature: text, redacted: text }),
);
const called = either(
  fields({ type: word('tool_call'), id: text, name: text, arguments: data }),
  fields({ type: word('tool_result'), id: text, content: json }, { is_error: flag }),
);
const content = list(either(spoken, called));
const injected = fields({ content, injected: yes });
const said = fields({ text, marks });
const result = fields({ call_id: text, content: json, is_error: flag, marks }, { tool: text });
const opening: Check<Opening> = either(
  either(
    fields({ type: word('user_message'), data: said }),
    fields({ type: word('assistant_message'), data: injected }),
  ),
  fields({ type: word('tool_result'), data: result }),
);

const approval = either(
  either(
    fields({
      kind: word('question', 'capability'),
      state: word('pending'),
      approval: text,
      action: text,
    }),
    fields(
      {
        kind: word('capability'),
        state: word('approved'),
        approval: text,
        capability: text,
        by: text,
      },
      { scope: data, expires: number, beyond: yes },
    ),
  ),
  either(
    fields({
      kind: word('capability'),
      state: word('used', 'returned'),
      approval: text,
      call_id: text,
      capability: text,
      scope: data,
      uses_left: number,
    }),
    fields(
      {
        kind: word('call'),
        action: word('anneal'),
        state: word('auto', 'pending'),
        directive: text,
        behind: fields({ code: text, reason: text }),
        text,
      },
      { approval: text, before: text },
    ),
  ),
);

/** One for each type of the union: one that is missing, or proves too little, does not compile. */
const DATA: { readonly [type in EventType]: Check<DataOf<type>> } = {
  thread_start: fields(
    { directive: text, version: text, inputs: data, model: text, message: text, limits: data },
    { stream: yes },
  ),
  status: fields({ status }, { by: text, reason: text }),
  user_message: said,
  assistant_message: either(
    injected,
    fields(
      {
        content,
        stop: word('end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence'),
        usage,
        model: text,
        price_row: text,
        spend: text,
        bytes: number,
      },
      { apart: yes, injected: none },
    ),
  ),
  tool_call: fields(
    {
      call_id: text,
      tool: text,
      verb: text,
      effect: word('read', 'idempotent', 'write'),
      arguments: json,
    },
    { volatile: list(text), key: text, n: number, child: text },
  ),
  tool_result: result,
  turn_start: fields({ max_tokens: number, model: text, provider: text, key: text }, { n: number }),
  turn_end: either(
    either(fields({ done: yes }), fields({ called_off: yes }, { charged: data })),
    either(fields({ withheld: yes }), fields({ unsent: yes })),
  ),
  cost_update: either(fields({ cost: data }), fields({ charged_unread: number, tokens: number })),
  hook_start: fields({ thread_id: text, directive: text, event: text }),
  hook: fields(
    {
      directive: text,
      event: word('before_step', 'after_step', 'error', 'limit', 'warning'),
      step: text,
      deed: text,
      notes: data,
      duration_ms: number,
      fired: list(number),
      bounds: fields({ retries: number, skips: numbers }),
    },
    { model: text, limits: data },
  ),
  hook_state: fields({ fired: list(number) }),
  permission_denied: fault,
  limit: fields({ name: word('limit'), code: exceeded, limit, current: number, max: number }),
  warning: fields({
    name: word('warning'),
    code: warned,
    limit,
    percent: number,
    current: number,
    max: number,
  }),
  loop_detected: fault,
  retry: either(
    fields({ attempt: number, annealed: yes, version: text, opening: list(opening) }),
    fields({ attempt: number }, { annealed: none }),
  ),
  model_fallback: fields({ to: text, because: text }),
  spawn: fields({ thread_id: text, directive: text, runner: text, detached: flag }),
  child_end: fields({ thread_id: text, status, reason: text, cost: data }),
  injected_message: fields({ text, marks, by: text }, { reminder: yes }),
  signal: fields({ kind: text, by: text }, { id: number, reason: text, from: number }),
  approval,
  snapshot: fields({ reason: text }, { at: number }),
  error: failed,
  stream_error: either(
    failed,
    fields(
      {
        reason: text,
        message: text,
        completed_tools: list(text),
        discarded_partial: list(fields({ bytes: number }, { name: text })),
      },
      { code: none },
    ),
  ),
  logged: fields({ event_type: text, data, by: text }),
  thread_end: fields({ status, reason: text }, { code: text, cost: data }),
};

const isEventType = (type: string): type is EventType => Object.hasOwn(DATA, type);

// JSON by construction: the union holds nothing else.
const dataOf = (event: JournalEvent): JsonObject => event.data as JsonObject;

export const encode = (event: JournalEvent, turn: number): NewEvent => ({
  type: event.type,
  data: dataOf(event),
  turn,
});

/** With other texts in the same places, such as masks for secrets: `change` keeps the shape. */
export const withTexts = <Event extends JournalEvent>(
  event: Event,
  change: (data: JsonObject) => JsonObject,
): Event => ({ ...event, data: change(dataOf(event)) });

/** `journal_unreadable` {thread, seq, type, field} for what no version of this harness wrote. */
export function decode(event: StoredEvent): Outcome<Recorded> {
  const { thread, seq, type } = event;
  const problem = isEventType(type) ? DATA[type](event.data) : 'type';
  // The only cast on the way out: where the check is.
  if (problem === undefined) return ok(event as unknown as Recorded);
  const field = problem === '' ? 'data' : problem;
  return fail(
    'journal_unreadable',
    `event ${seq} of thread \`${thread}\` cannot be read: \`${field}\` of \`${type}\` is not what it should be`,
    { thread, seq, type, field },
  );
}

/** All of them, or the first that cannot be read. */
export function decodeAll(events: readonly StoredEvent[]): Outcome<Recorded[]> {
  const decoded: Recorded[] = [];
  for (const event of events) {
    const one = decode(event);
    if (!one.ok) return one;
    decoded.push(one.output);
  }
  return ok(decoded);
}
