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
  const shown = text.slice(0, Math.max(0, room));
  // A half surrogate pair is dropped.
  const whole = /[\ud800-\udbff]$/.test(shown) ? shown.slice(0, -1) : shown;
  return `${whole}… (${text.length} characters in all)`;
};

function cutList(list: readonly Json[], room: number): Json[] {
  const shown: Json[] = [];
  let left = room;
  for (const item of list) {
    if (left <= 0) break;
    const part = shorten(item, left);
    shown.push(part);
    left -= sizeUpTo(part, left) + 1;
  }
  if (shown.length < list.length) shown.push(`… (${list.length} items in all)`);
  return shown;
}

/** A shorter part of a value says nothing. */
const LEAST = 16;

/** Shares the room: small parts in full, the rest among the large ones. A part without room is left out. */
function sharesOf(value: JsonObject, room: number): Map<string, number> {
  const sizes = Object.keys(value).map((key) => ({
    key,
    size: sizeUpTo(value[key] as Json, room) + key.length + 4,
  }));
  const shares = new Map<string, number>();
  let [left, count] = [room, sizes.length];
  for (const { key, size } of sizes.toSorted((a, b) => a.size - b.size)) {
    const share = Math.min(size, Math.floor(left / count));
    if (share === size || share >= LEAST) shares.set(key, share);
    left -= share;
    count -= 1;
  }
  return shares;
}

function cutObject(value: JsonObject, room: number): JsonObject {
  const shown: JsonObject = {};
  const shares = sharesOf(value, room);
  const keys = Object.keys(value);
  for (const key of keys) {
    const share = shares.get(key);
    if (share === undefined) continue;
    setOwn(shown, key, shorten(value[key] as Json, share - key.length - 4));
  }
  if (shares.size < keys.length) setOwn(shown, '…', `${keys.length} fields in all`);
  return shown;
}

/** Returns the value, or as much of it as fits in about `room` characters. */
export function shorten(value: Json, room: number): Json {
  if (sizeUpTo(value, room) <= room) return value;
  if (typeof value === 'string') return cutText(value, room);
  if (Array.isArray(value)) return cutList(value, room);
  return isObject(value) ? cutObject(value, room) : value;
}
