// A child process is a box: what it could see comes out of it. Its answer, and every file that it
// changed, carry the marks of what went in and of all labelled files in its view. Which files it changed
// is told by two looks at the places it may write; where that would cost too much, the folder itself is
// marked. INVARIANT: until that is done all of those places count as marked, so that neither a kill nor
// somebody who reads meanwhile finds an unlabelled copy.
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

/** Entries looked at, in all writable places together. */
const MAX_ENTRIES = 20_000;
/** More places than this are too many to name one by one. */
const MAX_LEFT = 64;
const MAX_HASHED = 64 * 1024 * 1024;
const MAX_DEPTH = 64;
/** Large, and seldom what a command is about: looked at last. */
const LAST = new Set(['node_modules', '.git', '.venv', 'target', 'vendor']);

export interface Box {
  readonly records: LabelRecords;
  readonly verify: Verifier;
  /** The `dir:` labels that somebody has a rule about. */
  readonly named: readonly string[];
  /** Globs that narrow its view. */
  readonly sees?: readonly string[] | undefined;
  /** No sandbox: it sees whatever it likes. */
  readonly isOpen: boolean;
  readonly mayWrite: boolean;
  readonly given: Descriptor;
  /** Of what it writes besides, known before it starts; its answer has marks of its own. */
  readonly written?: Descriptor;
  /** How many entries are looked at, at most. */
  readonly most?: number;
}

export interface BoxWatch {
  readonly marks: Descriptor;
  /** To be called when it has ended, before anybody hears of it; `more`: marks it got meanwhile. */
  ended(more?: Descriptor): Outcome<null>;
}

type Listing = ReadonlyMap<string, string>;

interface LookedThrough {
  entries: Listing;
  /** Folders that were not looked into any more. */
  left: string[];
}

const slashed = (path: string): string => (sep === '/' ? path : path.replaceAll(sep, '/'));

const stampOf = (info: BigIntStats): string =>
  info.isDirectory()
    ? `${info.ino}`
    : `${info.ino}:${info.size}:${info.mtimeNs}:${info.ctimeNs}:${info.mode}`;

/** Everything below these folders, breadth first, large folders last. */
function look(folders: readonly string[], most: number): LookedThrough {
  const entries = new Map<string, string>();
  const left: string[] = [];
  const open = folders.map((path) => ({ path, depth: 0 }));
  const later: typeof open = [];
  for (let next = open.shift() ?? later.shift(); next; next = open.shift() ?? later.shift()) {
    if (entries.size >= most || next.depth > MAX_DEPTH) {
      left.push(next.path);
      continue;
    }
    let room = most - entries.size;
    for (const entry of namesIn(next.path)) {
      if (room-- <= 0) break;
      const path = join(next.path, entry);
      const info = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      if (!info) continue;
      entries.set(path, stampOf(info));
      // What the runtime keeps is never open to a child.
      if (!info.isDirectory() || entry === '.ai') continue;
      (LAST.has(entry) ? later : open).push({ path, depth: next.depth + 1 });
    }
    if (entries.size >= most) left.push(next.path);
  }
  return { entries, left };
}

/** Of a regular file's content; undefined for what is no file, too large or not for us to read. */
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

const nobodys = (): string => Buffer.from(systemRandom(12)).toString('hex');

/** A name below a glob's beginning that nobody could have meant. */
const sampleOf = (glob: string, name: string): string => glob.replace(/\*+|\?/g, name);

/**
 * What it can look at, as its caller's rights and the tool say. Where nothing is labelled nobody asks,
 * and nothing is worked out.
 */
