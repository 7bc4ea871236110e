// Files whose path somebody else chose. Reading: never a pipe, a socket or a device, never more than a
// bound, and always an answer at once. Every fault about a file is made here.
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

/** `ELOOP` is what the system answers when a link stands where the caller allows none. */
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

/** Why the file system refuses, for a message that names the file itself. */
export const diskReason = (error: unknown): string => {
  const errno = errnoOf(error);
  return REASONS[errno] ?? errno;
};

/** The fault of an operation on a file; `path` is shown as the caller knows it. */
export function diskFault(error: unknown, path: string): Failure {
  const errno = errnoOf(error);
  const [code, message, detail] = FAULTS[errno] ?? [];
  if (code !== undefined) return fail(code, `\`${path}\` ${message}`, { path, ...detail });
  return fail('tool_failed', `\`${path}\`: ${diskReason(error)}`, { path, errno });
}

interface FileProblem {
  code: 'unreadable' | 'not_a_file' | 'too_large';
  message: string;
  /** Of the operating system, e.g. `ENOENT`. */
  errno?: string;
}

type FileBytes = { bytes: Buffer } | { problem: FileProblem };

interface FileBounds {
  /** Bytes. */
  max: number;
  /** Absent: a symlink is not read. It could be swapped in after the path was checked. */
  followsLinks?: boolean;
}

const problem = (code: FileProblem['code'], message: string, errno?: string): FileBytes => ({
  problem: { code, message, ...(errno === undefined ? {} : { errno }) },
});

function unreadable(error: unknown): FileBytes {
  const errno = errnoOf(error);
  return problem('unreadable', `the file cannot be read (${errno})`, errno);
}

/** Undefined when there is more than `max`: a file may grow while it is read. */
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

/** Never throws and never waits. */
export function readRegularFile(path: string, { max, followsLinks }: FileBounds): FileBytes {
  // Without O_NONBLOCK, opening a pipe waits for somebody to write into it.
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
  let descriptor: number;
  try {
    descriptor = openSync(path, O_RDONLY | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW));
  } catch (error) {
    return unreadable(error);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return problem('not_a_file', 'this is not an ordinary file');
    const bytes = stats.size > max ? undefined : readAll(descriptor, stats.size, max);
    return bytes ? { bytes } : problem('too_large', `the file is larger than ${max / 1024} KiB`);
  } catch (error) {
    return unreadable(error);
  } finally {
    closeSync(descriptor);
  }
}

/** Yields the names in a folder one by one; none of a folder that is gone or closed to us. */
export function* namesIn(folder: string): Generator<string> {
  try {
    const opened = opendirSync(folder);
    try {
      for (let entry = opened.readSync(); entry; entry = opened.readSync()) yield entry.name;
    } finally {
      opened.closeSync();
    }
  } catch {
    // The names so far are all that there are.
  }
}

/** Most paths are as `resolve` would leave them, which is much faster to see than to do. */
const settled = (path: string): string =>
  !isAbsolute(path) || /(?:^|[/\\])\.{0,2}(?:[/\\]|$)/.test(path.slice(1)) ? resolve(path) : path;

/** Is `path` this folder or below it? A `..` in either is followed, a link is not. */
export function isInside(path: string, folder: string): boolean {
  const [at, base] = [settled(path), settled(folder)];
  return at === base || at.startsWith(base.endsWith(sep) ? base : `${base}${sep}`);
}

/** A path from this folder where it lies in it, so that it says the same on every machine; else as it is. */
export const pathWithin = (folder: string, path: string): string =>
  path !== folder && isInside(path, folder) ? relative(folder, path) : path;

/**
 * A text in which every path or file URL into `folder` begins with `prefix` instead. A folder whose
 * name only begins like this one stays as it is.
 */
export function withoutFolder(text: string, folder: string, prefix = ''): string {
  if (folder.length < 2) return text;
  const paths = text.replaceAll(pathToFileURL(folder).href, folder);
  if (!paths.includes(folder)) return text;
  return paths.split(folder).reduce((before, after) => {
    if (/^[/\\]/.test(after)) return `${before}${prefix}${after.slice(1)}`;
    return `${before}${/^(?:[\w-]|\.\w)/.test(after) ? folder : prefix || '.'}${after}`;
  });
}

/** A folder, and what stands for it in texts. */
type HiddenPlace = readonly [folder: string, prefix: string];

function shownJson(value: Json, places: readonly HiddenPlace[]): Json {
  if (typeof value === 'string') {
    return places.reduce((text, [folder, prefix]) => withoutFolder(text, folder, prefix), value);
  }
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => shownJson(one, places));
  const shown = Object.entries(value).map(([name, one]) => [name, shownJson(one, places)]);
  return Object.fromEntries(shown) as Json;
}

/** The same failure, in whose texts no path begins with one of these folders. Faults are known by their object. */
export function withoutPlaces(failure: Failure, places: readonly HiddenPlace[]): Failure {
  const { detail } = failure.error;
  for (const [name, value] of Object.entries(detail)) detail[name] = shownJson(value, places);
  return failure;
}
