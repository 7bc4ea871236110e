// The one value type. Data and marks travel together and never change; text is made when somebody
// looks. A container whose elements carry marks of their own keeps them apart, so that taking one
// element out gives exactly that element's marks, while the container counts with the union.
import { getOwn, type Json } from '../../base/index.ts';
import { addLabels, type Descriptor, describe, EMPTY, mergeDescriptors } from './labels.ts';

/** Facts about where a value was made: file, command, tool, thread, turn, name. */
type Origin = Readonly<Record<string, Json>>;

export interface Value {
  readonly data: Json;
  /** What a display or a process gets; strings as they are, everything else compact JSON. */
  readonly text: string;
  /** True when the text was given, not derived: a loaded file, a command's output. */
  readonly hasOwnText: boolean;
  readonly meta: Meta;
}

interface Meta {
  readonly descriptor: Descriptor;
  readonly origin: Origin;
  readonly elements?: Elements;
}

/**
 * Marks below a container: its own (on everything inside), those of its shape (which keys it has; on
 * the whole, and on what is missing) and those of single elements.
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

/** Walks without recursion: data from outside may be nested as deep as JSON allows. */
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

/** Takes ownership of `data`, which is frozen: whoever wants to change it copies it first. */
export function makeValue(
  data: Json,
  options: { descriptor?: Descriptor; text?: string; origin?: Origin } = {},
): Value {
  if (typeof data === 'object' && data !== null) freezeDeep(data);
  const origin = options.origin ? Object.freeze({ ...options.origin }) : NO_ORIGIN;
  const meta = Object.freeze({ descriptor: options.descriptor ?? EMPTY, origin });
  return new LabelledValue(data, meta, options.text);
}

/** A list or object put together from labelled values; `own` marks hold for all of it. */
export function makeContainer(
  parts: readonly Value[] | ReadonlyMap<string, Value>,
  own: Descriptor = EMPTY,
  shape: Descriptor = EMPTY,
): Value {
  const kept = new Map<string, Value>();
  let union = mergeDescriptors(own, shape);
  const add = (key: string | number, value: Value): Json => {
    if (isMoreThanData(value)) {
      kept.set(String(key), value);
      union = mergeDescriptors(union, value.meta.descriptor);
    }
    return value.data;
  };
  const data: Json = Array.isArray(parts)
    ? (parts as readonly Value[]).map((value, index) => add(index, value))
    : Object.fromEntries(
        Array.from(parts as ReadonlyMap<string, Value>, ([key, value]) => [key, add(key, value)]),
      );
  // What is inside has been frozen when its value was made.
  Object.freeze(data);
  const elements = Object.freeze({ own, shape, parts: kept });
  const meta = Object.freeze({ descriptor: union, origin: NO_ORIGIN, elements });
  return new LabelledValue(data, meta, undefined);
}

/** Would it lose something if only its data went into a container? */
const isMoreThanData = ({ meta, hasOwnText }: Value): boolean =>
  meta.descriptor !== EMPTY ||
  meta.elements !== undefined ||
  hasOwnText ||
  meta.origin !== NO_ORIGIN;

// Facts about one value only; the others (file, command, tool …) hold for what is inside as well.
const OF_THE_WHOLE = new Set(
  'absent definedAt each exported facts files index key name namespace open tokens'.split(' '),
);
const inherited = new WeakMap<Origin, Origin>();

function originInside(origin: Origin): Origin {
  const known = inherited.get(origin);
  if (known) return known;
  const facts = Object.entries(origin).filter(([fact]) => !OF_THE_WHOLE.has(fact));
  const inside = facts.length > 0 ? Object.freeze(Object.fromEntries(facts)) : NO_ORIGIN;
  inherited.set(origin, inside);
  return inside;
}

/** One element with exactly its marks; null with the container's marks when there is none. */
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

/** The same data with more marks, on the whole and on every element. */
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
 * The same list or object, of which single elements have marks and facts of their own besides. INVARIANT:
 * each is made of the very data that stands there.
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

/** The same data with declared labels; `untrusted` ends the trust in what is inside, too. */
export function withLabels(value: Value, labels: readonly string[]): Value {
  if (labels.length === 0) return value;
  const marked = addMarks(value, describe({ labels }));
  const { descriptor } = marked.meta;
  const isDemoted = labels.includes('untrusted') && descriptor.labels.includes('trusted');
  return isDemoted ? relabel(marked, addLabels(descriptor, ['untrusted'])) : marked;
}

/** The same data with other marks; for the pipeline, never for a body. */
export function relabel(value: Value, descriptor: Descriptor): Value {
  if (value.meta.descriptor === descriptor && !value.meta.elements) return value;
  const meta = Object.freeze({ descriptor, origin: value.meta.origin });
  return new LabelledValue(value.data, meta, ownText(value));
}

/** The same data with its marks changed, on the whole and on every element by itself. */
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

/** The same data, marks and text with more facts about where it was made. */
export function withOrigin(value: Value, facts: Origin): Value {
  const origin = Object.freeze({ ...value.meta.origin, ...facts });
  return new LabelledValue(value.data, Object.freeze({ ...value.meta, origin }), ownText(value));
}

/** The same data, marks and facts with another text of its own; undefined: none. */
export function withText(value: Value, text: string | undefined): Value {
  if (ownText(value) === text) return value;
  return new LabelledValue(value.data, value.meta, text);
}

const ownText = (value: Value): string | undefined => (value.hasOwnText ? value.text : undefined);

export const isValue = (thing: unknown): thing is Value => thing instanceof LabelledValue;
