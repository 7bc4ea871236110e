// What files are known to be made of. A value written to a file leaves its marks here, under real
// path and content hash; whoever reads the same content gets them back. Append-only lines, so several
// processes can write, and a kill in the middle costs at most one torn line.
import { lstatSync } from 'node:fs';
import { dirname, isAbsolute, join, sep } from 'node:path';
import {
  fail,
  isInside,
  isObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
  textsAt,
} from '../../base/index.ts';
import { fileLabels, listingLabels, placeIn } from './file-labels.ts';
import { carries, type Descriptor, describe, EMPTY, mergeAll, mergeDescriptors } from './labels.ts';
import { createLinkedFiles } from './linked-files.ts';
import { createRecordFile, createTail } from './record-file.ts';

export type LabelRecords = ReturnType<typeof createLabelRecords>;

interface KeptLabels {
  readonly descriptor: Descriptor;
  /** Later lines have higher numbers. */
  readonly line: number;
}

interface History {
  readonly byHash: Map<string, KeptLabels>;
  latest: KeptLabels;
}

/** In the place of a content's hash: the line is about the name itself … */
const NAME = 'name';
/** … behind one: the thread that made this content there … */
const MADE = '@';
const IS_MADE = /^[0-9a-f]{64}@/;
/** … or about all that lies there and below; what follows tells the one who wrote it. */
const ALL = '*';

function toLine(path: string, hash: string, descriptor: Descriptor): string {
  const { labels, taint, sources, capability, policyContext } = descriptor;
  return `${JSON.stringify({ path, hash, labels, taint, sources, capability, policyContext })}\n`;
}

const UNTRUSTED = describe({ labels: ['untrusted'] });

interface RecordLine {
  path: string;
  hash: string;
  descriptor: Descriptor;
}

/** A damaged line whose path can still be read counts as a record of untrusted data. */
function readLine(text: string): RecordLine | undefined {
  const parsed = parseJson(text);
  if (parsed.ok && isObject(parsed.output)) {
    const line = parsed.output;
    const { path, hash, capability } = line;
    if (typeof path === 'string' && typeof hash === 'string') {
      const descriptor = describe({
        labels: textsAt(line, 'labels'),
        taint: textsAt(line, 'taint'),
        sources: textsAt(line, 'sources'),
        capability: typeof capability === 'string' ? capability : null,
        policyContext: textsAt(line, 'policyContext'),
      });
      return { path, hash, descriptor };
    }
  }
  const salvaged = /^\{"path":("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  const path = salvaged === undefined ? undefined : parseJson(salvaged);
  return path?.ok && typeof path.output === 'string'
    ? { path: path.output, hash: '', descriptor: UNTRUSTED }
    : undefined;
}

/** Other content at a known path: nobody can say what it is made of, but suspicion stays. */
function suspicion(descriptor: Descriptor, path: string): Descriptor | undefined {
  const labels = ['untrusted', 'secret'].filter((label) => carries(descriptor, label));
  return labels.length === 0 ? undefined : describe({ labels, sources: [`file:${path}`] });
}

/** What of a project somebody can look at; places are from its root, with `/`. */
interface SeenProject {
  sees(place: string): boolean;
  /** Anything in that folder, or further down? */
  seesBelow(folder: string): boolean;
}

/** Sources of a whole view: a few are enough to tell people where to look. */
const MAX_SOURCES = 20;
const bare = new WeakMap<Descriptor, Descriptor>();

/** Labels and taint alone: what decides. */
function bareOf(descriptor: Descriptor): Descriptor {
  const before = bare.get(descriptor);
  if (before) return before;
  const { labels, taint } = descriptor;
  const made = describe({ labels, taint });
  bare.set(descriptor, made);
  return made;
}

/** Folders by name in the marks of a search; beyond that only those that somebody has a rule about. */
const MAX_FOLDERS = 40;

const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/** All lines that were read, by what they are about. */
class LabelIndex {
  readonly known = new Map<string, History>();
  /** By folder: names in it that were made of labelled values. */
  readonly names = new Map<string, Map<string, Descriptor>>();
  /** By place: who wrote that all of it is labelled. */
  readonly whole = new Map<string, Map<string, KeptLabels>>();
  /** By place: which content there was made by which thread. */
  readonly made = new Map<string, Set<string>>();
  lines = 0;

  keep({ path, hash, descriptor }: RecordLine): void {
    const kept = { descriptor, line: ++this.lines };
    if (IS_MADE.test(hash)) this.made.set(path, (this.made.get(path) ?? new Set()).add(hash));
    else if (hash === NAME) this.#keepName(path, descriptor);
    else if (hash.startsWith(ALL)) this.#keepWhole(path, hash, kept);
    else {
      const history = this.known.get(path) ?? { byHash: new Map(), latest: kept };
      history.latest = kept;
      history.byHash.set(hash, kept);
      this.known.set(path, history);
    }
  }

  #keepName(path: string, descriptor: Descriptor): void {
    const inside = this.names.get(dirname(path)) ?? new Map<string, Descriptor>();
    inside.set(path, mergeDescriptors(inside.get(path) ?? EMPTY, descriptor));
    this.names.set(dirname(path), inside);
  }

  #keepWhole(path: string, writer: string, kept: KeptLabels): void {
    const writers = this.whole.get(path) ?? new Map<string, KeptLabels>();
    if (kept.descriptor === EMPTY) writers.delete(writer);
    else writers.set(writer, kept);
    if (writers.size === 0) this.whole.delete(path);
    else this.whole.set(path, writers);
  }

  clear(): void {
    for (const map of [this.known, this.names, this.whole, this.made]) map.clear();
  }

  /** Nothing is said about names and folders: the common case. */
  get isPlain(): boolean {
    return this.names.size + this.whole.size === 0;
  }

  /** Of what was said about all that lies at a place or around it, later than a line. */
  around(path: string, since: number): Descriptor {
    let marks = EMPTY;
    if (this.whole.size === 0) return marks;
    for (let at = path; ; at = dirname(at)) {
      for (const { descriptor, line } of this.whole.get(at)?.values() ?? []) {
        if (line > since) marks = mergeDescriptors(marks, descriptor);
      }
      if (at === dirname(at)) return marks;
    }
  }

  /** Has a file there been known exactly since? */
  hasLater(folder: string, line: number): boolean {
    for (const [path, { latest }] of this.known) {
      if (latest.line > line && isInside(path, folder)) return true;
    }
    return false;
  }

  nameOf(path: string): Descriptor {
    return this.names.get(dirname(path))?.get(path) ?? EMPTY;
  }

  /** Of the names in a folder, as far as they are still there. */
  namesIn(folder: string): Descriptor {
    let marks = EMPTY;
    for (const [path, descriptor] of this.names.get(folder) ?? []) {
      const more = mergeDescriptors(marks, descriptor);
      if (more !== marks && exists(path)) marks = more;
    }
    return marks;
  }

  /** Every place that anything is said about, with what is said. */
  *said(): Generator<readonly [string, Descriptor]> {
    for (const [path, { latest }] of this.known) yield [path, latest.descriptor];
    for (const inside of this.names.values()) yield* inside;
    for (const [path, writers] of this.whole) {
      for (const { descriptor } of writers.values()) yield [path, descriptor];
    }
  }
}

