// Tracks the present files of one root of the library. A small root is scanned at every call, and a large
// one is watched (see `folder-watch.ts`). Once a root has been unchanged for a while, an imprint of the
// stamps of all names proves with one `lstat` per name that it is still unchanged.
import { lstatSync, readdirSync, type Stats } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { type Clock, type Diagnostic, isInside } from '../../base/index.ts';
import type { Source } from '../item-kinds.ts';
import { createFolderTree, type FileStamp, type FolderTree } from './folder-tree.ts';
import { canWatch, createFolderWatch, drainEvents, type FolderWatch } from './folder-watch.ts';
import { aboutFile, realOf } from './item-file.ts';

export type Imprint = NonNullable<ReturnType<typeof takeImprint>>;

/** Returns the time in ms in which a second change can get the same stamp: file systems count seconds or ticks. */
export const tick = (changed: number): number => (changed % 1000 === 0 ? 2000 : 50);

const lookAt = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });

const STAMP = ['mtimeMs', 'ctimeMs', 'size', 'ino', 'dev', 'mode'] as const;
function isSame(before: Stats | undefined, now: Stats | undefined): boolean {
  for (const field of STAMP) if (before?.[field] !== now?.[field]) return false;
  return true;
}

// INVARIANT: only a stamp that was old when it was taken is ever trusted, because a second change within
// the same tick would not change it. The stamp of a link does not depend on its target.
const isSettled = (stats: Stats | undefined, now: number): boolean => {
  if (stats === undefined) return true;
  const changed = Math.max(stats.ctimeMs, stats.mtimeMs);
  return !stats.isSymbolicLink() && now - changed >= tick(changed);
};

/** True if the creation of this name would change the stamp of an examined folder. */
function covers(path: string, looks: ReadonlyMap<string, Stats | undefined>): boolean {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (looks.get(folder)?.isDirectory()) return true;
    if (lookAt(folder) !== undefined || folder === dirname(folder)) return false;
  }
}

/** Returns the stamps of these paths. Undefined if one of them is not reliable. A path may be missing. */
export function takeImprint(paths: Iterable<string>, now: number) {
  const looks = new Map<string, Stats | undefined>();
  try {
    for (const path of paths) {
      const stats = lookAt(path);
      if (!isSettled(stats, now)) return undefined;
      looks.set(path, stats);
    }
  } catch {
    return undefined;
  }
  const watched = [...looks].filter(([path, stats]) => stats !== undefined || !covers(path, looks));
  return {
    /** True if every path certainly has its old stamp. */
    isCurrent(): boolean {
      try {
        for (const [path, before] of watched) {
          if (!isSame(before, lstatSync(path, { throwIfNoEntry: false }))) return false;
        }
        return true;
      } catch {
        return false;
      }
    },
    has: (path: string): boolean => looks.has(path),
  };
}

/** A folder with the layout of `.ai/`. */
export interface Root {
  source: Source;
  dir: string;
  /** Name of the package of an installed bundle. Absent for other roots. */
  name?: string;
}

export type RootFiles = ReturnType<typeof createRootFiles>;

/** Number of files above which a check of each file may take longer than a search. */
const WATCH_ABOVE = 1000;
const MAX_ATTEMPTS = 5;
/** Folders of a root that contain data files. */
const DATA_FOLDERS = ['config', 'tools/capabilities', 'tools/llm'];
const MAX_DATA_FILES = 100;

/** Returns the paths of the entries of a folder. Empty if it does not exist. */
function namesIn(folder: string): string[] {
  if (!lookAt(folder)?.isDirectory()) return [];
  return readdirSync(folder).map((name) => `${folder}/${name}`);
}

interface Opened {
  real: string;
  inode: number;
  tree: FolderTree;
  hasLooked: boolean;
  watch?: FolderWatch | undefined;
  /** Remaining attempts to watch. A failed attempt is repeated, because it may be due to a folder's removal. */
  attempts: number;
  /** Imprint from the last scan that found no change. Absent: the next check must scan. */
  imprint?: Imprint | undefined;
}

interface Watching {
  /** Number of files above which a root is watched. */
  watchAbove?: number | undefined;
  clock?: Pick<Clock, 'now'> | undefined;
}

const homeOf = (root: Root): string => resolve(root.dir, '..');

/** Returns the path of `AGENTS.md`: beside `.ai` for a project, and inside of any other root. */
function extraFiles(root: Root, real: string) {
  const folder = root.source === 'project' ? (realOf(homeOf(root)) ?? dirname(real)) : real;
  return { 'AGENTS.md': { path: `${folder}/AGENTS.md`, within: folder } };
}

/** Returns the path of a missing `.ai` in a project, which may still have an `AGENTS.md`. Else undefined. */
function emptyRoot(root: Root): string | undefined {
  const base = root.source === 'project' ? realOf(homeOf(root)) : undefined;
  return base === undefined ? undefined : `${base}/${basename(root.dir)}`;
}

/** Watches a large root, including folders that appear while the watch starts. */
function follow(at: Opened, watchAbove: number): void {
  if (!at.watch) {
    const isLarge = at.tree.files.size > watchAbove;
    if (!isLarge || at.attempts === 0 || !canWatch(at.real)) return;
    at.attempts--;
    at.watch = createFolderWatch(at.real);
  }
  // Each new watch lists its folder once more, which may find further folders.
  while (at.watch.follow(at.tree.folders)) {
    const { folders } = at.watch.take();
    if (folders.size === 0) return;
    for (const folder of folders) at.tree.list(folder);
  }
  at.watch = undefined;
}

