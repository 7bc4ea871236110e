// Reads the script of a scripted provider: a list of replies, from YAML or a program. It is checked before
// the provider starts, because a typing mistake would look like a fault of the tested code.
import {
  anything,
  fail,
  flag,
  getOwn,
  isObject,
  type Json,
  listOf,
  type Outcome,
  oneOf,
  parseYaml,
  type ReadBy,
  type Rule,
  type RulePlace,
  readValue,
  record,
  text,
  wholeBetween,
} from '../../base/index.ts';
import type { Protocol, Stop } from '../message.ts';

const count = wholeBetween(0, 1e9);

/** `arguments`: a JSON value, or text that is sent unchanged, valid JSON or not. */
const call: Rule<{ name: string; arguments?: Json | object; id?: string }> = (value, place) => {
  const fields = { name: text, arguments: anything, id: text };
  const { name, ...others } = record(fields, { required: ['name'] })(value, place) ?? {};
  return name === undefined ? undefined : { name, ...others };
};

/** Faults to simulate. Byte counts are those of the answer's body as it is sent. */
const fault = record({
  /** HTTP status instead of a reply. */
  status: count,
  /** Value of the header `Retry-After` in seconds. */
  retry_after: count,
  /** Error in the body of the answer if `status` is set, otherwise in an event of the stream. */
  error: record({ type: text, message: text }),
  /** Number of events before the error inside of the stream. */
  after_events: count,
  /** The connection breaks after this many bytes. */
  cut_at_byte: count,
  /** After this many bytes nothing more is sent, and the connection stays open. */
  stall_at_byte: count,
  /** Position at which bytes are sent that are not an event. */
  garbage_at_byte: count,
  /** The connection breaks before any answer. */
  reset: flag,
  /** The answer ends normally, but without its last event. */
  no_end_marker: flag,
  /** The last call (or the text) is cut in the middle, and the stop reason is `max_tokens`. */
  max_tokens_inside_arguments: flag,
  missing_usage: flag,
  /** Content type of the answer. Absent: the right one. */
  content_type: text,
});
export type ScriptedFault = ReadBy<typeof fault>;

/** Conditions of a reply. A request must match all of them. */
const match = record({
  /** Text that occurs anywhere in the system text or the messages. */
  text,
  /** Text that occurs in the last message. */
  last: text,
  model: text,
  protocol: oneOf<Protocol>(['anthropic', 'openai', 'responses']),
  /** Number of messages of the assistant in the conversation. */
  assistant_messages: count,
});
export type ScriptedMatch = ReadBy<typeof match>;

const reply = record({
  text,
  thinking: text,
  /** Data of the seal of the thought. Absent: any. */
  seal: text,
  tool_calls: listOf(call),
  stop: oneOf<Stop>(['end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence']),
  /** Usage that the answer reports. An absent count is estimated from the sizes. */
  usage: record({
    input_tokens: count,
    output_tokens: count,
    cache_read_tokens: count,
    cache_write_tokens: count,
  }),
  /** The model's name in the answer. Absent: the requested one. */
  model: text,
  /** Delay before the answer, in milliseconds. */
  delay_ms: count,
  /** Pause between two events of a stream, in milliseconds. */
  pace_ms: count,
  /** Number of characters of a delta. Absent: 24. */
  piece: count,
  fault,
  match,
  /** How many times the reply may be used; `true`: any number. Absent: once. */
  repeat: (value: Json, place: RulePlace): boolean | number | undefined =>
    typeof value === 'boolean' ? value : count(value, place),
  /** True fills `${result_1.thread_id}` and similar placeholders from the results in the request. */
  fill: flag,
});
export type ScriptedReply = ReadBy<typeof reply>;

/** Checks a list of replies, or a mapping with the list under `replies`. */
export function checkScript(value: Json): Outcome<ScriptedReply[]> {
  const list = isObject(value) ? getOwn(value, 'replies') : value;
  if (list === undefined) return fail('invalid_input', 'the script has no `replies`');
  return readValue(list, 'replies', listOf(reply));
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
