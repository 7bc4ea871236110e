// `provenance` of a thread: a refusal, an event, a field of a result, an argument, an output, or a text that
// is looked for; and of a script, the refusal that it ended with.
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
  type AskedAbout,
  type Call,
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

/** A value is named as `31`, `31/items/0/title`, `output/total` or `denial:2`; any other text is looked for. */
const CUT = 120;

const shownValue = (value: Json): string => {
  const text = masked(typeof value === 'string' ? value : JSON.stringify(value));
  return onOneLine(text.length > CUT ? `${text.slice(0, CUT)} …` : text);
};

const namesIn = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));

/** Undefined: there is nothing there. */
function atPointer(value: Json, pointer: string): Json | undefined {
  let here: Json | undefined = value;
  for (const name of namesIn(pointer)) {
    if (Array.isArray(here)) here = /^\d+$/.test(name) ? here[Number(name)] : undefined;
    else here = getOwn(here, name);
  }
  return here;
}

const noField = (pointer: string, value: Json): Outcome<never> =>
  fail('not_found', `there is no \`${pointer}\` in it`, {
    fields: isObject(value) ? Object.keys(value).slice(0, 50) : [],
  });

const givenIn = ({ data }: Call): Json => getOwn(data.arguments, 'parameters') ?? data.arguments;

/** A field of a result, with the operation that made it. */
function explainField(
  events: readonly Recorded[],
  journal: CallIndex,
  result: CallResult,
  pointer: string,
): Outcome<Explained> {
  const { content, marks, call_id } = result.data;
  const found = atPointer(content, pointer);
  if (found === undefined) return noField(pointer, content);
  const whole = explainCall(events, journal, { ...journal.get(call_id), result }, {});
  if (!whole.ok) return whole;
  const { from, nodes, sources } = whole.output;
  const id = nodes.length;
  const tool = nameOf(result, journal);
  const made: ExplainedNode = {
    id,
    operation: tool,
    place: placeOf(result),
    labels: tellingLabels(marks.labels, marks.taint),
    sources,
    from,
    seq: result.seq,
  };
  return ok({
    subject: `${tool} ${pointer} = ${shownValue(found)}`,
    refusal: null,
    labels: fieldLabels(result, pointer),
    sources: [],
    from: [id],
    nodes: [...nodes, made],
    seq: result.seq,
  });
}

/** Of one field: what its tool said about it counts. */
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
      `event ${event.seq} is neither a call nor a result: it has no fields`,
    );
  }
  const [, argument = ''] = pointer.split('/');
  return explainCall(events, journal, journal.get(call), { argument });
}

/** What the thread gave back: outputs that it returned, or its last words. */
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
    const found = atPointer(outputs, pointer);
    if (found === undefined) return noField(pointer, outputs);
    const [, argument] = pointer.split('/');
    const told = explainCall(events, journal, story, argument === undefined ? {} : { argument });
    return told.ok
      ? ok({
          ...told.output,
          subject: `output ${pointer} = ${shownValue(found)}`.replace('  ', ' '),
        })
      : told;
  }
  const said = events.findLast((event) => event.type === 'assistant_message');
  if (!said || pointer !== '') return fail('not_found', 'the thread has given nothing back');
  return ok({ ...explainEvent(events, said, journal), subject: 'the last words of the thread' });
}

function* pointersTo(value: Json, wanted: string, at = ''): Generator<string> {
  if (typeof value !== 'object' || value === null) {
    if (plainText(value).includes(wanted)) yield at;
    return;
  }
  for (const [name, item] of Object.entries(value)) {
    const part = name.replaceAll('~', '~0').replaceAll('/', '~1');
    yield* pointersTo(item, wanted, `${at}/${part}`);
  }
}

/** Where this text was used last: the argument of a call, or else where it was read. */
function explainText(
  events: readonly Recorded[],
  journal: CallIndex,
  wanted: string,
): Outcome<Explained> {
  for (const event of events.toReversed()) {
    if (event.type !== 'tool_call') continue;
    const [pointer] = pointersTo(givenIn(event), wanted);
    if (pointer !== undefined) return explainPointer(events, journal, event, pointer);
  }
  for (const event of events.toReversed()) {
    if (event.type !== 'tool_result') continue;
    const [pointer] = pointersTo(event.data.content, wanted);
    if (pointer !== undefined) return explainField(events, journal, event, pointer);
  }
  return fail('not_found', `\`${wanted}\` stands in no call and no result of the thread`);
}

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

/** Why something was refused in a thread, or how the call, the result or the reply at `seq` came to be. */
export async function explainRefusal(
  store: Pick<Store, 'read'>,
  thread: string,
  asked: AskedAbout = {},
): Promise<Outcome<Explained>> {
  const read = await readJournal(store, thread);
  if (!read.ok) return read;
  const events = read.output;
  const journal = readCalls(events);
  if (asked.value !== undefined) return explainValue(events, journal, thread, asked.value);
  if (asked.seq === undefined) {
    const refused = events.findLast(isRefusal);
    if (!refused) return fail('not_found', `nothing was refused in thread \`${thread}\``);
    const story = journal.get(refused.data.call_id);
    return explainCall(events, journal, { ...story, result: refused }, asked);
  }
  const event = events.find(({ seq }) => seq === asked.seq);
  if (!event) return fail('not_found', `thread \`${thread}\` has no event ${asked.seq}`);
  const call = callIdOf(event);
  if (call !== undefined) return explainCall(events, journal, journal.get(call), asked);
  if (asked.argument !== undefined) {
    return fail('invalid_input', `event ${asked.seq} is no call, so it has no arguments`);
  }
  return ok(explainEvent(events, event, journal));
}

export const isRefused = ({ code }: Fault): boolean => REFUSED.has(code);

/** The refusal that a script ended with, and the trail of it. */
export function ofScriptFault(fault: Fault, provenance: Provenance): Explained {
  const { message } = fault.detail;
  return { subject: message, refusal: refusalOf(fault.code, fault.detail), ...provenance };
}
