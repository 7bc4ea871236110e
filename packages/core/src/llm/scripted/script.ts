// What a scripted provider answers: a list of replies, from YAML or a program. Checked before
// anything runs, because a typing mistake here would look like a fault of what is being tested.
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

/** `arguments`: a value that has JSON, or text that is sent as it is, valid JSON or not. */
const call: Rule<{ name: string; arguments?: Json | object; id?: string }> = (value, place) => {
  const fields = { name: text, arguments: anything, id: text };
  const { name, ...others } = record(fields, { required: ['name'] })(value, place) ?? {};
  return name === undefined ? undefined : { name, ...others };
};

/** What goes wrong. Bytes are those of the answer's body, as it is sent. */
const fault = record({
  /** This status instead of a reply. */
  status: count,
  /** Seconds, for the header `Retry-After`. */
  retry_after: count,
  /** With a status its body; without one an error inside the stream. */
  error: record({ type: text, message: text }),
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
export type ScriptedFault = ReadBy<typeof fault>;

/** Every condition that is given must hold. */
const match = record({
  /** Occurs anywhere in the system text or the messages. */
  text,
  /** Occurs in the last message. */
  last: text,
  model: text,
  protocol: oneOf<Protocol>(['anthropic', 'openai']),
  /** How many messages of the assistant the conversation has so far. */
  assistant_messages: count,
});
export type ScriptedMatch = ReadBy<typeof match>;

const reply = record({
  text,
  thinking: text,
  tool_calls: listOf(call),
  stop: oneOf<Stop>(['end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence']),
  /** Estimated from the sizes when absent. */
  usage: record({
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
  repeat: (value: Json, place: RulePlace): boolean | number | undefined =>
    typeof value === 'boolean' ? value : count(value, place),
  /** Fill `${result_1.thread_id}` and the like from the results that the request brings. */
  fill: flag,
});
export type ScriptedReply = ReadBy<typeof reply>;

/** A list of replies, or a mapping with the list under `replies`. */
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
