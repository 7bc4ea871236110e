// Implements `read_file`, and reads content for every built-in file function. The whole file is always hashed,
// also if only a part is returned, because label records are looked up by the hash of the content.
import { isUtf8 } from 'node:buffer';
import { createHash, hash } from 'node:crypto';
import { closeSync, readSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import {
  diskFault,
  type Failure,
  fail,
  fileType,
  nearest,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import { type ProjectPath, resolveProjectPath } from '../rights/project-path.ts';
import {
  cancelled,
  countOf,
  eachChunk,
  fileMarks,
  MAX_FILE_BYTES,
  type OpenFile,
  openFile,
  readAtOnce,
  textOf,
} from './content.ts';
import { entriesOf } from './list.ts';

const MAX_SHOWN_CHARACTERS = 256 * 1024;
const MAX_SHOWN_LINES = 50_000;
const SNIFFED_BYTES = 8192;
const MAX_SIBLINGS = 2000;

/** Returns the real path if the caller has the right. The refusal comes before `not_found`. */
export function placeFor(
  call: PrimitiveCall,
  path: string,
  capability: 'fs.read' | 'fs.write',
): Outcome<ProjectPath> {
  const place = resolveProjectPath(call.projectRoot, path);
  if (!place.ok) return place;
  const allowed = call.verify({ capability, scope: { path: place.output.relative } });
  return allowed.ok ? place : allowed;
}

/** Adds the name that was probably meant, from those that the caller may read. */
export async function suggestSibling(
  call: PrimitiveCall,
  place: ProjectPath,
  failure: Failure,
): Promise<Failure> {
  if (failure.error.code !== 'not_found') return failure;
  const prefix = place.relative.slice(0, -basename(place.relative).length);
  const folder = { absolute: dirname(place.absolute), relative: prefix.slice(0, -1) || '.' };
  const listed = await entriesOf(folder, MAX_SIBLINGS);
  if (!listed.ok) return failure;
  const readable = listed.output.entries.filter(
    ({ relative }) => call.verify({ capability: 'fs.read', scope: { path: relative } }).ok,
  );
  const names = readable.map(({ name }) => name);
  const near = nearest(basename(place.relative), names);
  if (near === undefined) return failure;
  return fail('not_found', `${failure.error.detail.message}; did you mean \`${prefix}${near}\`?`, {
    path: place.relative,
    suggestion: prefix + near,
  });
}

export const looksBinary = (start: Uint8Array): boolean =>
  start.subarray(0, SNIFFED_BYTES).includes(0);

export interface WholeFile extends ProjectPath {
  bytes: Buffer;
  sha256: string;
  mtimeMs: number;
  inode: string | undefined;
}

/** Reads a whole file into memory. A file larger than `maxBytes` is refused, never cut. */
export async function readWhole(place: ProjectPath, maxBytes: number): Promise<Outcome<WholeFile>> {
  const opened = openFile(place.absolute, place.relative);
  if (!opened.ok) return opened;
  const { descriptor, size, mtimeMs, inode } = opened.output;
  const message = `\`${place.relative}\` is larger than ${maxBytes} bytes`;
  const tooLarge = fail('invalid_input', message, { path: place.relative, max_bytes: maxBytes });
  try {
    if (size > maxBytes) return tooLarge;
    const parts: Uint8Array[] = [];
    let length = 0;
    const ended = await eachChunk(opened.output, (chunk) => {
      length += chunk.length;
      parts.push(Uint8Array.from(chunk));
      return length > maxBytes ? tooLarge : undefined;
    });
    if (ended) return ended;
    const bytes = Buffer.concat(parts);
    return ok({ ...place, bytes, sha256: hash('sha256', bytes), mtimeMs, inode });
  } catch (error) {
    return diskFault(error, place.relative);
  } finally {
    closeSync(descriptor);
  }
}

/** A range of lines of a file, and facts about the whole file. */
interface ShownLines {
  content: string;
  total: number;
  /** Number of the last returned line. */
  last: number;
  cut: boolean;
  bytes: number;
  lossy: boolean;
  sha256: string;
}

/** Returns lines of a small file. The bytes must be UTF-8. */
function linesOf(bytes: Buffer, first: number, count: number): ShownLines {
  const text = bytes.toString('utf8');
  const end = first + count - 1;
  let [total, from, to] = [0, text.length, text.length];
  for (let at = 0; at < text.length; ) {
    total++;
    if (total === first) from = at;
    const newline = text.indexOf('\n', at);
    at = newline === -1 ? text.length : newline + 1;
    if (total === end) to = at;
  }
  return {
    content: text.slice(from, to),
    total,
    last: Math.max(first - 1, Math.min(total, end)),
    cut: false,
    bytes: bytes.length,
    lossy: false,
    sha256: hash('sha256', bytes),
  };
}

/** Collects a window of lines from bytes that arrive in pieces. Counts and hashes all bytes. */
function createLineWindow(first: number, count: number) {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const strict = new TextDecoder('utf-8', { fatal: true });
  const content = createHash('sha256');
  const windowLines: string[] = [];
  let [bytes, lossy] = [0, false];
  let [line, size, current, cut, full, atLineStart] = [1, 0, '', false, false, true];
  const isWanted = () => line >= first && line < first + count && !full;
  const finishLine = () => {
    if (isWanted()) {
      const fits = size + current.length <= MAX_SHOWN_CHARACTERS;
      if (fits) windowLines.push(current);
      else if (windowLines.length === 0) {
        windowLines.push(current.slice(0, MAX_SHOWN_CHARACTERS));
        cut = true;
      }
      size += current.length;
      full = !fits;
    }
    current = '';
    line++;
  };
  /** Adds a chunk, or ends the text without one. Invalid UTF-8 is replaced and sets `lossy`. */
  const add = (chunk?: Uint8Array): void => {
    const stream = chunk !== undefined;
    try {
      if (!lossy) strict.decode(chunk, { stream });
    } catch {
      lossy = true;
    }
    const text = decoder.decode(chunk, { stream });
    for (let at = 0; at < text.length; ) {
      const newline = text.indexOf('\n', at);
      const end = newline === -1 ? text.length : newline + 1;
      if (isWanted() && current.length <= MAX_SHOWN_CHARACTERS) current += text.slice(at, end);
      atLineStart = newline !== -1;
      if (newline !== -1) finishLine();
      at = end;
    }
  };
  return {
    push(chunk: Uint8Array): void {
      bytes += chunk.length;
      content.update(chunk);
      add(chunk);
    },
    end(): ShownLines {
      add();
      if (!atLineStart) finishLine();
      const total = line - 1;
      const last = first + windowLines.length - 1;
      const sha256 = content.digest('hex');
      return { content: windowLines.join(''), total, last, cut, bytes, lossy, sha256 };
    },
  };
}

/** Reads lines piece by piece, for files of any size. */
async function streamLines(
  file: OpenFile,
  displayPath: string,
  lines: ReturnType<typeof createLineWindow>,
  signal: AbortSignal,
): Promise<Outcome<ShownLines>> {
  let isFirst = true;
  const ended = await eachChunk(file, (chunk) => {
    if (signal.aborted) return cancelled();
    if (isFirst && looksBinary(chunk)) {
      const message = `\`${displayPath}\` is a binary file; only text can be read`;
      return fail('invalid_input', message, { path: displayPath, binary: true });
    }
    isFirst = false;
    lines.push(chunk);
    return undefined;
  });
  return ended ?? ok(lines.end());
}

/** Files of other types are binary. A thread gets these as base64 and stores them. */
const SHOWN_TYPES = /^(?:image\/(?!svg)|application\/pdf$)/;

/** Returns an image or a PDF for a thread. `undefined`: the file is of another type, or the caller is no thread. */
async function showFile(
  { size }: OpenFile,
  { absolute, relative }: ProjectPath,
  call: PrimitiveCall,
): Promise<Outcome<PrimitiveResult> | undefined> {
  if (call.from?.__thread_id === undefined || size > MAX_SHOWN_BYTES) return undefined;
  const whole = await readWhole({ absolute, relative }, MAX_SHOWN_BYTES);
  if (!whole.ok) return whole;
  const { bytes, sha256, inode } = whole.output;
  const { mime, problem } = fileType(bytes);
  if (!SHOWN_TYPES.test(mime)) return undefined;
  if (problem) {
    const message = `\`${relative}\` is ${problem} ${mime}, which no model can read`;
    return fail('unsupported_input', message, { path: relative, found: `${problem} ${mime}` });
  }
  const content = bytes.toString('base64');
  const output = { path: relative, content, encoding: 'base64', bytes: bytes.length };
  const files = [{ access: 'read' as const, absolute, relative, inode, sha256 }];
  return ok({ output, ...fileMarks(call, [relative]), files });
}
const MAX_SHOWN_BYTES = 32 * 1024 * 1024;

/** True if a file can be an image or a PDF, so that the whole file is worth reading. */
const mayBeFile = (start: Buffer): boolean =>
  looksBinary(start) || start.toString('latin1', 0, 5) === '%PDF-';

async function showLines(
  file: OpenFile,
  { absolute, relative }: ProjectPath,
  call: PrimitiveCall,
): Promise<Outcome<PrimitiveResult>> {
  const first = countOf(call.parameters, 'offset', { fallback: 1, min: 1, max: 2 ** 40 });
  const count = countOf(call.parameters, 'limit', { fallback: 2000, min: 1, max: MAX_SHOWN_LINES });
  const whole = readAtOnce(file);
  const isPlain = whole !== undefined && isUtf8(whole) && !whole.includes(0);
  const lines = isPlain
    ? ok(linesOf(whole, first, count))
    : await streamLines(file, relative, createLineWindow(first, count), call.signal);
  if (!lines.ok) return lines;
  const { content, total, last, cut, bytes, lossy, sha256 } = lines.output;
  if (first > Math.max(1, total)) {
    const message = `offset ${first} is past the end: \`${relative}\` has ${total} lines`;
    return fail('invalid_input', message, { path: relative, total_lines: total });
  }
  const output = {
    path: relative,
    content,
    start_line: total === 0 ? 0 : first,
    end_line: last,
    total_lines: total,
    bytes,
    truncated: cut || last < total,
    ...(last < total ? { next_offset: last + 1 } : {}),
    ...(cut ? { cut_line: true } : {}),
    ...(lossy ? { invalid_utf8: true } : {}),
  };
  const { inode } = file;
  const files = [{ access: 'read' as const, absolute, relative, inode, sha256 }];
  return ok({ output, ...fileMarks(call, [relative]), files });
}

export async function readFile(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const place = placeFor(call, textOf(call.parameters, 'path'), 'fs.read');
  if (!place.ok) return place;
  const { absolute, relative } = place.output;
  const opened = openFile(absolute, relative);
  if (!opened.ok) return suggestSibling(call, place.output, opened);
  const { descriptor, size } = opened.output;
  try {
    if (size > MAX_FILE_BYTES) {
      const message = `\`${relative}\` has ${size} bytes, more than ${MAX_FILE_BYTES}; use \`fs/grep\``;
      return fail('invalid_input', message, { path: relative, bytes: size });
    }
    const start = Buffer.alloc(SNIFFED_BYTES);
    const head = start.subarray(0, readSync(descriptor, start, 0, SNIFFED_BYTES, 0));
    const shown = mayBeFile(head) ? await showFile(opened.output, place.output, call) : undefined;
    return shown ?? (await showLines(opened.output, place.output, call));
  } catch (error) {
    return diskFault(error, relative);
  } finally {
    closeSync(descriptor);
  }
}
