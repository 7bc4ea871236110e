// What this process knows about the threads it holds: until when, and which signals it was told.
// Bounded by the threads that are held; what is let go is forgotten.
import type { Signal } from '@kernmantle/core/store';

interface HeldHere {
  readonly epoch: number;
  /** The last signal that went out with an answer. */
  told: number;
  /** The last signal that listeners were called for. */
  announced: number;
  /** On this process's monotonic clock. */
  until: number;
}

export type HeldHereMap = ReturnType<typeof createHeldHere>;

export function createHeldHere() {
  const all = new Map<string, HeldHere>();
  return {
    get: (thread: string): HeldHere | undefined => all.get(thread),
    /** `heard` is what its journal has obeyed; `until` is counted from before the question. */
    add(thread: string, facts: { epoch: number; heard: number; until: number }): void {
      const { epoch, heard, until } = facts;
      all.set(thread, { epoch, told: heard, announced: heard, until });
    },
    /** Only when it is held under this epoch. */
    drop(thread: string, epoch: number): void {
      if (all.get(thread)?.epoch === epoch) all.delete(thread);
    },
    /** Those of an answer that were not told before; they are told now. */
    tell(thread: string, epoch: number, signals: readonly Signal[]): readonly Signal[] {
      const held = all.get(thread);
      if (held?.epoch !== epoch || signals.length === 0) return signals;
      const fresh = signals.filter(({ number }) => number > held.told);
      held.told = Math.max(held.told, fresh.at(-1)?.number ?? 0);
      return fresh;
    },
    renew(thread: string, epoch: number, until: number): void {
      const held = all.get(thread);
      if (held?.epoch === epoch) held.until = until;
    },
  };
}
