// Moves files that a child must not leave in the project to a folder of the user, under a name that no
// program acts upon. They lose their name first, so that a crash in between is harmless.
import {
  closeSync,
  constants,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

const SUFFIX = '-from-sandbox';
/** Opens a path without the right to read it. Node has no name for this flag. */
const O_PATH = 0o10_000_000;

export const statOf = (path: string) => {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // the folder above is closed, which is reported by itself
  }
};

/** Calls `act` with the folder itself. Does nothing if a link replaced the folder or one above it. */
export function inFolder(path: string, act: (folder: string) => void): void {
  if (process.platform !== 'linux') return act(path);
  const fd = openSync(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const anchor = `/proc/self/fd/${fd}`;
    if (readlinkSync(anchor) === path) act(anchor);
  } finally {
    closeSync(fd);
  }
}

function freeName(folder: string, name: string): string {
  for (let count = 1; ; count++) {
    const free = count === 1 ? `${name}${SUFFIX}` : `${name}${SUFFIX}-${count}`;
    if (!existsSync(join(folder, free))) return free;
  }
}

/** Renames one entry of a folder if it exists, and passes on the new name. */
export function rename(
  folder: string,
  name: string,
  then: (renamed: string) => void = () => undefined,
): void {
  inFolder(folder, (anchor) => {
    if (!statOf(join(anchor, name))) return;
    const renamed = join(anchor, freeName(anchor, name));
    renameSync(join(anchor, name), renamed);
    then(renamed);
  });
}

/** Moves a file or folder, also to another disk. */
function move(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch {
    cpSync(from, to, { recursive: true, verbatimSymlinks: true });
    rmSync(from, { recursive: true, force: true });
  }
}

/** Moves one entry out of a folder. If it cannot be moved, it stays under a name without effect. */
export function takeAway(folder: string, name: string, to: string): void {
  rename(folder, name, (renamed) => {
    try {
      mkdirSync(to, { recursive: true, mode: 0o700 });
      move(renamed, join(to, freeName(to, basename(name))));
    } catch {
      // The disk is full, or the folder is not writable.
    }
  });
}

/** Moves a path of the project out of it. If it cannot be moved, it stays under a name without effect. */
export const takeOut = (projectRoot: string, path: string, aside: string): void =>
  takeAway(dirname(join(projectRoot, path)), basename(path), join(aside, dirname(path)));
