import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Returns the folder of the package: the nearest one above this module with `bundle/commands.json`. */
function packageFolder(): string {
  const start = dirname(fileURLToPath(import.meta.url));
  let folder = start;
  while (!existsSync(join(folder, 'bundle', 'commands.json'))) {
    if (folder === dirname(folder))
      throw new Error(
        `\`bundle/commands.json\` not found above \`${start}\`; install kernmantle again`,
      );
    folder = dirname(folder);
  }
  return folder;
}
let packageRoot: string | undefined;

/** Returns a file or folder of this package by its path in it, such as `bundle`. */
export const packagePath = (path: string): string => join((packageRoot ??= packageFolder()), path);

/** The clock of a caller, which a test can replace. */
export interface Clock {
  /** Milliseconds since 1970, which may jump. */
  now(): number;
  /** Milliseconds that only grow, for durations and deadlines. */
  monotonic(): number;
}

export type RandomBytes = (count: number) => Uint8Array;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};

export const systemRandom: RandomBytes = (count) => randomBytes(count);
