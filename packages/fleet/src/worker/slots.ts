// Limits the threads that a worker runs at once. Free slots are given in the order of the requests, so tenants that
// take turns keep taking turns.
import { availableParallelism, totalmem } from 'node:os';

export interface Slots {
  readonly size: number;
  /** Waits for one slot. Returns false if the signal aborts first. */
  enter(signal: AbortSignal): Promise<boolean>;
  /** Takes at most `most` further slots that are free now. Returns 0 if a request waits. */
  more(most: number): number;
  leave(count: number): void;
}

export function createSlots(size: number): Slots {
  let free = size;
  const waiting = new Set<() => void>();
  return {
    size,
    enter(signal) {
      if (signal.aborted) return Promise.resolve(false);
      if (free > 0 && waiting.size === 0) {
        free -= 1;
        return Promise.resolve(true);
      }
      return new Promise((resolve) => {
        const settle = (isIn: boolean): void => {
          waiting.delete(enter);
          signal.removeEventListener('abort', leave);
          resolve(isIn);
        };
        const enter = (): void => settle(true);
        const leave = (): void => settle(false);
        waiting.add(enter);
        signal.addEventListener('abort', leave, { once: true });
      });
    },
    more(most) {
      const count = waiting.size > 0 ? 0 : Math.min(free, Math.max(0, most));
      free -= count;
      return count;
    },
    leave(count) {
      free += count;
      for (const enter of waiting) {
        if (free === 0) return;
        free -= 1;
        enter();
      }
    },
  };
}

/** Slots for each core. Threads mostly wait for a provider, so a core can run many. */
const PER_CORE = 16;
const BYTES_EACH = 48 * 1024 * 1024;

/** Returns the default number of slots for a machine of this size. */
export function defaultSlots(
  cores = availableParallelism(),
  memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
): number {
  return Math.max(1, Math.min(cores * PER_CORE, Math.floor(memory / 2 / BYTES_EACH)));
}
