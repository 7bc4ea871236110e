// Finds the changed folders without a stamp of every file. It works only on Linux, where the kernel queues an
// event before a write returns, so that two turns of the event loop deliver all earlier changes. On other systems,
// on network file systems and after a failed watch, the caller must check everything.
import { type FSWatcher, statfsSync, watch } from 'node:fs';
import { lastSegment } from '../../base/index.ts';

export type FolderWatch = ReturnType<typeof createFolderWatch>;

/** Local file systems, whose writes all pass this kernel: ext2-4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs, bcachefs. */
const LOCAL = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010, 0xca451a4e,
]);
/** Number of events after which some may be lost: the kernel queues 16,384 events and drops the rest silently. */
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
  /** Identity of the watched folder, because another folder can get the same name. */
  identity: string;
  /** True if the watch may miss events, because the folder was moved or removed. */
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
    // The watch is not persistent, because it must never keep a command from ending.
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
    // The folder is listed once more, because the watch misses changes before its start.
    dirty.add(folder);
  }

  return {
    /** Watches exactly these folders. Returns false and closes everything if that is not possible. */
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
    /** Returns the folders with events since the last call. `all`: events may have been lost. */
    take(): { folders: Set<string>; all: boolean } {
      const taken = { folders: dirty, all: isBroken || events > MANY_EVENTS };
      [dirty, events] = [new Set(), 0];
      return taken;
    },
    isOn: (): boolean => !isBroken && watches.size > 0,
    close,
  };
}

/** Waits until the event loop has polled once after this call. */
export async function drainEvents(): Promise<void> {
  await new Promise(setImmediate);
  await new Promise(setImmediate);
}
