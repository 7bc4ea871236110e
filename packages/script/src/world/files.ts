// Reads files for scripts. Reads are synchronous, because a promise for each file would cost more than the
// read.
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  diskFault,
  errnoOf,
  type Failure,
  fail,
  literalPrefix,
  matchGlob,
  type Outcome,
  ok,
  pathWithin,
} from '@kernmantle/core/base';
import {
  type Descriptor,
  describe,
  EMPTY,
  type Frame,
  fileLabels,
  inodeOf,
  type LabelRecords,
  type MaybePromise,
  markFailure,
  mergeAll,
  namedFolders,
} from '@kernmantle/core/flow';
import type { LoadedText, ScriptWorld } from '../world.ts';
import type { Access, ResolvedFile } from './access.ts';

const MAX_FILE = 32 * 1024 * 1024;
const MAX_ENTRIES = 200_000;
const MAX_DEPTH = 64;
/** Folders that a glob skips unless its pattern names them. */
const SKIPPED = ['node_modules', '.git'];

const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(errnoOf(error));

const readFault = (error: unknown, path: string): Failure =>
  isMissing(error)
    ? fail('not_found', `file \`${path}\` not found`, { path })
    : diskFault(error, path);

/** Reads a file. The opened file must be the one at the checked path. */
function bytesAt(
  absolute: string,
  name: string,
): Outcome<{ bytes: Buffer; inode: string | undefined }> {
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  let descriptor: number | undefined;
  try {
    descriptor = openSync(absolute, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const info = fstatSync(descriptor);
    if (info.isDirectory()) return diskFault({ code: 'EISDIR' }, name);
    if (!info.isFile()) return fail('invalid_input', `\`${name}\` is not a regular file`);
    if (info.size > MAX_FILE) {
      return fail('invalid_input', `\`${name}\` has ${info.size} bytes; the limit is ${MAX_FILE}`);
    }
    const realFile = linkOf(descriptor) ?? realpathSync.native(absolute);
    if (realFile !== absolute) return diskFault({ code: 'ELOOP' }, name);
    return ok({ bytes: readFileSync(descriptor), inode: inodeOf(info) });
  } catch (error) {
    return readFault(error, name);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** Returns the real path of an open file; `undefined` if the system is not Linux. */
function linkOf(descriptor: number): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return undefined;
  }
}

const UNTRUSTED = describe({ labels: ['untrusted'] });

function marksOf(place: ResolvedFile, bytes: Buffer, labels: LabelRecords): Descriptor {
  const taint = fileLabels(labels.root, place.absolute);
  const own = describe({ taint, sources: [`file:${place.relative}`] });
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const stored = labels.recall(place.absolute, sha256) ?? EMPTY;
  return mergeAll([own, stored, ...(place.isInside ? [] : [UNTRUSTED])]);
}

/** True if a pattern may match the name. A name that starts with a dot needs a dot in the pattern. */
const isShown = (name: string, rest: string): boolean =>
  !name.startsWith('.') || rest.startsWith('.') || rest.includes('/.');

/** Returns the files below a folder whose absolute path matches. Links are not followed. */
function walk(
  folder: string,
  rest: string,
  mayList: (folder: string) => boolean,
): { found: string[]; folders: string[] } {
  const pattern = join(folder, rest);
  const found: string[] = [];
  const folders: string[] = [];
  const open = [{ folder, depth: 0 }];
  let count = 0;
  for (let next = open.pop(); next; next = open.pop()) {
    let entries: Dirent[];
    if (!mayList(next.folder)) continue;
    try {
      entries = readdirSync(next.folder, { withFileTypes: true });
    } catch {
      continue; // The folder was deleted, or this process cannot read it.
    }
    folders.push(next.folder);
    for (const entry of entries) {
      if (++count > MAX_ENTRIES) return { found: found.sort(), folders };
      const path = join(next.folder, entry.name);
      if (!isShown(entry.name, rest)) continue;
      if (entry.isFile()) {
        if (matchGlob(pattern, path)) found.push(path);
      } else if (entry.isDirectory() && next.depth < MAX_DEPTH) {
        const isSkipped = SKIPPED.includes(entry.name) && !rest.includes(entry.name);
        if (!isSkipped) open.push({ folder: path, depth: next.depth + 1 });
      }
    }
  }
  return { found: found.sort(), folders };
}

/** Resolves the links in the existing part of a path. */
export function nearestReal(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(nearestReal(above), basename(path));
  }
}

