// Writes the transcript of a thread. A preview replaces each value with its hash and its first characters.
import { hash } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import {
  canonicalJson,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import { parseThreadId } from '../thread-id.ts';

interface Preview {
  /** Hash of the canonical text, so equal values have equal hashes. */
  hash: string;
  characters: number;
  preview: string;
}

export function previewOf(value: Json, redactor: Redactor, max = 200): Preview {
  const text = typeof value === 'string' ? value : canonicalJson(value);
  const isWhole = text.length <= max;
  return {
    hash: `sha256:${hash('sha256', text)}`,
    characters: text.length,
    preview: isWhole ? redactor.text(text) : `${beginningOf(text, redactor, max)}…`,
  };
}

function beginningOf(text: string, redactor: Redactor, max: number): string {
  const start = text.slice(0, max);
  // A secret can extend beyond the cut. The redactor then withholds its start.
  return redactor.isClean(text) ? start : redactor.stream().push(start);
}

/** One line of a transcript. A lost transcript can be written again from the registry. */
export interface TranscriptEvent {
  /** Time of the event in milliseconds since 1970. */
  ts: number;
  seq: number;
  turn: number;
  /** A type of event that the event table has. */
  type: string;
  data: JsonObject;
  /** JSON without secrets that is written instead of `data`. Absent: `data` is redacted. */
  text?: string;
}

export interface Transcript {
  readonly file: string;
  /** Appends events with one write. After a failure the file still ends with a whole line. */
  append(events: readonly TranscriptEvent[]): Outcome<null>;
  close(): void;
}

interface TranscriptOptions {
  /** The folder `.ai/threads` of the project. */
  dir: string;
  thread: string;
  /** Removes secrets from the data of an event. */
  redact: (value: Json) => Json;
}

export const transcriptFile = (dir: string, thread: string): string =>
  join(dir, thread, 'transcript.jsonl');

function toLines(events: readonly TranscriptEvent[], redact: (value: Json) => Json): string {
  let [lines, time, last] = ['', '', Number.NaN];
  for (const { ts, seq, turn, type, data, text = JSON.stringify(redact(data)) } of events) {
    // All events of one commit have the same time.
    if (ts !== last) time = new Date(ts).toISOString();
    last = ts;
    lines += `{"ts":"${time}","seq":${seq},"turn":${turn},"type":"${type}","data":${text}}\n`;
  }
  return lines;
}

const problem = (file: string, error: unknown): Outcome<never> => {
  const { code, message } = error as NodeJS.ErrnoException;
  const kind = code === 'ENOSPC' || code === 'EDQUOT' ? 'disk_full' : 'store_failed';
  return fail(kind, `the transcript \`${file}\` cannot be written: ${message}`, { file });
};

/** Opens a file. The folder usually exists, so it is only created after a failure. */
function openInFolder(file: string, flags: number): number {
  try {
    return openSync(file, flags, 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    return openSync(file, flags, 0o600);
  }
}

// Links and pipes are refused: a link could redirect the lines, and a pipe could block the process.
function openFile(file: string, more = 0): number {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants;
  const flags = O_RDWR | O_CREAT | O_APPEND | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0) | more;
  const handle = openInFolder(file, flags);
  if (fstatSync(handle).isFile()) return handle;
  closeSync(handle);
  throw new Error('it is not a regular file');
}

function writeAll(handle: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) {
    const count = writeSync(handle, bytes, at);
    if (count === 0) throw Object.assign(new Error('the disk is full'), { code: 'ENOSPC' });
    at += count;
  }
}

function endOfLines(handle: number, size: number): number {
  const chunk = Buffer.allocUnsafe(Math.min(size, 1 << 16));
  for (let end = size; end > 0; ) {
    const from = Math.max(0, end - chunk.length);
    const count = readSync(handle, chunk, 0, end - from, from);
    const newline = chunk.subarray(0, count).lastIndexOf(10);
    if (newline !== -1) return from + newline + 1;
    end = from;
  }
  return 0;
}

/** Removes an incomplete last line. The registry still has its event. */
function repair(handle: number): void {
  const { size } = fstatSync(handle);
  const end = endOfLines(handle, size);
  if (end < size) ftruncateSync(handle, end);
}

/** Opens a transcript for writing and repairs its last line. The caller must own the lease of the thread. */
export function createTranscript(options: TranscriptOptions): Outcome<Transcript> {
  const { dir, thread, redact } = options;
  const id = parseThreadId(thread);
  if (!id.ok) return id;
  const file = transcriptFile(dir, thread);
  let handle: number | undefined;
  try {
    handle = openFile(file);
    repair(handle);
  } catch (error) {
    if (handle !== undefined) closeSync(handle);
    return problem(file, error);
  }
  return ok({
    file,
    append(events) {
      if (events.length === 0) return ok(null);
      if (handle === undefined) return problem(file, new Error('it was closed'));
      try {
        writeAll(handle, toLines(events, redact));
        return ok(null);
      } catch (error) {
        try {
          repair(handle);
        } catch {
          // The next process that opens the file repairs it.
        }
        return problem(file, error);
      }
    },
    close() {
      if (handle !== undefined) closeSync(handle);
      handle = undefined;
    },
  });
}

/** Writes the transcript again from the journal. A failure does not change the file. */
export function rebuildTranscript(
  options: TranscriptOptions,
  events: Iterable<TranscriptEvent>,
): Outcome<{ file: string; lines: number }> {
  const id = parseThreadId(options.thread);
  if (!id.ok) return id;
  const file = transcriptFile(options.dir, options.thread);
  const draft = `${file}.draft`;
  let [handle, lines]: [number | undefined, number] = [undefined, 0];
  try {
    rmSync(draft, { force: true });
    handle = openFile(draft, constants.O_EXCL);
    for (const event of events) {
      writeAll(handle, toLines([event], options.redact));
      lines += 1;
    }
    fsyncSync(handle);
    closeSync(handle);
    handle = undefined;
    renameSync(draft, file);
    return ok({ file, lines });
  } catch (error) {
    if (handle !== undefined) closeSync(handle);
    rmSync(draft, { force: true });
    return problem(file, error);
  }
}
