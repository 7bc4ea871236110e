// Explains the provenance of a refusal, an event, a field of a result, an argument, an output, or a text in a
// thread. For a script it explains the refusal with which the script ended.
import {
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  masked,
  type Outcome,
  ok,
  onOneLine,
  plainText,
} from '../base/index.ts';
import { describe, elementOf, type Provenance, restoreFields } from '../flow/index.ts';
import { type Recorded, readCalls, readJournal } from '../journal/index.ts';
import type { Store } from '../store/index.ts';
import {
  type Call,
  type CallApproval,
  type CallIndex,
  type CallResult,
  callIdOf,
  type Explained,
  type ExplainedNode,
  explainCall,
  explainEvent,
  isRefusal,
  nameOf,
  placeOf,
  REFUSED,
  refusalOf,
  tellingLabels,
} from './call-report.ts';

const CUT = 120;

const previewOf = (value: Json): string => {
  const text = masked(typeof value === 'string' ? value : JSON.stringify(value));
  return onOneLine(text.length > CUT ? `${text.slice(0, CUT)} …` : text);
};

const namesIn = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));

/** Returns the value at a JSON pointer. Undefined: the path does not exist. */
function atPointer(value: Json, pointer: string): Json | undefined {
  let here: Json | undefined = value;
  for (const name of namesIn(pointer)) {
    if (Array.isArray(here)) here = /^\d+$/.test(name) ? here[Number(name)] : undefined;
    else here = getOwn(here, name);
  }
  return here;
}

const noField = (pointer: string, value: Json): Outcome<never> =>
  fail('not_found', `field \`${pointer}\` not found`, {
    fields: isObject(value) ? Object.keys(value).slice(0, 50) : [],
  });

const givenIn = ({ data }: Call): Json => getOwn(data.arguments, 'parameters') ?? data.arguments;

/** Explains a field of a result, with the operation that created the result. */
function explainField(
  events: readonly Recorded[],
  journal: CallIndex,
  result: CallResult,
  pointer: string,
): Outcome<Explained> {
  const { content, marks, call_id } = result.data;
  const value = atPointer(content, pointer);
  if (value === undefined) return noField(pointer, content);
  const whole = explainCall(events, journal, { ...journal.get(call_id), result }, {});
  if (!whole.ok) return whole;
  const { from, nodes, sources } = whole.output;
  const id = nodes.length;
  const tool = nameOf(result, journal);
  const node: ExplainedNode = {
    id,
    operation: tool,
    place: placeOf(result),
    labels: tellingLabels(marks.labels, marks.taint),
    sources,
    from,
    seq: result.seq,
  };
  return ok({
    subject: `${tool} ${pointer} = ${previewOf(value)}`,
    refusal: null,
    labels: fieldLabels(result, pointer),
    sources: [],
    from: [id],
    nodes: [...nodes, node],
    seq: result.seq,
  });
}

/** Returns the labels of one field, with the facts that its tool declared about it. */
function fieldLabels({ data: { content, marks, facts } }: CallResult, pointer: string): string[] {
  let value = restoreFields(content, describe(marks), facts);
  for (const name of namesIn(pointer)) {
    value = elementOf(value, Array.isArray(value.data) ? Number(name) : name);
  }
  const { labels, taint } = value.meta.descriptor;
  return tellingLabels(labels, taint);
}

function explainPointer(
  events: readonly Recorded[],
  journal: CallIndex,
  event: Recorded,
  pointer: string,
): Outcome<Explained> {
  if (event.type === 'tool_result') return explainField(events, journal, event, pointer);
  const call = callIdOf(event);
  if (call === undefined) {
    return fail(
      'invalid_input',
      `event ${event.seq} has no fields, because it is neither a call nor a result`,
    );
  }
  const [, argument = ''] = pointer.split('/');
  return explainCall(events, journal, journal.get(call), { argument });
}

/** Explains the outputs that the thread returned, or its last reply. */
function explainOutput(
  events: readonly Recorded[],
  journal: CallIndex,
  pointer: string,
): Outcome<Explained> {
  const returned = events.findLast(
    (event): event is Call =>
      event.type === 'tool_call' && getOwn(event.data.arguments, 'action') === 'return',
  );
  if (returned) {
    const story = journal.get(returned.data.call_id);
    const outputs = givenIn(returned);
    const value = atPointer(outputs, pointer);
    if (value === undefined) return noField(pointer, outputs);
    const [, argument] = pointer.split('/');
    const result = explainCall(events, journal, story, argument === undefined ? {} : { argument });
    return result.ok
      ? ok({
          ...result.output,
          subject: `output ${pointer} = ${previewOf(value)}`.replace('  ', ' '),
        })
      : result;
  }
  const reply = events.findLast((event) => event.type === 'assistant_message');
  if (!reply || pointer !== '') return fail('not_found', 'the thread has returned no output');
  return ok({ ...explainEvent(events, reply, journal), subject: 'the last reply of the thread' });
}

