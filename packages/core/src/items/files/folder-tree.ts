// Lists the files of one root and updates the list folder by folder. The walk reads only names and stamps
// and opens no file. It ends for any content (links out of the root, loops, pipes, endless folders) and
// reports the entries that it left out.
import { type Dirent, lstatSync, readdirSync, realpathSync, type Stats } from 'node:fs';
import { type Diagnostic, errnoOf, isInside, isMissing } from '../../base/index.ts';
import { aboutFile, statsOf } from './item-file.ts';
import { ITEM_FOLDERS, type ItemPlace, itemPlace } from './item-place.ts';

export interface FileStamp {
  /** Path of the content: the path itself, or the target of a link inside of the root. */
  real: string;
  place: ItemPlace;
  /** Text that differs whenever the content may have changed. */
  mark: string;
  changed: number;
  /** True if a watch on the folder may miss changes: for a link, or a file with a second name elsewhere. */
  isElsewhere: boolean;
}

const stampOf = (stats: Stats, real: string, place: ItemPlace, isLinked: boolean): FileStamp => ({
  real,
  place,
  mark: [real, stats.mtimeMs, stats.ctimeMs, stats.size, stats.ino].join(' '),
  changed: stats.ctimeMs,
  isElsewhere: isLinked || stats.nlink > 1,
});

/**
 * Returns an identity that distinguishes a folder from another one of the same name. Undefined for a
 * missing folder or a link.
 */
function folderIdentity(path: string): string | undefined {
  const stats = statsOf(path);
  return stats?.isDirectory() ? `${stats.ino}:${stats.birthtimeMs}` : undefined;
}

const isLink = (path: string): boolean => statsOf(path)?.isSymbolicLink() === true;

const OUTSIDE = 'this link leads out of its root, so it is not followed';

/** Reads entries of a root, which is a real path. Other paths are relative to it. Skipped entries are reported. */
function createFolderLook(root: string) {
  function note(list: Diagnostic[], path: string, code: string, message: string, hint?: string) {
    const severity = code === 'symlink_folder' ? 'note' : 'warning';
    list.push(aboutFile(`${root}/${path}`, code, message, { severity, hint }));
  }
  return {
    note,
    /** Returns the stamp of an item's file. Follows a link only to a file inside of `within`. */
    file(
      path: string,
      list: Diagnostic[],
      at = { path: `${root}/${path}`, within: root },
    ): FileStamp | undefined {
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
        note(list, path, 'unreadable', `the file cannot be read (${errnoOf(error)})`);
        return undefined;
      }
    },
    entries(folder: string, list: Diagnostic[]): Dirent[] {
      try {
        return readdirSync(`${root}/${folder}`, { withFileTypes: true });
      } catch (error) {
        const reason = errnoOf(error);
        if (!isMissing(reason)) {
          note(list, folder, 'unreadable', `the folder cannot be listed (${reason})`);
        }
        return [];
      }
    },
    /** Reports why a link to a folder is not followed. Reports nothing for a link to a file. */
    linkedFolder(path: string, list: Diagnostic[]): void {
      try {
        const real = realpathSync(`${root}/${path}`);
        if (!lstatSync(real).isDirectory()) return;
        if (isInside(real, root)) {
          note(list, path, 'symlink_folder', 'the target of this link is read under its real path');
        } else note(list, path, 'symlink_outside', OUTSIDE, 'copy the folder instead');
      } catch {
        note(list, path, 'unreadable', 'the target of this link cannot be read');
      }
    },
  };
}

export type FolderTree = ReturnType<typeof createFolderTree>;

const MAX_DEPTH = 32;
const MAX_FILES = 50_000;
const SKIPPED = /^(\.|node_modules$)/;

interface Folder {
  /** Identity of the folder, because another folder can get the same name. */
  identity: string;
  files: Set<string>;
  folders: Set<string>;
  diagnostics: Diagnostic[];
}

/** Returns the stamp of an item's file, or `folder` for a folder to read. Undefined: the entry is skipped. */
function judge(
  entry: Dirent,
  path: string,
  look: ReturnType<typeof createFolderLook>,
  list: Diagnostic[],
): FileStamp | 'folder' | undefined {
  if (SKIPPED.test(entry.name)) return undefined;
  if (/[\u0000-\u001f\u007f\\]/.test(entry.name)) {
    const message = `\`${JSON.stringify(entry.name)}\` is not a valid name for an item`;
    look.note(list, path.slice(0, path.lastIndexOf('/')), 'odd_name', message);
    return undefined;
  }
  if (entry.isDirectory()) {
    if (path.split('/').length <= MAX_DEPTH) return 'folder';
    look.note(list, path, 'too_deep', `folders deeper than ${MAX_DEPTH} are not read`);
    return undefined;
  }
  if (entry.isSymbolicLink() && !itemPlace(path)) look.linkedFolder(path, list);
  return look.file(path, list);
}

