// Finds the marks of files with several names. A mark of one name applies to all names, so a reader of
// such a file gets the marks of its other names in labelled folders.
import { type BigIntStats, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { namesIn } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from './labels.ts';

const MAX_ENTRIES = 20_000;

const look = (path: string): BigIntStats | undefined =>
  lstatSync(path, { bigint: true, throwIfNoEntry: false });

interface LabelledPlaces {
  readonly files: ReadonlyMap<string, Descriptor>;
  /** Functions by real path of the folder. A function returns the marks of a file below its folder. */
  readonly folders: ReadonlyMap<string, (path: string) => Descriptor>;
  /** Marks of all records, used if there are too many folders to scan. */
  readonly all: Descriptor;
}

interface LinkedFiles {
  readonly key: string;
  readonly byInode: Map<string, Descriptor>;
  /** Change times of the folders at the last scan. */
  readonly folders: Map<string, bigint>;
  /** Marks for folders that were not scanned. */
  rest: Descriptor;
}

function scanLinks({ files, folders, all }: LabelledPlaces, key: string): LinkedFiles {
  const links: LinkedFiles = { key, byInode: new Map(), folders: new Map(), rest: EMPTY };
  const add = (info: BigIntStats, marks: Descriptor): void => {
    const inode = `${info.dev}:${info.ino}`;
    links.byInode.set(inode, mergeDescriptors(links.byInode.get(inode) ?? EMPTY, marks));
  };
  let budget = MAX_ENTRIES;
  for (const [path, marks] of files) {
    const info = budget-- > 0 ? look(path) : undefined;
    if (info?.isFile()) add(info, marks);
  }
  for (const [folder, marksOf] of folders) {
    const open = [folder];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      links.folders.set(next, look(next)?.mtimeNs ?? 0n);
      for (const name of namesIn(next)) {
        const path = join(next, name);
        const info = look(path);
        if (info?.isDirectory()) open.push(path);
        else if (info?.isFile()) add(info, marksOf(path));
        budget -= 1;
        if (budget <= 0) break;
      }
    }
  }
  if (budget <= 0) links.rest = all;
  return links;
}

/** Returns a lookup of marks by inode. `key` changes with the records. Scans of folders are cached. */
export function createLinkedFiles() {
  let cached: LinkedFiles | undefined;
  return (inode: string, key: string, places: () => LabelledPlaces): Descriptor => {
    const isFresh =
      cached?.key === key &&
      [...cached.folders].every(([folder, changed]) => look(folder)?.mtimeNs === changed);
    if (!cached || !isFresh) cached = scanLinks(places(), key);
    return mergeDescriptors(cached.byInode.get(inode) ?? EMPTY, cached.rest);
  };
}
