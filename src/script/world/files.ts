// Files as scripts see them. Reading is synchronous: a script waits for its file anyway, and a
// promise per file would cost more than the file.
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
import { dirname, join } from 'node:path';
import { errnoOf, fail, literalPrefix, matchGlob, type Outcome, ok } from '../../base/index.ts';
import {
  type Descriptor,
  describe,
  EMPTY,
  fileLabels,
  type LabelRecords,
  mergeAll,
} from '../../flow/index.ts';
import type { LoadedText, ScriptWorld } from '../world.ts';
import type { Access, FilePlace } from './access.ts';

const MAX_FILE = 32 * 1024 * 1024;
const MAX_ENTRIES = 200_000;
const MAX_DEPTH = 64;
/** Not looked into unless the pattern names them. */
const SKIPPED = ['node_modules', '.git'];

function diskFault(error: unknown, path: string) {
  const code = errnoOf(error);
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return fail('not_found', `there is no file \`${path}\``, { path });
  if (code === 'EISDIR') return fail('invalid_input', `\`${path}\` is a folder`, { path });
  return fail('tool_failed', `\`${path}\` cannot be read: ${code}`, { path });
}

/** The bytes at a real path, and nothing else: what was opened is compared with what was allowed. */
function bytesAt(absolute: string, shown: string): Outcome<Buffer> {
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  let descriptor: number | undefined;
  try {
    descriptor = openSync(absolute, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const info = fstatSync(descriptor);
    if (info.isDirectory())
      return fail('invalid_input', `\`${shown}\` is a folder`, { path: shown });
    if (!info.isFile()) return fail('invalid_input', `\`${shown}\` is not a regular file`);
    if (info.size > MAX_FILE) {
      return fail('invalid_input', `\`${shown}\` has ${info.size} bytes, more than ${MAX_FILE}`);
    }
    const there = linkOf(descriptor) ?? realpathSync.native(absolute);
    if (there !== absolute)
      return fail('permission_denied', `\`${shown}\` was replaced while it was opened`);
    return ok(readFileSync(descriptor));
  } catch (error) {
    return diskFault(error, shown);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** Linux tells the real path behind an open file. */
function linkOf(descriptor: number): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return undefined;
  }
}

const UNTRUSTED = describe({ labels: ['untrusted'] });

function marksOf(place: FilePlace, bytes: Buffer, labels: LabelRecords): Descriptor {
  const taint = fileLabels(labels.root, place.absolute);
  const own = describe({ taint, sources: [`file:${place.relative}`] });
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const known = labels.recall(place.absolute, sha256) ?? EMPTY;
  return mergeAll([own, known, ...(place.isInside ? [] : [UNTRUSTED])]);
}

/** A name that begins with a dot is matched only by a pattern that says so. */
const isShown = (name: string, rest: string): boolean =>
  !name.startsWith('.') || rest.startsWith('.') || rest.includes('/.');

/** Files below a folder whose absolute path matches; links are not followed. */
function walk(folder: string, rest: string, mayList: (folder: string) => boolean): string[] {
  const pattern = join(folder, rest);
  const found: string[] = [];
  const open = [{ folder, depth: 0 }];
  let seen = 0;
  for (let next = open.pop(); next; next = open.pop()) {
    let entries: Dirent[];
    if (!mayList(next.folder)) continue;
    try {
      entries = readdirSync(next.folder, { withFileTypes: true });
    } catch {
      continue; // gone, or not for us
    }
    for (const entry of entries) {
      if (++seen > MAX_ENTRIES) return found.sort();
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
  return found.sort();
}

type WorldFiles = Pick<ScriptWorld, 'readFile' | 'glob' | 'exists' | 'list'>;

export function createWorldFiles(access: Access, labels: LabelRecords): WorldFiles {
  /** Where a path really leads, if that is a place the script may read. */
  function place(path: string): Outcome<FilePlace> {
    try {
      return access.mayReadReal(realpathSync.native(path), path);
    } catch (error) {
      return diskFault(error, path);
    }
  }

  return {
    readFile(path): Outcome<LoadedText> {
      const allowed = place(path);
      if (!allowed.ok) return allowed;
      const bytes = bytesAt(allowed.output.absolute, path);
      if (!bytes.ok) return bytes;
      const text = new TextDecoder().decode(bytes.output);
      const descriptor = marksOf(allowed.output, bytes.output, labels);
      return ok({ path: allowed.output.absolute, text, descriptor });
    },
    glob(pattern) {
      const prefix = literalPrefix(pattern);
      const folder = prefix.endsWith('/') ? prefix : dirname(prefix);
      try {
        // Matched on real paths, so that a link on the way cannot lead past the check.
        const real = realpathSync.native(folder);
        const rest = pattern.slice(folder.length).replace(/^\//, '');
        const files = walk(real, rest, access.mayListReal);
        return ok(files.filter((file) => access.mayReadReal(file, file).ok));
      } catch (error) {
        return ['ENOENT', 'ENOTDIR'].includes(errnoOf(error)) ? ok([]) : diskFault(error, pattern);
      }
    },
    exists: (path) => place(path).ok,
    list(path) {
      const allowed = place(path);
      if (!allowed.ok) return allowed;
      try {
        const entries = readdirSync(allowed.output.absolute, { withFileTypes: true });
        const named = entries.map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }));
        return ok(named.sort((a, b) => (a.name < b.name ? -1 : 1)));
      } catch (error) {
        return diskFault(error, path);
      }
    },
  };
}