function look(at: Opened, watchAbove: number): void {
  // A process that reads once needs no watch, which would list every folder a second time.
  if (at.hasLooked && !at.watch) follow(at, watchAbove);
  at.hasLooked = true;
  const events = at.watch?.isOn() ? at.watch.take() : undefined;
  if (!events || events.all) at.tree.sweep();
  else {
    for (const folder of events.folders) at.tree.list(folder);
    at.tree.restat();
  }
  if (at.watch) follow(at, watchAbove);
}

/** Returns every path whose change matters. Undefined if the stamps of the paths are not sufficient. */
function namesOf(root: Root, { real, tree }: Opened, watchAbove: number): string[] | undefined {
  const files = [...tree.files].filter(([path]) => path !== 'AGENTS.md');
  if (real !== root.dir || files.length > watchAbove) return undefined;
  if (files.some(([, { isElsewhere }]) => isElsewhere)) return undefined;
  const data = DATA_FOLDERS.flatMap((folder) => namesIn(`${real}/${folder}`));
  if (data.length > MAX_DATA_FILES) return undefined;
  return [
    real,
    ...Object.values(extraFiles(root, real)).map(({ path }) => path),
    ...DATA_FOLDERS.map((folder) => `${real}/${folder}`),
    ...[...tree.folders.keys()].map((folder) => `${real}/${folder}`),
    ...files.map(([, stamp]) => stamp.real),
    ...data,
  ];
}

/** Returns an imprint, which the caller takes before a scan and keeps if the scan finds no change. */
function imprintOf(root: Root, at: Opened, now: number, watchAbove: number): Imprint | undefined {
  if (!canWatch(realOf(at.real) ?? dirname(at.real))) return undefined;
  try {
    const names = namesOf(root, at, watchAbove);
    return names && takeImprint(names, now);
  } catch {
    return undefined;
  }
}

export function createRootFiles(
  root: Root,
  notify: (path: string, stamp: FileStamp | undefined) => void,
  { clock, watchAbove = WATCH_ABOVE }: Watching = {},
) {
  let changes = 0;
  const onChange: typeof notify = (path, stamp) => {
    changes += 1;
    notify(path, stamp);
  };
  let opened: Opened | undefined;
  let outside: Diagnostic | undefined;

  function close(): void {
    opened?.watch?.close();
    for (const path of opened?.tree.files.keys() ?? []) onChange(path, undefined);
    opened = undefined;
  }

  /** False if a project's `.ai` is a link to elsewhere, which is reported. A person's own `~/.ai` may be a link. */
  function mayFollow(real: string): boolean {
    const base = realOf(homeOf(root));
    outside = undefined;
    if (root.source !== 'project' || (base !== undefined && isInside(real, base))) return true;
    const message = 'this folder is a link that leads out of the project, so it is not followed';
    outside = aboutFile(root.dir, 'symlink_outside', message, { severity: 'warning' });
    return false;
  }

  function open(): Opened | undefined {
    const real = realOf(root.dir) ?? emptyRoot(root);
    if (real === undefined || !mayFollow(real)) return undefined;
    const inode = lookAt(real)?.ino ?? 0;
    if (opened?.real === real && opened.inode === inode) return opened;
    close();
    return {
      real,
      inode,
      hasLooked: false,
      attempts: MAX_ATTEMPTS,
      tree: createFolderTree(real, extraFiles(root, real), onChange),
    };
  }

  function lookAgain(at: Opened): void {
    at.imprint = undefined;
    const before = clock && imprintOf(root, at, clock.now(), watchAbove);
    const count = changes;
    look(at, watchAbove);
    const isWhole = [...at.tree.folders.keys()].every((path) => before?.has(`${at.real}/${path}`));
    if (changes === count && isWhole) at.imprint = before;
  }

  function isCurrent(): boolean {
    if (!opened) return open() === undefined;
    // Shipped files do not change while a process runs.
    return root.source === 'bundle' || opened.imprint?.isCurrent() === true;
  }

  return {
    root,
    /** Returns the real path of the root. Undefined if it does not exist or is a refused link. */
    real: () => (opened ?? open())?.real,
    /**
     * True if certainly no item and no data file under the root has changed since the last refresh.
     * False in doubt.
     */
    isCurrent,
    /** Scans for changes. Returns true if there were none. */
    async refresh(): Promise<boolean> {
      if (isCurrent()) return true;
      const now = open();
      if (now === undefined) close();
      opened = now;
      if (now?.watch?.isOn()) await drainEvents();
      // Another refresh may have closed the root while this one waited.
      if (now && opened === now) lookAgain(now);
      return false;
    },
    list(): void {
      if (opened) return;
      opened = open();
      if (opened) lookAgain(opened);
    },
    /** Ends the watch. Later refreshes scan the whole root. */
    unwatch(): void {
      if (!opened) return;
      opened.watch?.close();
      [opened.watch, opened.attempts] = [undefined, 0];
    },
    diagnostics: (): Diagnostic[] => [
      ...(outside ? [outside] : []),
      ...(opened?.tree.diagnostics() ?? []),
    ],
    close,
  };
}
