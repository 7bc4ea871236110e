// What a tool says about single fields of its results: which of them strangers can write, and what a value
// in them is. A field is meant by its name, at any depth, with everything below it. The result is a
// container whose elements carry their own marks and facts, so that taking one out gives exactly its own.
//
// INVARIANT: a fact never takes a mark away, and it is one of the very data that it was said of: whatever
// is made of that, or cut out of it, has none.
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

/** What a tool says about its results, for its whole chain. JSON, so that a journal keeps it. */
export interface ResultFacts {
  /** Fields that other people can write. */
  readonly free_text?: readonly string[];
  /** The same, in words that nobody has said so: a model has read what they wrote. No file can declare it. */
  readonly made?: readonly string[];
  /** Names of things in a directory: untrusted as text, fit to be passed on as a whole. */
  readonly identifiers?: readonly string[];
  /** Field -> kind: it vouches for parameters of that kind alone. */
  readonly kinds?: Readonly<Record<string, string>>;
  readonly untrusted?: true;
  /** The user's own address book. */
  readonly directory?: true;
}

interface Field {
  readonly isFree: boolean;
  readonly isMade?: true;
  readonly isIdentifier: boolean;
  readonly kind: string | undefined;
}

const STRANGERS = describe({ labels: ['untrusted'] });
const UNNAMED: Field = { isFree: false, isIdentifier: false, kind: undefined };
const FREE: Field = { isFree: true, isIdentifier: false, kind: undefined };
const MADE: Field = { ...FREE, isMade: true };
/** An answer that is no object stands under this name, and so do the elements of a plain list. */
const PLAIN = 'result';
const nameOf = (written: string): string => (written === '*' || written === '$' ? PLAIN : written);

type Single = null | boolean | number | string;
const isSingle = (data: Json): data is Single => typeof data !== 'object' || data === null;

type NamedFields = ReadonlyMap<string, Field>;
const known = new WeakMap<ResultFacts, NamedFields>();

/** By name: free text wins over identifiers; a kind is one of what is not free text. */
function namedIn(facts: ResultFacts): NamedFields {
  const before = known.get(facts);
  if (before) return before;
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
  known.set(facts, named);
  return named;
}

