// JSON that will not change any more, and what was found out about it. A conversation is sent again
// every turn, and all but its end is what was sent before: how deep a message is nested and what its
// text is need to be asked once. What is remembered goes when the value goes.
import type { Json } from './outcome.ts';

interface Facts {
  /** Levels of lists and objects below this one. */
  readonly depth: number;
  text?: string;
  /** Of a list: the text between its brackets. */
  inner?: string;
}

const known = new WeakMap<object, Facts>();

const isContainer = (value: unknown): value is Json[] | { [key: string]: Json } =>
  typeof value === 'object' && value !== null;

/**
 * Freezes a value with everything in it, and remembers that. INVARIANT: everything below a value that
 * is remembered is frozen, whoever froze it and however far. Walks without recursion.
 */
export function freezeJson<T extends Json>(value: T): T {
  if (!isContainer(value) || known.has(value)) return value;
  let depth = 0;
  let level: Json[] = [value];
  for (let at = 0; level.length > 0; at++) {
    depth = Math.max(depth, at);
    const next: Json[] = [];
    for (const item of level) {
      Object.freeze(item);
      for (const child of Object.values(item as object) as Json[]) {
        if (!isContainer(child)) continue;
        const facts = known.get(child);
        if (facts === undefined) next.push(child);
        else depth = Math.max(depth, at + 1 + facts.depth);
      }
    }
    level = next;
  }
  known.set(value, { depth });
  return value;
}

/** Is this value frozen with everything in it, for certain? */
export const isFrozenJson = (value: object): boolean => known.has(value);

/** How deep a remembered value is nested; undefined when it has to be looked at. */
export const knownDepth = (value: object): number | undefined => known.get(value)?.depth;

const innerOf = (list: readonly Json[], facts: Facts): string =>
  (facts.inner ??= list.map((item) => jsonText(item)).join(','));

/** The list with more at its end, remembered like the list itself: only what is new is looked at. */
export function growJson(list: Json[], more: readonly Json[]): Json[] {
  const [first, second] = [freezeJson(list), freezeJson([...more])];
  const [before, added] = [known.get(first) as Facts, known.get(second) as Facts];
  const grown = Object.freeze([...first, ...second]) as Json[];
  const texts = [innerOf(first, before), innerOf(second, added)].filter((text) => text !== '');
  known.set(grown, { depth: Math.max(before.depth, added.depth), inner: texts.join(',') });
  return grown;
}

/** Where remembered values are looked for: the messages of a request's body. */
const LEVELS = 3;

const textOf = (value: Json, { inner }: Facts): string =>
  inner === undefined ? JSON.stringify(value) : `[${inner}]`;

/** The text that `JSON.stringify` gives; the text of a remembered value is made once. */
export function jsonText(value: Json, levels = LEVELS): string {
  if (!isContainer(value)) return JSON.stringify(value);
  const facts = known.get(value);
  if (facts !== undefined) return (facts.text ??= textOf(value, facts));
  if (levels === 0) return JSON.stringify(value);
  if (Array.isArray(value)) {
    return `[${value.map((item) => jsonText(item, levels - 1) ?? 'null').join(',')}]`;
  }
  const parts: string[] = [];
  for (const key of Object.keys(value)) {
    // What is no JSON has no text, and its key is left out.
    const text = jsonText(value[key] as Json, levels - 1) as string | undefined;
    if (text !== undefined) parts.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${parts.join(',')}}`;
}
