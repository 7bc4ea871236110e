// Shortens a large value to a preview: its structure and the beginning of its parts, within a bound.
import { isObject, type Json, type JsonObject, setOwn } from '../../base/index.ts';

/** Returns the approximate size of the value as JSON. Counting stops above `max`. */
export function sizeUpTo(value: Json, max: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 5;
  let size = 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      size += sizeUpTo(item, max - size) + 1;
      if (size > max) break;
    }
    return size;
  }
  for (const key of Object.keys(value)) {
    size += key.length + 4 + sizeUpTo(value[key] as Json, max - size);
    if (size > max) break;
  }
  return size;
}

const cutText = (text: string, room: number): string => {
  const start = text.slice(0, Math.max(0, room));
  // Half of a surrogate pair is dropped.
  const whole = /[\ud800-\udbff]$/.test(start) ? start.slice(0, -1) : start;
  return `${whole}… (${text.length} characters in all)`;
};

function cutList(list: readonly Json[], room: number): Json[] {
  const parts: Json[] = [];
  let rest = room;
  for (const item of list) {
    if (rest <= 0) break;
    const part = shorten(item, rest);
    parts.push(part);
    rest -= sizeUpTo(part, rest) + 1;
  }
  if (parts.length < list.length) parts.push(`… (${list.length} items in all)`);
  return parts;
}

/** Smallest useful part of a value, in characters. */
const LEAST = 16;

/** Shares the room: small parts in full, the rest among the large ones. A part without room is left out. */
function sharesOf(value: JsonObject, room: number): Map<string, number> {
  const sizes = Object.keys(value).map((key) => ({
    key,
    size: sizeUpTo(value[key] as Json, room) + key.length + 4,
  }));
  const shares = new Map<string, number>();
  let [rest, count] = [room, sizes.length];
  for (const { key, size } of sizes.toSorted((a, b) => a.size - b.size)) {
    const share = Math.min(size, Math.floor(rest / count));
    if (share === size || share >= LEAST) shares.set(key, share);
    rest -= share;
    count -= 1;
  }
  return shares;
}

function cutObject(value: JsonObject, room: number): JsonObject {
  const parts: JsonObject = {};
  const shares = sharesOf(value, room);
  const keys = Object.keys(value);
  for (const key of keys) {
    const share = shares.get(key);
    if (share === undefined) continue;
    setOwn(parts, key, shorten(value[key] as Json, share - key.length - 4));
  }
  if (shares.size < keys.length) setOwn(parts, '…', `${keys.length} fields in all`);
  return parts;
}

/** Returns the value, or as much of it as fits in about `room` characters. */
export function shorten(value: Json, room: number): Json {
  if (sizeUpTo(value, room) <= room) return value;
  if (typeof value === 'string') return cutText(value, room);
  if (Array.isArray(value)) return cutList(value, room);
  return isObject(value) ? cutObject(value, room) : value;
}
