// Opens and reads files at paths that were judged before. Small files are read synchronously, which costs
// less than handing each step to another thread. Only large files are read asynchronously.
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

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/**
 * An open folder. A link that replaces a folder on the way cannot redirect a path below it: on Linux the
 * path is `/proc/self/fd/N`, elsewhere the identity of the folder is compared. The caller that opened it
 * closes the descriptor.
 */
export interface OpenFolder {
  descriptor: number;
  path: string;
}

/**
 * Returns the path under which names of an open folder are looked up. Undefined if the descriptor is not
 * the folder at `absolute`.
 */
function anchorOf(folder: number, absolute: string): string | undefined {
  const via = `/proc/self/fd/${folder}`;
  try {
    return readlinkSync(via) === absolute ? via : undefined;
  } catch {
    // Without `/proc` the folder is compared by identity, at a path without links.
    const [openStats, there] = [fstatSync(folder), statSync(absolute)];
    const same = openStats.dev === there.dev && openStats.ino === there.ino;
    return same && realpathSync.native(absolute) === absolute ? absolute : undefined;
  }
}

/** Opens the folder at a real path. `displayPath` is the path for messages. */
export function openFolder(absolute: string, displayPath: string): Outcome<OpenFolder> {
  let descriptor: number | undefined;
  let path: string | undefined;
  try {
    descriptor = openSync(absolute, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    path = anchorOf(descriptor, absolute);
    return path === undefined
      ? diskFault({ code: 'ELOOP' }, displayPath)
      : ok({ descriptor, path });
  } catch (error) {
    return diskFault(error, displayPath);
  } finally {
    if (descriptor !== undefined && path === undefined) closeSync(descriptor);
  }
}

/** Opens the folder for a file that is written. Missing folders are created level by level. */
export function makeFolder(absolute: string, displayPath: string): Outcome<OpenFolder> {
  const existing = openFolder(absolute, displayPath);
  if (existing.ok || existing.error.code !== 'not_found') return existing;
  const parent = makeFolder(dirname(absolute), displayPath);
  if (!parent.ok) return parent;
  try {
    mkdirSync(join(parent.output.path, basename(absolute)));
  } catch (error) {
    // Another process created it, which is fine if it is a folder.
    if (errnoOf(error) !== 'EEXIST') return diskFault(error, displayPath);
  } finally {
    closeSync(parent.output.descriptor);
  }
  return openFolder(absolute, displayPath);
}

const CHUNK = 64 * 1024;
/** Up to this size a file is read synchronously. */
const AT_ONCE = 256 * 1024;
/** Larger files are for `grep` or a program, not for a model. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** An open regular file. The caller that opened it closes the descriptor. */
export interface OpenFile {
  descriptor: number;
  size: number;
  mtimeMs: number;
  inode: string | undefined;
}

const FILE_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;

/**
 * Returns a descriptor of the file at a real path. Undefined if the system cannot tell which file was
 * opened, or if it is not the file at that path.
 */
function openVerified(absolute: string): number | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(absolute, FILE_FLAGS);
    if (readlinkSync(`/proc/self/fd/${descriptor}`) === absolute) return descriptor;
  } catch {
    // `openInFolder` reports the reason.
  }
  if (descriptor !== undefined) closeSync(descriptor);
  return undefined;
}

/** Opens a file relative to its open folder, so that a swapped folder cannot redirect it. */
function openInFolder(absolute: string, displayPath: string): Outcome<number> {
  const folder = openFolder(dirname(absolute), displayPath);
  if (!folder.ok) return folder;
  try {
    return ok(openSync(join(folder.output.path, basename(absolute)), FILE_FLAGS));
  } catch (error) {
    return diskFault(error, displayPath);
  } finally {
    closeSync(folder.output.descriptor);
  }
}

/** Opens a regular file for reading. A pipe or device is refused without blocking. */
export function openFile(absolute: string, displayPath: string): Outcome<OpenFile> {
  const verified = openVerified(absolute);
  const opened = verified === undefined ? openInFolder(absolute, displayPath) : ok(verified);
  if (!opened.ok) return opened;
  const descriptor = opened.output;
  const stats = fstatSync(descriptor);
  const { size, mtimeMs } = stats;
  if (stats.isFile()) return ok({ descriptor, size, mtimeMs, inode: inodeOf(stats) });
  closeSync(descriptor);
  const what = stats.isDirectory() ? 'a folder' : 'not a regular file';
  return fail('invalid_input', `\`${displayPath}\` is ${what}`, { path: displayPath });
}

/** Returns the content of a small file. Undefined if the file is larger or grows. */
export function readAtOnce({ descriptor, size }: OpenFile): Buffer | undefined {
  if (size > CHUNK) return undefined;
  const buffer = Buffer.allocUnsafe(size + 1);
  const count = readSync(descriptor, buffer, 0, size + 1, 0);
  return count === size ? buffer.subarray(0, size) : undefined;
}

const readLater = promisify(read);

/**
 * Passes the content to `take` in pieces, which are valid only during the call. Ends early if `take`
 * returns a value. Stops at the bound even if the file grows. Throws errors of the system.
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

/**
 * A function at the end of a tool chain of the bundle. It checks the right to the real path that it uses.
 */
export type BuiltinFunction = (call: PrimitiveCall) => Promise<Outcome<PrimitiveResult>>;

/** Returns a text parameter. Like the next functions it only restores the type; the schema was checked before. */
export function textOf(parameters: JsonObject, name: string, fallback = ''): string {
  const value = getOwn(parameters, name);
  return typeof value === 'string' ? value : fallback;
}

export const isSet = (parameters: JsonObject, name: string): boolean =>
  getOwn(parameters, name) === true;

/** Returns a whole number between bounds that protect the process. */
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

/** Returns the labels and sources of a result that was read from these files. */
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

/** Marks a failure with the marks of the folder, because the failure reveals what the folder contains. */
function markLook(call: PrimitiveCall, failure: Failure): Failure {
  const place = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  // A refusal is made before the folder is read.
  if (!place.ok || failure.error.code === 'permission_denied') return failure;
  const { absolute } = place.output;
  const own = describe({ taint: fileLabels(call.projectRoot, absolute) });
  const marks = call.seen?.([], [dirname(absolute)]);
  return markFailure(failure, mergeAll(marks ? [own, marks] : [own]));
}

/** Wraps a file function so that its failures are marked too. */
export const marking =
  (work: BuiltinFunction): BuiltinFunction =>
  async (call) => {
    const result = await work(call);
    return result.ok ? result : markLook(call, result);
  };