/** One place inside another: what holds outside holds in it. */
function inside(outer: Field, own: Field | undefined): Field {
  if (!own || outer.isFree) return outer;
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

  /** Does it say of single values that they may be used as they are? */
  #vouches({ isFree, isIdentifier }: Field): boolean {
    return !isFree && (isIdentifier || this.#isDirectory);
  }

  /** What a value in this place says of itself, besides that a tool has told it. */
  origin(data: Json, field: Field): Record<string, Json> {
    const { isFree, isMade, isIdentifier, kind } = field;
    return {
      ...(isMade ? { made: true } : { told: true }),
      ...(isIdentifier && !isFree && { identifier: true }),
      ...(kind !== undefined && { kind }),
      ...(this.#isDirectory && !isFree && { directory: true }),
      ...(this.#vouches(field) && isSingle(data) && { of: data }),
    };
  }

  #whole(data: Json, field: Field): Value {
    const descriptor = field.isFree || field.isIdentifier ? STRANGERS : EMPTY;
    return makeValue(data, { descriptor, origin: this.origin(data, field) });
  }

  /** Undefined: what holds around it says all. */
  #part(data: Json, outer: Field, own: Field | undefined, depth: number): Value | undefined {
    // Nobody looks further down; what is there may be anybody's.
    const field = depth > MAX_DEPTH ? FREE : inside(outer, own);
    const parts = field.isFree ? undefined : this.parts(data, field, depth);
    if (field === outer && !parts && !(isSingle(data) && this.#vouches(field))) return undefined;
    const whole = this.#whole(data, field);
    return parts ? withParts(whole, parts) : whole;
  }

  /** Elements that are something else than what they stand in. */
  parts(data: Json, field: Field, depth = 0): ReadonlyMap<string, Value> | undefined {
    if (isSingle(data)) return undefined;
    const isList = Array.isArray(data);
    const isBound = this.#vouches(field);
    let found: Map<string, Value> | undefined;
    for (const [key, item] of Object.entries(data)) {
      const own = isList ? undefined : this.#named.get(key);
      if (!own && !isBound && isSingle(item)) continue;
      const part = this.#part(item, field, own, depth + 1);
      if (!part) continue;
      found ??= new Map();
      found.set(key, part);
    }
    return found;
  }

  outermost(data: Json): Field {
    return isObject(data) ? UNNAMED : (this.#named.get(PLAIN) ?? UNNAMED);
  }
}

/** The value with marks and facts for each field; deterministic, so resume and replay make the same again. */
export function labelFields(value: Value, facts: ResultFacts): Value {
  const labelling = new Labelling(facts);
  const field = labelling.outermost(value.data);
  const isForeign = facts.untrusted === true || field.isFree || field.isIdentifier;
  const marked = isForeign ? addMarks(value, STRANGERS) : value;
  const parts = field.isFree ? undefined : labelling.parts(value.data, field);
  const labelled = parts ? withParts(marked, parts) : marked;
  return withOrigin(labelled, { ...labelling.origin(value.data, field), facts: asJson(facts) });
}

/**
 * What a journal keeps beside the content and the marks of all of it, so that the same value can be made
 * again; undefined: there is nothing to be said of single fields.
 */
export function factsOf({ meta }: Value): ResultFacts | undefined {
  const { facts } = meta.origin;
  if (!isObject(facts)) return undefined;
  const own = meta.elements?.own ?? meta.descriptor;
  return carries(own, 'untrusted') ? { ...facts, untrusted: true } : facts;
}

/** A result as it was, from what a journal keeps of it. */
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
 * Everything single in a value with exactly its own marks and facts; the names of fields too, which carry
 * data like any other. What lies deeper than anybody looks is a stranger's.
 */
export function* singlesOf(value: Value, depth = 0): Generator<Value> {
  const { data, meta } = value;
  if (isSingle(data)) yield value;
  else if (depth > MAX_DEPTH) yield makeValue(null, { descriptor: STRANGERS });
  else {
    const { own, shape } = meta.elements ?? { own: meta.descriptor, shape: EMPTY };
    const isList = Array.isArray(data);
    for (const key of Object.keys(data)) {
      if (!isList) yield makeValue(key, { descriptor: mergeDescriptors(own, shape) });
      yield* singlesOf(elementOf(value, key), depth + 1);
    }
  }
}

/** What a tool said of a single value that strangers had a hand in. */
type Vouched = 'identifier' | 'directory' | 'reference';

/** It was taken as a tool told it, or by a reference: nobody has written it here. */
export const isPassedOn = ({ meta: { origin } }: Value): boolean =>
  origin['made'] !== true && (origin['told'] === true || typeof origin['reference'] === 'string');

/** As what a single value may be used for what takes this kind of thing; undefined: as nothing. */
export function vouchedAs(value: Value, wanted: string | undefined): Vouched | undefined {
  const { data, meta } = value;
  const { of, identifier, directory, kind } = meta.origin;
  if (!isPassedOn(value) || data === null || data === '') return undefined;
  // A fact is one of the data that it was said of.
  if (of === data && kind === wanted) {
    if (directory === true) return 'directory';
    if (identifier === true) return 'identifier';
  }
  return 'reference';
}

/**
 * The same for a whole argument. INVARIANT: in a list or an object each part that strangers had a hand in
 * is vouched for; their mere words are passed on only as one value.
 */
export function vouchedInAll(value: Value, wanted: string | undefined): Vouched | undefined {
  if (isSingle(value.data)) return vouchedAs(value, wanted);
  let found: Vouched | undefined;
  for (const single of singlesOf(value)) {
    if (!carries(single.meta.descriptor, 'untrusted')) continue;
    const one = vouchedAs(single, wanted);
    if (one === undefined || one === 'reference') return undefined;
    found = found === 'identifier' ? found : one;
  }
  return found;
}
