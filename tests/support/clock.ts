import type { Clock } from '../../src/base/index.ts';

let asked = 0;

/** For tests that write a file and ask at once: every question comes a second after the last one. */
export const lateClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() + 1000 * asked++,
};
