// One root as the library sees it: the files there are now. Small roots are looked through at every
// call; large ones are watched (see folder-watch.ts).
import { lstatSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import type { Diagnostic } from '../base/index.ts';
import { aboutFile } from './about-file.ts';
import type { FileStamp } from './folder-look.ts';
import { createFolderTree, type FolderTree } from './folder-tree.ts';
import { canWatch, createFolderWatch, drainEvents, type FolderWatch } from './folder-watch.ts';
import { isInside, realOf } from './inside.ts';
import type { Source } from './item-kinds.ts';

/** A folder laid out like `.ai/`. */
export interface Root {
  source: Source;
  dir: string;
  /** The package an installed bundle came from. */
  name?: string;
}

export interface RootFiles {
  readonly root: Root;
  /** The real path of the root; undefined when there is none or it may not be followed. */
  real(): string | undefined;
  refresh(): Promise<void>;
  diagnostics(): Diagnostic[];
  close(): void;
}

/** Above this many files a look at each costs more than a search may. */
const WATCH_ABOVE = 1000;
const MAX_ATTEMPTS = 5;

interface Opened {
  real: string;
  inode: number;
  tree: FolderTree;
  watch?: FolderWatch | undefined;
  /** How often watching could be tried again after it failed: a folder may just have gone. */
  attempts: number;
}

export function createRootFiles(
  root: Root,
  onChange: (path: string, stamp: FileStamp | undefined) => void,
  options: { watchAbove?: number; platform?: string } = {},
): RootFiles {
  const { watchAbove = WATCH_ABOVE, platform } = options;
  const home = resolve(root.dir, '..');
  let opened: Opened | undefined;
  let outside: Diagnostic | undefined;

  function close(): void {
    opened?.watch?.close();
    for (const path of opened?.tree.files.keys() ?? []) onChange(path, undefined);
    opened = undefined;
  }

  /** A project's `.ai` may not be a link to elsewhere; a person's own `~/.ai` may. */
  function mayFollow(real: string): boolean {
    const base = realOf(home);
    outside = undefined;
    if (root.source !== 'project' || (base !== undefined && isInside(real, base))) return true;
    const message = 'this folder is a link that leads out of the project, so it is not followed';
    outside = aboutFile(root.dir, 'symlink_outside', message, { severity: 'warning' });
    return false;
  }

  /** `AGENTS.md` stands beside a project's `.ai`, and may stand inside any root. */
  function extraFiles(real: string) {
    const folder = root.source === 'project' ? (realOf(home) ?? dirname(real)) : real;
    return { 'AGENTS.md': { path: `${folder}/AGENTS.md`, within: folder } };
  }

  /** A project without `.ai` still has its `AGENTS.md`. */
  function emptyRoot(): string | undefined {
    const base = root.source === 'project' ? realOf(home) : undefined;
    return base === undefined ? undefined : `${base}/${basename(root.dir)}`;
  }

  function open(): Opened | undefined {
    const real = realOf(root.dir) ?? emptyRoot();
    if (real === undefined || !mayFollow(real)) return undefined;
    const inode = lstatSync(real, { throwIfNoEntry: false })?.ino ?? 0;
    if (opened?.real === real && opened.inode === inode) return opened;
    close();
    return {
      real,
      inode,
      attempts: MAX_ATTEMPTS,
      tree: createFolderTree(real, extraFiles(real), onChange),
    };
  }

  /** Starts watching a large root; folders that are new since then are followed too. */
  function follow(at: Opened): void {
    if (!at.watch) {
      const isLarge = at.tree.files.size > watchAbove;
      if (!isLarge || at.attempts === 0 || !canWatch(at.real, platform)) return;
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

  function look(at: Opened): void {
    const events = at.watch?.isOn() ? at.watch.take() : undefined;
    if (!events || events.all) at.tree.sweep();
    else {
      for (const folder of events.folders) at.tree.list(folder);
      at.tree.restat();
    }
    follow(at);
  }

  return {
    root,
    real: () => opened?.real,
    async refresh() {
      // What is shipped does not change under a running process.
      if (root.source === 'bundle' && opened) return;
      const now = open();
      if (now === undefined) {
        close();
        return;
      }
      opened = now;
      if (now.watch?.isOn()) await drainEvents();
      // Another refresh may have closed it while this one waited.
      if (opened === now) look(now);
    },
    diagnostics: () => [...(outside ? [outside] : []), ...(opened?.tree.diagnostics() ?? [])],
    close,
  };
}
