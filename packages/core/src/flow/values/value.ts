// Implements the value type of scripts, tools and threads. Data and marks are immutable and stay together. The text is
// computed when it is read. A container stores the marks of each element: an element alone has exactly its
// own marks, and the container has their union.
import { getOwn, type Json } from '../../base/index.ts';
import { addLabels, type Descriptor, describe, EMPTY, mergeDescriptors } from './labels.ts';

/** Facts about where a value was made: file, command, tool, thread, turn, name. */
type Origin = Readonly<Record<string, Json>>;

export interface Value {
  readonly data: Json;
  /** Text for a display or a process: a string itself, anything else as compact JSON. */
  readonly text: string;
  /** True if the text was supplied and not derived: a loaded file, a command's output. */
  readonly hasOwnText: boolean;
  readonly meta: Meta;
}

interface Meta {
  readonly descriptor: Descriptor;
  readonly origin: Origin;
  readonly elements?: Elements;
}

/**
 * Marks of a container: `own` applies to everything inside, `shape` (marks of its keys) to the whole and to
 * missing elements, and `parts` has the marked elements by key.
 */
interface Elements {
  readonly own: Descriptor;
  readonly shape: Descriptor;
  readonly parts: ReadonlyMap<string, Value>;
}

const NO_ORIGIN: Origin = Object.freeze({});

class LabelledValue implements Value {
  readonly data: Json;
  readonly meta: Meta;
  readonly hasOwnText: boolean;
  #text: string | undefined;

  constructor(data: Json, meta: Meta, text: string | undefined) {
    this.data = data;
    this.meta = meta;
    this.hasOwnText = text !== undefined;
    this.#text = text;
    Object.freeze(this);
  }

  get text(): string {
    this.#text ??= typeof this.data === 'string' ? this.data : JSON.stringify(this.data);
    return this.#text;
  }
}

/** Freezes data at every depth, without recursion, because data from outside can be nested deeply. */
function freezeDeep(data: Json): void {
  const open: Json[] = [data];
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    if (typeof item !== 'object' || item === null || Object.isFrozen(item)) continue;
    Object.freeze(item);
    for (const child of Object.values(item)) {
      if (typeof child === 'object' && child !== null) open.push(child);
    }
  }
}

/** Makes a value. It freezes `data`, so a caller that wants to change the data copies it first. */
export function makeValue(
  data: Json,
  options: { descriptor?: Descriptor; text?: string; origin?: Origin } = {},
): Value {
  if (typeof data === 'object' && data !== null) freezeDeep(data);
  const origin = options.origin ? Object.freeze({ ...options.origin }) : NO_ORIGIN;
  const meta = Object.freeze({ descriptor: options.descriptor ?? EMPTY, origin });
  return new LabelledValue(data, meta, options.text);
}

/** Makes a list or object of labelled values. `own` marks apply to all of it. */
export function makeContainer(
  parts: readonly Value[] | ReadonlyMap<string, Value>,
  own: Descriptor = EMPTY,
  shape: Descriptor = EMPTY,
): Value {
  const elementValues = new Map<string, Value>();
  let union = mergeDescriptors(own, shape);
  const add = (key: string | number, value: Value): Json => {
    if (isMoreThanData(value)) {
      elementValues.set(String(key), value);
      union = mergeDescriptors(union, value.meta.descriptor);
    }
    return value.data;
  };
  const data: Json = Array.isArray(parts)
    ? (parts as readonly Value[]).map((value, index) => add(index, value))
    : Object.fromEntries(
        Array.from(parts as ReadonlyMap<string, Value>, ([key, value]) => [key, add(key, value)]),
      );
  // The values inside were frozen when they were made.
  Object.freeze(data);
  const elements = Object.freeze({ own, shape, parts: elementValues });
  const meta = Object.freeze({ descriptor: union, origin: NO_ORIGIN, elements });
  return new LabelledValue(data, meta, undefined);
}

/** True if a container would lose marks or text of the value by storing only its data. */
const isMoreThanData = ({ meta, hasOwnText }: Value): boolean =>
  meta.descriptor !== EMPTY ||
  meta.elements !== undefined ||
  hasOwnText ||
  meta.origin !== NO_ORIGIN;

// These facts are about a whole value. Others (file, command, tool …) apply to its elements too.
const OF_THE_WHOLE = new Set(
  'absent definedAt each exported facts files index key name namespace open tokens'.split(' '),
);
const inherited = new WeakMap<Origin, Origin>();