type WorldFiles = Pick<ScriptWorld, 'readFile' | 'glob' | 'exists' | 'list'>;

/** Repeats a read if another process recorded marks during it, because marks are recorded before a write. */
function withSharedRecords({ shared }: LabelRecords, files: WorldFiles): WorldFiles {
  if (!shared) return files;
  async function repeatUntilStable<T>(look: () => MaybePromise<T>): Promise<T> {
    let before = await shared?.catchUp();
    for (;;) {
      const result = await look();
      const now = await shared?.catchUp();
      if (now === before) return result;
      before = now;
    }
  }
  return {
    readFile: (path, frame) => repeatUntilStable(() => files.readFile(path, frame)),
    glob: (pattern, frame) => repeatUntilStable(() => files.glob(pattern, frame)),
    exists: (path, frame) => repeatUntilStable(() => files.exists(path, frame)),
    list: (path, frame) => repeatUntilStable(() => files.list(path, frame)),
  };
}

export const createWorldFiles = (access: Access, labels: LabelRecords): WorldFiles =>
  withSharedRecords(labels, createFiles(access, labels));

function createFiles(access: Access, labels: LabelRecords): WorldFiles {
  /** Returns the path relative to the project, for messages. */
  const shortPath = (path: string): string => pathWithin(labels.root, path);

  /** Resolves a path and checks that the script may read it. */
  function place(path: string): Outcome<ResolvedFile> {
    try {
      return access.mayReadReal(realpathSync.native(path), shortPath(path));
    } catch (error) {
      return readFault(error, shortPath(path));
    }
  }

  const folderMarks = (folders: Iterable<string>, frame: Frame): Descriptor =>
    labels.looked(folders, namedFolders(frame));

  /** Returns the marks of a path and its folder, also if nothing exists there. */
  function marksAround(path: string, frame: Frame): Descriptor {
    const real = nearestReal(path);
    const own = describe({ taint: fileLabels(labels.root, real) });
    return mergeAll([own, folderMarks([dirname(real)], frame)]);
  }

  /** Adds marks to a failure. A refusal needs none, because it came before any access. */
  const missing = (path: string, failure: Failure, frame: Frame): Failure =>
    failure.error.code === 'permission_denied'
      ? failure
      : markFailure(failure, marksAround(path, frame));

  return {
    readFile(path, frame): Outcome<LoadedText> {
      const allowed = place(path);
      if (!allowed.ok) return missing(path, allowed, frame);
      const read = bytesAt(allowed.output.absolute, shortPath(path));
      if (!read.ok) return missing(path, read, frame);
      const { bytes, inode } = read.output;
      const text = new TextDecoder().decode(bytes);
      const own = marksOf(allowed.output, bytes, labels);
      const others = inode === undefined ? EMPTY : labels.linked(inode, namedFolders(frame));
      const descriptor = mergeAll([own, others]);
      return ok({ path: allowed.output.absolute, text, descriptor });
    },
    glob(pattern, frame) {
      const prefix = literalPrefix(pattern);
      const folder = prefix.endsWith('/') ? prefix : dirname(prefix);
      try {
        // The pattern is matched on real paths, so that a link cannot bypass the check.
        const real = realpathSync.native(folder);
        const rest = pattern.slice(folder.length).replace(/^\//, '');
        const { found, folders } = walk(real, rest, access.mayListReal);
        return ok({
          found: found.filter((file) => access.mayReadReal(file, file).ok),
          descriptor: folderMarks(folders, frame),
        });
      } catch (error) {
        const descriptor = folderMarks([nearestReal(folder)], frame);
        return isMissing(error)
          ? ok({ found: [], descriptor })
          : diskFault(error, shortPath(pattern));
      }
    },
    exists: (path, frame) => ({ found: place(path).ok, descriptor: marksAround(path, frame) }),
    list(path, frame) {
      const allowed = place(path);
      if (!allowed.ok) return missing(path, allowed, frame);
      try {
        const entries = readdirSync(allowed.output.absolute, { withFileTypes: true });
        const named = entries.map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }));
        const found = named.sort((a, b) => (a.name < b.name ? -1 : 1));
        return ok({ found, descriptor: folderMarks([allowed.output.absolute], frame) });
      } catch (error) {
        return missing(path, readFault(error, shortPath(path)), frame);
      }
    },
  };
}
