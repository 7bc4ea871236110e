// A file may have several names. What it carries under one of them it carries under all, so whoever
// reads a file with more than one name asks here for the others, as far as they lie in labelled places.
import { type BigIntStats, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { namesIn } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from './labels.ts';

const MAX_ENTRIES = 20_000;

const look = (path: string): BigIntStats | undefined =>
  lstatSync(path, { bigint: true, throwIfNoEntry: false });

/** Files and folders of which something is known. */
interface LabelledPlaces {
  readonly files: ReadonlyMap<string, Descriptor>;
  /** By real path; what each file below carries. */
  readonly folders: ReadonlyMap<string, (path: string) => Descriptor>;
  /** Where there is too much to look at. */
  readonly all: Descriptor;
}

interface LinkedFiles {
  readonly key: string;
  readonly byInode: Map<string, Descriptor>;
  /** When the folders were changed last, as they were looked at. */
  readonly folders: Map<string, bigint>;
  /** For what was not looked at. */
  rest: Descriptor;
}

function learn({ files, folders, all }: LabelledPlaces, key: string): LinkedFiles {
  const known: LinkedFiles = { key, byInode: new Map(), folders: new Map(), rest: EMPTY };
  const add = (info: BigIntStats, marks: Descriptor): void => {
    const inode = `${info.dev}:${info.ino}`;
    known.byInode.set(inode, mergeDescriptors(known.byInode.get(inode) ?? EMPTY, marks));
  };
  let left = MAX_ENTRIES;
  for (const [path, marks] of files) {
    const info = left-- > 0 ? look(path) : undefined;
    if (info?.isFile()) add(info, marks);
  }
  for (const [folder, marksOf] of folders) {
    const open = [folder];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      known.folders.set(next, look(next)?.mtimeNs ?? 0n);
      for (const name of namesIn(next)) {
        const path = join(next, name);
        const info = look(path);
        if (info?.isDirectory()) open.push(path);
        else if (info?.isFile()) add(info, marksOf(path));
        left -= 1;
        if (left <= 0) break;
      }
    }
  }
  if (left <= 0) known.rest = all;
  return known;
}

/** `key` changes whenever the places do. What is learnt holds until a folder changes. */
export function createLinkedFiles() {
  let known: LinkedFiles | undefined;
  return (inode: string, key: string, places: () => LabelledPlaces): Descriptor => {
    const isFresh =
      known?.key === key &&
      [...known.folders].every(([folder, changed]) => look(folder)?.mtimeNs === changed);
    if (!known || !isFresh) known = learn(places(), key);
    return mergeDescriptors(known.byInode.get(inode) ?? EMPTY, known.rest);
  };
}
