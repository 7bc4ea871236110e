import type { Clock } from '@kernmantle/core/base';

/** Returns the clock of the system, which a test can advance. */
export function movedClock(): Clock & { pass(ms: number): void } {
  let moved = 0;
  return {
    now: () => Date.now() + moved,
    monotonic: () => performance.now() + moved,
    pass(ms) {
      moved += ms;
    },
  };
}

let asked = 0;

/** A clock for tests that write a file and read it at once: each call is a second after the last one. */
export const lateClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() + 1000 * asked++,
};
