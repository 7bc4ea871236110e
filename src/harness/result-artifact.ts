// Results over a size: kept whole as an artifact of the thread, by hash, with the labels they carry.
// The journal, the transcript and the model get how they begin and where the rest is.
import { fail, getOwn, isObject, type Json, type Outcome, ok } from '../base/index.ts';
import type { Descriptor } from '../flow/index.ts';
import { packMarks, unpackMarks } from './conversation.ts';
import { shorten, sizeUpTo } from './result-preview.ts';
import type { ThreadContext } from './thread-context.ts';
import type { World } from './world.ts';

/** In characters; more than this is kept apart. Data: `max_result` of `limits.yaml`. */
const MAX_RESULT = 64_000;
const PREVIEW = 16_000;
/** The most that one look at an artifact shows. */
export const MAX_PIECE = 32_000;

export interface Result {
  content: Json;
  marks: Descriptor;
  isError: boolean;
}

function bounds({ library }: World): { max: number; preview: number } {
  const given = getOwn(library.config('limits').value, 'max_result');
  const max = typeof given === 'number' && given >= 0 ? given : MAX_RESULT;
  const least = Math.max(max, 1000);
  return { max: least, preview: Math.min(PREVIEW, least / 2) };
}

const read = (artifact: string, offset: number): string =>
  `shortened; read on with execute {"item_type":"artifact","item_id":"${artifact}","parameters":{"field":"/…","offset":${offset}}}`;

/** As it enters the journal and the conversation. A result that is not large is left as it is. */
export function keepResult({ world, id }: ThreadContext, result: Result): Result {
  const { content, marks, isError } = result;
  const { max, preview } = bounds(world);
  if (sizeUpTo(content, max) <= max) return result;
  const whole = { content, marks: packMarks(marks), is_error: isError };
  const bytes = Buffer.from(JSON.stringify(whole));
  const kept = world.store.artifacts.put(id, bytes);
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

/** A recorded result as it was before it was kept apart. */
export function wholeResult({ store }: World, thread: string, content: Json): Json {
  const hash = getOwn(content, 'artifact');
  if (typeof hash !== 'string' || getOwn(content, 'preview') === undefined) return content;
  const bytes = store.artifacts.get(thread, hash);
  if (!bytes.ok) return content;
  return getOwn(JSON.parse(Buffer.from(bytes.output).toString()) as Json, 'content') ?? null;
}

/** `/items/3/text`: the part that this points to, as RFC 6901 has it. */
function partOf(value: Json, pointer: string): Outcome<Json> {
  let part: Json | undefined = value;
  for (const name of pointer === '' ? [] : pointer.slice(1).split('/')) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
    part = Array.isArray(part) ? part[Number(key)] : getOwn(part, key);
    if (part === undefined) {
      const names = isObject(value) ? Object.keys(value).slice(0, 20).join(', ') : '';
      return fail('not_found', `there is no \`${pointer}\` in it; it has: ${names}`);
    }
  }
  return ok(part ?? null);
}

export interface Piece {
  /** Which part of it: a JSON pointer, all of it when empty. */
  field: string;
  offset: number;
  length: number;
}

/** A piece of an artifact of this thread, with the labels of the whole. */
export function readPiece(
  world: World,
  thread: string,
  hash: string,
  { field, offset, length }: Piece,
): Outcome<{ output: Json; marks: Descriptor }> {
  if (field !== '' && !field.startsWith('/')) {
    return fail('invalid_input', `\`field\` is \`${field}\`; it starts with /, such as /content`);
  }
  const bytes = world.store.artifacts.get(thread, hash);
  if (!bytes.ok) return bytes;
  const whole = JSON.parse(Buffer.from(bytes.output).toString()) as Json;
  const part = partOf(getOwn(whole, 'content') ?? null, field);
  if (!part.ok) return part;
  const text = typeof part.output === 'string' ? part.output : JSON.stringify(part.output);
  // What was read in pieces is not kept apart again.
  const room = Math.min(length, MAX_PIECE, bounds(world).max / 2);
  const end = Math.min(text.length, offset + room);
  return ok({
    output: {
      artifact: hash,
      field,
      offset,
      characters: text.length,
      text: text.slice(offset, end),
      ...(end < text.length && { next_offset: end }),
    },
    marks: unpackMarks(getOwn(whole, 'marks')),
  });
}