function marksWithin(
  index: LabelIndex,
  root: string,
  { sees, seesBelow }: SeenProject,
  named: readonly string[],
  isOpen: boolean,
): Descriptor {
  let marks = EMPTY;
  const sources: string[] = [];
  for (const [path, descriptor] of index.said()) {
    const more = mergeDescriptors(marks, bareOf(descriptor));
    const place = more === marks ? undefined : placeIn(root, path);
    if (place === undefined || !sees(place) || !exists(path)) continue;
    marks = more;
    if (sources.length < MAX_SOURCES) sources.push(`file:${place}`);
  }
  const folders = named.filter((label) => {
    const folder = label.slice('dir:'.length);
    return isAbsolute(folder) ? isOpen : exists(join(root, folder)) && seesBelow(folder);
  });
  return mergeDescriptors(marks, describe({ taint: folders, sources }));
}

function marksOfLook(
  index: LabelIndex,
  root: string,
  folders: Iterable<string>,
  named: readonly string[],
): Descriptor {
  const labels = new Set<string>();
  let marks = EMPTY;
  for (const folder of folders) {
    const isRoom = labels.size < MAX_FOLDERS;
    if (isRoom || named.length > 0) {
      const own = listingLabels(root, folder);
      for (const label of isRoom ? own : own.filter((one) => named.includes(one))) {
        labels.add(label);
      }
    }
    if (!index.isPlain) marks = mergeAll([marks, index.around(folder, 0), index.namesIn(folder)]);
  }
  return mergeDescriptors(describe({ taint: [...labels] }), marks);
}

function labelledPlaces(index: LabelIndex, root: string, named: readonly string[]) {
  const files = new Map([...index.known].map(([path, { latest }]) => [path, latest.descriptor]));
  const folders = new Map<string, (path: string) => Descriptor>();
  for (const [folder, writers] of index.whole) {
    const marks = mergeAll([...writers.values()].map(({ descriptor }) => descriptor));
    folders.set(folder, () => marks);
  }
  for (const label of named) {
    const folder = label.slice('dir:'.length);
    const ofFile = (path: string) => describe({ taint: fileLabels(root, path) });
    if (!isAbsolute(folder)) folders.set(join(root, folder), ofFile);
  }
  const all = mergeAll([describe({ taint: [...named] }), ...files.values()].map(bareOf));
  return { files, folders, all };
}

