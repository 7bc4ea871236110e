// The elements of a list or object, each with exactly its own marks.
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

// A function as a value. It travels like anything else: in variables, fields, lists, through imports.

interface Signature {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Labels of every operation inside it. */
  readonly labels: readonly string[];
  /** `cmd sh js node py template exe transformer` …: the kind of its body. */
  readonly bodyKind: string;
  /** The text of a body that is code, for helpers. */
  readonly source: string | undefined;
  /** `@parse.llm`: what hangs on its name. */
  readonly members?: ReadonlyMap<string, FunctionData>;
}

/**
 * Data that is an object of ours: it travels as the data of a value like any other, its content is
 * private, so that freezing stops at it, and whoever prints it sees what `shown` says.
 */
export class Opaque<T> {
  readonly #content: T;
  readonly #shown: Json;

  constructor(content: T, shown: Json) {
    this.#content = content;
    this.#shown = shown;
    Object.freeze(this);
  }

  get content(): T {
    return this.#content;
  }

  toJSON(): Json {
    return this.#shown;
  }
}

/** How it is called is not said here (`Executable`): values know no environment. */
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

// Undefined as a value: no data, but marks like any other (a condition chose that there is nothing).

const NOTHING = makeValue(null, { origin: { absent: true } });

/** No value. */
export const absent = (descriptor: Descriptor = EMPTY): Value =>
  descriptor === EMPTY ? NOTHING : makeValue(null, { descriptor, origin: { absent: true } });

export const isAbsent = ({ data, meta }: Value): boolean =>
  data === null && meta.origin['absent'] === true;

// A null that was read is a value like any other: it has a text, and a pipeline goes on with it.

export const readNull = (descriptor: Descriptor, origin: Value['meta']['origin']): Value =>
  makeValue(null, { descriptor, origin: { ...origin, readNull: true }, text: 'null' });

export const isReadNull = ({ data, meta }: Value): boolean =>
  data === null && meta.origin['readNull'] === true;

/** Empty for everything that has no elements. */
export function entriesOf(value: Value): readonly (readonly [string, Value])[] {
  const { data } = value;
  if (typeof data !== 'object' || data === null || isFunctionData(data)) return [];
  return Object.keys(data).map((key) => [key, elementOf(value, key)] as const);
}

// What a value is to the language: its type, whether it counts as true, which number it stands for.
// Everything in the middle of the script room is a function from values to values, and
// INVARIANT: a result carries the marks of everything it was computed from; the elements of a list or
// an object keep exactly their own.

type TypeName = keyof typeof KINDS;

export function typeName(value: Value): TypeName {
  const { data } = value;
  if (data === null) return isAbsent(value) ? 'undefined' : 'null';
  if (Array.isArray(data)) return 'array';
  if (isFunctionData(data)) return 'executable';
  return typeof data as TypeName;
}

/** For messages: `text`, `a list` and so on. */
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
  // What is no data is never nothing: a question about a guard's inputs that has no answer denies.
  return data instanceof Opaque || Object.keys(data).length > 0;
}

/** A list or an object of data; functions are neither. */
export const isStructure = (data: Json): data is Json[] | { [key: string]: Json } =>
  typeof data === 'object' && data !== null && !isFunctionData(data);

const NUMBER = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*$/i;

/** The number of a number or of text that is one; undefined otherwise. */
export function numericOf(data: Json): number | undefined {
  if (typeof data === 'number') return data;
  return typeof data === 'string' && NUMBER.test(data) ? Number(data) : undefined;
}

export const KEEP: ReadonlySet<string> = new Set(['keep', 'keepStructured']);

/** `.keep`: code that gets this value gets all of it. */
export const keepOf = (value: Value): Value => withOrigin(value, { keep: true });

export const isKept = (value: Value): boolean => value.meta.origin['keep'] === true;

const metas = new WeakMap<object, Value>();

/** The members of a module; `__meta__` is what stands at its top, with its own marks. */
export function makeNamespace(members: Value, path: string, frontMatter: Value): Value {
  const { data } = members;
  const meta = frontMatter.data === null ? makeValue({}) : frontMatter;
  if (isStructure(data)) metas.set(data, meta);
  return withOrigin(members, { namespace: path, fm: frontMatter.data });
}

export const metaOf = ({ data, meta }: Value): Value | undefined =>
  isStructure(data) && meta.origin['namespace'] !== undefined ? metas.get(data) : undefined;

/** A list of loaded files prints their texts. */
export const isFileList = ({ data, meta }: Value): boolean =>
  Array.isArray(data) && meta.origin['files'] === true;

export const marksOf = (values: readonly Value[]): Descriptor =>
  mergeAll(values.map(({ meta }) => meta.descriptor));

/** The marks that hold for all of a container, whatever is taken out of it. */
export const ownMarks = ({ meta }: Value): Descriptor => meta.elements?.own ?? meta.descriptor;

/** The marks of everything that decided which elements it has. */
export const shapeMarks = ({ meta: { elements, descriptor } }: Value): Descriptor =>
  elements ? mergeDescriptors(elements.own, elements.shape) : descriptor;

/** Plain data computed from some values. */
export const computed = (data: Json, from: readonly Value[]): Value =>
  makeValue(data, { descriptor: marksOf(from) });

/** The elements of a list with exactly their marks. */
export function elementsOf(value: Value): Value[] {
  const { data } = value;
  return Array.isArray(data) ? data.map((_, index) => elementOf(value, index)) : [];
}

/** The keys of an object or the positions of a list; none for everything else. */
export const keysOf = ({ data }: Value): string[] =>
  typeof data === 'object' && data !== null ? Object.keys(data) : [];

/** Of a list; 0 for everything else. */
export const lengthOf = ({ data }: Value): number => (Array.isArray(data) ? data.length : 0);

/** A list of some elements of `source`; the other values chose them. */
export function listFrom(
  source: Value,
  parts: readonly Value[],
  chosenBy: readonly Value[],
): Value {
  const own = mergeAll([ownMarks(source), marksOf(chosenBy)]);
  const list = makeContainer(parts, own);
  return isFileList(source) ? withOrigin(list, { files: true }) : list;
}
