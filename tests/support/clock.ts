import type { Clock } from '@kernmantle/core/base';

/** The clock of the system, which a test can move on. */
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

/** For tests that write a file and ask at once: every question comes a second after the last one. */
export const lateClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() + 1000 * asked++,
};
