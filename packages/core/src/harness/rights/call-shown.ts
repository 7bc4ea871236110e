// Collects the facts about a call for an approval request: the exact effect, the arguments with untrusted data and
// the events that contain them, the source of each steering argument, and earlier calls by threads of the same
// directive. They are computed once, with the request.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  masked,
  onOneLine,
  plainText,
  setOwn,
} from '../../base/index.ts';
import {
  type Argument,
  carries,
  operationName,
  type Question,
  type WritePreview,
} from '../../flow/index.ts';
import { decodeAll, type MadeCall, madeCalls } from '../../journal/index.ts';
import type { StoredEvent } from '../../store/index.ts';
import type { OwnJournal } from '../thread/thread.ts';

const MAX_SHOWN = 2000;
const HIDDEN = '[secret]';

/** Returns a value for people: secrets are hidden, long texts are cut. */
function shownValue({ value }: Argument): Json {
  if (carries(value.meta.descriptor, 'secret')) return HIDDEN;
  const { data, text } = value;
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)} …` : data;
}

/** True if the value was shown whole. A hidden or cut value cannot be approved. */
export const isSeen = (shown: Json): boolean =>
  shown !== HIDDEN && JSON.stringify(shown).length <= MAX_SHOWN;

export const steers = ({ role }: Argument): boolean => role !== undefined && role !== 'content';

/** Returns a fact about each steering argument, by name. */
function ofSteering(
  name: 'roles' | 'kinds' | 'origins',
  inputs: readonly Argument[],
  tell: (argument: Argument) => Json | undefined,
): JsonObject {
  const facts: JsonObject = {};
  for (const argument of inputs) {
    const fact = steers(argument) ? tell(argument) : undefined;
    if (fact !== undefined) setOwn(facts, argument.name, fact);
  }
  return Object.keys(facts).length > 0 ? { [name]: facts } : {};
}

const NAMED: Readonly<Record<string, string>> = {
  said: 'said by the user or the directive',
  result: 'a field of a trusted result',
  identifier: 'the name of something that a tool lists',
  directory: 'from the user’s own address book',
  reference: 'passed on unread',
  approval: 'approved before',
  fixed: 'fixed by the tool',
  granted: 'in a place that the directive grants',
  own: 'made by this thread',
  closed: 'closed to everybody',
};
const NOBODY = 'no trusted source found';

/** Returns the source that named an argument. `undefined`: the value has no source and is not untrusted. */
function namedBy({ origin, value: { meta } }: Argument): string | undefined {
  if (!origin) return carries(meta.descriptor, 'untrusted') ? NOBODY : undefined;
  const { kind, by } = origin;
  return `${NAMED[kind] ?? kind}${by === undefined ? '' : ` (${by})`}`;
}

/** Returns the change that the call would make to a file, without the diff if an argument is secret. */
export async function filePreview({
  arguments: inputs,
}: Question): Promise<WritePreview | undefined> {
  const look = inputs.find(({ preview }) => preview !== undefined)?.preview;
  const file = await look?.(new Map(inputs.map(({ name, value }) => [name, value])));
  if (!file || !inputs.some(({ value }) => carries(value.meta.descriptor, 'secret'))) return file;
  const { diff: _, ...rest } = file;
  return rest;
}

/** Returns the facts about a call: the question, its reason, its source, and the exact effect. */
export async function callShown(question: Question, root?: string): Promise<JsonObject> {
  const { op, phase, questions, guards, arguments: inputs, sources } = question;
  const { sentenceOf } = await import('./asked-sentence.ts');
  const file = phase === 'before' ? await filePreview(question) : undefined;
  const values = Object.fromEntries(inputs.map((input) => [input.name, shownValue(input)]));
  return {
    action: 'ask',
    question: sentenceOf(question, values, { file, ...(root !== undefined && { root }) }),
    because: questions.join('; '),
    asked_by: [...guards],
    ...(phase === 'after' && { about: 'its result' }),
    ...ofSteering('origins', inputs, namedBy),
    ...(sources.length > 0 && { sources: sources.slice(0, 20) }),
    operation: operationName(op),
    ...(op.type === 'tool' && { tool: op.name }),
    ...(op.target !== undefined && { target: op.target }),
    arguments: values,
    ...ofSteering('roles', inputs, ({ role }) => role),
    ...ofSteering('kinds', inputs, ({ kind }) => kind),
    ...(file && { file: { ...file } }),
  };
}

/** Types of events that a thread has read. They contain references in place of secrets. */
export const READ = ['tool_result', 'injected_message', 'user_message'] as const;
const [MAX_EVENTS, MAX_TAINTED, MAX_SOURCES, AROUND] = [2000, 12, 5, 60];
/** Shortest value that is searched for. A shorter value occurs in almost every text. */
const MIN_FOUND = 4;

function* textsIn(value: Json): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) {
      yield name;
      yield* textsIn(item);
    }
  }
}

const plain = (text: string): string => onOneLine(masked(text));

function excerptOf(text: string, value: string): string | undefined {
  const at = text.indexOf(value);
  if (at < 0) return undefined;
  const [from, to] = [Math.max(0, at - AROUND), Math.min(text.length, at + value.length + AROUND)];
  const cut = text.slice(from, to);
  return plain(`${from > 0 ? '… ' : ''}${cut}${to < text.length ? ' …' : ''}`);
}

/** Returns a location such as `tool http/get, turn 3` or `user message, turn 1`. */
const placeOf = ({ type, turn, data }: StoredEvent): string =>
  type === 'tool_result'
    ? `tool ${plainText(data.tool ?? 'directive')}, turn ${turn}`
    : `${type.replace('_', ' ')}, turn ${turn}`;

interface Standing {
  readonly place: string;
  readonly sources: readonly Json[];
  readonly excerpt?: string;
}

/** Returns the latest untrusted event that contains this value. */
function standingIn(events: readonly StoredEvent[], value: string): Standing | undefined {
  if (value.length < MIN_FOUND) return undefined;
  for (const event of events) {
    const { data } = event;
    const content = event.type === 'tool_result' ? data.content : data.text;
    for (const text of textsIn(content ?? null)) {
      const excerpt = excerptOf(text, value);
      if (excerpt === undefined) continue;
      const isHidden = listAt(data.marks, 'taint').includes('secret');
      const sources = listAt(data.marks, 'sources');
      return { place: placeOf(event), sources, ...(!isHidden && { excerpt }) };
    }
  }
  return undefined;
}

async function foreignEvents({ ports, place, journal }: OwnJournal): Promise<StoredEvent[]> {
  await journal.flush();
  const read = await ports.store.read(place.id, { types: READ, limit: MAX_EVENTS });
  const events = read.ok ? read.output : [];
  return events
    .filter(({ data }) => listAt(data.marks, 'taint').includes('untrusted'))
    .toReversed();
}

const TELLING = ['untrusted', 'secret', 'influenced'];

/** Returns the arguments with untrusted or secret data, and their sources. */
async function taintedIn(thread: OwnJournal, { arguments: inputs }: Question): Promise<JsonObject> {
  const tainted: JsonObject = {};
  let events: StoredEvent[] | undefined;
  for (const { name, value } of inputs.slice(0, MAX_TAINTED)) {
    const { labels, taint, sources } = value.meta.descriptor;
    const marks = [...new Set([...labels, ...taint])].filter(
      (label) => TELLING.includes(label) || !/^(src|dir):/.test(label),
    );
    if (marks.length === 0) continue;
    events ??= await foreignEvents(thread);
    const standing = marks.includes('secret')
      ? undefined
      : standingIn(events, typeof value.data === 'string' ? value.data : value.text);
    const from = standing?.sources.length ? standing.sources : sources;
    setOwn(tainted, name, {
      labels: marks,
      ...(standing && { stands_in: standing.place }),
      from: from.slice(-MAX_SOURCES),
      ...(standing?.excerpt !== undefined && { excerpt: standing.excerpt }),
    });
  }
  return Object.keys(tainted).length > 0 ? { tainted } : {};
}

const [MAX_THREADS, MAX_CALLS, MAX_BEFORE, MAX_WORD] = [10, 1000, 5, 200];

const wordOf = (value: Json | undefined): string => {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null);
  return plain(text.length > MAX_WORD ? `${text.slice(0, MAX_WORD)} …` : text);
};

async function callsBefore(
  { ports: { store }, place }: OwnJournal,
  tool: string,
): Promise<MadeCall[]> {
  const own = await store.thread(place.id);
  const { project, directive, tenant = '' } = own.ok ? own.output : { project: '', directive: '' };
  const filter = { directive, project, tenant, limit: MAX_THREADS };
  const page = own.ok ? await store.query(filter) : own;
  const calls: MadeCall[] = [];
  for (const { id } of page.ok ? page.output.rows : []) {
    const types = ['tool_call', 'tool_result'];
    const read = await store.read(id, { types, limit: MAX_CALLS });
    const events = read.ok ? decodeAll(read.output) : read;
    // A call without a result is the one that asks.
    const finished = events.ok ? madeCalls(events.output) : [];
    calls.push(...finished.filter(({ intent, result }) => result && intent.data.tool === tool));
  }
  return calls.toSorted((a, b) => b.intent.ts - a.intent.ts).slice(0, MAX_BEFORE);
}

function outcomeOf({ result }: MadeCall): string {
  const code = plainText(getOwn(getOwn(result?.data.content, 'error'), 'code') ?? '');
  return result?.data.is_error ? code || 'failed' : 'done';
}

async function doneBefore(
  thread: OwnJournal,
  { op, arguments: inputs }: Question,
): Promise<JsonObject> {
  if (op.type !== 'tool') return {};
  const named = inputs.filter(steers);
  const calls = await callsBefore(thread, op.name);
  const before = calls.map((call): Json => {
    const { ts, thread: id, data } = call.intent;
    const parameters = getOwn(data.arguments, 'parameters') ?? null;
    const values = named.map(({ name }) => [name, wordOf(getOwn(parameters, name))] as const);
    const isSame = named.every(
      ({ name, value }) => JSON.stringify(getOwn(parameters, name)) === JSON.stringify(value.data),
    );
    return {
      at: new Date(ts).toISOString(),
      thread: id,
      ...(named.length > 0 && { same: isSame, ...Object.fromEntries(values) }),
      outcome: outcomeOf(call),
    };
  });
  return { before: before.length > 0 ? before : 'never called by this directive' };
}

/** Returns the facts about a call of a thread, with the origin of its values and with earlier calls. */
export async function threadCallShown(thread: OwnJournal, question: Question): Promise<JsonObject> {
  return {
    ...(await callShown(question, thread.ports.project)),
    ...(await taintedIn(thread, question)),
    ...(await doneBefore(thread, question)),
    directive: thread.place.directive.name,
  };
}
