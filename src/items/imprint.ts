// What a few names looked like, so that the next question whether anything changed costs one look at
// each of them: no listing, no reading. A folder's stamp changes when a name in it comes or goes.
import { lstatSync, type Stats } from 'node:fs';
import { dirname } from 'node:path';

export interface Imprint {
  /** Does every name still look as it did? False in doubt. */
  isCurrent(): boolean;
  has(path: string): boolean;
}

/** How long a second change can keep the stamp of the first: file systems count seconds or ticks. */
export const tick = (changed: number): number => (changed % 1000 === 0 ? 2000 : 50);

const lookAt = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });

function isSame(before: Stats | undefined, now: Stats | undefined): boolean {
  if (before === undefined || now === undefined) return before === now;
  return (
    before.mtimeMs === now.mtimeMs &&
    before.ctimeMs === now.ctimeMs &&
    before.size === now.size &&
    before.ino === now.ino &&
    before.dev === now.dev &&
    before.mode === now.mode
  );
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
export function takeImprint(paths: Iterable<string>, now: number): Imprint | undefined {
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
    isCurrent() {
      try {
        for (const [path, before] of watched) if (!isSame(before, lookAt(path))) return false;
        return true;
      } catch {
        return false;
      }
    },
    has: (path) => looks.has(path),
  };
}
