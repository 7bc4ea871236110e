// What a few names looked like, so that the next question whether anything changed costs one look at
// each of them: no listing, no reading. A folder's stamp changes when a name in it comes or goes.
import { lstatSync, readdirSync, type Stats } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { type Clock, type Diagnostic, isInside } from '../../base/index.ts';
import type { Source } from '../item-kinds.ts';
import { createFolderTree, type FileStamp, type FolderTree } from './folder-tree.ts';
import { canWatch, createFolderWatch, drainEvents, type FolderWatch } from './folder-watch.ts';
import { aboutFile, realOf } from './item-file.ts';

export type Imprint = NonNullable<ReturnType<typeof takeImprint>>;

/** How long a second change can keep the stamp of the first: file systems count seconds or ticks. */
export const tick = (changed: number): number => (changed % 1000 === 0 ? 2000 : 50);

const lookAt = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });

const STAMP = ['mtimeMs', 'ctimeMs', 'size', 'ino', 'dev', 'mode'] as const;
function isSame(before: Stats | undefined, now: Stats | undefined): boolean {
  for (const field of STAMP) if (before?.[field] !== now?.[field]) return false;
  return true;
}

// INVARIANT: a stamp is trusted only when it was old at the time it was taken; something that changes
// a second time within the same tick would keep it. A link says nothing about what it leads to.
const isSettled = (stats: Stats | undefined, now: number): boolean => {
  if (stats === undefined) return true;
  const changed = Math.max(stats.ctimeMs, stats.mtimeMs);
  return !stats.isSymbolicLink() && now - changed >= tick(changed);
};

/** Would a folder that is looked at anyway change its stamp when this name came to be? */
function isTold(path: string, looks: ReadonlyMap<string, Stats | undefined>): boolean {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (looks.get(folder)?.isDirectory()) return true;
    if (lookAt(folder) !== undefined || folder === dirname(folder)) return false;
  }
}

/** Undefined when one of them cannot be relied on. A name that is not there may be among them. */
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
    /** Does every name still look as it did? False in doubt. */
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

// One root as the library sees it: the files there are now. Small roots are looked through at every
// call; large ones are watched (see folder-watch.ts). Once nothing has changed for a while, one look at
// every known name tells that it still has not.

/** A folder laid out like `.ai/`. */
export interface Root {
  source: Source;
  dir: string;
  /** The package an installed bundle came from. */
  name?: string;
}

export type RootFiles = ReturnType<typeof createRootFiles>;

/** Above this many files a look at each costs more than a search may. */
const WATCH_ABOVE = 1000;
const MAX_ATTEMPTS = 5;
/** Folders of a root in which data files are, besides items. */
const DATA_FOLDERS = ['config', 'tools/capabilities', 'tools/llm'];
const MAX_DATA_FILES = 100;

/** The names in a folder; none when it is not there. */
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
  /** How often watching could be tried again after it failed: a folder may just have gone. */
  attempts: number;
  /** How everything looked when nothing had changed. */
  imprint?: Imprint | undefined;
}

interface Watching {
  /** Roots with more files than this are watched. */
  watchAbove?: number | undefined;
  clock?: Pick<Clock, 'now'> | undefined;
}

const homeOf = (root: Root): string => resolve(root.dir, '..');

/** `AGENTS.md` stands beside a project's `.ai`, and may stand inside any root. */
function extraFiles(root: Root, real: string) {
  const folder = root.source === 'project' ? (realOf(homeOf(root)) ?? dirname(real)) : real;
  return { 'AGENTS.md': { path: `${folder}/AGENTS.md`, within: folder } };
}

/** A project without `.ai` still has its `AGENTS.md`. */
function emptyRoot(root: Root): string | undefined {
  const base = root.source === 'project' ? realOf(homeOf(root)) : undefined;
  return base === undefined ? undefined : `${base}/${basename(root.dir)}`;
}

/** Starts watching a large root; folders that are new since then are followed too. */
function follow(at: Opened, watchAbove: number): void {
  if (!at.watch) {
    const isLarge = at.tree.files.size > watchAbove;
    if (!isLarge || at.attempts === 0 || !canWatch(at.real)) return;
    at.attempts--;
    at.watch = createFolderWatch(at.real);
  }
  // Watches that are new have their folder listed once more, which may find further folders.
  while (at.watch.follow(at.tree.folders)) {
    const { folders } = at.watch.take();
    if (folders.size === 0) return;
    for (const folder of folders) at.tree.list(folder);
  }
  at.watch = undefined;
}

function look(at: Opened, watchAbove: number): void {
  // A process that looks once needs no watch, which would list every folder a second time.
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

/** Every name whose change would matter; undefined when one look at each would not be enough. */
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

/** Taken before a look; it counts when that look then finds nothing new. */
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

  /** A project's `.ai` may not be a link to elsewhere; a person's own `~/.ai` may. */
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
    // What is shipped does not change under a running process.
    return root.source === 'bundle' || opened.imprint?.isCurrent() === true;
  }

  return {
    root,
    /** The real path of the root; undefined when there is none or it may not be followed. */
    real: () => (opened ?? open())?.real,
    /** Surely nothing under the root has changed since the last refresh, its data files included. */
    isCurrent,
    /** Looks at what may have changed; true when it was current. */
    async refresh(): Promise<boolean> {
      if (isCurrent()) return true;
      const now = open();
      if (now === undefined) close();
      opened = now;
      if (now?.watch?.isOn()) await drainEvents();
      // Another refresh may have closed it while this one waited.
      if (now && opened === now) lookAgain(now);
      return false;
    },
    /** Makes the first look, which waits for nothing. */
    list(): void {
      if (opened) return;
      opened = open();
      if (opened) lookAgain(opened);
    },
    /** Ends the watch. Looks that follow go through everything. */
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
