// Records the marks of files. The writer of a file records the marks of the value by real path and content
// hash, and a reader of the same content gets them back. Lines are appended, so several processes can
// write, and a crash damages at most one line.
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

interface LabelEntry {
  readonly descriptor: Descriptor;
  /** Line number. Later lines have higher numbers. */
  readonly line: number;
}

interface History {
  readonly byHash: Map<string, LabelEntry>;
  latest: LabelEntry;
}

/** Stands in place of a content hash in a line about the name of a file. */
const NAME = 'name';
/** Separates a hash from the thread that created this content. */
const MADE = '@';
const IS_MADE = /^[0-9a-f]{64}@/;
/** Stands in place of a hash in a line about everything at and below a path. The writer's name follows. */
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

/** Parses a line. A damaged line with a readable path counts as a record of untrusted data. */
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

/** Returns the marks of other content at a known path. Its origin is unknown, so `untrusted` stays. */
function suspicion(descriptor: Descriptor, path: string): Descriptor | undefined {
  const labels = ['untrusted', 'secret'].filter((label) => carries(descriptor, label));
  return labels.length === 0 ? undefined : describe({ labels, sources: [`file:${path}`] });
}

/** The part of a project that a process can read. Paths are relative to its root, with `/`. */
interface ProjectView {
  sees(place: string): boolean;
  /** True if it can read anything in that folder or below. */
  seesBelow(folder: string): boolean;
}

/** Maximum number of sources of a whole view, which is enough for a person. */
const MAX_SOURCES = 20;
const bare = new WeakMap<Descriptor, Descriptor>();

/** Returns only labels and taint, because decisions use nothing else. */
function bareOf(descriptor: Descriptor): Descriptor {
  const before = bare.get(descriptor);
  if (before) return before;
  const { labels, taint } = descriptor;
  const bareDescriptor = describe({ labels, taint });
  bare.set(descriptor, bareDescriptor);
  return bareDescriptor;
}

/** Maximum number of folders by name in the marks of a search. Beyond it only folders with a rule are named. */
const MAX_FOLDERS = 40;

const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/** All lines so far, indexed by their subject. */
class LabelIndex {
  readonly known = new Map<string, History>();
  /** By folder: names in it that were made of labelled values. */
  readonly names = new Map<string, Map<string, Descriptor>>();
  /** By path: writers that labelled everything there. */
  readonly whole = new Map<string, Map<string, LabelEntry>>();
  /** By path: content there, and the thread that created it. */
  readonly made = new Map<string, Set<string>>();
  lines = 0;

  keep({ path, hash, descriptor }: RecordLine): void {
    const entry = { descriptor, line: ++this.lines };
    if (IS_MADE.test(hash)) this.made.set(path, (this.made.get(path) ?? new Set()).add(hash));
    else if (hash === NAME) this.#keepName(path, descriptor);
    else if (hash.startsWith(ALL)) this.#keepWhole(path, hash, entry);
    else {
      const history = this.known.get(path) ?? { byHash: new Map(), latest: entry };
      history.latest = entry;
      history.byHash.set(hash, entry);
      this.known.set(path, history);
    }
  }

  #keepName(path: string, descriptor: Descriptor): void {
    const inside = this.names.get(dirname(path)) ?? new Map<string, Descriptor>();
    inside.set(path, mergeDescriptors(inside.get(path) ?? EMPTY, descriptor));
    this.names.set(dirname(path), inside);
  }

  #keepWhole(path: string, writer: string, entry: LabelEntry): void {
    const writers = this.whole.get(path) ?? new Map<string, LabelEntry>();
    if (entry.descriptor === EMPTY) writers.delete(writer);
    else writers.set(writer, entry);
    if (writers.size === 0) this.whole.delete(path);
    else this.whole.set(path, writers);
  }

  clear(): void {
    for (const map of [this.known, this.names, this.whole, this.made]) map.clear();
  }

  /** True if no record is about a name or a folder, the common case. */
  get isPlain(): boolean {
    return this.names.size + this.whole.size === 0;
  }

  /** Returns the marks of records about a path or its folders that are newer than a line. */
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

  /** True if a newer line describes a file in the folder exactly. */
  hasLater(folder: string, line: number): boolean {
    for (const [path, { latest }] of this.known) {
      if (latest.line > line && isInside(path, folder)) return true;
    }
    return false;
  }

  nameOf(path: string): Descriptor {
    return this.names.get(dirname(path))?.get(path) ?? EMPTY;
  }

  /** Returns the marks of names in a folder that still exist. */
  namesIn(folder: string): Descriptor {
    let marks = EMPTY;
    for (const [path, descriptor] of this.names.get(folder) ?? []) {
      const more = mergeDescriptors(marks, descriptor);
      if (more !== marks && exists(path)) marks = more;
    }
    return marks;
  }

  /** Yields every path of a record, with its marks. */
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
  { sees, seesBelow }: ProjectView,
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

function marksOfListing(
  index: LabelIndex,
  root: string,
  folders: Iterable<string>,
  named: readonly string[],
): Descriptor {
  const labels = new Set<string>();
  let marks = EMPTY;
  for (const folder of folders) {
    const hasRoom = labels.size < MAX_FOLDERS;
    if (hasRoom || named.length > 0) {
      const own = listingLabels(root, folder);
      for (const label of hasRoom ? own : own.filter((one) => named.includes(one))) {
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

/** Reads the lines of a file, including those that other processes append. */
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
    /** INVARIANT: unreadable records never make a value trusted. */
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
        // An earlier torn line is ended first, so that the new line stays readable.
        const records = createRecordFile(file);
        try {
          records.append(tail.isTorn() ? `\n${line}` : line);
        } finally {
          records.close();
        }
        tail.catchUp();
        return ok(null);
      } catch (error) {
        return fail('internal_error', `labels cannot be saved: ${messageOf(error)}`, { file });
      }
    },
  };
}

