// Stores large results as artifacts of the thread, by hash and with their labels. The journal, the transcript
// and the model get a preview and the way to read the rest.
import { fail, getOwn, isObject, type Json, type Outcome, ok } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  elementOf,
  factsOf,
  makeValue,
  markFailure,
  type ResultFacts,
  restoreFields,
  type Value,
} from '../../flow/index.ts';
import { decode, fileValue, type Recorded } from '../../journal/index.ts';
import type { FileBlock } from '../../llm/index.ts';
import { largestResult } from '../files/file-limits.ts';
import { findFile } from '../files/keep-files.ts';
import { packMarks, unpackMarks } from '../thread/conversation.ts';
import { withFiles } from '../thread/file-values.ts';
import type { DirectiveTalk, HarnessPorts, OwnJournal, Thread } from '../thread/thread.ts';
import { shorten, sizeUpTo } from './shorten-value.ts';

const PREVIEW = 16_000;
/** Largest piece of an artifact in one answer. */
export const MAX_PIECE = 32_000;

export interface Result {
  content: Json;
  marks: Descriptor;
  isError: boolean;
  /** Facts that the tool declares about fields of the result. */
  facts?: ResultFacts | undefined;
  /** Files of the thread that the content names. */
  files?: readonly FileBlock[] | undefined;
}

type LimitPorts = Pick<HarnessPorts, 'library'>;

function bounds(ports: LimitPorts): { max: number; preview: number } {
  const max = largestResult(ports);
  return { max, preview: Math.min(PREVIEW, max / 2) };
}

const read = (artifact: string, offset: number): string =>
  `shortened; read on with execute {"item_type":"artifact","item_id":"${artifact}","parameters":{"field":"/…","offset":${offset}}}`;

/** Returns the result for the journal and the conversation. A small result is returned unchanged. */
export async function keepResult(
  { ports, place: { id } }: Pick<Thread, 'ports' | 'place'>,
  result: Result,
): Promise<Result> {
  const { max, preview } = bounds(ports);
  const { content, marks, isError, facts } = result;
  if (sizeUpTo(content, max) <= max) return result;
  const about = { marks: packMarks(marks), is_error: isError, ...(facts && { facts }) };
  const bytes = Buffer.from(JSON.stringify({ content, ...about }));
  const hash = await ports.store.putArtifact(id, bytes);
  const begins = shorten(content, preview);
  const replacement = hash.ok
    ? { artifact: hash.output, bytes: bytes.length, preview: begins, message: read(hash.output, 0) }
    : {
        bytes: bytes.length,
        preview: begins,
        message: `the rest is lost: ${hash.error.detail.message}`,
      };
  return { ...result, content: replacement };
}

/** Returns a preview of a value for a reference, and `undefined` if the value is small. */
export function shortenShown(ports: HarnessPorts, content: Json): Json | undefined {
  const { max, preview } = bounds(ports);
  return sizeUpTo(content, max) <= max ? undefined : shorten(content, preview);
}

/** Returns a recorded result in full. */
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

/** Returns a value from a journal in full. */
export async function wholeValue(
  ports: Pick<HarnessPorts, 'store'>,
  thread: string,
  value: Value,
): Promise<Value> {
  const whole = await wholeResult(ports, thread, value.data);
  return whole === value.data ? value : restoreFields(whole, value.meta.descriptor, factsOf(value));
}

/** Loads stored results, so that references to their parts can be made. */
export async function loadWholes(
  { ports, place, talk: { references } }: DirectiveTalk,
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

/** Returns the part at a JSON pointer (RFC 6901), such as `/items/3/text`, with its own marks. */
function partOf(value: Value, pointer: string): Outcome<Value> {
  let part = value;
  for (const name of pointer === '' ? [] : pointer.slice(1).split('/')) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isIn(part.data, key)) {
      const names = isObject(value.data) ? Object.keys(value.data).slice(0, 20).join(', ') : '';
      const missing = fail('not_found', `part \`${pointer}\` not found; the result has: ${names}`);
      return markFailure(missing, value.meta.descriptor);
    }
    part = elementOf(part, key);
  }
  return ok(part);
}

export interface Piece {
  /** JSON pointer of the part. Empty: the whole result. */
  field: string;
  offset: number;
  length: number;
}

/** Returns a piece of an artifact, with the labels of the part that it comes from. */
export async function readPiece(
  thread: OwnJournal,
  hash: string,
  { field, offset, length }: Piece,
): Promise<Outcome<Value>> {
  const { ports, place } = thread;
  if (field !== '' && !field.startsWith('/')) {
    return fail(
      'invalid_input',
      `\`field\` cannot be \`${field}\`; start it with /, such as /content`,
    );
  }
  const stored = await storedResult(ports, place.id, hash);
  if (!stored.ok) return stored;
  // A file is shown again as a whole. A stored result is a JSON object.
  if (stored.output === 'file') {
    const match = await findFile(thread, hash);
    if (!match.ok) return match;
    const { file, marks } = match.output;
    return ok(withFiles(makeValue(fileValue(file), { descriptor: marks }), [file]));
  }
  const { content, marks, facts } = stored.output;
  const part = partOf(restoreFields(content, unpackMarks(marks), facts), field);
  if (!part.ok) return part;
  const { text, meta } = part.output;
  // The piece is below the size at which a result is stored.
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
  // Only the text can be untrusted. The position comes from the harness.
  const piece = carries(descriptor, 'untrusted') ? { free_text: ['text'] } : undefined;
  return ok(restoreFields(output, descriptor, piece));
}

const OBJECT_START = '{'.charCodeAt(0);

interface Artifact {
  readonly content: Json;
  readonly marks: Json;
  readonly facts?: ResultFacts | undefined;
}

/** Returns a stored result. `event:214` is the result of that event in the thread's own journal. */
async function storedResult(
  ports: Pick<HarnessPorts, 'store'>,
  thread: string,
  name: string,
): Promise<Outcome<Artifact | 'file'>> {
  const seq = /^event:(\d{1,12})$/.exec(name)?.[1];
  if (seq === undefined) {
    const bytes = await ports.store.artifact(thread, name);
    if (!bytes.ok) return bytes;
    if (bytes.output[0] !== OBJECT_START) return ok('file');
    return ok(JSON.parse(Buffer.from(bytes.output).toString()) as Artifact);
  }
  const read = await ports.store.read(thread, { after: Number(seq) - 1, types: ['tool_result'] });
  const stored = read.ok ? read.output[0] : undefined;
  const event = stored?.seq === Number(seq) ? decode(stored) : undefined;
  if (!event?.ok || event.output.type !== 'tool_result') {
    return fail(
      'not_found',
      `event ${seq} of this thread is not a result; use the name in the reference`,
    );
  }
  const { data } = event.output;
  return ok({ ...data, content: await wholeResult(ports, thread, data.content) });
}
