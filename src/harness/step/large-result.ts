// Results over a size: kept whole as an artifact of the thread, by hash, with the labels they carry.
// The journal, the transcript and the model get how they begin and where the rest is.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  setOwn,
} from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  elementOf,
  factsOf,
  type MaybePromise,
  markFailure,
  type ResultFacts,
  restoreFields,
  type Value,
} from '../../flow/index.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import type { Recorded } from '../thread/journal-event.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';

// A value too large to be said in full: its shape and how its parts begin, within a bound.

/** About how many characters it has as JSON; counting stops when it is more than `max`. */
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
  // Half a character is none.
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

/** Less of a part than this says nothing. */
const LEAST = 16;

/**
 * Small parts are shown whole; what is left of the room is shared by the large ones. Parts for which
 * nothing is left are not in the answer.
 */
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

/** The value when it fits in about `room` characters, otherwise as much of it as does. */
export function shorten(value: Json, room: number): Json {
  if (sizeUpTo(value, room) <= room) return value;
  if (typeof value === 'string') return cutText(value, room);
  if (Array.isArray(value)) return cutList(value, room);
  return isObject(value) ? cutObject(value, room) : value;
}

/** In characters; more than this is kept apart. Data: `max_result` of `limits.yaml`. */
const MAX_RESULT = 64_000;
const PREVIEW = 16_000;
/** The most that one look at an artifact shows. */
export const MAX_PIECE = 32_000;

export interface Result {
  content: Json;
  marks: Descriptor;
  isError: boolean;
  /** What its tool says about single fields of it. */
  facts?: ResultFacts | undefined;
}

function bounds({ library }: HarnessPorts): { max: number; preview: number } {
  const given = getOwn(library.config('limits').value, 'max_result');
  const max = typeof given === 'number' && given >= 0 ? given : MAX_RESULT;
  const least = Math.max(max, 1000);
  return { max: least, preview: Math.min(PREVIEW, least / 2) };
}

const read = (artifact: string, offset: number): string =>
  `shortened; read on with execute {"item_type":"artifact","item_id":"${artifact}","parameters":{"field":"/…","offset":${offset}}}`;

/** As it enters the journal and the conversation. A result that is not large is left as it is. */
export function keepResult(thread: Thread, result: Result): MaybePromise<Result> {
  const { max, preview } = bounds(thread.ports);
  return sizeUpTo(result.content, max) <= max ? result : keepApart(thread, result, preview);
}

async function keepApart(
  { ports, place: { id } }: Thread,
  result: Result,
  preview: number,
): Promise<Result> {
  const { content, marks, isError, facts } = result;
  const about = { marks: packMarks(marks), is_error: isError, ...(facts && { facts }) };
  const bytes = Buffer.from(JSON.stringify({ content, ...about }));
  const kept = await ports.store.putArtifact(id, bytes);
  const begins = shorten(content, preview);
  const shown = kept.ok
    ? { artifact: kept.output, bytes: bytes.length, preview: begins, message: read(kept.output, 0) }
    : {
        bytes: bytes.length,
        preview: begins,
        message: `the rest is lost: ${kept.error.detail.message}`,
      };
  return { ...result, content: shown };
}

/** What references are shown as where even that is too large. */
export function shortenShown(ports: HarnessPorts, content: Json): Json | undefined {
  const { max, preview } = bounds(ports);
  return sizeUpTo(content, max) <= max ? undefined : shorten(content, preview);
}

/** A recorded result as it was before it was kept apart. */
export async function wholeResult(
  { store }: Pick<HarnessPorts, 'store'>,
  thread: string,
  content: Json,
): Promise<Json> {
  const hash = getOwn(content, 'artifact');
  if (typeof hash !== 'string' || getOwn(content, 'preview') === undefined) return content;
  const bytes = await store.artifact(thread, hash);
  if (!bytes.ok) return content;
  return getOwn(JSON.parse(Buffer.from(bytes.output).toString()) as Json, 'content') ?? null;
}

const isIn = (data: Json, key: string): boolean =>
  Array.isArray(data) ? data[Number(key)] !== undefined : getOwn(data, key) !== undefined;

/** The same of a value that a journal gave back. */
export async function wholeValue(
  ports: Pick<HarnessPorts, 'store'>,
  thread: string,
  value: Value,
): Promise<Value> {
  const whole = await wholeResult(ports, thread, value.data);
  return whole === value.data ? value : restoreFields(whole, value.meta.descriptor, factsOf(value));
}

/** What was kept apart before is there again when references are made of it. */
export async function loadWholes(
  { ports, place, talk: { references } }: Thread,
  history: readonly Recorded[],
): Promise<void> {
  for (const { type, data } of references ? history : []) {
    if (type !== 'tool_result') continue;
    const hash = getOwn(data.content, 'artifact');
    if (typeof hash !== 'string' || references?.wholes.has(hash)) continue;
    const whole = await wholeResult(ports, place.id, data.content);
    if (whole !== data.content) references?.wholes.set(hash, whole);
  }
}

/** `/items/3/text`: the part that this points to, as RFC 6901 has it, with its own marks. */
function partOf(value: Value, pointer: string): Outcome<Value> {
  let part = value;
  for (const name of pointer === '' ? [] : pointer.slice(1).split('/')) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isIn(part.data, key)) {
      const names = isObject(value.data) ? Object.keys(value.data).slice(0, 20).join(', ') : '';
      const missing = fail('not_found', `there is no \`${pointer}\` in it; it has: ${names}`);
      return markFailure(missing, value.meta.descriptor);
    }
    part = elementOf(part, key);
  }
  return ok(part);
}

export interface Piece {
  /** Which part of it: a JSON pointer, all of it when empty. */
  field: string;
  offset: number;
  length: number;
}

/** A piece of an artifact of this thread, with the labels of the part that it is taken from. */
export async function readPiece(
  ports: HarnessPorts,
  thread: string,
  hash: string,
  { field, offset, length }: Piece,
): Promise<Outcome<Value>> {
  if (field !== '' && !field.startsWith('/')) {
    return fail('invalid_input', `\`field\` is \`${field}\`; it starts with /, such as /content`);
  }
  const bytes = await ports.store.artifact(thread, hash);
  if (!bytes.ok) return bytes;
  const { content, marks, facts } = JSON.parse(Buffer.from(bytes.output).toString()) as Artifact;
  const part = partOf(restoreFields(content, unpackMarks(marks), facts), field);
  if (!part.ok) return part;
  const { text, meta } = part.output;
  // What was read in pieces is not kept apart again.
  const room = Math.min(length, MAX_PIECE, bounds(ports).max / 2);
  const end = Math.min(text.length, offset + room);
  const output = {
    artifact: hash,
    field,
    offset,
    characters: text.length,
    text: text.slice(offset, end),
    ...(end < text.length && { next_offset: end }),
  };
  const { descriptor } = meta;
  // Where it stands is no stranger's word; what stands there may be.
  const piece = carries(descriptor, 'untrusted') ? { free_text: ['text'] } : undefined;
  return ok(restoreFields(output, descriptor, piece));
}

interface Artifact {
  readonly content: Json;
  readonly marks: Json;
  readonly facts?: ResultFacts;
}
