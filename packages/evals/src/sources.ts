// Finds the origin of each argument of a recorded call. A careful model writes only values from the
// user and its own values. It passes on every other value as a field of an answer, or as a value to
// be read out of a text there. It never copies a value that it read.
import { isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import type { RecordedCall, UserTask } from './cases.ts';
import type { FactsBy } from './metadata.ts';

export type Path = readonly (string | number)[];

export type Given =
  | { readonly at: 'literal'; readonly value: Json }
  /** A field of the answer to this call. */
  | { readonly at: 'field'; readonly call: number; readonly path: Path; readonly value: Json }
  /** A value inside a longer text of the answer. */
  | { readonly at: 'text'; readonly call: number; readonly path: Path; readonly value: Json }
  | { readonly at: 'list'; readonly items: readonly Given[] }
  | { readonly at: 'record'; readonly fields: Readonly<Record<string, Given>> };

/** Field name for an answer that is not an object. */
const PLAIN = 'result';

/** Returns the answer in the form that the model receives. */
export const asAnswer = (result: Json): JsonObject =>
  isObject(result) ? result : { [PLAIN]: result };

const isWordSign = (sign: string | undefined): boolean =>
  sign !== undefined && /[\p{L}\p{N}_]/u.test(sign);

/** True if the text contains the word, not only as a part of another word. */
function containsWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1)) {
    const [before, after] = [text[at - 1], text[at + word.length]];
    const isOpen = !isWordSign(before) || !isWordSign(word[0]);
    if (isOpen && (!isWordSign(after) || !isWordSign(word.at(-1)))) return true;
  }
  return false;
}

const NUMBER = /(?<![\w.:/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:/-])/g;

/** True if the text contains the number. It compares values: `10.00` is 10. */
const hasNumber = (text: string, number: number): boolean =>
  [...text.matchAll(NUMBER)].some(([found]) => Number(found.replaceAll(',', '')) === number);

const mentions = (text: string, value: string | number): boolean =>
  typeof value === 'number' ? hasNumber(text, value) : containsWord(text, value);

interface Leaf {
  readonly call: number;
  readonly path: Path;
  readonly value: string | number;
}

function* leavesOf(value: Json, call: number, path: Path): Generator<Leaf> {
  if (typeof value === 'string' || typeof value === 'number') yield { call, path, value };
  else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* leavesOf(item, call, [...path, index]);
  } else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) yield* leavesOf(item, call, [...path, name]);
  }
}

/** Yields the field names of a value. The model sees them too, but can only read them as text. */
function* keysOf(value: Json, call: number, path: Path): Generator<Leaf> {
  if (typeof value !== 'object' || value === null) return;
  for (const [name, item] of Object.entries(value)) {
    const step = Array.isArray(value) ? Number(name) : name;
    if (step === name) yield { call, path, value: name };
    yield* keysOf(item, call, [...path, step]);
  }
}

/** Returns the field of a leaf: the last name on its path. */
const fieldOf = (path: Path): string =>
  path.findLast((step): step is string => typeof step === 'string') ?? PLAIN;

interface WantedValue {
  readonly value: string | number;
  readonly parameter: string;
  readonly kind: string | undefined;
}

/** Returns 0 for a field that declares ids of this kind, 1 for a field of the same name, otherwise 2. */
function rank(
  { call, path }: Leaf,
  { parameter, kind }: WantedValue,
  kinds: (call: number) => Kinds,
): number {
  const field = fieldOf(path);
  if (kind !== undefined && kinds(call)[field] === kind) return 0;
  return field === parameter ? 1 : 2;
}

type Kinds = Readonly<Record<string, string>>;

interface EarlierLeaves {
  readonly leaves: readonly Leaf[];
  readonly keys: readonly Leaf[];
}

function leafOrigin(
  wanted: WantedValue,
  prompt: string,
  { leaves, keys }: EarlierLeaves,
  kinds: (call: number) => Kinds,
): Given {
  const { value } = wanted;
  const literal: Given = { at: 'literal', value };
  if (value === '' || mentions(prompt, value)) return literal;
  const [field] = leaves
    .filter((leaf) => leaf.value === value)
    .toSorted((one, other) => rank(one, wanted, kinds) - rank(other, wanted, kinds));
  if (field) return { at: 'field', call: field.call, path: field.path, value };
  const text =
    leaves.find((leaf) => typeof leaf.value === 'string' && mentions(leaf.value, value)) ??
    keys.find((key) => key.value === value);
  return text ? { at: 'text', call: text.call, path: text.path, value } : literal;
}

function originOf(
  value: Json,
  about: Omit<WantedValue, 'value'>,
  leafOf: (wanted: WantedValue) => Given,
): Given {
  if (typeof value === 'string' || typeof value === 'number') return leafOf({ ...about, value });
  if (Array.isArray(value)) {
    return { at: 'list', items: value.map((item) => originOf(item, about, leafOf)) };
  }
  if (!isObject(value)) return { at: 'literal', value };
  const fields = Object.entries(value).map(([name, item]) => [name, originOf(item, about, leafOf)]);
  return { at: 'record', fields: Object.fromEntries(fields) };
}

export type GivenArguments = Readonly<Record<string, Given>>;

/** Returns the origin of each argument, for each call of a task. */
export function sourcesOf({ prompt, calls }: UserTask, factsBy: FactsBy): GivenArguments[] {
  const kinds = (call: number): Kinds => {
    const tool = calls[call]?.tool;
    return (tool === undefined ? undefined : factsBy(tool).result.kinds) ?? {};
  };
  const [leaves, keys]: [Leaf[], Leaf[]] = [[], []];
  return calls.map(({ tool, args, result }: RecordedCall, index) => {
    const { parameters } = factsBy(tool);
    const before = { leaves: [...leaves], keys: [...keys] };
    const origins = Object.entries(args).map(([parameter, value]) => {
      const about = { parameter, kind: parameters[parameter]?.kind };
      return [
        parameter,
        originOf(value, about, (wanted) => leafOrigin(wanted, prompt, before, kinds)),
      ];
    });
    const answer = asAnswer(result);
    leaves.push(...leavesOf(answer, index, []));
    keys.push(...keysOf(answer, index, []));
    return Object.fromEntries(origins);
  });
}

/** Yields every value of an argument that must be read out of a text, in order. */
export function* readings(origin: Given): Generator<Extract<Given, { at: 'text' }>> {
  if (origin.at === 'text') yield origin;
  else if (origin.at === 'list') for (const item of origin.items) yield* readings(item);
  else if (origin.at === 'record')
    for (const item of Object.values(origin.fields)) yield* readings(item);
}
