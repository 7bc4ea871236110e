// The files of one root, kept up to date folder by folder. Looks at names and stamps only; nothing
// is opened. Whatever the tree holds (links out of it, loops, pipes, folders without end), the walk
// ends and says what it left out.
import type { Dirent } from 'node:fs';
import type { Diagnostic } from '../base/index.ts';
import {
  createFolderLook,
  type FileStamp,
  type FolderLook,
  folderIdentity,
  isLink,
  isSameStamp,
} from './folder-look.ts';
import { ITEM_FOLDERS, itemPlace } from './item-place.ts';

export interface FolderTree {
  /** By path relative to the root, with `/`. */
  readonly files: ReadonlyMap<string, FileStamp>;
  /** Folders relative to the root; each was listed. */
  readonly folders: ReadonlyMap<string, { readonly identity: string }>;
  diagnostics(): Diagnostic[];
  /** Lists everything again. */
  sweep(): void;
  /** Lists one folder again, and folders below it that are new. */
  list(folder: string): void;
  /** Looks again at what a watch on the listed folders would not report. */
  restat(): void;
}

const MAX_DEPTH = 32;
const MAX_FILES = 50_000;
const SKIPPED = /^(\.|node_modules$)/;

interface Folder {
  /** Another folder may come to stand under the same name. */
  identity: string;
  files: Set<string>;
  folders: Set<string>;
  diagnostics: Diagnostic[];
}

type Found = { file: FileStamp } | 'folder' | undefined;

/** What an entry of a folder is to the library. */
function judge(entry: Dirent, path: string, look: FolderLook, list: Diagnostic[]): Found {
  if (SKIPPED.test(entry.name)) return undefined;
  if (/[\u0000-\u001f\u007f\\]/.test(entry.name)) {
    const message = `\`${JSON.stringify(entry.name)}\` is no name for an item`;
    look.note(list, path.slice(0, path.lastIndexOf('/')), 'odd_name', message);
    return undefined;
  }
  if (entry.isDirectory()) {
    if (path.split('/').length <= MAX_DEPTH) return 'folder';
    look.note(list, path, 'too_deep', `folders deeper than ${MAX_DEPTH} are not read`);
    return undefined;
  }
  if (entry.isSymbolicLink() && !itemPlace(path)) look.linkedFolder(path, list);
  const file = look.file(path, list);
  return file && { file };
}

/** Files by path; says so when one is new, gone or has another stamp. */
function createFileMap(onChange: (path: string, stamp: FileStamp | undefined) => void) {
  const files = new Map<string, FileStamp>();
  const set = (path: string, stamp: FileStamp | undefined): void => {
    const before = files.get(path);
    if (stamp === undefined) {
      if (files.delete(path)) onChange(path, undefined);
    } else if (!before || !isSameStamp(before, stamp)) {
      files.set(path, stamp);
      onChange(path, stamp);
    }
  };
  return { files, set };
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
  const look = createFolderLook(root);
  const { files, set } = createFileMap(onChange);
  const folders = new Map<string, Folder>();
  let topDiagnostics: Diagnostic[] = [];
  const identityOf = (folder: string) => folderIdentity(`${root}/${folder}`);

  function forget(folder: string): void {
    const known = folders.get(folder);
    if (!known) return;
    folders.delete(folder);
    for (const path of known.files) set(path, undefined);
    for (const below of known.folders) forget(below);
  }

  function read(folder: string): Folder {
    const identity = identityOf(folder) ?? '';
    const now: Folder = { identity, files: new Set(), folders: new Set(), diagnostics: [] };
    for (const entry of look.entries(folder, now.diagnostics)) {
      const path = `${folder}/${entry.name}`;
      const found = judge(entry, path, look, now.diagnostics);
      if (found === undefined) continue;
      if (found === 'folder') now.folders.add(path);
      else if (files.size < MAX_FILES || files.has(path)) {
        now.files.add(path);
        set(path, found.file);
      } else {
        const message = `more than ${MAX_FILES} files; the rest is not read`;
        look.note(now.diagnostics, path, 'too_many', message);
        break;
      }
    }
    return now;
  }

  /** Lists these folders, and below them those that are new (or all). */
  function walk(from: Iterable<string>, isAll: boolean): void {
    const pending = [...from];
    for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
      const before = folders.get(folder);
      const now = read(folder);
      folders.set(folder, now);
      for (const path of before?.files ?? []) if (!now.files.has(path)) set(path, undefined);
      for (const below of before?.folders ?? []) if (!now.folders.has(below)) forget(below);
      for (const below of now.folders) {
        const isKnown = folders.get(below)?.identity === identityOf(below);
        if (isAll || !isKnown) pending.push(below);
      }
    }
  }

  /** What no watch inside the item folders would report: single files, and the folders themselves. */
  function lookAtTop(): void {
    topDiagnostics = [];
    for (const [path, at] of Object.entries(extra)) set(path, look.file(path, topDiagnostics, at));
    for (const folder of ITEM_FOLDERS) {
      if (identityOf(folder) !== undefined) continue;
      forget(folder);
      // A link is no folder, also when it stands for an item folder: it would lead elsewhere.
      if (isLink(`${root}/${folder}`)) look.linkedFolder(folder, topDiagnostics);
    }
  }

  return {
    files,
    folders,
    diagnostics: () => [
      ...topDiagnostics,
      ...[...folders.values()].flatMap((folder) => folder.diagnostics),
    ],
    sweep() {
      lookAtTop();
      walk(
        ITEM_FOLDERS.filter((folder) => identityOf(folder) !== undefined),
        true,
      );
    },
    list(folder) {
      if (folders.has(folder)) walk([folder], false);
    },
    restat() {
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
