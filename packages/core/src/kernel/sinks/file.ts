// Appends a stream to a file. Writes are synchronous and batched, so an event costs no promise. On every
// outcome of the call everything is written and the file is closed. After `flush_every` events the batch
// is written as soon as the events of the same burst were added: a burst costs one write, and no event
// waits for a later one.
import { createHash, type Hash } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { diskReason, fail, getOwn, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { resolveProjectPath } from '../rights/project-path.ts';
import {
  choiceField,
  countField,
  type Sink,
  type SinkContext,
  type SinkFactory,
  type StreamEvent,
} from '../sink.ts';

/** Writes some of the bytes and returns their number. A full disk may write a part without an error. */
type WriteSome = (fd: number, bytes: Uint8Array, offset: number) => number;

/** Returns the folder, relative to the project, that a stream of this id may write to without a right. */
export type OwnFolder = (id: string) => string;

const TYPE = 'file_sink';
const THREAD_ID = /^[A-Za-z0-9_-]{1,80}$/;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDWR } = constants;
/** Maximum size of waiting text, written even before `flush_every` events. */
const MAX_WAITING = 1024 * 1024;
/** Size of the reused buffer. A burst fits if it has at most three bytes per character. */
const SCRATCH = 256 * 1024;

/** Returns the path: inside of the project, with the thread's id filled in, and allowed. */
function placeOf(
  destination: JsonObject,
  { projectRoot, threadId, verify }: SinkContext,
  ownFolder: OwnFolder | undefined,
): Outcome<{ absolute: string; relative: string }> {
  const path = getOwn(destination, 'path');
  if (typeof path !== 'string') return fail('config_invalid', 'a file sink needs a `path`');
  if (path.includes('{thread_id}') && (threadId === undefined || !THREAD_ID.test(threadId))) {
    return fail(
      'invalid_input',
      `path \`${path}\` needs a thread id, but no thread makes this call`,
    );
  }
  const place = resolveProjectPath(projectRoot, path.replaceAll('{thread_id}', threadId ?? ''));
  if (!place.ok) return place;
  const isOwn =
    threadId !== undefined &&
    THREAD_ID.test(threadId) &&
    ownFolder !== undefined &&
    place.output.relative.startsWith(`${ownFolder(threadId)}/`);
  if (isOwn) return place;
  const allowed = verify({ capability: 'fs.write', scope: { path: place.output.relative } });
  return allowed.ok ? place : allowed;
}

/**
 * Returns one line per event: the data itself if it is JSON, otherwise the data as a JSON string. Data
 * that looks like an object on one line is written unchanged, because parsing every event would be most
 * of the cost of a stream. Readers of the file must expect the format of the server.
 */
function jsonLine({ data }: StreamEvent): string {
  const isOneLine = !data.includes('\n');
  const last = data.length - 1;
  if (isOneLine && data.charCodeAt(0) === 123 && data.charCodeAt(last) === 125) return data;
  try {
    const value: unknown = JSON.parse(data);
    // A line break in JSON is only white space, but it would end the line.
    return isOneLine ? data : JSON.stringify(value);
  } catch {
    return JSON.stringify(data);
  }
}

const rawLine = ({ data }: StreamEvent): string => data;

/** Opens a file for appending. After an incomplete line, which a crash leaves, a new line begins. */
function openForAppend(path: string): { fd: number; lead: string } {
  mkdirSync(dirname(path), { recursive: true });
  const fd = openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  const stat = fstatSync(fd);
  if (!stat.isFile()) {
    closeSync(fd);
    throw new Error('not a regular file');
  }
  if (stat.size === 0) return { fd, lead: '' };
  const last = Buffer.alloc(1);
  readSync(fd, last, 0, 1, stat.size - 1);
  return { fd, lead: last[0] === 10 ? '' : '\n' };
}

/** Returns the number of written bytes. It is lower than the size if the disk is full. */
function writeAll(
  fd: number,
  bytes: Uint8Array,
  write: WriteSome,
): { done: number; cause?: unknown } {
  let done = 0;
  try {
    while (done < bytes.length) {
      const wrote = write(fd, bytes, done);
      if (wrote <= 0) throw new Error(`only ${done} of ${bytes.length} bytes were written`);
      done += wrote;
    }
  } catch (cause) {
    return { done, cause };
  }
  return { done };
}

