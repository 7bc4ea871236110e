// The files of one root, kept up to date folder by folder. Looks at names and stamps only; nothing
// is opened. Whatever the tree holds (links out of it, loops, pipes, folders without end), the walk
// ends and says what it left out.
import { type Dirent, lstatSync, readdirSync, realpathSync, type Stats } from 'node:fs';
import type { Diagnostic } from '../base/index.ts';
import { aboutFile } from './about-file.ts';
import { isInside } from './inside.ts';
import { ITEM_FOLDERS, type ItemPlace, itemPlace } from './item-place.ts';

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

export interface FolderTree {
  /** By path relative to the root, with `/`. */
  readonly files: ReadonlyMap<string, FileStamp>;
  /** Folders relative to the root; each was listed. */
  readonly folders: ReadonlyMap<string, unknown>;
  diagnostics(): Diagnostic[];
  /** Lists everything again. */
  sweep(): void;
  /** Lists one folder again, and folders below it that are new. */
  list(folder: string): void;
  /** Looks again at files that a watch on their folder would not report. */
  restat(): void;
}

const MAX_DEPTH = 32;
const MAX_FILES = 50_000;
const SKIPPED = /^(\.|node_modules$)/;

interface Folder {
  files: Map<string, string>;
  folders: Set<string>;
  diagnostics: Diagnostic[];
}

const isSame = (a: FileStamp, b: FileStamp): boolean =>
  a.modified === b.modified &&
  a.changed === b.changed &&
  a.size === b.size &&
  a.inode === b.inode &&
  a.real === b.real;

const statsOf = (path: string): Stats | undefined => {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
};

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

/**
 * `root` is a real path. `onChange` hears of every file that is new, gone or has another stamp.
 * `extra` are single files outside the item folders: path under the root's name -> absolute path.
 */