function viewOf({ verify, sees, isOpen }: Box) {
  let asked: { name: string; globs: readonly string[] | undefined } | undefined;
  const maySee = (place: string): boolean =>
    isOpen ||
    ((sees === undefined || sees.some((glob) => matchGlob(glob, place))) &&
      verify({ capability: 'fs.read', scope: { path: place } }).ok);
  return {
    sees: maySee,
    seesBelow(folder: string): boolean {
      asked ??= { name: nobodys(), globs: verify.globs?.() };
      const { name, globs } = asked;
      if (maySee(folder) || maySee(`${folder}/${name}`) || maySee(`${folder}/${name}/${name}`)) {
        return true;
      }
      // Where nobody knows the globs there may be something further down.
      const inner = globs && [...globs, ...(sees ?? [])].filter((glob) => mayLead(glob, folder));
      return inner?.some((glob) => maySee(sampleOf(glob, name))) ?? true;
    },
  };
}

const mayLead = (glob: string, folder: string): boolean => {
  const prefix = literalPrefix(glob);
  return prefix.startsWith(`${folder}/`) || `${folder}/`.startsWith(prefix);
};

/** Real paths of the outermost folders in which it may write something. */
function writablePlaces({ records, verify, isOpen }: Box): string[] {
  const { root } = records;
  const name = nobodys();
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

/** The fewest folders that hold these, when there are too many of them. */
function fewer(folders: readonly string[], root: string): string[] {
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

/** Notes what changed between two looks. The first fault ends it: then all of it stays marked. */
function note(
  { records, verify, isOpen }: Box,
  before: LookedThrough,
  after: LookedThrough,
  marks: Descriptor,
): Outcome<null> {
  const { root } = records;
  const unseen = fewer([...before.left, ...after.left], root);
  const isUnseen = (path: string): boolean =>
    unseen.some((folder) => path === folder || path.startsWith(folder + sep));
  const mayWrite = (path: string): boolean =>
    isOpen || verify({ capability: 'fs.write', scope: { path: slashed(relative(root, path)) } }).ok;
  for (const folder of unseen) {
    const kept = records.rememberFolder(folder, marks, PERMANENT);
    if (!kept.ok) return kept;
  }
  for (const [path, stamp] of after.entries) {
    const old = before.entries.get(path);
    if (old === stamp || isUnseen(path) || !mayWrite(path)) continue;
    const named = old === undefined ? records.noteName(path, marks) : ok(null);
    if (!named.ok) return named;
    const sha256 = hashOf(path);
    const isFile = stamp.includes(':');
    const kept =
      sha256 !== undefined
        ? records.remember(path, sha256, marks)
        : isFile
          ? records.rememberFolder(path, marks, PERMANENT)
          : ok(null);
    if (!kept.ok) return kept;
  }
  const gone = new Set<string>();
  for (const path of before.entries.keys()) {
    if (!after.entries.has(path) && !isUnseen(path)) gone.add(join(path, '..'));
  }
  for (const folder of gone) {
    const kept = mayWrite(join(folder, nobodys()))
      ? records.noteName(`${folder}${sep}.`, marks)
      : ok(null);
    if (!kept.ok) return kept;
  }
  return ok(null);
}

/** To be called before a child starts. Nothing labelled: it costs a look at the records. */
export function watchBox(box: Box): Outcome<BoxWatch> {
  const { records, given, written = EMPTY, named, isOpen, mayWrite, most = MAX_ENTRIES } = box;
  const marks = mergeDescriptors(given, records.within(viewOf(box), named, isOpen));
  const inFiles = mergeDescriptors(marks, written);
  if (inFiles.taint.length === 0 || !mayWrite) return ok({ marks, ended: () => ok(null) });
  const places = writablePlaces(box);
  const writer = nobodys();
  for (const place of places) {
    const kept = records.rememberFolder(place, inFiles, writer);
    if (!kept.ok) return kept;
  }
  const before = look(places, most);
  return ok({
    marks,
    ended(more = EMPTY) {
      const noted = note(box, before, look(places, most), mergeDescriptors(inFiles, more));
      if (!noted.ok) return noted;
      for (const place of places) {
        const kept = records.rememberFolder(place, EMPTY, writer);
        if (!kept.ok) return kept;
      }
      return ok(null);
    },
  });
}
