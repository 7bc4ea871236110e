// Reads files at untrusted paths: never a pipe, a socket or a device, never more than a bound, and
// without waiting. It also creates the faults of file operations.
import { closeSync, constants, fstatSync, opendirSync, openSync, readSync } from 'node:fs';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  type ErrorCode,
  errnoOf,
  type Failure,
  fail,
  type Json,
  type JsonObject,
} from './outcome.ts';

/** Faults by system code. `ELOOP` is the code for a link where the caller allows none. */
const FAULTS: Readonly<Record<string, readonly [ErrorCode, string, JsonObject?]>> = {
  ENOENT: ['not_found', 'does not exist'],
  EISDIR: ['invalid_input', 'is a folder'],
  ENOTDIR: ['invalid_input', 'is not a folder'],
  EEXIST: ['invalid_input', 'exists already', { reason: 'exists' }],
  ELOOP: [
    'permission_denied',
    'is a link, or was replaced while it was opened',
    { rule: 'place_changed' },
  ],
};
const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only',
  EACCES: 'the operating system denies access',
  EPERM: 'the operating system denies access',
  EMFILE: 'too many files are open',
  ENAMETOOLONG: 'the name is too long',
};

/** Returns the reason of the file system, for a message that names the file itself. */
export const diskReason = (error: unknown): string => {
  const errno = errnoOf(error);
  return REASONS[errno] ?? errno;
};

/** Returns the fault of a file operation. `path` is the path that the caller used. */
export function diskFault(error: unknown, path: string): Failure {
  const errno = errnoOf(error);
  const [code, message, detail] = FAULTS[errno] ?? [];
  if (code !== undefined) return fail(code, `\`${path}\` ${message}`, { path, ...detail });
  return fail('tool_failed', `\`${path}\`: ${diskReason(error)}`, { path, errno });
}

interface FileProblem {
  code: 'unreadable' | 'not_a_file' | 'too_large';
  message: string;
  /** Code of the operating system, such as `ENOENT`. */
  errno?: string;
}

type FileBytes = { bytes: Buffer } | { problem: FileProblem };

interface FileBounds {
  /** Maximum size in bytes of a file that is read. */
  max: number;
  /** Absent: a symlink is not read, because it could replace the path after its check. */
  followsLinks?: boolean;
}

const problem = (code: FileProblem['code'], message: string, errno?: string): FileBytes => ({
  problem: { code, message, ...(errno === undefined ? {} : { errno }) },
});

function unreadable(error: unknown): FileBytes {
  const errno = errnoOf(error);
  return problem('unreadable', `the file cannot be read (${errno})`, errno);
}

/** Returns undefined for more than `max` bytes, because a file may grow while it is read. */
function readAll(descriptor: number, size: number, max: number): Buffer | undefined {
  const buffer = Buffer.allocUnsafe(Math.min(max, size) + 1);
  let length = 0;
  for (;;) {
    const read = readSync(descriptor, buffer, length, buffer.length - length, null);
    if (read === 0) return buffer.subarray(0, length);
    length += read;
    if (length >= buffer.length) return undefined;
  }
}

/** Reads an ordinary file. Returns a problem for any other path. Never throws and never waits. */
export function readRegularFile(path: string, { max, followsLinks }: FileBounds): FileBytes {
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
  let descriptor: number;
  try {
    descriptor = openSync(path, O_RDONLY | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW));
  } catch (error) {
    return unreadable(error);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return problem('not_a_file', 'the path is not an ordinary file');
    const bytes = stats.size > max ? undefined : readAll(descriptor, stats.size, max);
    return bytes ? { bytes } : problem('too_large', `the file is larger than ${max / 1024} KiB`);
  } catch (error) {
    return unreadable(error);
  } finally {
    closeSync(descriptor);
  }
}

/** Yields the names in a folder one by one. Yields none for a missing or unreadable folder. */
export function* namesIn(folder: string): Generator<string> {
  try {
    const opened = opendirSync(folder);
    try {
      for (let entry = opened.readSync(); entry; entry = opened.readSync()) yield entry.name;
    } finally {
      opened.closeSync();
    }
  } catch {
    // The folder is unreadable, so the list ends here.
  }
}

/** Returns an absolute, normalized path. Most paths are that already, and a test is faster than `resolve`. */
const absolutePath = (path: string): string =>
  !isAbsolute(path) || /(?:^|[/\\])\.{0,2}(?:[/\\]|$)/.test(path.slice(1)) ? resolve(path) : path;

/** True if `path` is this folder or below it. A `..` in either is resolved, a link is not. */
export function isInside(path: string, folder: string): boolean {
  const [at, base] = [absolutePath(path), absolutePath(folder)];
  return at === base || at.startsWith(base.endsWith(sep) ? base : `${base}${sep}`);
}

/** Returns the path relative to this folder if it is inside, so that it is the same on every machine. */
export const pathWithin = (folder: string, path: string): string =>
  path !== folder && isInside(path, folder) ? relative(folder, path) : path;

/** Replaces the folder in every path or file URL of a text by `prefix`. A folder with a longer name stays. */
export function withoutFolder(text: string, folder: string, prefix = ''): string {
  if (folder.length < 2) return text;
  const paths = text.replaceAll(pathToFileURL(folder).href, folder);
  if (!paths.includes(folder)) return text;
  return paths.split(folder).reduce((before, after) => {
    if (/^[/\\]/.test(after)) return `${before}${prefix}${after.slice(1)}`;
    return `${before}${/^(?:[\w-]|\.\w)/.test(after) ? folder : prefix || '.'}${after}`;
  });
}

/** A folder and its replacement in texts. */
type HiddenPlace = readonly [folder: string, prefix: string];

function replaceInJson(value: Json, places: readonly HiddenPlace[]): Json {
  if (typeof value === 'string') {
    return places.reduce((text, [folder, prefix]) => withoutFolder(text, folder, prefix), value);
  }
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => replaceInJson(one, places));
  const fields = Object.entries(value).map(([name, one]) => [name, replaceInJson(one, places)]);
  return Object.fromEntries(fields) as Json;
}

/** Removes these folders from the texts of a failure. An unchanged fault stays the same object. */
export function withoutPlaces(failure: Failure, places: readonly HiddenPlace[]): Failure {
  const { detail } = failure.error;
  for (const [name, value] of Object.entries(detail)) detail[name] = replaceInJson(value, places);
  return failure;
}
