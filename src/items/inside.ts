// Paths that must stay inside a folder, whatever links stand on the way.
import { lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { isInside } from '../base/inside.ts';
import { type FileText, readItemFile } from './item-file.ts';

/** The real path of a file or folder; undefined when there is none. */
export function realOf(path: string): string | undefined {
  try {
    // Most paths that are asked for do not exist: saying so without an exception is much cheaper.
    return statSync(path, { throwIfNoEntry: false }) && realpathSync.native(path);
  } catch {
    return undefined;
  }
}

/** The real path of the longest part that exists: where a new file would really be made. */
export function realAncestor(path: string): string | undefined {
  for (let at = path; ; at = dirname(at)) {
    try {
      lstatSync(at);
      // Something is there, if only a link that leads nowhere: then nothing may be made through it.
      return realOf(at);
    } catch {
      if (at === dirname(at)) return undefined;
    }
  }
}

/** Text of a file below `root` (a real path); undefined when there is none there. */
export function readInside(root: string, path: string, max?: number): FileText | undefined {
  const real = realOf(`${root}/${path}`);
  if (real === undefined) return undefined;
  if (isInside(real, root)) return readItemFile(real, max);
  const message = 'this link leads out of its root, so it is not followed';
  return { problem: { code: 'symlink_outside', message } };
}
