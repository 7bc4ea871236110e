// Marks the effects of a child process. Its answer and every file that it changed carry the marks of its
// inputs and of all labelled files that it could read. Two scans of its writable places tell which files it
// changed; if that would cost too much, the folder itself is marked. INVARIANT: until the end all of those
// places always count as marked, so that neither a kill nor a concurrent reader finds an unlabelled copy.
import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, lstatSync, openSync, readSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import {
  literalPrefix,
  matchGlob,
  namesIn,
  type Outcome,
  ok,
  systemRandom,
} from '../../base/index.ts';
import { type Descriptor, EMPTY, type LabelRecords, mergeDescriptors } from '../../flow/index.ts';
import type { Verifier } from '../primitive.ts';

/** Maximum number of scanned entries in all writable places. */
const MAX_ENTRIES = 20_000;
/** Maximum number of places that are marked one by one. */
const MAX_LEFT = 64;
const MAX_HASHED = 64 * 1024 * 1024;
const MAX_DEPTH = 64;
/** Large folders that commands rarely change. They are scanned last. */
const LAST = new Set(['node_modules', '.git', '.venv', 'target', 'vendor']);

export interface Box {
  readonly records: LabelRecords;
  readonly verify: Verifier;
  /** The `dir:` labels that a rule names. */
  readonly named: readonly string[];
  /** Globs that narrow what the process can read. */
  readonly sees?: readonly string[] | undefined;
  /** True without a sandbox: the process can read everything. */
  readonly isOpen: boolean;
  readonly mayWrite: boolean;
  readonly given: Descriptor;
  /** Marks of written files in addition to `given`, known before the start. The answer has its own marks. */
  readonly written?: Descriptor;
  /** Maximum number of entries that are scanned. */
  readonly most?: number;
}

export interface BoxWatch {
  readonly marks: Descriptor;
  /**
   * Called after the end, before the result is returned. `more`: marks that the process received during
   * its run.
   */
  ended(more?: Descriptor): Outcome<null>;
}

type Listing = ReadonlyMap<string, string>;

interface FolderScan {
  entries: Listing;
  left: string[];
}

const slashed = (path: string): string => (sep === '/' ? path : path.replaceAll(sep, '/'));

const stampOf = (info: BigIntStats): string =>
  info.isDirectory()
    ? `${info.ino}`
    : `${info.ino}:${info.size}:${info.mtimeNs}:${info.ctimeNs}:${info.mode}`;

/** Returns everything below these folders, breadth first, large folders last. */
function scan(folders: readonly string[], most: number): FolderScan {
  const entries = new Map<string, string>();
  const skipped: string[] = [];
  const open = folders.map((path) => ({ path, depth: 0 }));
  const later: typeof open = [];
  for (let next = open.shift() ?? later.shift(); next; next = open.shift() ?? later.shift()) {
    if (entries.size >= most || next.depth > MAX_DEPTH) {
      skipped.push(next.path);
      continue;
    }
    let room = most - entries.size;
    for (const entry of namesIn(next.path)) {
      if (room-- <= 0) break;
      const path = join(next.path, entry);
      const info = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      if (!info) continue;
      entries.set(path, stampOf(info));
      // A child can never read the files of the runtime.
      if (!info.isDirectory() || entry === '.ai') continue;
      (LAST.has(entry) ? later : open).push({ path, depth: next.depth + 1 });
    }
    if (entries.size >= most) skipped.push(next.path);
  }
  return { entries, left: skipped };
}

/**
 * Returns the hash of a regular file. Undefined for anything else, and for a file that is too large or
 * unreadable.
 */