function* pointersTo(value: Json, text: string, at = ''): Generator<string> {
  if (typeof value !== 'object' || value === null) {
    if (plainText(value).includes(text)) yield at;
    return;
  }
  for (const [name, item] of Object.entries(value)) {
    const part = name.replaceAll('~', '~0').replaceAll('/', '~1');
    yield* pointersTo(item, text, `${at}/${part}`);
  }
}

/** Explains the last call with this text in its arguments, or else the last result that contains it. */
function explainText(
  events: readonly Recorded[],
  journal: CallIndex,
  text: string,
): Outcome<Explained> {
  for (const event of events.toReversed()) {
    if (event.type !== 'tool_call') continue;
    const [pointer] = pointersTo(givenIn(event), text);
    if (pointer !== undefined) return explainPointer(events, journal, event, pointer);
  }
  for (const event of events.toReversed()) {
    if (event.type !== 'tool_result') continue;
    const [pointer] = pointersTo(event.data.content, text);
    if (pointer !== undefined) return explainField(events, journal, event, pointer);
  }
  return fail('not_found', `value \`${text}\` not found in any call or result of the thread`);
}

/** Explains `31`, `31/items/0/title`, `output/total` or `denial:2`. Any other text is searched. */
function explainValue(
  events: readonly Recorded[],
  journal: CallIndex,
  thread: string,
  value: string,
): Outcome<Explained> {
  const [, number, field] = /^(\d+)(\/.*)?$/s.exec(value) ?? [];
  const [refusal, which] = /^denial(?::(\d+))?$/.exec(value) ?? [];
  const [output, pointer = ''] = /^output(\/.*)?$/s.exec(value) ?? [];
  if (number !== undefined) {
    const event = events.find(({ seq }) => seq === Number(number));
    if (!event) return fail('not_found', `thread \`${thread}\` has no event ${number}`);
    if (field !== undefined) return explainPointer(events, journal, event, field);
    const call = callIdOf(event);
    return call === undefined
      ? ok(explainEvent(events, event, journal))
      : explainCall(events, journal, journal.get(call), { seq: event.seq });
  }
  if (refusal !== undefined) {
    const all = events.filter(isRefusal);
    const refused = which === undefined ? all.at(-1) : all[Number(which) - 1];
    if (!refused) {
      return fail('not_found', `thread \`${thread}\` has ${all.length} refusals`);
    }
    const story = journal.get(refused.data.call_id);
    return explainCall(events, journal, { ...story, result: refused }, {});
  }
  if (output !== undefined) return explainOutput(events, journal, pointer);
  return explainText(events, journal, value);
}

/** Explains the last refusal of a thread, or the call, the result or the reply of a request. */
export async function explainRefusal(
  store: Pick<Store, 'read'>,
  thread: string,
  request: CallApproval = {},
): Promise<Outcome<Explained>> {
  const read = await readJournal(store, thread);
  if (!read.ok) return read;
  const events = read.output;
  const journal = readCalls(events);
  if (request.value !== undefined) return explainValue(events, journal, thread, request.value);
  if (request.seq === undefined) {
    const refused = events.findLast(isRefusal);
    if (!refused) return fail('not_found', `nothing was refused in thread \`${thread}\``);
    const story = journal.get(refused.data.call_id);
    return explainCall(events, journal, { ...story, result: refused }, request);
  }
  const event = events.find(({ seq }) => seq === request.seq);
  if (!event) return fail('not_found', `thread \`${thread}\` has no event ${request.seq}`);
  const call = callIdOf(event);
  if (call !== undefined) return explainCall(events, journal, journal.get(call), request);
  if (request.argument !== undefined) {
    return fail('invalid_input', `event ${request.seq} has no arguments, because it is not a call`);
  }
  return ok(explainEvent(events, event, journal));
}

export const isRefused = ({ code }: Fault): boolean => REFUSED.has(code);

/** Returns the refusal with which a script ended, and its provenance. */
export function ofScriptFault(fault: Fault, provenance: Provenance): Explained {
  const { message } = fault.detail;
  return { subject: message, refusal: refusalOf(fault.code, fault.detail), ...provenance };
}
