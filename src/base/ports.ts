import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';

/**
 * A file or folder of this package by its path there, such as `bundle`. INVARIANT: this module lies
 * two folders below the package, in `src/base/` as in `dist/chunks/`.
 */
export const packagePath = (path: string): string =>
  fileURLToPath(new URL(`../../${path}`, import.meta.url));

// The world as arguments: rooms receive these, they never read a clock or a random source themselves.

export interface Clock {
  /** Milliseconds since 1970; may jump. */
  now(): number;
  /** Milliseconds that only grow; for durations and deadlines. */
  monotonic(): number;
}

export type RandomBytes = (count: number) => Uint8Array;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};

export const systemRandom: RandomBytes = (count) => randomBytes(count);