export function createFolderTree(
  root: string,
  extra: Readonly<Record<string, { path: string; within: string }>>,
  onChange: (path: string, stamp: FileStamp | undefined) => void,
): FolderTree {
  const files = new Map<string, FileStamp>();
  const folders = new Map<string, Folder>();
  let extraDiagnostics: Diagnostic[] = [];

  function set(path: string, stamp: FileStamp | undefined): void {
    const before = files.get(path);
    if (stamp === undefined) {
      if (files.delete(path)) onChange(path, undefined);
    } else {
      if (before && isSame(before, stamp)) return;
      files.set(path, stamp);
      onChange(path, stamp);
    }
  }

  function note(list: Diagnostic[], path: string, code: string, message: string, hint?: string) {
    const severity = code === 'symlink_folder' ? 'note' : 'warning';
    list.push(aboutFile(`${root}/${path}`, code, message, { severity, hint }));
  }

  /** The stamp of a file, following a link only to a file inside `within`. */
  function look(path: string, absolute: string, within: string, list: Diagnostic[]) {
    const place = itemPlace(path);
    if (!place) return undefined;
    try {
      const stats = lstatSync(absolute, { throwIfNoEntry: false });
      if (!stats?.isSymbolicLink()) {
        return stats?.isFile() ? stampOf(stats, absolute, place, false) : undefined;
      }
      const real = realpathSync(absolute);
      if (!isInside(real, within)) {
        const message = 'this link leads out of its root, so it is not followed';
        note(list, path, 'symlink_outside', message, 'copy the file instead');
        return undefined;
      }
      const target = lstatSync(real);
      return target.isFile() ? stampOf(target, real, place, true) : undefined;
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
      note(list, path, 'unreadable', `this cannot be looked at (${reason})`);
      return undefined;
    }
  }

  function entriesOf(folder: string, list: Diagnostic[]): Dirent[] {
    try {
      return readdirSync(`${root}/${folder}`, { withFileTypes: true });
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
      if (reason !== 'ENOENT' && reason !== 'ENOTDIR') {
        note(list, folder, 'unreadable', `the folder cannot be listed (${reason})`);
      }
      return [];
    }
  }

  function linkedFolder(path: string, list: Diagnostic[]): void {
    try {
      const real = realpathSync(`${root}/${path}`);
      if (!lstatSync(real).isDirectory()) return;
      if (isInside(real, root)) {
        note(list, path, 'symlink_folder', 'this folder is read where it really is, not here');
      } else {
        const message = 'this link leads out of its root, so it is not followed';
        note(list, path, 'symlink_outside', message, 'copy the folder instead');
      }
    } catch {
      note(list, path, 'unreadable', 'this link leads nowhere');
    }
  }

  function forget(folder: string): void {
    const known = folders.get(folder);
    if (!known) return;
    folders.delete(folder);
    for (const path of known.files.values()) set(path, undefined);
    for (const below of known.folders) forget(below);
  }

  /** One folder: its files are stamped, folders below are returned. */
  function listOne(folder: string): Set<string> {
    const before = folders.get(folder);
    const now: Folder = { files: new Map(), folders: new Set(), diagnostics: [] };
    for (const entry of entriesOf(folder, now.diagnostics)) {
      const { name } = entry;
      if (SKIPPED.test(name)) continue;
      const path = `${folder}/${name}`;
      if (/[\u0000-\u001f\u007f\\]/.test(name)) {
        note(
          now.diagnostics,
          folder,
          'odd_name',
          `\`${JSON.stringify(name)}\` is no name for an item`,
        );
      } else if (entry.isDirectory()) {
        if (path.split('/').length <= MAX_DEPTH) now.folders.add(path);
        else
          note(now.diagnostics, path, 'too_deep', `folders deeper than ${MAX_DEPTH} are not read`);
      } else if (entry.isSymbolicLink() && !itemPlace(path)) {
        linkedFolder(path, now.diagnostics);
      } else {
        const stamp = look(path, `${root}/${path}`, root, now.diagnostics);
        if (!stamp) continue;
        if (files.size >= MAX_FILES && !files.has(path)) {
          note(
            now.diagnostics,
            path,
            'too_many',
            `more than ${MAX_FILES} files; the rest is not read`,
          );
          break;
        }
        now.files.set(name, path);
        set(path, stamp);
      }
    }
    folders.set(folder, now);
    for (const [name, path] of before?.files ?? []) if (!now.files.has(name)) set(path, undefined);
    for (const below of before?.folders ?? []) if (!now.folders.has(below)) forget(below);
    return now.folders;
  }

  function walk(from: Iterable<string>, isAll: boolean): void {
    const pending = [...from];
    for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
      for (const below of listOne(folder)) if (isAll || !folders.has(below)) pending.push(below);
    }
  }

  /** What no watch inside the item folders would report: single files, and the folders themselves. */
  function lookAtTop(): void {
    extraDiagnostics = [];
    for (const [path, { path: absolute, within }] of Object.entries(extra)) {
      set(path, look(path, absolute, within, extraDiagnostics));
    }
    for (const folder of ITEM_FOLDERS) {
      const stats = statsOf(`${root}/${folder}`);
      if (stats?.isDirectory()) continue;
      forget(folder);
      if (stats?.isSymbolicLink()) linkedFolder(folder, extraDiagnostics);
    }
  }

  /** A link is no folder, also when it stands for an item folder: it would lead somewhere else. */
  const isFolder = (folder: string): boolean =>
    statsOf(`${root}/${folder}`)?.isDirectory() === true;

  return {
    files,
    folders,
    diagnostics: () => [
      ...extraDiagnostics,
      ...[...folders.values()].flatMap((folder) => folder.diagnostics),
    ],
    sweep() {
      lookAtTop();
      walk(ITEM_FOLDERS.filter(isFolder), true);
    },
    list(folder) {
      if (folders.has(folder)) walk([folder], false);
    },
    restat() {
      lookAtTop();
      walk(
        ITEM_FOLDERS.filter((folder) => !folders.has(folder) && isFolder(folder)),
        true,
      );
      const ignored: Diagnostic[] = [];
      for (const [path, stamp] of files) {
        if (stamp.isElsewhere && !Object.hasOwn(extra, path)) {
          set(path, look(path, `${root}/${path}`, root, ignored));
        }
      }
    },
  };
}