function hashOf(path: string): string | undefined {
  const info = lstatSync(path, { throwIfNoEntry: false });
  if (!info?.isFile() || info.size > MAX_HASHED) return undefined;
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, 'r');
    const hash = createHash('sha256');
    const chunk = Buffer.allocUnsafe(1 << 16);
    for (let count = readSync(descriptor, chunk); count > 0; count = readSync(descriptor, chunk)) {
      hash.update(chunk.subarray(0, count));
    }
    return hash.digest('hex');
  } catch {
    return undefined;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

const randomName = (): string => Buffer.from(systemRandom(12)).toString('hex');

/** Returns a path that the glob matches, with an improbable name. */
const sampleOf = (glob: string, name: string): string => glob.replace(/\*+|\?/g, name);

/**
 * Returns what the process can read, by its caller's rights and its tool. It is computed on demand,
 * because without labels nothing needs it.
 */
function viewOf({ verify, sees, isOpen }: Box) {
  let view: { name: string; globs: readonly string[] | undefined } | undefined;
  const maySee = (place: string): boolean =>
    isOpen ||
    ((sees === undefined || sees.some((glob) => matchGlob(glob, place))) &&
      verify({ capability: 'fs.read', scope: { path: place } }).ok);
  return {
    sees: maySee,
    seesBelow(folder: string): boolean {
      view ??= { name: randomName(), globs: verify.globs?.() };
      const { name, globs } = view;
      if (maySee(folder) || maySee(`${folder}/${name}`) || maySee(`${folder}/${name}/${name}`)) {
        return true;
      }
      // Without known globs, a readable path may exist further down.
      const inner = globs && [...globs, ...(sees ?? [])].filter((glob) => mayLead(glob, folder));
      return inner?.some((glob) => maySee(sampleOf(glob, name))) ?? true;
    },
  };
}

const mayLead = (glob: string, folder: string): boolean => {
  const prefix = literalPrefix(glob);
  return prefix.startsWith(`${folder}/`) || `${folder}/`.startsWith(prefix);
};

/** Returns real paths of the outermost folders in which the process may write. */
function writablePlaces({ records, verify, isOpen }: Box): string[] {
  const { root } = records;
  const name = randomName();
  const mayWrite = (path: string): boolean =>
    verify({ capability: 'fs.write', scope: { path } }).ok;
  const globs = verify.globs?.();
  if (isOpen || globs === undefined || mayWrite(name) || mayWrite(`${name}/${name}`)) return [root];
  const folders = globs
    .filter((glob) => mayWrite(sampleOf(glob, name)) || mayWrite(glob))
    .map((glob) =>
      literalPrefix(glob)
        .replace(/[^/]*$/, '')
        .replace(/\/$/, ''),
    );
  if (folders.includes('')) return [root];
  const outer = folders.filter(
    (folder) => !folders.some((one) => folder !== one && folder.startsWith(`${one}/`)),
  );
  return [...new Set(outer)].map((folder) => join(root, folder));
}

/** Replaces folders by their parents until there are few enough. */
function mergeFolders(folders: readonly string[], root: string): string[] {
  let current = [...new Set(folders)];
  while (current.length > MAX_LEFT) {
    const deepest = Math.max(...current.map((path) => path.split(sep).length));
    current = [
      ...new Set(
        current.map((path) =>
          path !== root && path.split(sep).length === deepest ? join(path, '..') : path,
        ),
      ),
    ];
  }
  return current;
}

const PERMANENT = 'box';

/** Records the changes between two scans. The first fault stops it, and all places stay marked. */
function recordChanges(
  { records, verify, isOpen }: Box,
  before: FolderScan,
  after: FolderScan,
  marks: Descriptor,
): Outcome<null> {
  const { root } = records;
  const unseen = mergeFolders([...before.left, ...after.left], root);
  const isUnseen = (path: string): boolean =>
    unseen.some((folder) => path === folder || path.startsWith(folder + sep));
  const mayWrite = (path: string): boolean =>
    isOpen || verify({ capability: 'fs.write', scope: { path: slashed(relative(root, path)) } }).ok;
  for (const folder of unseen) {
    const recorded = records.rememberFolder(folder, marks, PERMANENT);
    if (!recorded.ok) return recorded;
  }
  for (const [path, stamp] of after.entries) {
    const old = before.entries.get(path);
    if (old === stamp || isUnseen(path) || !mayWrite(path)) continue;
    const named = old === undefined ? records.noteName(path, marks) : ok(null);
    if (!named.ok) return named;
    const sha256 = hashOf(path);
    const isFile = stamp.includes(':');
    const recorded =
      sha256 !== undefined
        ? records.remember(path, sha256, marks)
        : isFile
          ? records.rememberFolder(path, marks, PERMANENT)
          : ok(null);
    if (!recorded.ok) return recorded;
  }
  const changedFolders = new Set<string>();
  for (const path of before.entries.keys()) {
    if (!after.entries.has(path) && !isUnseen(path)) changedFolders.add(join(path, '..'));
  }
  for (const folder of changedFolders) {
    const recorded = mayWrite(join(folder, randomName()))
      ? records.noteName(`${folder}${sep}.`, marks)
      : ok(null);
    if (!recorded.ok) return recorded;
  }
  return ok(null);
}

/** Called before a child starts. Without labels it only reads the records. */
export function watchBox(box: Box): Outcome<BoxWatch> {
  const {
    records,
    given: inputMarks,
    written = EMPTY,
    named,
    isOpen,
    mayWrite,
    most = MAX_ENTRIES,
  } = box;
  const marks = mergeDescriptors(inputMarks, records.within(viewOf(box), named, isOpen));
  const inFiles = mergeDescriptors(marks, written);
  if (inFiles.taint.length === 0 || !mayWrite) return ok({ marks, ended: () => ok(null) });
  const places = writablePlaces(box);
  const writer = randomName();
  for (const place of places) {
    const recorded = records.rememberFolder(place, inFiles, writer);
    if (!recorded.ok) return recorded;
  }
  const before = scan(places, most);
  return ok({
    marks,
    ended(more = EMPTY) {
      const saved = recordChanges(box, before, scan(places, most), mergeDescriptors(inFiles, more));
      if (!saved.ok) return saved;
      for (const place of places) {
        const recorded = records.rememberFolder(place, EMPTY, writer);
        if (!recorded.ok) return recorded;
      }
      return ok(null);
    },
  });
}