/** The lines of a file, those that others append included. */
function createLines(file: string, index: LabelIndex, onReset?: () => void) {
  const tail = createTail(
    file,
    (text) => {
      const line = readLine(text);
      if (line) index.keep(line);
    },
    () => {
      index.clear();
      onReset?.();
    },
  );
  return {
    /** INVARIANT: records that cannot be read never make anything trusted. */
    isCaughtUp(): boolean {
      try {
        tail.catchUp();
        return true;
      } catch {
        return false;
      }
    },
    append(path: string, hash: string, descriptor: Descriptor): Outcome<null> {
      try {
        const line = toLine(path, hash, describe({ ...descriptor, replaced: [] }));
        // A torn line before ours is closed first, so that ours stays readable.
        const records = createRecordFile(file);
        try {
          records.append(tail.isTorn() ? `\n${line}` : line);
        } finally {
          records.close();
        }
        tail.catchUp();
        return ok(null);
      } catch (error) {
        return fail('internal_error', `cannot keep labels: ${messageOf(error)}`, { file });
      }
    },
  };
}

/** Lines that machines share, numbered in the order in which all of them see them. */
export interface SharedLines {
  /** After a number, in order; nothing when there are no more. */
  read(after: number): Promise<Outcome<{ number: number; text: string }[]>>;
  add(lines: readonly string[]): Promise<Outcome<null>>;
}

/** For whoever does something with files: what is remembered is with the others before it is done. */
interface SharedRecords {
  /** To be awaited between what is remembered and what it is about. */
  keep(): Promise<Outcome<null>>;
  /** Reads what others have written; the answer changes when there was anything. */
  catchUp(): Promise<number>;
}

/** Where a project lies differs from machine to machine: places in it begin with this. */
const HERE = './';
const toShared = (root: string, path: string): string =>
  path === root || path.startsWith(root + sep)
    ? HERE + path.slice(root.length + 1).replaceAll(sep, '/')
    : path;
const fromShared = (root: string, path: string): string =>
  path === HERE ? root : path.startsWith(HERE) ? root + sep + path.slice(HERE.length) : path;

/**
 * The lines that all machines have, and what this one is about to add; a file of earlier times still
 * counts. INVARIANT: the index is the lines of all in their order, then our own that are not there yet.
 */
function createSharedLines(file: string, root: string, index: LabelIndex, lines: SharedLines) {
  const mine: RecordLine[] = [];
  const texts: string[] = [];
  let [after, isFollowing] = [0, false];
  let last: Promise<unknown> = Promise.resolve();
  const older = createLines(file, index, () => {
    [after, isFollowing] = [0, false];
    for (const line of mine) index.keep(line);
  });

  async function read(): Promise<number> {
    isFollowing = older.isCaughtUp() && isFollowing;
    for (;;) {
      const from = after;
      const page = await lines.read(from);
      // The file was replaced meanwhile: all of it is read again.
      if (from !== after) continue;
      isFollowing = page.ok;
      if (!page.ok || page.output.length === 0) return index.lines;
      for (const { number, text } of page.output) {
        const line = readLine(text);
        if (line) index.keep({ ...line, path: fromShared(root, line.path) });
        after = number;
      }
      for (const line of mine) index.keep(line);
    }
  }

  async function add(): Promise<Outcome<null>> {
    const count = texts.length;
    if (count === 0) return ok(null);
    const added = await lines.add(texts.slice(0, count));
    if (!added.ok) {
      const { code, detail } = added.error;
      return fail('internal_error', `cannot keep labels: ${detail.message}`, { cause: code });
    }
    texts.splice(0, count);
    mine.splice(0, count);
    await read();
    return ok(null);
  }

  /** One after the other: lines keep their order. */
  function next<T>(work: () => Promise<T>): Promise<T> {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  }

  return {
    isCaughtUp: (): boolean => older.isCaughtUp() && isFollowing,
    append(path: string, hash: string, descriptor: Descriptor): Outcome<null> {
      const line = { path, hash, descriptor: describe({ ...descriptor, replaced: [] }) };
      texts.push(toLine(toShared(root, path), hash, line.descriptor).trimEnd());
      mine.push(line);
      index.keep(line);
      return ok(null);
    },
    shared: { keep: () => next(add), catchUp: () => next(read) },
  };
}

