// One root of the library: its present files. A small root is scanned at every call, a large one is
// watched (see folder-watch.ts). If nothing has changed for a while, an imprint, which is the stamps of
// all known names, shows with one `lstat` per name that nothing has changed since.
import { lstatSync, readdirSync, type Stats } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { type Clock, type Diagnostic, isInside } from '../../base/index.ts';
import type { Source } from '../item-kinds.ts';
import { createFolderTree, type FileStamp, type FolderTree } from './folder-tree.ts';
import { canWatch, createFolderWatch, drainEvents, type FolderWatch } from './folder-watch.ts';
import { aboutFile, realOf } from './item-file.ts';

export type Imprint = NonNullable<ReturnType<typeof takeImprint>>;

/** How long a second change can have the stamp of the first: file systems count seconds or ticks. */
export const tick = (changed: number): number => (changed % 1000 === 0 ? 2000 : 50);

const lookAt = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });

const STAMP = ['mtimeMs', 'ctimeMs', 'size', 'ino', 'dev', 'mode'] as const;
function isSame(before: Stats | undefined, now: Stats | undefined): boolean {
  for (const field of STAMP) if (before?.[field] !== now?.[field]) return false;
  return true;
}

// INVARIANT: a stamp is only ever trusted if it was old when it was taken, because a second change
// within the same tick would keep it. The stamp of a link tells nothing about its target.
const isSettled = (stats: Stats | undefined, now: number): boolean => {
  if (stats === undefined) return true;
  const changed = Math.max(stats.ctimeMs, stats.mtimeMs);
  return !stats.isSymbolicLink() && now - changed >= tick(changed);
};

/** True if the stamp of an examined folder would change when this name is created. */
function isTold(path: string, looks: ReadonlyMap<string, Stats | undefined>): boolean {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (looks.get(folder)?.isDirectory()) return true;
    if (lookAt(folder) !== undefined || folder === dirname(folder)) return false;
  }
}

/** Undefined if one of the stamps is not reliable. Missing names may be among the paths. */
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
  const watched = [...looks].filter(([path, stats]) => stats !== undefined || !isTold(path, looks));
  return {
    /** Returns true if every name certainly has its old stamp. */
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
  /** The package of an installed bundle. */
  name?: string;
}

export type RootFiles = ReturnType<typeof createRootFiles>;

/** Above this number of files, checking each one may cost more than a search. */
const WATCH_ABOVE = 1000;
const MAX_ATTEMPTS = 5;
/** Folders of a root with data files, besides items. */
const DATA_FOLDERS = ['config', 'tools/capabilities', 'tools/llm'];
const MAX_DATA_FILES = 100;

/** Returns the names in a folder. Empty if it does not exist. */
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
  /** Number of attempts to watch. A failed one is repeated, because a folder may just have been removed. */
  attempts: number;
  /** The imprint from a time without changes. */
  imprint?: Imprint | undefined;
}

interface Watching {
  /** Roots with more files are watched. */
  watchAbove?: number | undefined;
  clock?: Pick<Clock, 'now'> | undefined;
}

const homeOf = (root: Root): string => resolve(root.dir, '..');

/** `AGENTS.md` is beside a project's `.ai`, and may be inside of any root. */
function extraFiles(root: Root, real: string) {
  const folder = root.source === 'project' ? (realOf(homeOf(root)) ?? dirname(real)) : real;
  return { 'AGENTS.md': { path: `${folder}/AGENTS.md`, within: folder } };
}

/** A project without `.ai` still has its `AGENTS.md`. */
function emptyRoot(root: Root): string | undefined {
  const base = root.source === 'project' ? realOf(homeOf(root)) : undefined;
  return base === undefined ? undefined : `${base}/${basename(root.dir)}`;
}

/** Starts watching a large root, including folders that are new since then. */
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

/** Returns every name whose change matters. Undefined if stamps of the names are not sufficient. */
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

/** Taken before a scan. It counts if the scan then finds no change. */
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
  tell: (path: string, stamp: FileStamp | undefined) => void,
  { clock, watchAbove = WATCH_ABOVE }: Watching = {},
) {
  let changes = 0;
  const onChange: typeof tell = (path, stamp) => {
    changes += 1;
    tell(path, stamp);
  };
  let opened: Opened | undefined;
  let outside: Diagnostic | undefined;

  function close(): void {
    opened?.watch?.close();
    for (const path of opened?.tree.files.keys() ?? []) onChange(path, undefined);
    opened = undefined;
  }

  /** A project's `.ai` may not be a link to elsewhere. A person's own `~/.ai` may. */
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
    const isKnown = [...at.tree.folders.keys()].every((path) => before?.has(`${at.real}/${path}`));
    if (changes === count && isKnown) at.imprint = before;
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
     * Returns true if certainly nothing under the root has changed since the last refresh, including
     * data files.
     */
    isCurrent,
    /** Scans for changes. Returns true if there were none. */
    async refresh(): Promise<boolean> {
      if (isCurrent()) return true;
      const now = open();
      if (now === undefined) close();
      opened = now;
      if (now?.watch?.isOn()) await drainEvents();
      // Another refresh may have closed it in between.
      if (now && opened === now) lookAgain(now);
      return false;
    },
    list(): void {
      if (opened) return;
      opened = open();
      if (opened) lookAgain(opened);
    },
    /** Ends the watch. Later refreshes scan everything. */
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
