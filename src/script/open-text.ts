// A `:::` template with names nobody knew: it stays open, and is resolved again in the scope where it
// is used. The slots are kept apart from the text, so text that came from data is never read again.
import type { Json } from '../base/index.ts';
import {
  type Descriptor,
  EMPTY,
  type MaybePromise,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../flow/index.ts';
import type { Env } from './env.ts';
import { findName } from './names.ts';
import { textOf } from './text-of.ts';
import { fieldOf, indexOf } from './value-access.ts';

/** A piece of a text; a slot is a name that was unknown in a `:::` template. */
export interface Piece {
  readonly text: string;
  readonly marks: Descriptor;
  readonly slot?: string;
}

type Part = string | { slot: string };

/** Undefined when every name was known. */
export function openSlots(pieces: readonly Piece[]): Json | undefined {
  if (!pieces.some(({ slot }) => slot !== undefined)) return undefined;
  return pieces.map(({ text, slot }): Json => (slot === undefined ? text : { slot }));
}

/** `{{ user.name[0] }}` as a name and keys. */
function readSlot(slot: string): { name: string; keys: string[] } | undefined {
  const inner = slot.replace(/^\{\{\s*|\s*\}\}$/g, '');
  const name = /^[A-Za-z_][\w-]*/.exec(inner)?.[0];
  if (name === undefined) return undefined;
  const keys = [...inner.slice(name.length).matchAll(/\.([\w-]+)|\[(?:"([^"]*)"|(-?\d+))\]/g)];
  return { name, keys: keys.map(([, field, quoted, index]) => field ?? quoted ?? index ?? '') };
}

function valueOfSlot(slot: string, env: Env): Value | undefined {
  const read = readSlot(slot);
  const found = read && findName(env, read.name);
  if (!read || !found || found.isMissing) return undefined;
  return read.keys.reduce(
    (value, key) =>
      /^-?\d+$/.test(key)
        ? indexOf(value, makeValue(Number(key)), 'lenient')
        : fieldOf(value, key, 'lenient'),
    found.value,
  );
}

/** The value itself unless it is an open text. */
export function resolveOpen(value: Value, env: Env): MaybePromise<Value> {
  const { open } = value.meta.origin;
  if (!Array.isArray(open)) return value;
  let marks = EMPTY;
  const pieces = (open as Part[]).map((part): Piece => {
    if (typeof part === 'string') return { text: part, marks: EMPTY };
    const found = valueOfSlot(part.slot, env);
    if (!found) return { text: part.slot, marks: EMPTY, slot: part.slot };
    marks = mergeDescriptors(marks, found.meta.descriptor);
    return { text: textOf(found), marks: found.meta.descriptor };
  });
  const still = openSlots(pieces);
  return makeValue(pieces.map(({ text }) => text).join(''), {
    descriptor: mergeDescriptors(value.meta.descriptor, marks),
    ...(still ? { origin: { open: still } } : {}),
  });
}
