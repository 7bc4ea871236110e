// From what a quarantined reader said to an answer whose fields are known for what they are: data that the
// schema left to be chosen, identifiers that were there before, and texts, which are a stranger's.
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
  /** Of identifiers in it, which carry what they carried before. */
  readonly marks: Descriptor;
}

const FENCED = /^```(?:json)?\s*\n([\s\S]*)\n```$/;

function parsed(said: string): Outcome<Json> {
  const text = said.trim();
  if (text.length > MAX_ANSWER) return fail('output_invalid', '`answer` is too long');
  const read = parseJson(FENCED.exec(text)?.[1] ?? text);
  return read.ok ? read : fail('output_invalid', '`answer` must be JSON, and nothing else');
}

/** What results of a thread have named, by kind and as it is written. */
export type Identifiers = ReadonlyMap<string, ReadonlyMap<string, Value>>;

/** Everything in a result that a tool says is of a kind. */
export function* namedIn(value: Value): Generator<readonly [string, Value]> {
  const { data, meta } = value;
  if (typeof data === 'object' && data !== null) {
    for (const key of Object.keys(data)) yield* namedIn(elementOf(value, key));
  } else if (typeof meta.origin.kind === 'string' && data !== '') yield [meta.origin.kind, value];
}

/**
 * What may be said of the fields of an answer. INVARIANT: every text is a stranger's, whoever wrote what was
 * read; an identifier is no more than what it was where it was found.
 */
function factsFor(shape: AnswerShape, used: ReadonlyMap<string, readonly Value[]>): ResultFacts {
  const free_text = new Set<string>();
  const identifiers = new Set<string>();
  const kinds: Record<string, string> = {};
  for (const [name, leaf] of leavesOf(shape)) {
    if (leaf.type === 'text') free_text.add(name);
    if (leaf.type !== 'identifier') continue;
    const found = used.get(leaf.kind) ?? [];
    const strangers = found.filter(({ meta }) => carries(meta.descriptor, 'untrusted'));
    if (strangers.some(({ meta }) => meta.origin.identifier !== true)) free_text.add(name);
    else kinds[name] = leaf.kind;
    if (strangers.length > 0 && !free_text.has(name)) identifiers.add(name);
  }
  return { free_text: [...free_text], identifiers: [...identifiers], kinds };
}

/** Every text in an answer, with the names of the fields it stands in, the nearest last. */
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
 * Which of these fields hold more than the very words that were read. Fields are meant by their names, so
 * one word of a reader's own is counted for every field that it stands in.
 */
function madeIn(answer: Json, free: readonly string[], isSaid: (text: string) => boolean) {
  const made = new Set<string>();
  for (const [text, names] of textsIn(answer, ['result'])) {
    const isFree = names.some((one) => free.includes(one));
    if (isFree && !isSaid(text)) for (const one of names) made.add(one);
  }
  return free.filter((name) => made.has(name));
}

/** `isSaid`: does what was read say this as a whole? */
export function readAnswer(
  shape: AnswerShape,
  said: string,
  known: Identifiers,
  isSaid: (text: string) => boolean,
): Outcome<ReadAnswer> {
  const used = new Map<string, Value[]>();
  const json = parsed(said);
  if (!json.ok) return json;
  const fits = fitAnswer(shape, json.output, (kind, written) => {
    const leaf = known.get(kind)?.get(written);
    if (leaf) used.set(kind, [...(used.get(kind) ?? []), leaf]);
    return leaf?.data;
  });
  if (!fits.ok) return fits;
  let marks = EMPTY;
  for (const { meta } of [...used.values()].flat())
    marks = mergeDescriptors(marks, meta.descriptor);
  const { output: answer } = fits;
  const facts = factsFor(shape, used);
  const made = madeIn(answer, facts.free_text ?? [], isSaid);
  const all = { ...facts, ...(made.length > 0 && { made }) };
  return ok({ answer, facts: all, marks: removeLabels(marks, ['untrusted']) });
}