/** `root`: real path of the project. `lines`: where machines share what files are made of. */
export function createLabelRecords(file: string, root: string, lines?: SharedLines) {
  const index = new LabelIndex();
  const {
    isCaughtUp,
    append,
    shared,
  }: ReturnType<typeof createLines> & { shared?: SharedRecords } = lines
    ? createSharedLines(file, root, index, lines)
    : createLines(file, index);
  const linked = createLinkedFiles();
  const isMadeBy = (path: string, hash: string, thread: string): boolean =>
    index.made.get(path)?.has(hash + MADE + thread) === true;
  return {
    root,
    ...(shared && { shared }),
    /** To be called before the file is written, so that no unlabelled copy ever exists. */
    remember(
      realPath: string,
      contentHash: string,
      written: Descriptor | readonly Descriptor[],
    ): Outcome<null> {
      const descriptor = mergeAll([written].flat() as readonly Descriptor[]);
      const history = isCaughtUp() ? index.known.get(realPath) : undefined;
      const isKnown =
        history?.latest.descriptor === descriptor &&
        history.byHash.get(contentHash)?.descriptor === descriptor &&
        index.around(realPath, history.latest.line) === EMPTY;
      return isKnown ? ok(null) : append(realPath, contentHash, descriptor);
    },
    /** To be called before something gets this name: also the folders that are made on the way have one. */
    rememberName(realPath: string, marks: Descriptor): Outcome<null> {
      if (marks.taint.length === 0) return ok(null);
      for (let at = realPath; at !== root && at !== dirname(at) && !exists(at); at = dirname(at)) {
        const before = isCaughtUp() ? index.nameOf(at) : EMPTY;
        if (before !== EMPTY && mergeDescriptors(before, marks) === before) continue;
        const kept = append(at, NAME, marks);
        if (!kept.ok) return kept;
      }
      return ok(null);
    },
    /** The same for a name that somebody else has made, or (`folder/.`) taken away. */
    noteName(realPath: string, marks: Descriptor): Outcome<null> {
      return marks.taint.length === 0 ? ok(null) : append(realPath, NAME, marks);
    },
    /**
     * All that lies there and below counts as made of this, besides what the same writer said before;
     * nothing (`EMPTY`) takes that back.
     */
    rememberFolder(realPath: string, marks: Descriptor, writer: string): Outcome<null> {
      const before = isCaughtUp() ? index.whole.get(realPath)?.get(ALL + writer) : undefined;
      if (marks === EMPTY) return append(realPath, ALL + writer, EMPTY);
      const all = mergeDescriptors(before?.descriptor ?? EMPTY, marks);
      const isSaid = before?.descriptor === all && !index.hasLater(realPath, before.line);
      return isSaid ? ok(null) : append(realPath, ALL + writer, all);
    },
    /** This content, which is about to be there, is a thread's own. */
    rememberMade(realPath: string, contentHash: string, thread: string): Outcome<null> {
      const isKnown = isCaughtUp() && isMadeBy(realPath, contentHash, thread);
      return isKnown ? ok(null) : append(realPath, contentHash + MADE + thread, EMPTY);
    },
    /** Did this thread, and nobody since, put this content there? */
    isMade: (realPath: string, contentHash: string, thread: string): boolean =>
      isCaughtUp() && isMadeBy(realPath, contentHash, thread),
    /** Undefined: nothing is known about this file. */
    recall(realPath: string, contentHash: string): Descriptor | undefined {
      if (!isCaughtUp()) return UNTRUSTED;
      const history = index.known.get(realPath);
      const exact = history?.byHash.get(contentHash);
      const own = exact?.descriptor ?? (history && suspicion(history.latest.descriptor, realPath));
      if (index.isPlain) return own;
      const around = index.around(realPath, exact?.line ?? 0);
      const all = mergeAll([own ?? EMPTY, around, index.nameOf(realPath)]);
      return all === EMPTY ? own : all;
    },
    /** What a file carries under its other names in labelled places; `inode`: see `inodeOf`. */
    linked(inode: string, named: readonly string[]): Descriptor {
      if (!isCaughtUp()) return UNTRUSTED;
      const key = `${index.lines} ${named.join(' ')}`;
      return linked(inode, key, () => labelledPlaces(index, root, named));
    },
    /**
     * Marks of everything in a view: of labelled files that are there, and of folders that `named`
     * names. `isOpen`: folders outside of the project are in it, too.
     */
    within(view: SeenProject, named: readonly string[], isOpen = false): Descriptor {
      const lost = isCaughtUp() ? EMPTY : UNTRUSTED;
      return mergeDescriptors(lost, marksWithin(index, root, view, named, isOpen));
    },
    /**
     * Marks of having looked at the names in these folders, whatever was found. `named`: the `dir:`
     * labels that somebody has a rule about.
     */
    looked(folders: Iterable<string>, named: readonly string[]): Descriptor {
      const lost = isCaughtUp() ? EMPTY : UNTRUSTED;
      return mergeDescriptors(marksOfLook(index, root, folders, named), lost);
    },
  };
}
