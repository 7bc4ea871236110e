// Reads transcripts, also damaged ones and ones that another process writes.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { fail, isObject, type JsonObject, type Outcome, ok, parseJson } from '../../base/index.ts';
import { parseThreadId } from '../thread-id.ts';
import { transcriptFile } from './transcript.ts';

interface TranscriptLine {
  /** Time in the format ISO 8601. */
  ts: string;
  seq: number;
  turn: number;
  type: string;
  data: JsonObject;
}

interface TranscriptText {
  lines: TranscriptLine[];
  /** Lines that were skipped, because they cannot be read. */
  problems: { offset: number; message: string }[];
  /** True if the file ends in the middle of a line: a write is running or was interrupted. */
  isTorn: boolean;
}

const CHUNK = 1 << 16;

/** Reads at least the last `count` lines from the end. Returns the bytes and their offset. */
function tail(handle: number, count: number): { bytes: Buffer; offset: number } {
  let [offset, lineEnds] = [fstatSync(handle).size, -1];
  const chunks: Buffer[] = [];
  while (offset > 0 && lineEnds < count) {
    const from = Math.max(0, offset - CHUNK);
    const chunk = Buffer.alloc(offset - from);
    readSync(handle, chunk, 0, chunk.length, from);
    for (const byte of chunk) if (byte === 10) lineEnds += 1;
    chunks.unshift(chunk);
    offset = from;
  }
  return { bytes: Buffer.concat(chunks), offset };
}

function readLine(text: string): Outcome<TranscriptLine> {
  const parsed = parseJson(text);
  if (!parsed.ok) return parsed;
  const { ts, seq, turn, type, data } = isObject(parsed.output) ? parsed.output : {};
  const isLine =
    typeof ts === 'string' &&
    typeof seq === 'number' &&
    typeof turn === 'number' &&
    typeof type === 'string' &&
    isObject(data);
  return isLine ? ok({ ts, seq, turn, type, data }) : fail('invalid_input', 'not an event');
}

function readLines(bytes: Buffer, offset: number): TranscriptText {
  const result: TranscriptText = { lines: [], problems: [], isTorn: false };
  let start = 0;
  // The text after the last line end is incomplete: a write is running or was interrupted.
  for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
    const line = readLine(bytes.toString('utf8', start, end));
    if (line.ok) result.lines.push(line.output);
    else {
      const message = `skipped a line that cannot be read: ${line.error.detail.message}`;
      result.problems.push({ offset: offset + start, message });
    }
    start = end + 1;
  }
  result.isTorn = start < bytes.length;
  return result;
}

/** Returns the last `count` lines. Absent: all. A transcript that does not exist is empty. */
export function readTranscript(
  dir: string,
  thread: string,
  count = Number.POSITIVE_INFINITY,
): Outcome<TranscriptText> {
  const id = parseThreadId(thread);
  if (!id.ok) return id;
  const file = transcriptFile(dir, thread);
  let handle: number | undefined;
  try {
    const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
    handle = openSync(file, O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0));
    const { bytes, offset } = tail(handle, count);
    // The first line may be incomplete, unless it is at the start of the file.
    const skip = offset === 0 ? 0 : bytes.indexOf(10) + 1;
    const { lines, problems, isTorn } = readLines(bytes.subarray(skip), offset + skip);
    return ok({ lines: count === 0 ? [] : lines.slice(-count), problems, isTorn });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return ok({ lines: [], problems: [], isTorn: false });
    return fail('store_failed', `the transcript \`${file}\` cannot be read: ${message}`, { file });
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}
