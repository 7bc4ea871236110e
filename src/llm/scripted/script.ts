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

export interface ScriptedCall {
  name: string;
  /** A value, or text that is sent as it is, valid JSON or not. */
  arguments?: Json;
  id?: string;
}

export interface ScriptedUsage {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
}

/** What goes wrong. Bytes are those of the answer's body, as it is sent. */
export interface ScriptedFault {
  /** This status instead of a reply. */
  status?: number;
  /** Seconds, for the header `Retry-After`. */
  retry_after?: number;
  /** With a status its body; without one an error inside the stream. */
  error?: { type?: string; message?: string };
  /** How many events come before the error inside the stream. */
  after_events?: number;
  /** The connection breaks after so many bytes. */
  cut_at_byte?: number;
  /** Nothing more is sent after so many bytes; the connection stays. */
  stall_at_byte?: number;
  /** Something that is no event is sent there. */
  garbage_at_byte?: number;
  /** The connection breaks before any answer. */
  reset?: boolean;
  /** The answer ends in order, but without its last event. */
  no_end_marker?: boolean;
  /** The last call (or the text) is cut in the middle and the reply says so. */
  max_tokens_inside_arguments?: boolean;
  missing_usage?: boolean;
  /** The stream says it is something else. */
  content_type?: string;
}

/** Every condition that is given must hold. */
export interface ScriptedMatch {
  /** Occurs anywhere in the system text or the messages. */
  text?: string;
  /** Occurs in the last message. */
  last?: string;
  model?: string;
  protocol?: Protocol;
  /** How many messages of the assistant the conversation has so far. */
  assistant_messages?: number;
}

export interface ScriptedReply {
  text?: string;
  thinking?: string;
  tool_calls?: ScriptedCall[];
  stop?: Stop;
  /** Estimated from the sizes when absent. */
  usage?: ScriptedUsage;
  /** The model the answer names; the one asked for when absent. */
  model?: string;
  /** Before the answer begins. */
  delay_ms?: number;
  /** Between two events of a stream. */
  pace_ms?: number;
  /** Characters to a delta. */
  piece?: number;
  fault?: ScriptedFault;
  match?: ScriptedMatch;
  /** May be given so many times; `true`: any number. Once when absent. */
  repeat?: boolean | number;
  /** Fill `${result_1.thread_id}` and the like from the results that the request brings. */
  fill?: boolean;
}

type Check = (value: Json, at: string) => string | undefined;

const text: Check = (value, at) => (typeof value === 'string' ? undefined : `${at} must be a text`);
const flag: Check = (value, at) =>
  typeof value === 'boolean' ? undefined : `${at} must be true or false`;
const count: Check = (value, at) =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 1e9
    ? undefined
    : `${at} must be a whole number`;
const any: Check = () => undefined;
const oneOf =
  (...words: string[]): Check =>
  (value, at) =>
    words.includes(value as string) ? undefined : `${at} must be one of ${words.join(', ')}`;

const shape =
  (fields: Readonly<Record<string, Check>>): Check =>
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
  (check: Check): Check =>
  (value, at) => {
    if (!Array.isArray(value)) return `${at} must be a list`;
    for (const [index, item] of value.entries()) {
      const problem = check(item, `${at}[${index}]`);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };

const call: Check = (value, at) =>
  shape({ name: text, arguments: any, id: text })(value, at) ??
  (typeof getOwn(value, 'name') === 'string' ? undefined : `${at} needs a \`name\``);

const fault = shape({
  status: count,
  retry_after: count,
  error: shape({ type: text, message: text }),
  after_events: count,
  cut_at_byte: count,
  stall_at_byte: count,
  garbage_at_byte: count,
  reset: flag,
  no_end_marker: flag,
  max_tokens_inside_arguments: flag,
  missing_usage: flag,
  content_type: text,
} satisfies Record<keyof ScriptedFault, Check>);

const reply = shape({
  text,
  thinking: text,
  tool_calls: listOf(call),
  stop: oneOf('end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence'),
  usage: shape({
    input_tokens: count,
    output_tokens: count,
    cache_read_tokens: count,
    cache_write_tokens: count,
  } satisfies Record<keyof ScriptedUsage, Check>),
  model: text,
  delay_ms: count,
  pace_ms: count,
  piece: count,
  fault,
  match: shape({
    text,
    last: text,
    model: text,
    protocol: oneOf('anthropic', 'openai'),
    assistant_messages: count,
  } satisfies Record<keyof ScriptedMatch, Check>),
  repeat: (value, at) => (typeof value === 'boolean' ? undefined : count(value, at)),
  fill: flag,
} satisfies Record<keyof ScriptedReply, Check>);

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
