// The content of a file, at a place that was judged before. What a model reads is small: opening and
// reading it here costs less than handing each step to another thread, so only what is large waits.
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  read,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import {
  diskFault,
  errnoOf,
  type Failure,
  fail,
  getOwn,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { describe, fileLabels, inodeOf, markFailure, mergeAll } from '../../flow/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import { resolveProjectPath } from '../rights/project-path.ts';

// Opening a place without losing it on the way. Between asking where a path leads and opening it, a
// folder on the way can be swapped for a link. So the folder is opened first, what was opened is
// compared with what was asked about, and everything else happens relative to that open folder:
// on Linux `/proc/self/fd/N/name` is what `openat` is in C. Elsewhere the full path is used and the
// comparison is the protection. A file that is only read is opened by its path where the system can
// tell what was opened: it is used when that is the very place that was asked about.

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Whoever opened it closes the descriptor; the path stays inside whatever happens to its name. */
export interface OpenFolder {
  descriptor: number;
  path: string;
}

/** Where to look for the names of an open folder; undefined when it is not the one that was meant. */
function anchorOf(folder: number, absolute: string): string | undefined {
  const via = `/proc/self/fd/${folder}`;
  try {
    return readlinkSync(via) === absolute ? via : undefined;
  } catch {
    // No such place on this system: the same folder by identity, at a path without links.
    const [held, there] = [fstatSync(folder), statSync(absolute)];
    const same = held.dev === there.dev && held.ino === there.ino;
    return same && realpathSync.native(absolute) === absolute ? absolute : undefined;
  }
}

/** Opens the folder at a real path; `shown` is the path for messages. */
export function openFolder(absolute: string, shown: string): Outcome<OpenFolder> {
  let descriptor: number | undefined;
  let path: string | undefined;
  try {
    descriptor = openSync(absolute, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    path = anchorOf(descriptor, absolute);
    return path === undefined ? diskFault({ code: 'ELOOP' }, shown) : ok({ descriptor, path });
  } catch (error) {
    return diskFault(error, shown);
  } finally {
    if (descriptor !== undefined && path === undefined) closeSync(descriptor);
  }
}

/** Opens the folder a file is to be written to, making what is missing, one level after the other. */
export function makeFolder(absolute: string, shown: string): Outcome<OpenFolder> {
  const existing = openFolder(absolute, shown);
  if (existing.ok || existing.error.code !== 'not_found') return existing;
  const parent = makeFolder(dirname(absolute), shown);
  if (!parent.ok) return parent;
  try {
    mkdirSync(join(parent.output.path, basename(absolute)));
  } catch (error) {
    // Somebody else made it: fine if it is a folder.
    if (errnoOf(error) !== 'EEXIST') return diskFault(error, shown);
  } finally {
    closeSync(parent.output.descriptor);
  }
  return openFolder(absolute, shown);
}

const CHUNK = 64 * 1024;
/** What is read before anything else gets a turn. */
const AT_ONCE = 256 * 1024;
/** Beyond this a file is for `grep` or a program, not for a model. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** An open regular file; whoever opened it closes it. */
export interface OpenFile {
  descriptor: number;
  size: number;
  mtimeMs: number;
  inode: string | undefined;
}

const FILE_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;

/** A descriptor of what is at a real path; undefined when that cannot be told, or when it was moved. */
function openAsMeant(absolute: string): number | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(absolute, FILE_FLAGS);
    if (readlinkSync(`/proc/self/fd/${descriptor}`) === absolute) return descriptor;
  } catch {
    // Through its folder the reason comes out.
  }
  if (descriptor !== undefined) closeSync(descriptor);
  return undefined;
}

/** The same relative to its open folder: whatever becomes of the file's own name meanwhile. */
function openInFolder(absolute: string, shown: string): Outcome<number> {
  const folder = openFolder(dirname(absolute), shown);
  if (!folder.ok) return folder;
  try {
    return ok(openSync(join(folder.output.path, basename(absolute)), FILE_FLAGS));
  } catch (error) {
    return diskFault(error, shown);
  } finally {
    closeSync(folder.output.descriptor);
  }
}