/** Lines that machines share, with numbers in one order for all of them. */
export interface SharedLines {
  /** Returns the lines after a number, in order. Empty at the end. */
  read(after: number): Promise<Outcome<{ number: number; text: string }[]>>;
  add(lines: readonly string[]): Promise<Outcome<null>>;
}

/** Records that machines share. Code shares the record of a file before it uses the file. */
interface SharedRecords {
  /** Settles when the records are shared. Await it before the effect that they describe. */
  keep(): Promise<Outcome<null>>;
  /** Reads the lines of other machines. The returned number changes if there were any. */
  catchUp(): Promise<number>;
}

/** Prefix of paths in the project, because its folder differs from machine to machine. */
const HERE = './';
const toShared = (root: string, path: string): string =>
  path === root || path.startsWith(root + sep)
    ? HERE + path.slice(root.length + 1).replaceAll(sep, '/')
    : path;
const fromShared = (root: string, path: string): string =>
  path === HERE ? root : path.startsWith(HERE) ? root + sep + path.slice(HERE.length) : path;

/**
 * The lines of all machines, and the new ones of this machine. An older local file still counts. INVARIANT: the
 * index always has the lines of all in their order, then the unsent lines of this machine.
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
      // The file was replaced, so all of it is read again.
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
      return fail('internal_error', `labels cannot be saved: ${detail.message}`, { cause: code });
    }
    texts.splice(0, count);
    mine.splice(0, count);
    await read();
    return ok(null);
  }

  /** Runs `work` after all earlier work, so that lines keep their order. */
  function next<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
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

/** Opens the label records. `root`: real path of the project. `lines`: lines that machines share, if they do. */
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
    /** Records marks. Called before the file is written, so that no unlabelled copy ever exists. */
    remember(
      realPath: string,
      contentHash: string,
      written: Descriptor | readonly Descriptor[],
    ): Outcome<null> {
      const descriptor = mergeAll([written].flat() as readonly Descriptor[]);
      const history = isCaughtUp() ? index.known.get(realPath) : undefined;
      const isRecorded =
        history?.latest.descriptor === descriptor &&
        history.byHash.get(contentHash)?.descriptor === descriptor &&
        index.around(realPath, history.latest.line) === EMPTY;
      return isRecorded ? ok(null) : append(realPath, contentHash, descriptor);
    },
    /**
     * Records the marks of a name. Called before the name is created, also for folders that are created
     * on the way.
     */
    rememberName(realPath: string, marks: Descriptor): Outcome<null> {
      if (marks.taint.length === 0) return ok(null);
      for (let at = realPath; at !== root && at !== dirname(at) && !exists(at); at = dirname(at)) {
        const before = isCaughtUp() ? index.nameOf(at) : EMPTY;
        if (before !== EMPTY && mergeDescriptors(before, marks) === before) continue;
        const appended = append(at, NAME, marks);
        if (!appended.ok) return appended;
      }
      return ok(null);
    },
    /** Records the marks of a name that another process created or (`folder/.`) removed. */
    noteName(realPath: string, marks: Descriptor): Outcome<null> {
      return marks.taint.length === 0 ? ok(null) : append(realPath, NAME, marks);
    },
    /**
     * Records marks of everything at and below a path. Replaces the earlier record of the same writer;
     * `EMPTY` removes it.
     */
    rememberFolder(realPath: string, marks: Descriptor, writer: string): Outcome<null> {
      const before = isCaughtUp() ? index.whole.get(realPath)?.get(ALL + writer) : undefined;
      if (marks === EMPTY) return append(realPath, ALL + writer, EMPTY);
      const all = mergeDescriptors(before?.descriptor ?? EMPTY, marks);
      const isRecorded = before?.descriptor === all && !index.hasLater(realPath, before.line);
      return isRecorded ? ok(null) : append(realPath, ALL + writer, all);
    },
    /** Records that a thread is about to create this content. */
    rememberMade(realPath: string, contentHash: string, thread: string): Outcome<null> {
      const isRecorded = isCaughtUp() && isMadeBy(realPath, contentHash, thread);
      return isRecorded ? ok(null) : append(realPath, contentHash + MADE + thread, EMPTY);
    },
    /** True if this thread created the present content and no other writer changed it. */
    isMade: (realPath: string, contentHash: string, thread: string): boolean =>
      isCaughtUp() && isMadeBy(realPath, contentHash, thread),
    /** Returns the marks of a file. Undefined if nothing is recorded. */
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
    /** Returns the marks of a file's other names in labelled folders. `inode`: see `inodeOf`. */
    linked(inode: string, named: readonly string[]): Descriptor {
      if (!isCaughtUp()) return UNTRUSTED;
      const key = `${index.lines} ${named.join(' ')}`;
      return linked(inode, key, () => labelledPlaces(index, root, named));
    },
    /**
     * Returns the marks of everything in a view: of existing labelled files, and of the folders in `named`.
     * `isOpen`: the view includes folders outside of the project.
     */
    within(view: ProjectView, named: readonly string[], isOpen = false): Descriptor {
      const lost = isCaughtUp() ? EMPTY : UNTRUSTED;
      return mergeDescriptors(lost, marksWithin(index, root, view, named, isOpen));
    },
    /**
     * Returns the marks of listing these folders, whatever they contain. `named`: the `dir:` labels that
     * a rule names.
     */
    looked(folders: Iterable<string>, named: readonly string[]): Descriptor {
      const lost = isCaughtUp() ? EMPTY : UNTRUSTED;
      return mergeDescriptors(marksOfListing(index, root, folders, named), lost);
    },
  };
}
