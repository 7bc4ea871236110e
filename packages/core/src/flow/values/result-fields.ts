// Applies a tool's declarations about fields of its results: which fields untrusted authors can write,
// and the kind of their values. A name stands for a field at any depth and for everything below it. The
// result is a container whose elements have their own marks and facts, so that an element alone has
// exactly its own.
//
// INVARIANT: a fact never removes a mark, and it is only about the very data that it was declared for.
// Data derived from that data has no facts.
import { asJson, isObject, type Json, MAX_DEPTH } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  describe,
  EMPTY,
  mergeDescriptors,
  removeLabels,
} from './labels.ts';
import { addMarks, elementOf, makeValue, type Value, withOrigin, withParts } from './value.ts';

/** Declarations of a tool's whole chain about its results. JSON, so that events can store it. */
export interface ResultFacts {
  /** Fields that other people can write. */
  readonly free_text?: readonly string[];
  /** Fields with text of a model that has read untrusted text. No file can declare them. */
  readonly made?: readonly string[];
  /** Fields that vouch for nothing, such as unconfirmed rows of memory. No file can declare them. */
  readonly unvouched?: readonly string[];
  /** Fields with names of directory entries. They are untrusted as text, but may be passed on unchanged. */
  readonly identifiers?: readonly string[];
  /** Kinds by field. A value vouches only for parameters of the same kind. */
  readonly kinds?: Readonly<Record<string, string>>;
  readonly untrusted?: true;
  /** True for the user's own directory, such as an address book. */
  readonly directory?: true;
}

interface Field {
  readonly isFree: boolean;
  readonly isMade?: true;
  readonly isUnvouched?: boolean;
  readonly isIdentifier: boolean;
  readonly kind: string | undefined;
}

const UNTRUSTED = describe({ labels: ['untrusted'] });
const UNNAMED: Field = { isFree: false, isIdentifier: false, kind: undefined };
const FREE: Field = { isFree: true, isIdentifier: false, kind: undefined };
const MADE: Field = { ...FREE, isMade: true };
/** Name of an answer that is not an object, and of the elements of a plain list. */
const PLAIN = 'result';
const nameOf = (written: string): string => (written === '*' || written === '$' ? PLAIN : written);

type Single = null | boolean | number | string;
const isSingle = (data: Json): data is Single => typeof data !== 'object' || data === null;

type NamedFields = ReadonlyMap<string, Field>;
const cache = new WeakMap<ResultFacts, NamedFields>();

/**
 * Returns the fields by name. Free text wins over identifiers; a kind applies only to fields that are
 * not free text.
 */
function namedIn(facts: ResultFacts): NamedFields {
  const cached = cache.get(facts);
  if (cached) return cached;
  const named = new Map<string, Field>();
  for (const [name, kind] of Object.entries(facts.kinds ?? {})) {
    named.set(nameOf(name), { ...UNNAMED, kind });
  }
  for (const written of facts.identifiers ?? []) {
    const name = nameOf(written);
    named.set(name, { ...UNNAMED, ...named.get(name), isIdentifier: true });
  }
  for (const name of facts.free_text ?? []) named.set(nameOf(name), FREE);
  for (const name of facts.made ?? []) named.set(nameOf(name), MADE);
  for (const written of facts.unvouched ?? []) {
    const name = nameOf(written);
    named.set(name, { ...UNNAMED, ...named.get(name), isUnvouched: true });
  }
  cache.set(facts, named);
  return named;
}

/** Combines a field with an outer one. Facts of the outer field apply inside. */
function inside(outer: Field, own: Field | undefined): Field {
  if (!own || outer.isFree) return outer;
  // No fact about a part lets it vouch if the whole vouches for nothing.
  if (outer.isUnvouched) return { ...outer, isFree: own.isFree };
  if (own.isFree || outer === UNNAMED) return own;
  return {
    isFree: false,
    isIdentifier: outer.isIdentifier || own.isIdentifier,
    kind: own.kind ?? outer.kind,
  };
}

class Labelling {
  readonly #named: NamedFields;
  readonly #isDirectory: boolean;

  constructor(facts: ResultFacts) {
    this.#named = namedIn(facts);
    this.#isDirectory = facts.directory === true;
  }

  /** True if single values of the field may be used unchanged. */
  #vouches({ isFree, isIdentifier }: Field): boolean {
    return !isFree && (isIdentifier || this.#isDirectory);
  }