function originInside(origin: Origin): Origin {
  const cached = inherited.get(origin);
  if (cached) return cached;
  const facts = Object.entries(origin).filter(([fact]) => !OF_THE_WHOLE.has(fact));
  const inside = facts.length > 0 ? Object.freeze(Object.fromEntries(facts)) : NO_ORIGIN;
  inherited.set(origin, inside);
  return inside;
}

/** Returns one element with exactly its marks. A missing element is null with the container's marks. */
export function elementOf(value: Value, key: string | number): Value {
  const { descriptor, elements, origin } = value.meta;
  const part = elements?.parts.get(String(key));
  if (part) return addMarks(part, elements?.own ?? EMPTY);
  const { data } = value;
  const child = Array.isArray(data) ? data[Number(key)] : getOwn(data, String(key));
  const marks = elements
    ? mergeDescriptors(elements.own, child === undefined ? elements.shape : EMPTY)
    : descriptor;
  if (typeof child === 'object' && child !== null) freezeDeep(child);
  const meta = Object.freeze({ descriptor: marks, origin: originInside(origin) });
  return new LabelledValue(child ?? null, meta, undefined);
}

/** Returns the same data with more marks, on the whole and on every element. */
export function addMarks(value: Value, marks: Descriptor): Value {
  const { descriptor, elements, origin } = value.meta;
  const merged = mergeDescriptors(descriptor, marks);
  const own = elements && mergeDescriptors(elements.own, marks);
  if (merged === descriptor && own === elements?.own) return value;
  const meta: Meta =
    elements && own
      ? { descriptor: merged, origin, elements: Object.freeze({ ...elements, own }) }
      : { descriptor: merged, origin };
  return new LabelledValue(value.data, Object.freeze(meta), ownText(value));
}

/**
 * Returns the same list or object with additional marks and facts of single elements. INVARIANT: each
 * part always has exactly the data of the element that it replaces.
 */
export function withParts(value: Value, parts: ReadonlyMap<string, Value>): Value {
  const { descriptor, origin, elements: before } = value.meta;
  const own = before?.own ?? descriptor;
  let union = descriptor;
  for (const { meta } of parts.values()) union = mergeDescriptors(union, meta.descriptor);
  const elements = Object.freeze({ own, shape: EMPTY, parts });
  const meta = Object.freeze({ descriptor: union, origin, elements });
  return new LabelledValue(value.data, meta, ownText(value));
}

/** Returns the same data with declared labels. `untrusted` also removes trust from its elements. */
export function withLabels(value: Value, labels: readonly string[]): Value {
  if (labels.length === 0) return value;
  const marked = addMarks(value, describe({ labels }));
  const { descriptor } = marked.meta;
  const isDemoted = labels.includes('untrusted') && descriptor.labels.includes('trusted');
  return isDemoted ? relabel(marked, addLabels(descriptor, ['untrusted'])) : marked;
}

/** Returns the same data with other marks. Only the pipeline and guards may call it, never a body. */
export function relabel(value: Value, descriptor: Descriptor): Value {
  if (value.meta.descriptor === descriptor && !value.meta.elements) return value;
  const meta = Object.freeze({ descriptor, origin: value.meta.origin });
  return new LabelledValue(value.data, meta, ownText(value));
}

/** Returns the same data with changed marks, on the whole and on every element by itself. */
export function changeMarks(value: Value, change: (marks: Descriptor) => Descriptor): Value {
  const { descriptor, origin, elements } = value.meta;
  if (!elements) return relabel(value, change(descriptor));
  const { own, shape, parts } = elements;
  const changed = Object.freeze({
    own: change(own),
    shape: change(shape),
    parts: new Map(Array.from(parts, ([key, part]) => [key, changeMarks(part, change)])),
  });
  const meta = Object.freeze({ descriptor: change(descriptor), origin, elements: changed });
  return new LabelledValue(value.data, meta, ownText(value));
}

/** Returns the same data, marks and text with more facts about its origin. */
export function withOrigin(value: Value, facts: Origin): Value {
  const origin = Object.freeze({ ...value.meta.origin, ...facts });
  return new LabelledValue(value.data, Object.freeze({ ...value.meta, origin }), ownText(value));
}

/** Returns the same data, marks and facts with another text. Undefined: no text of its own. */
export function withText(value: Value, text: string | undefined): Value {
  if (ownText(value) === text) return value;
  return new LabelledValue(value.data, value.meta, text);
}

const ownText = (value: Value): string | undefined => (value.hasOwnText ? value.text : undefined);

export const isValue = (thing: unknown): thing is Value => thing instanceof LabelledValue;
