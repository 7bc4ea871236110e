// The world as arguments: rooms receive these, they never read a clock or a random source themselves.
import { randomBytes } from 'node:crypto';

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