/** Opens a regular file for reading. A pipe or device neither blocks nor gets read. */
export function openFile(absolute: string, shown: string): Outcome<OpenFile> {
  const meant = openAsMeant(absolute);
  const opened = meant === undefined ? openInFolder(absolute, shown) : ok(meant);
  if (!opened.ok) return opened;
  const descriptor = opened.output;
  const stats = fstatSync(descriptor);
  const { size, mtimeMs } = stats;
  if (stats.isFile()) return ok({ descriptor, size, mtimeMs, inode: inodeOf(stats) });
  closeSync(descriptor);
  const what = stats.isDirectory() ? 'a folder' : 'not a regular file';
  return fail('invalid_input', `\`${shown}\` is ${what}`, { path: shown });
}

/** The whole of a small file; undefined for a larger one, and for one that is growing. */
export function readAtOnce({ descriptor, size }: OpenFile): Buffer | undefined {
  if (size > CHUNK) return undefined;
  const buffer = Buffer.allocUnsafe(size + 1);
  const count = readSync(descriptor, buffer, 0, size + 1, 0);
  return count === size ? buffer.subarray(0, size) : undefined;
}

const readLater = promisify(read);

/**
 * Hands the content on in pieces, which are gone afterwards; ends early with what `take` answers.
 * Stops at the bound even when the file grows while it is read. Throws what the system says.
 */
export async function eachChunk(
  { descriptor, size }: OpenFile,
  take: (chunk: Uint8Array) => Failure | undefined,
): Promise<Failure | undefined> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK, size + 1));
  for (let position = 0; position < MAX_FILE_BYTES; ) {
    const count =
      position < AT_ONCE
        ? readSync(descriptor, buffer, 0, buffer.length, position)
        : (await readLater(descriptor, buffer, 0, buffer.length, position)).bytesRead;
    if (count === 0) return undefined;
    position += count;
    const ended = take(buffer.subarray(0, count));
    if (ended) return ended;
  }
  return undefined;
}

/** A function at the end of a bundle tool's chain. It asks the verifier about the real place it touches. */
export type BuiltinFunction = (call: PrimitiveCall) => Promise<Outcome<PrimitiveResult>>;

/** Parameters were checked against the tool's schema; these only give them their types back. */
export function textOf(parameters: JsonObject, name: string, fallback = ''): string {
  const value = getOwn(parameters, name);
  return typeof value === 'string' ? value : fallback;
}

export const isSet = (parameters: JsonObject, name: string): boolean =>
  getOwn(parameters, name) === true;

/** A whole number, held between bounds that protect the process. */
export function countOf(
  parameters: JsonObject,
  name: string,
  { fallback, min = 0, max }: { fallback: number; min?: number; max: number },
): number {
  const value = getOwn(parameters, name);
  if (typeof value !== 'number' || !Number.isFinite(value)) return fallback;
  return Math.min(max, Math.max(min, Math.trunc(value)));
}

export const cancelled = (): Failure => fail('cancelled', 'the call was cancelled');

/** Where a result came from, in the words that labels and provenance use. */
export function fileMarks(
  { projectRoot }: Pick<PrimitiveCall, 'projectRoot'>,
  paths: Iterable<string>,
): { labels: string[]; sources: string[] } {
  const labels = new Set(['src:file']);
  const sources = new Set<string>();
  for (const path of paths) {
    sources.add(`file:${path}`);
    for (const label of fileLabels(projectRoot, path)) labels.add(label);
  }
  return { labels: [...labels], sources: [...sources] };
}

/** That something is not there, or is not what was expected, is told by its folder. */
function markLook(call: PrimitiveCall, failure: Failure): Failure {
  const place = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  // A refusal comes before any look.
  if (!place.ok || failure.error.code === 'permission_denied') return failure;
  const { absolute } = place.output;
  const own = describe({ taint: fileLabels(call.projectRoot, absolute) });
  const seen = call.seen?.([], [dirname(absolute)]);
  return markFailure(failure, mergeAll(seen ? [own, seen] : [own]));
}

/** What it says when it fails is marked too. */
export const marking =
  (work: BuiltinFunction): BuiltinFunction =>
  async (call) => {
    const done = await work(call);
    return done.ok ? done : markLook(call, done);
  };