/** Stores files by their path relative to the root, with `/`. Calls `onChange` for each difference. */
function createFileMap(onChange: (path: string, stamp: FileStamp | undefined) => void) {
  const files = new Map<string, FileStamp>();
  function set(path: string, stamp: FileStamp | undefined): void {
    const before = files.get(path);
    if (stamp === undefined) files.delete(path);
    else files.set(path, stamp);
    if (before?.mark !== stamp?.mark) onChange(path, stamp);
  }
  return { files, set };
}

/**
 * Creates the list of files under `root`, a real path. `onChange` is called for every file that is new,
 * removed or changed. `extra` maps paths under the root to single files outside of the item folders.
 */
export function createFolderTree(
  root: string,
  extra: Readonly<Record<string, { path: string; within: string }>>,
  onChange: (path: string, stamp: FileStamp | undefined) => void,
) {
  const look = createFolderLook(root);
  const { files, set } = createFileMap(onChange);
  /** Listed folders by their path relative to the root. */
  const folders = new Map<string, Folder>();
  let topDiagnostics: Diagnostic[] = [];
  const identityOf = (folder: string) => folderIdentity(`${root}/${folder}`);

  function forget(folder: string): void {
    const entry = folders.get(folder);
    if (!entry) return;
    folders.delete(folder);
    for (const path of entry.files) set(path, undefined);
    for (const below of entry.folders) forget(below);
  }

  function read(folder: string): Folder {
    const identity = identityOf(folder) ?? '';
    const now: Folder = { identity, files: new Set(), folders: new Set(), diagnostics: [] };
    for (const entry of look.entries(folder, now.diagnostics)) {
      const path = `${folder}/${entry.name}`;
      const result = judge(entry, path, look, now.diagnostics);
      if (result === undefined) continue;
      if (result === 'folder') now.folders.add(path);
      else if (files.size < MAX_FILES || files.has(path)) {
        now.files.add(path);
        set(path, result);
      } else {
        const message = `more than ${MAX_FILES} files; the rest is not read`;
        look.note(now.diagnostics, path, 'too_many', message);
        break;
      }
    }
    return now;
  }

  /** Lists these folders, and the new folders below them. With `isAll` it lists all folders below them. */
  function walk(from: Iterable<string>, isAll: boolean): void {
    const pending = [...from];
    for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
      const before = folders.get(folder);
      const now = read(folder);
      folders.set(folder, now);
      for (const path of before?.files ?? []) if (!now.files.has(path)) set(path, undefined);
      for (const below of before?.folders ?? []) if (!now.folders.has(below)) forget(below);
      for (const below of now.folders) {
        const isUnchanged = folders.get(below)?.identity === identityOf(below);
        if (isAll || !isUnchanged) pending.push(below);
      }
    }
  }

  /**
   * Checks the entries that no watch inside of the item folders reports: single files, and the item
   * folders themselves.
   */
  function lookAtTop(): void {
    topDiagnostics = [];
    for (const [path, at] of Object.entries(extra)) set(path, look.file(path, topDiagnostics, at));
    for (const folder of ITEM_FOLDERS) {
      if (identityOf(folder) !== undefined) continue;
      forget(folder);
      // A link in place of an item folder is not read, because it could lead elsewhere.
      if (isLink(`${root}/${folder}`)) look.linkedFolder(folder, topDiagnostics);
    }
  }

  return {
    files: files as ReadonlyMap<string, FileStamp>,
    folders: folders as ReadonlyMap<string, { readonly identity: string }>,
    diagnostics: (): Diagnostic[] => [
      ...topDiagnostics,
      ...[...folders.values()].flatMap((folder) => folder.diagnostics),
    ],
    sweep(): void {
      lookAtTop();
      walk(ITEM_FOLDERS.filter(identityOf), true);
    },
    /** Lists one folder again, and new folders below it. */
    list(folder: string): void {
      if (folders.has(folder)) walk([folder], false);
    },
    /** Checks the files whose changes a watch on the listed folders may miss. */
    restat(): void {
      lookAtTop();
      const isNew = (folder: string) => {
        const identity = identityOf(folder);
        return identity !== undefined && folders.get(folder)?.identity !== identity;
      };
      walk(ITEM_FOLDERS.filter(isNew), true);
      const ignored: Diagnostic[] = [];
      for (const [path, stamp] of files) {
        if (stamp.isElsewhere && !Object.hasOwn(extra, path)) set(path, look.file(path, ignored));
      }
    },
  };
}
