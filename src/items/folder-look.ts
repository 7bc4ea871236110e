// One look at one name in a root: what it is, where its content really lies, and when it last
// changed. Nothing is opened; what is left out is reported.
import { type Dirent, lstatSync, readdirSync, realpathSync, type Stats } from 'node:fs';
import type { Diagnostic } from '../base/index.ts';
import { isInside } from '../base/inside.ts';
import { aboutFile } from './about-file.ts';
import { type ItemPlace, itemPlace } from './item-place.ts';

export interface FileStamp {
  /** Where the content is read from: the path itself, or what a link inside the root points to. */
  real: string;
  place: ItemPlace;
  size: number;
  modified: number;
  changed: number;
  inode: number;
  /** Not reported by a watch on its folder: a link, or a file with a second name elsewhere. */
  isElsewhere: boolean;
}

export const isSameStamp = (a: FileStamp, b: FileStamp): boolean =>
  a.modified === b.modified &&
  a.changed === b.changed &&
  a.size === b.size &&
  a.inode === b.inode &&
  a.real === b.real;

function stampOf(stats: Stats, real: string, place: ItemPlace, isLink: boolean): FileStamp {
  return {
    real,
    place,
    size: stats.size,
    modified: stats.mtimeMs,
    changed: stats.ctimeMs,
    inode: stats.ino,
    isElsewhere: isLink || stats.nlink > 1,
  };
}

const reasonOf = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code ?? 'unknown reason';

const statsOf = (path: string): Stats | undefined => {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
};

/** Tells a folder from another one of the same name; undefined when there is none, or only a link. */
export function folderIdentity(path: string): string | undefined {
  const stats = statsOf(path);
  return stats?.isDirectory() ? `${stats.ino}:${stats.birthtimeMs}` : undefined;
}

export const isLink = (path: string): boolean => statsOf(path)?.isSymbolicLink() === true;

export interface FolderLook {
  note(list: Diagnostic[], path: string, code: string, message: string, hint?: string): void;
  /** The stamp of an item's file, following a link only to a file inside `within`. */
  file(
    path: string,
    list: Diagnostic[],
    at?: { path: string; within: string },
  ): FileStamp | undefined;
  entries(folder: string, list: Diagnostic[]): Dirent[];
  /** Says why a link to a folder is not walked; other links are nobody's business. */
  linkedFolder(path: string, list: Diagnostic[]): void;
}

const OUTSIDE = 'this link leads out of its root, so it is not followed';

/** `root` is a real path; paths are relative to it. */
export function createFolderLook(root: string): FolderLook {
  const note: FolderLook['note'] = (list, path, code, message, hint) => {
    const severity = code === 'symlink_folder' ? 'note' : 'warning';
    list.push(aboutFile(`${root}/${path}`, code, message, { severity, hint }));
  };
  return {
    note,
    file(path, list, at = { path: `${root}/${path}`, within: root }) {
      const place = itemPlace(path);
      if (!place) return undefined;
      try {
        const stats = lstatSync(at.path, { throwIfNoEntry: false });
        if (!stats?.isSymbolicLink()) {
          return stats?.isFile() ? stampOf(stats, at.path, place, false) : undefined;
        }
        const real = realpathSync(at.path);
        if (!isInside(real, at.within)) {
          note(list, path, 'symlink_outside', OUTSIDE, 'copy the file instead');
          return undefined;
        }
        const target = lstatSync(real);
        return target.isFile() ? stampOf(target, real, place, true) : undefined;
      } catch (error) {
        note(list, path, 'unreadable', `this cannot be looked at (${reasonOf(error)})`);
        return undefined;
      }
    },
    entries(folder, list) {
      try {
        return readdirSync(`${root}/${folder}`, { withFileTypes: true });
      } catch (error) {
        const reason = reasonOf(error);
        if (reason !== 'ENOENT' && reason !== 'ENOTDIR') {
          note(list, folder, 'unreadable', `the folder cannot be listed (${reason})`);
        }
        return [];
      }
    },
    linkedFolder(path, list) {
      try {
        const real = realpathSync(`${root}/${path}`);
        if (!lstatSync(real).isDirectory()) return;
        if (isInside(real, root)) {
          note(list, path, 'symlink_folder', 'this folder is read where it really is, not here');
        } else note(list, path, 'symlink_outside', OUTSIDE, 'copy the folder instead');
      } catch {
        note(list, path, 'unreadable', 'this link leads nowhere');
      }
    },
  };
}
