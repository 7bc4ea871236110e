// What a scripted provider answers: a list of replies, from YAML or a program. Checked before
// anything runs, because a typing mistake here would look like a fault of what is being tested.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  nearest,
  type Outcome,
  ok,
  parseYaml,
} from '../../base/index.ts';
import type { Protocol, Stop } from '../message.ts';

/** Says what is wrong with a value, which is a `T` when nothing is. */
type Check<T> = ((value: Json, at: string) => string | undefined) & { readonly of?: T };
type Of<C> = C extends Check<infer T> ? T : never;

const text: Check<string> = (value, at) =>
  typeof value === 'string' ? undefined : `${at} must be a text`;
const flag: Check<boolean> = (value, at) =>
  typeof value === 'boolean' ? undefined : `${at} must be true or false`;
const count: Check<number> = (value, at) =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 1e9
    ? undefined
    : `${at} must be a whole number`;
const times: Check<boolean | number> = (value, at) =>
  typeof value === 'boolean' ? undefined : count(value, at);
const any: Check<Json> = () => undefined;
const oneOf =
  <T extends string>(...words: T[]): Check<T> =>
  (value, at) =>
    words.includes(value as T) ? undefined : `${at} must be one of ${words.join(', ')}`;

const shape =
  <F extends Record<string, Check<unknown>>>(fields: F): Check<{ [K in keyof F]?: Of<F[K]> }> =>
  (value, at) => {
    if (!isObject(value)) return `${at} must be a mapping`;
    for (const [key, field] of Object.entries(value)) {
      const check = Object.hasOwn(fields, key) ? fields[key] : undefined;
      if (!check) {
        const near = nearest(key, Object.keys(fields));
        return `${at} has no field \`${key}\`${near ? `, did you mean \`${near}\`` : ''}`;
      }
      const problem = check(field, `${at}.${key}`);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };

const listOf =
  <T>(check: Check<T>): Check<T[]> =>
  (value, at) => {
    if (!Array.isArray(value)) return `${at} must be a list`;
    for (const [index, item] of value.entries()) {
      const problem = check(item, `${at}[${index}]`);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };

/** `arguments`: a value that has JSON, or text that is sent as it is, valid JSON or not. */
const call: Check<{ name: string; arguments?: Json | object; id?: string }> = (value, at) =>
  shape({ name: text, arguments: any, id: text })(value, at) ??
  (typeof getOwn(value, 'name') === 'string' ? undefined : `${at} needs a \`name\``);

/** What goes wrong. Bytes are those of the answer's body, as it is sent. */
const fault = shape({
  /** This status instead of a reply. */
  status: count,
  /** Seconds, for the header `Retry-After`. */
  retry_after: count,
  /** With a status its body; without one an error inside the stream. */
  error: shape({ type: text, message: text }),
  /** How many events come before the error inside the stream. */
  after_events: count,
  /** The connection breaks after so many bytes. */
  cut_at_byte: count,
  /** Nothing more is sent after so many bytes; the connection stays. */
  stall_at_byte: count,
  /** Something that is no event is sent there. */
  garbage_at_byte: count,
  /** The connection breaks before any answer. */
  reset: flag,
  /** The answer ends in order, but without its last event. */
  no_end_marker: flag,
  /** The last call (or the text) is cut in the middle and the reply says so. */
  max_tokens_inside_arguments: flag,
  missing_usage: flag,
  /** The stream says it is something else. */
  content_type: text,
});
export type ScriptedFault = Of<typeof fault>;

/** Every condition that is given must hold. */
const match = shape({
  /** Occurs anywhere in the system text or the messages. */
  text,
  /** Occurs in the last message. */
  last: text,
  model: text,
  protocol: oneOf<Protocol>('anthropic', 'openai'),
  /** How many messages of the assistant the conversation has so far. */
  assistant_messages: count,
});
export type ScriptedMatch = Of<typeof match>;

const reply = shape({
  text,
  thinking: text,
  tool_calls: listOf(call),
  stop: oneOf<Stop>('end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence'),
  /** Estimated from the sizes when absent. */
  usage: shape({
    input_tokens: count,
    output_tokens: count,
    cache_read_tokens: count,
    cache_write_tokens: count,
  }),
  /** The model the answer names; the one asked for when absent. */
  model: text,
  /** Before the answer begins. */
  delay_ms: count,
  /** Between two events of a stream. */
  pace_ms: count,
  /** Characters to a delta. */
  piece: count,
  fault,
  match,
  /** May be given so many times; `true`: any number. Once when absent. */
  repeat: times,
  /** Fill `${result_1.thread_id}` and the like from the results that the request brings. */
  fill: flag,
});
export type ScriptedReply = Of<typeof reply>;

/** A list of replies, or a mapping with the list under `replies`. */
export function checkScript(value: Json): Outcome<ScriptedReply[]> {
  const list = isObject(value) ? getOwn(value, 'replies') : value;
  const problem =
    list === undefined ? 'the script has no `replies`' : listOf(reply)(list, 'replies');
  return problem === undefined
    ? ok(list as unknown as ScriptedReply[])
    : fail('invalid_input', problem);
}

export function parseScript(source: string): Outcome<ScriptedReply[]> {
  const { value, problems } = parseYaml(source);
  const [first] = problems;
  if (first) {
    const { line, column } = first;
    return fail('invalid_input', `line ${line}: ${first.message.replace(/\.$/, '')}`, {
      line,
      column,
    });
  }
  return checkScript(value);
}
