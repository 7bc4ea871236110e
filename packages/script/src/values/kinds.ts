// Computes properties of values: type, truth, number, elements, functions. INVARIANT: a result always has the
// marks of everything it was computed from, and an element of a list or object keeps exactly its own marks.
import type { Json } from '@kernmantle/core/base';
import {
  type Descriptor,
  EMPTY,
  elementOf,
  makeContainer,
  makeValue,
  mergeAll,
  mergeDescriptors,
  type Value,
  withOrigin,
} from '@kernmantle/core/flow';

interface Signature {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Labels of every operation inside of the function. */
  readonly labels: readonly string[];
  /** Kind of the body: `cmd sh js node py template exe transformer` and others. */
  readonly bodyKind: string;
  /** Source text of a code body, for helpers; absent for other bodies. */
  readonly source: string | undefined;
  /** Variants of the function, such as `llm` of `@parse.llm`. */
  readonly members?: ReadonlyMap<string, FunctionData>;
}

/** Data with private content. Freezing stops at it, and JSON contains only its preview. */
export class Opaque<T> {
  readonly #content: T;
  readonly #shown: Json;

  constructor(content: T, preview: Json) {
    this.#content = content;
    this.#shown = preview;
    Object.freeze(this);
  }

  get content(): T {
    return this.#content;
  }

  toJSON(): Json {
    return this.#shown;
  }
}

/** A function as data. The type of `call` is in `Executable`: this folder does not import the environment. */
export class FunctionData<Call = unknown> extends Opaque<{ signature: Signature; call: Call }> {
  constructor(signature: Signature, call: Call) {
    super({ signature, call }, `<function(${signature.parameters.join(', ')})>`);
  }

  get signature(): Signature {
    return this.content.signature;
  }
}

export const isFunctionData = (data: unknown): data is FunctionData => data instanceof FunctionData;

export const makeOpaque = (data: Opaque<unknown>, descriptor = EMPTY): Value =>
  makeValue(data as unknown as Json, { descriptor });

export const makeFunction = (data: FunctionData): Value => makeOpaque(data);

const NOTHING = makeValue(null, { origin: { absent: true } });

/** Returns the value undefined. It has marks, because a condition may have chosen it. */
export const absent = (descriptor: Descriptor = EMPTY): Value =>
  descriptor === EMPTY ? NOTHING : makeValue(null, { descriptor, origin: { absent: true } });

export const isAbsent = ({ data, meta }: Value): boolean =>
  data === null && meta.origin['absent'] === true;

/** Returns a null that was read from data. It has a text, and a pipeline continues with it. */
export const readNull = (descriptor: Descriptor, origin: Value['meta']['origin']): Value =>
  makeValue(null, { descriptor, origin: { ...origin, readNull: true }, text: 'null' });

export const isReadNull = ({ data, meta }: Value): boolean =>
  data === null && meta.origin['readNull'] === true;

/** Returns the elements of a list or object; empty for other values. */
export function entriesOf(value: Value): readonly (readonly [string, Value])[] {
  const { data } = value;
  if (typeof data !== 'object' || data === null || isFunctionData(data)) return [];
  return Object.keys(data).map((key) => [key, elementOf(value, key)] as const);
}

type TypeName = keyof typeof KINDS;

export function typeName(value: Value): TypeName {
  const { data } = value;
  if (data === null) return isAbsent(value) ? 'undefined' : 'null';
  if (Array.isArray(data)) return 'array';
  if (isFunctionData(data)) return 'executable';
  return typeof data as TypeName;
}

export const kindName = (value: Value): string => KINDS[typeName(value)];

const KINDS = {
  string: 'text',
  number: 'a number',
  boolean: 'a boolean',
  null: 'null',
  array: 'a list',
  object: 'an object',
  executable: 'a function',
  undefined: 'undefined',
};

const FALSY_TEXTS = new Set(['', 'false', '0', 'NaN']);

export function isTruthy({ data }: Value): boolean {
  if (typeof data === 'string') return !FALSY_TEXTS.has(data);
  if (typeof data !== 'object' || data === null) return Boolean(data);
  if (Array.isArray(data)) return data.length > 0;
  // An opaque object is always true, so that a guard denies if its question has no answer.
  return data instanceof Opaque || Object.keys(data).length > 0;
}

/** True for a list or an object; false for a function. */
export const isStructure = (data: Json): data is Json[] | { [key: string]: Json } =>
  typeof data === 'object' && data !== null && !isFunctionData(data);

const NUMBER = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*$/i;

/** Returns the number of a number or numeric text; `undefined` for other data. */
export function numericOf(data: Json): number | undefined {
  if (typeof data === 'number') return data;
  return typeof data === 'string' && NUMBER.test(data) ? Number(data) : undefined;
}

export const KEEP: ReadonlySet<string> = new Set(['keep', 'keepStructured']);

/** Marks a value with `.keep`: code receives the value with its metadata. */
export const keepOf = (value: Value): Value => withOrigin(value, { keep: true });

export const isKept = (value: Value): boolean => value.meta.origin['keep'] === true;

const metas = new WeakMap<object, Value>();

/** Returns the exports of a module as a value. Its `__meta__` is the front matter with its own marks. */
export function makeNamespace(members: Value, path: string, frontMatter: Value): Value {
  const { data } = members;
  const meta = frontMatter.data === null ? makeValue({}) : frontMatter;
  if (isStructure(data)) metas.set(data, meta);
  return withOrigin(members, { namespace: path, fm: frontMatter.data });
}

export const metaOf = ({ data, meta }: Value): Value | undefined =>
  isStructure(data) && meta.origin['namespace'] !== undefined ? metas.get(data) : undefined;

/** True for a list of loaded files, which prints their texts. */
export const isFileList = ({ data, meta }: Value): boolean =>
  Array.isArray(data) && meta.origin['files'] === true;

export const marksOf = (values: readonly Value[]): Descriptor =>
  mergeAll(values.map(({ meta }) => meta.descriptor));

/** Returns the marks that apply to the whole container and to each of its elements. */
export const ownMarks = ({ meta }: Value): Descriptor => meta.elements?.own ?? meta.descriptor;

/** Returns the marks of everything that decided which elements the container has. */
export const shapeMarks = ({ meta: { elements, descriptor } }: Value): Descriptor =>
  elements ? mergeDescriptors(elements.own, elements.shape) : descriptor;

/** Returns plain data with the marks of the values that it was computed from. */
export const computed = (data: Json, from: readonly Value[]): Value =>
  makeValue(data, { descriptor: marksOf(from) });

/** Returns the elements of a list with their own marks; empty for other values. */
export function elementsOf(value: Value): Value[] {
  const { data } = value;
  return Array.isArray(data) ? data.map((_, index) => elementOf(value, index)) : [];
}

/** Returns the keys of an object or the indexes of a list; empty for other values. */
export const keysOf = ({ data }: Value): string[] =>
  typeof data === 'object' && data !== null ? Object.keys(data) : [];

/** Returns the length of a list; 0 for other values. */
export const lengthOf = ({ data }: Value): number => (Array.isArray(data) ? data.length : 0);

/** Returns a list of some elements of `source`, with the marks of the values that selected them. */
export function listFrom(
  source: Value,
  parts: readonly Value[],
  chosenBy: readonly Value[],
): Value {
  const own = mergeAll([ownMarks(source), marksOf(chosenBy)]);
  const list = makeContainer(parts, own);
  return isFileList(source) ? withOrigin(list, { files: true }) : list;
}
