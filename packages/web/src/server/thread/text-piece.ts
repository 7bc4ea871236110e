// Splits long texts into pieces by bytes, never inside a character.
import { fail, getOwn, isObject, type Json, type Outcome, ok } from '@kernmantle/core/base';
import type { LongText } from '../../model/api.ts';

export const PIECE_BYTES = 64 * 1024;

/** True for a UTF-8 continuation byte of a character. */
const isInside = (byte: number | undefined): boolean =>
  byte !== undefined && (byte & 0xc0) === 0x80;

/** Returns the piece from `offset` on. Beyond the end it is empty. */
export function textPiece(text: string, offset = 0, length = PIECE_BYTES): LongText {
  const bytes = Buffer.from(text);
  let from = Math.min(offset, bytes.length);
  while (isInside(bytes[from])) from += 1;
  let to = Math.min(bytes.length, from + Math.min(length, PIECE_BYTES));
  if (to < bytes.length) while (to > from && isInside(bytes[to])) to -= 1;
  // A character that is longer than the requested piece is returned whole.
  if (to === from && to < bytes.length) for (to += 1; isInside(bytes[to]); ) to += 1;
  return {
    text: bytes.subarray(from, to).toString(),
    bytes: bytes.length,
    offset: from,
    ...(to < bytes.length && { next: to }),
  };
}

/** Returns the part that a JSON pointer selects, such as `/items/3/text` (RFC 6901). */
export function partAt(value: Json, pointer: string): Outcome<Json> {
  if (pointer !== '' && !pointer.startsWith('/')) {
    return fail('invalid_input', '`field` must start with /, such as /content');
  }
  let part: Json | undefined = value;
  for (const name of pointer === '' ? [] : pointer.slice(1).split('/')) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
    part = Array.isArray(part) ? part[Number(key)] : isObject(part) ? getOwn(part, key) : undefined;
    if (part === undefined) return fail('not_found', 'field not found');
  }
  return ok(part ?? null);
}

/** Returns a text unchanged, and every other value as JSON. */
export const textOf = (value: Json): string =>
  typeof value === 'string' ? value : JSON.stringify(value, null, 2);
