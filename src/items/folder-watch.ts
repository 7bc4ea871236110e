// Which folders changed since the last look, without stamping every file again. Used on Linux only:
// there the kernel queues an event before a write returns, so two turns of the event loop are enough
// to have heard of everything that happened before the question. Elsewhere, on network file systems
// and whenever a watch cannot be had, the answer is "look at everything".
import { type FSWatcher, statfsSync, watch } from 'node:fs';

export interface FolderWatch {
  /** Watches exactly these folders; false when that is not possible, and then it is closed. */
  follow(folders: Iterable<string>): boolean;
  /** Folders with events since the last call; `all` when events may have been lost. */
  take(): { folders: Set<string>; all: boolean };
  isOn(): boolean;
  close(): void;
}

/** ext2-4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs, bcachefs: local, so every write passes this kernel. */
const LOCAL = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010, 0xca451a4e,
]);
/** The kernel's queue holds 16,384 events and drops the rest silently. */
const MANY_EVENTS = 2000;

export function canWatch(root: string, platform: string = process.platform): boolean {
  if (platform !== 'linux') return false;
  try {
    return LOCAL.has(statfsSync(root).type);
  } catch {
    return false;
  }
}

export function createFolderWatch(root: string): FolderWatch {
  const watchers = new Map<string, FSWatcher>();
  let dirty = new Set<string>();
  let events = 0;
  let isBroken = false;

  function stop(folder: string): void {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  }

  function close(): void {
    for (const folder of watchers.keys()) stop(folder);
    isBroken = true;
  }

  function start(folder: string): void {
    // Not persistent: a watch must never keep a command from ending.
    const watcher = watch(`${root}/${folder}`, { persistent: false }, () => {
      events++;
      dirty.add(folder);
    });
    watcher.on('error', () => {
      isBroken = true;
    });
    watchers.set(folder, watcher);
    // What happened between the listing and this moment would be missed.
    dirty.add(folder);
  }

  return {
    follow(folders) {
      const wanted = new Set(folders);
      for (const folder of watchers.keys()) if (!wanted.has(folder)) stop(folder);
      try {
        for (const folder of wanted) if (!watchers.has(folder)) start(folder);
      } catch {
        close();
      }
      return !isBroken;
    },
    take() {
      const taken = { folders: dirty, all: isBroken || events > MANY_EVENTS };
      [dirty, events] = [new Set(), 0];
      return taken;
    },
    isOn: () => !isBroken && watchers.size > 0,
    close,
  };
}

/** Long enough for the event loop to have polled once after this was called. */
export async function drainEvents(): Promise<void> {
  await new Promise(setImmediate);
  await new Promise(setImmediate);
}
