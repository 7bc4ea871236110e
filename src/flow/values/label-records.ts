// What files are known to be made of. A value written to a file leaves its marks here, under real
// path and content hash; whoever reads the same content gets them back. Append-only lines, so several
// processes can write, and a kill in the middle costs at most one torn line.
import { closeSync, fstatSync, lstatSync, readSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import {
  errnoOf,
  fail,
  isInside,
  isObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
  textsAt,
} from '../../base/index.ts';
import { fileLabels, folderLabel, listingLabels, placeIn } from './file-labels.ts';
import { carries, type Descriptor, describe, EMPTY, mergeAll, mergeDescriptors } from './labels.ts';
import { createLinkedFiles } from './linked-files.ts';
import { createRecordFile, openRecords } from './record-file.ts';

export type LabelRecords = ReturnType<typeof createLabelRecords>;

interface Kept {
  readonly descriptor: Descriptor;
  /** Later lines have higher numbers. */
  readonly line: number;
}

interface History {
  readonly byHash: Map<string, Kept>;
  latest: Kept;
}

/** In the place of a content's hash: the line is about the name itself … */
const NAME = 'name';
/** … or about all that lies there and below; what follows tells the one who wrote it. */
const ALL = '*';

function toLine(path: string, hash: string, descriptor: Descriptor): string {
  const { labels, taint, sources, capability, policyContext } = descriptor;
  return `${JSON.stringify({ path, hash, labels, taint, sources, capability, policyContext })}\n`;
}

const UNTRUSTED = describe({ labels: ['untrusted'] });

interface Line {
  path: string;
  hash: string;
  descriptor: Descriptor;
}

/** A damaged line whose path can still be read counts as a record of untrusted data. */
function readLine(text: string, root: string): Line | undefined {
  const parsed = parseJson(text);
  if (parsed.ok && isObject(parsed.output)) {
    const line = parsed.output;
    const { path, hash, capability } = line;
    if (typeof path === 'string' && typeof hash === 'string') {
      const descriptor = describe({
        labels: textsAt(line, 'labels'),
        // Older lines name folders of the project by their absolute path.
        taint: textsAt(line, 'taint').map((mark) => folderLabel(root, mark)),
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

const CHUNK = 1 << 16;

/** Reads what others have appended since the last look; starts over when the file was replaced. */
function createTail(file: string, onLine: (text: string) => void, onReset: () => void) {
  let [offset, inode] = [0, 0];
  let rest: Buffer = Buffer.alloc(0);

  function readFrom(descriptor: number, size: number): void {
    while (offset < size) {
      const chunk = Buffer.alloc(Math.min(CHUNK, size - offset));
      const count = readSync(descriptor, chunk, 0, chunk.length, offset);
      if (count === 0) return;
      offset += count;
      rest = Buffer.concat([rest, chunk.subarray(0, count)]);
      for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
        onLine(rest.subarray(0, end).toString('utf8'));
        rest = rest.subarray(end + 1);
      }
    }
  }

  return {
    /** True when the last line has no end: somebody was cut off while writing it. */
    isTorn: () => rest.length > 0,
    /** Throws what the file system throws, except that a missing file is an empty one. */
    catchUp(): void {
      // Asked at every file that is read: mostly there is nothing, or nothing new.
      const there = lstatSync(file, { throwIfNoEntry: false });
      if (!there || (there.isFile() && there.ino === inode && there.size === offset)) return;
      let descriptor: number;
      try {
        descriptor = openRecords(file);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return;
        throw error;
      }
      try {
        const { size, ino } = fstatSync(descriptor);
        if (size < offset || ino !== inode) {
          [offset, inode, rest] = [0, ino, Buffer.alloc(0)];
          onReset();
        }
        readFrom(descriptor, size);
      } finally {
        closeSync(descriptor);
      }
    },
  };
}

/** Other content at a known path: nobody can say what it is made of, but suspicion stays. */
function suspicion(descriptor: Descriptor, path: string): Descriptor | undefined {
  const labels = ['untrusted', 'secret'].filter((label) => carries(descriptor, label));
  return labels.length === 0 ? undefined : describe({ labels, sources: [`file:${path}`] });
}

/** What of a project somebody can look at; places are from its root, with `/`. */
interface View {
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

/** `root`: real path of the project. */
export function createLabelRecords(file: string, root: string) {
  const known = new Map<string, History>();
  /** By folder: names in it that were made of labelled values. */
  const names = new Map<string, Map<string, Descriptor>>();
  /** By place: who wrote that all of it is labelled. */
  const whole = new Map<string, Map<string, Kept>>();
  let lines = 0;
  const linked = createLinkedFiles();

  const keep = ({ path, hash, descriptor }: Line): void => {
    const kept = { descriptor, line: ++lines };
    if (hash === NAME) {
      const folder = dirname(path);
      const before = names.get(folder)?.get(path) ?? EMPTY;
      names.set(
        folder,
        (names.get(folder) ?? new Map()).set(path, mergeDescriptors(before, descriptor)),
      );
    } else if (hash.startsWith(ALL)) {
      const writers = whole.get(path) ?? new Map<string, Kept>();
      if (descriptor === EMPTY) writers.delete(hash);
      else writers.set(hash, kept);
      if (writers.size === 0) whole.delete(path);
      else whole.set(path, writers);
    } else {
      const history = known.get(path) ?? { byHash: new Map(), latest: kept };
      history.latest = kept;
      history.byHash.set(hash, kept);
      known.set(path, history);
    }
  };
  const tail = createTail(
    file,
    (text) => {
      const line = readLine(text, root);
      if (line) keep(line);
    },
    () => {
      for (const map of [known, names, whole]) map.clear();
    },
  );

  /** INVARIANT: records that cannot be read never make anything trusted. */
  const isCaughtUp = (): boolean => {
    try {
      tail.catchUp();
      return true;
    } catch {
      return false;
    }
  };

  function append(path: string, hash: string, descriptor: Descriptor): Outcome<null> {
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
  }

  /** Of what was said about all that lies at a place or around it, later than a line. */
  function aroundOf(path: string, since: number): Descriptor {
    let marks = EMPTY;
    if (whole.size === 0) return marks;
    for (let at = path; ; at = dirname(at)) {
      for (const { descriptor, line } of whole.get(at)?.values() ?? []) {
        if (line > since) marks = mergeDescriptors(marks, descriptor);
      }
      if (at === dirname(at)) return marks;
    }
  }

  /** Has a file there been known exactly since? */
  const hasLater = (folder: string, line: number): boolean => {
    for (const [path, { latest }] of known) {
      if (latest.line > line && isInside(path, folder)) return true;
    }
    return false;
  };

  /** Of the names in a folder, as far as they are still there. */
  function namesIn(folder: string): Descriptor {
    let marks = EMPTY;
    for (const [path, descriptor] of names.get(folder) ?? []) {
      const more = mergeDescriptors(marks, descriptor);
      if (more !== marks && exists(path)) marks = more;
    }
    return marks;
  }

  return {
    root,
    /** To be called before the file is written, so that no unlabelled copy ever exists. */
    remember(
      realPath: string,
      contentHash: string,
      written: Descriptor | readonly Descriptor[],
    ): Outcome<null> {
      const descriptor = mergeAll([written].flat() as readonly Descriptor[]);
      const history = isCaughtUp() ? known.get(realPath) : undefined;
      const isKnown =
        history?.latest.descriptor === descriptor &&
        history.byHash.get(contentHash)?.descriptor === descriptor &&
        aroundOf(realPath, history.latest.line) === EMPTY;
      return isKnown ? ok(null) : append(realPath, contentHash, descriptor);
    },
    /** To be called before something gets this name: also the folders that are made on the way have one. */
    rememberName(realPath: string, marks: Descriptor): Outcome<null> {
      if (marks.taint.length === 0) return ok(null);
      for (let at = realPath; at !== root && at !== dirname(at) && !exists(at); at = dirname(at)) {
        const before = isCaughtUp() ? names.get(dirname(at))?.get(at) : undefined;
        if (before && mergeDescriptors(before, marks) === before) continue;
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
      const before = isCaughtUp() ? whole.get(realPath)?.get(ALL + writer) : undefined;
      if (marks === EMPTY) return append(realPath, ALL + writer, EMPTY);
      const all = mergeDescriptors(before?.descriptor ?? EMPTY, marks);
      const isSaid = before?.descriptor === all && !hasLater(realPath, before.line);
      return isSaid ? ok(null) : append(realPath, ALL + writer, all);
    },
    /** Undefined: nothing is known about this file. */
    recall(realPath: string, contentHash: string): Descriptor | undefined {
      if (!isCaughtUp()) return UNTRUSTED;
      const history = known.get(realPath);
      const exact = history?.byHash.get(contentHash);
      const own = exact?.descriptor ?? (history && suspicion(history.latest.descriptor, realPath));
      if (names.size + whole.size === 0) return own;
      const around = aroundOf(realPath, exact?.line ?? 0);
      const named = names.get(dirname(realPath))?.get(realPath) ?? EMPTY;
      const all = mergeAll([own ?? EMPTY, around, named]);
      return all === EMPTY ? own : all;
    },
    /** What a file carries under its other names in labelled places; `inode`: see `inodeOf`. */
    linked(inode: string, named: readonly string[]): Descriptor {
      if (!isCaughtUp()) return UNTRUSTED;
      return linked(inode, `${lines} ${named.join(' ')}`, () => {
        const files = new Map([...known].map(([path, { latest }]) => [path, latest.descriptor]));
        const folders = new Map<string, (path: string) => Descriptor>();
        for (const [folder, writers] of whole) {
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
      });
    },
    /**
     * Marks of everything in a view: of labelled files that are there, and of folders that `named`
     * names. `isOpen`: folders outside of the project are in it, too.
     */
    within({ sees, seesBelow }: View, named: readonly string[], isOpen = false): Descriptor {
      let marks = isCaughtUp() ? EMPTY : UNTRUSTED;
      const sources: string[] = [];
      const add = (path: string, descriptor: Descriptor): void => {
        const more = mergeDescriptors(marks, bareOf(descriptor));
        const place = more === marks ? undefined : placeIn(root, path);
        if (place === undefined || !sees(place) || !exists(path)) return;
        marks = more;
        if (sources.length < MAX_SOURCES) sources.push(`file:${place}`);
      };
      for (const [path, { latest }] of known) add(path, latest.descriptor);
      for (const inside of names.values()) for (const [path, one] of inside) add(path, one);
      for (const [path, writers] of whole) {
        for (const { descriptor } of writers.values()) add(path, descriptor);
      }
      const folders = named.filter((label) => {
        const folder = label.slice('dir:'.length);
        return isAbsolute(folder) ? isOpen : exists(join(root, folder)) && seesBelow(folder);
      });
      return mergeDescriptors(marks, describe({ taint: folders, sources }));
    },
    /**
     * Marks of having looked at the names in these folders, whatever was found. `named`: the `dir:`
     * labels that somebody has a rule about.
     */
    looked(folders: Iterable<string>, named: readonly string[]): Descriptor {
      const labels = new Set<string>();
      let marks = isCaughtUp() ? EMPTY : UNTRUSTED;
      const isPlain = names.size + whole.size === 0;
      for (const folder of folders) {
        if (labels.size < MAX_FOLDERS || named.length > 0) {
          const own = listingLabels(root, folder);
          const shown = labels.size < MAX_FOLDERS ? own : own.filter((one) => named.includes(one));
          for (const label of shown) labels.add(label);
        }
        if (!isPlain) marks = mergeAll([marks, aroundOf(folder, 0), namesIn(folder)]);
      }
      return mergeDescriptors(describe({ taint: [...labels] }), marks);
    },
  };
}
