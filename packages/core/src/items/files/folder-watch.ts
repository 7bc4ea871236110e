// Which folders changed since the last look, without stamping every file again. Used on Linux only:
// there the kernel queues an event before a write returns, so two turns of the event loop are enough
// to have heard of everything that happened before the question. Elsewhere, on network file systems
// and whenever a watch cannot be had, the answer is "look at everything".
import { type FSWatcher, statfsSync, watch } from 'node:fs';
import { lastSegment } from '../../base/index.ts';

export type FolderWatch = ReturnType<typeof createFolderWatch>;

/** ext2-4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs, bcachefs: local, so every write passes this kernel. */
const LOCAL = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010, 0xca451a4e,
]);
/** The kernel's queue holds 16,384 events and drops the rest silently. */
const MANY_EVENTS = 2000;

export function canWatch(root: string): boolean {
  if (process.platform !== 'linux') return false;
  try {
    return LOCAL.has(statfsSync(root).type);
  } catch {
    return false;
  }
}

interface Watched {
  watcher: FSWatcher;
  /** A watch belongs to a folder, not to its name. */
  identity: string;
  /** The folder itself was moved or removed: the watch may hear nothing any more. */
  isStale: boolean;
}

export function createFolderWatch(root: string) {
  const watches = new Map<string, Watched>();
  let dirty = new Set<string>();
  let events = 0;
  let isBroken = false;

  function stop(folder: string): void {
    watches.get(folder)?.watcher.close();
    watches.delete(folder);
  }

  function close(): void {
    for (const folder of watches.keys()) stop(folder);
    isBroken = true;
  }

  function start(folder: string, identity: string): void {
    const own = lastSegment(folder);
    // Not persistent: a watch must never keep a command from ending.
    const watcher = watch(`${root}/${folder}`, { persistent: false }, (event, name) => {
      events++;
      dirty.add(folder);
      if (event === 'rename' && name === own) watched.isStale = true;
    });
    const watched: Watched = { watcher, identity, isStale: false };
    watcher.on('error', () => {
      watched.isStale = true;
      dirty.add(folder);
    });
    watches.set(folder, watched);
    // What happened between the listing and this moment would be missed.
    dirty.add(folder);
  }

  return {
    /** Watches exactly these folders; false when that is not possible, and then it is closed. */
    follow(folders: ReadonlyMap<string, { readonly identity: string }>): boolean {
      for (const [folder, { identity, isStale }] of watches) {
        if (isStale || folders.get(folder)?.identity !== identity) stop(folder);
      }
      try {
        for (const [folder, { identity }] of folders) {
          if (!watches.has(folder)) start(folder, identity);
        }
      } catch {
        close();
      }
      return !isBroken;
    },
    /** Folders with events since the last call; `all` when events may have been lost. */
    take(): { folders: Set<string>; all: boolean } {
      const taken = { folders: dirty, all: isBroken || events > MANY_EVENTS };
      [dirty, events] = [new Set(), 0];
      return taken;
    },
    isOn: (): boolean => !isBroken && watches.size > 0,
    close,
  };
}

/** Long enough for the event loop to have polled once after this was called. */
export async function drainEvents(): Promise<void> {
  await new Promise(setImmediate);
  await new Promise(setImmediate);
}
