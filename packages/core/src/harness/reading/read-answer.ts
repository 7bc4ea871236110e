// Turns the reply of a quarantined reader into a labelled answer: data that the schema lets it choose, known
// identifiers, and untrusted texts.
import { fail, isObject, type Json, type Outcome, ok, parseJson } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  EMPTY,
  elementOf,
  mergeDescriptors,
  type ResultFacts,
  removeLabels,
  type Value,
} from '../../flow/index.ts';
import { type AnswerShape, fitAnswer, leavesOf } from './answer-shape.ts';

const MAX_ANSWER = 200_000;

export interface ReadAnswer {
  readonly answer: Json;
  readonly facts: ResultFacts;
  /** Marks of the identifiers, copied from the results that contained them. */
  readonly marks: Descriptor;
}

const FENCED = /^```(?:json)?\s*\n([\s\S]*)\n```$/;

function parseReply(reply: string): Outcome<Json> {
  const text = reply.trim();
  if (text.length > MAX_ANSWER) return fail('output_invalid', '`answer` is too long');
  const read = parseJson(FENCED.exec(text)?.[1] ?? text);
  return read.ok ? read : fail('output_invalid', '`answer` must be JSON, and nothing else');
}

/** Identifiers in the thread's results, by kind and spelling. */
export type Identifiers = ReadonlyMap<string, ReadonlyMap<string, Value>>;

/** Yields each leaf of a result whose kind a tool declares. */
export function* namedIn(value: Value): Generator<readonly [string, Value]> {
  const { data, meta } = value;
  if (typeof data === 'object' && data !== null) {
    for (const key of Object.keys(data)) yield* namedIn(elementOf(value, key));
  } else if (typeof meta.origin.kind === 'string' && data !== '') yield [meta.origin.kind, value];
}

/**
 * Returns the facts about an answer. INVARIANT: every text is always untrusted, even if the source is trusted. An
 * identifier never gets more trust than the result that contained it.
 */
function factsFor(shape: AnswerShape, used: ReadonlyMap<string, readonly Value[]>): ResultFacts {
  const free_text = new Set<string>();
  const identifiers = new Set<string>();
  const kinds: Record<string, string> = {};
  for (const [name, leaf] of leavesOf(shape)) {
    if (leaf.type === 'text') free_text.add(name);
    if (leaf.type !== 'identifier') continue;
    const sources = used.get(leaf.kind) ?? [];
    const untrusted = sources.filter(({ meta }) => carries(meta.descriptor, 'untrusted'));
    if (untrusted.some(({ meta }) => meta.origin.identifier !== true)) free_text.add(name);
    else kinds[name] = leaf.kind;
    if (untrusted.length > 0 && !free_text.has(name)) identifiers.add(name);
  }
  return { free_text: [...free_text], identifiers: [...identifiers], kinds };
}

function* textsIn(
  answer: Json,
  names: readonly string[],
): Generator<readonly [string, readonly string[]]> {
  if (typeof answer === 'string') yield [answer, names];
  else if (Array.isArray(answer)) for (const item of answer) yield* textsIn(item, names);
  else if (isObject(answer)) {
    for (const [name, item] of Object.entries(answer)) yield* textsIn(item, [...names, name]);
  }
}

/**
 * Returns the fields with a text that is not word for word in the source. Fields are identified by name, so one
 * such text counts for every field with that name.
 */
function inventedFields(answer: Json, free: readonly string[], isSaid: (text: string) => boolean) {
  const invented = new Set<string>();
  for (const [text, names] of textsIn(answer, ['result'])) {
    const isFree = names.some((one) => free.includes(one));
    if (isFree && !isSaid(text)) for (const one of names) invented.add(one);
  }
  return free.filter((name) => invented.has(name));
}

/** Reads a reply. `isSaid` returns true for a text that the source contains as a whole. */
export function readAnswer(
  shape: AnswerShape,
  reply: string,
  identifiers: Identifiers,
  isSaid: (text: string) => boolean,
): Outcome<ReadAnswer> {
  const used = new Map<string, Value[]>();
  const json = parseReply(reply);
  if (!json.ok) return json;
  const fits = fitAnswer(shape, json.output, (kind, written) => {
    const leaf = identifiers.get(kind)?.get(written);
    if (leaf) used.set(kind, [...(used.get(kind) ?? []), leaf]);
    return leaf?.data;
  });
  if (!fits.ok) return fits;
  let marks = EMPTY;
  for (const { meta } of [...used.values()].flat())
    marks = mergeDescriptors(marks, meta.descriptor);
  const { output: answer } = fits;
  const facts = factsFor(shape, used);
  const invented = inventedFields(answer, facts.free_text ?? [], isSaid);
  const all = { ...facts, ...(invented.length > 0 && { made: invented }) };
  return ok({ answer, facts: all, marks: removeLabels(marks, ['untrusted']) });
}