/** Returns the number of complete lines, and of their bytes, within the first `done` bytes. */
function wholeLines(waiting: Waiting, start: number, done: number) {
  let [count, size, at] = [0, Math.min(start, done), 0];
  for (const end of waiting.ends.slice(0, waiting.count)) {
    const next = size + Buffer.byteLength(waiting.text.slice(at, end));
    if (next > done) break;
    [count, size, at] = [count + 1, next, end];
  }
  return { count, size };
}

/** Waiting lines, each with its line break, and the end of each in the text. */
interface Waiting {
  text: string;
  count: number;
  /** Ends of the lines; the first `count` are valid. The list never shrinks, so that it rarely grows. */
  readonly ends: number[];
}

interface FileOptions {
  flushEvery: number;
  line: (event: StreamEvent) => string;
  write: WriteSome;
}

function createSink(place: { absolute: string; relative: string }, options: FileOptions): Sink {
  const { flushEvery, line, write } = options;
  let [delivered, dropped] = [0, 0];
  const waiting: Waiting = { text: '', count: 0, ends: [] };
  let scratch: Buffer | undefined;
  let lead = '';
  let fd: number | undefined;
  let hash: Hash | undefined;
  let error: string | undefined;

  function giveUp(cause: unknown): void {
    error ??= `cannot write \`${place.relative}\`: ${diskReason(cause)}`;
    dropped += waiting.count;
    [waiting.text, waiting.count] = ['', 0];
  }

  /** Returns bytes that are valid until the next call. */
  function encode(text: string): Uint8Array {
    if (text.length * 3 > SCRATCH) return Buffer.from(text);
    scratch ??= Buffer.allocUnsafeSlow(SCRATCH);
    return scratch.subarray(0, scratch.write(text));
  }

  function writeOut(file: number): void {
    const bytes = encode(lead + waiting.text);
    const { done, cause } = writeAll(file, bytes, write);
    const whole =
      cause === undefined
        ? { count: waiting.count, size: bytes.length }
        : wholeLines(waiting, lead.length, done);
    hash?.update(bytes.subarray(0, whole.size));
    delivered += whole.count;
    if (cause === undefined) return;
    waiting.count -= whole.count;
    giveUp(cause);
    // The next text would be appended to a torn line. If this fails too, the next open begins a new line.
    if (done > whole.size) ftruncateSync(file, fstatSync(file).size - (done - whole.size));
  }

  function flush(): void {
    if (waiting.count === 0 || error !== undefined) return;
    try {
      if (fd === undefined) {
        ({ fd, lead } = openForAppend(place.absolute));
        hash = createHash('sha256');
      }
      writeOut(fd);
      [waiting.text, waiting.count, lead] = ['', 0, ''];
    } catch (cause) {
      giveUp(cause);
    }
  }

  function take(event: StreamEvent): void {
    if (error !== undefined) {
      dropped++;
      return;
    }
    waiting.text += line(event);
    waiting.text += '\n';
    waiting.ends[waiting.count++] = waiting.text.length;
    if (waiting.text.length >= MAX_WAITING) flush();
    else if (waiting.count === flushEvery) queueMicrotask(flush);
  }

  return {
    type: TYPE,
    write(events) {
      for (const event of events) take(event);
    },
    async close() {
      flush();
      try {
        if (fd !== undefined) closeSync(fd);
      } catch (cause) {
        giveUp(cause);
      }
      const report = { type: TYPE, delivered, dropped, path: place.relative };
      // The hash covers the text of this sink: the whole content unless the file existed before.
      const file = hash && { ...place, sha256: hash.digest('hex') };
      return { ...report, ...(file && { file }), ...(error !== undefined && { error }) };
    },
  };
}

const writeSome: WriteSome = (fd, bytes, offset) => writeSync(fd, bytes, offset);

/** Creates file sinks. `write` writes to the disk; tests replace it by a full disk. */
export const createFileSinkFactory =
  (ownFolder?: OwnFolder, write: WriteSome = writeSome): SinkFactory =>
  async (destination, context) => {
    const format = choiceField(destination, 'format', ['jsonl', 'raw']);
    if (!format.ok) return format;
    const flushEvery = countField(destination, 'flush_every', 10);
    if (!flushEvery.ok) return flushEvery;
    const place = placeOf(destination, context, ownFolder);
    if (!place.ok) return place;
    const line = format.output === 'jsonl' ? jsonLine : rawLine;
    const announced = await context.willWrite?.(place.output.absolute);
    if (announced?.ok === false) return announced;
    return ok(createSink(place.output, { flushEvery: flushEvery.output, line, write }));
  };