  /** Returns the facts of a value in this field. */
  origin(data: Json, field: Field): Record<string, Json> {
    const { isFree, isMade, isUnvouched, isIdentifier, kind } = field;
    return {
      ...(isUnvouched && { unvouched: true }),
      ...(isMade ? { made: true } : { told: true }),
      ...(isIdentifier && !isFree && { identifier: true }),
      ...(kind !== undefined && { kind }),
      ...(this.#isDirectory && !isFree && { directory: true }),
      ...(this.#vouches(field) && isSingle(data) && { of: data }),
    };
  }

  #whole(data: Json, field: Field): Value {
    const descriptor = field.isFree || field.isIdentifier ? UNTRUSTED : EMPTY;
    return makeValue(data, { descriptor, origin: this.origin(data, field) });
  }

  /** Returns undefined if the facts of the outer field apply. */
  #part(data: Json, outer: Field, own: Field | undefined, depth: number): Value | undefined {
    // Deeper data is not examined, so it counts as untrusted.
    const field = depth > MAX_DEPTH ? FREE : inside(outer, own);
    const parts = field.isFree ? undefined : this.parts(data, field, depth);
    if (field === outer && !parts && !(isSingle(data) && this.#vouches(field))) return undefined;
    const whole = this.#whole(data, field);
    return parts ? withParts(whole, parts) : whole;
  }

  /** Returns the elements whose facts differ from those of their container. */
  parts(data: Json, field: Field, depth = 0): ReadonlyMap<string, Value> | undefined {
    if (isSingle(data)) return undefined;
    const isList = Array.isArray(data);
    const isBound = this.#vouches(field);
    let elements: Map<string, Value> | undefined;
    for (const [key, item] of Object.entries(data)) {
      const own = isList ? undefined : this.#named.get(key);
      if (!own && !isBound && isSingle(item)) continue;
      const part = this.#part(item, field, own, depth + 1);
      if (!part) continue;
      elements ??= new Map();
      elements.set(key, part);
    }
    return elements;
  }

  outermost(data: Json): Field {
    return isObject(data) ? UNNAMED : (this.#named.get(PLAIN) ?? UNNAMED);
  }
}

/**
 * Returns the value with marks and facts for each field. It is deterministic, so a resume and a replay
 * make the same value.
 */
export function labelFields(value: Value, facts: ResultFacts): Value {
  const labelling = new Labelling(facts);
  const field = labelling.outermost(value.data);
  const isUntrusted = facts.untrusted === true || field.isFree || field.isIdentifier;
  const marked = isUntrusted ? addMarks(value, UNTRUSTED) : value;
  const parts = field.isFree ? undefined : labelling.parts(value.data, field);
  const labelled = parts ? withParts(marked, parts) : marked;
  return withOrigin(labelled, { ...labelling.origin(value.data, field), facts: asJson(facts) });
}

/**
 * Returns the facts that an event stores besides content and marks, so that the same value can be
 * restored. Undefined: the value has no facts about single fields.
 */
export function factsOf({ meta }: Value): ResultFacts | undefined {
  const { facts } = meta.origin;
  if (!isObject(facts)) return undefined;
  const own = meta.elements?.own ?? meta.descriptor;
  return carries(own, 'untrusted') ? { ...facts, untrusted: true } : facts;
}

/** Restores a result from a stored event. */
export function restoreFields(
  content: Json,
  marks: Descriptor,
  facts: ResultFacts | undefined,
): Value {
  if (!facts) return makeValue(content, { descriptor: marks });
  const own = facts.untrusted ? marks : removeLabels(marks, ['untrusted']);
  return labelFields(makeValue(content, { descriptor: own }), facts);
}

/**
 * Yields every single value in a value with exactly its own marks and facts, and the names of fields,
 * which carry data too. Data below the maximum depth counts as untrusted.
 */
export function* singlesOf(value: Value, depth = 0): Generator<Value> {
  const { data, meta } = value;
  if (isSingle(data)) yield value;
  else if (depth > MAX_DEPTH) yield makeValue(null, { descriptor: UNTRUSTED });
  else {
    const { own, shape } = meta.elements ?? { own: meta.descriptor, shape: EMPTY };
    const isList = Array.isArray(data);
    for (const key of Object.keys(data)) {
      if (!isList) yield makeValue(key, { descriptor: mergeDescriptors(own, shape) });
      yield* singlesOf(elementOf(value, key), depth + 1);
    }
  }
}

/** The way in which a tool vouches for a single untrusted value. */
type Vouched = 'identifier' | 'directory' | 'reference';

/** True if the value is a tool's output or a reference, and was not written by a model. */
export const isPassedOn = ({ meta: { origin } }: Value): boolean =>
  origin['made'] !== true && (origin['told'] === true || typeof origin['reference'] === 'string');

/** Returns how a tool vouches for a single value for a parameter of this kind. Undefined: no tool does. */
export function vouchedAs(value: Value, parameterKind: string | undefined): Vouched | undefined {
  const { data, meta } = value;
  const { of, identifier, directory, kind } = meta.origin;
  if (!isPassedOn(value) || meta.origin.unvouched === true) return undefined;
  if (data === null || data === '') return undefined;
  // A fact is only about the data that it was declared for.
  if (of === data && kind === parameterKind) {
    if (directory === true) return 'directory';
    if (identifier === true) return 'identifier';
  }
  return 'reference';
}

/**
 * Returns how a tool vouches for a whole argument. INVARIANT: a tool always vouches for each untrusted
 * part of a list or an object; untrusted text is passed on only as a single value.
 */
export function vouchedInAll(value: Value, parameterKind: string | undefined): Vouched | undefined {
  if (isSingle(value.data)) return vouchedAs(value, parameterKind);
  let weakest: Vouched | undefined;
  for (const single of singlesOf(value)) {
    if (!carries(single.meta.descriptor, 'untrusted')) continue;
    const one = vouchedAs(single, parameterKind);
    if (one === undefined || one === 'reference') return undefined;
    weakest = weakest === 'identifier' ? weakest : one;
  }
  return weakest;
}
