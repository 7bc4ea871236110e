// Commits in groups: what is asked for in the same round of the event loop shares one transaction,
// and everybody is answered after its commit. With many threads in a process this is one flush to
// the disk instead of one each.
import { type Outcome, ok } from '../base/index.ts';
import type { Database } from './database.ts';

export interface Group {
  /**
   * Runs `work` (calls of this store, nothing that waits) in the next group commit. One that fails
   * is undone alone; if the commit itself fails, each is tried by itself.
   */
  grouped<T>(work: () => Outcome<T>): Promise<Outcome<T>>;
  /** Runs what is waiting now. */
  flush(): void;
}

export function createGroup(database: Database): Group {
  let waiting: { run: () => void; answer: () => void }[] = [];

  function flush(): void {
    const group = waiting;
    waiting = [];
    if (group.length === 0) return;
    const together = database.write(() => {
      for (const { run } of group) run();
      return ok(null);
    });
    if (!together.ok) for (const { run } of group) run();
    for (const { answer } of group) answer();
  }

  return {
    grouped<T>(work: () => Outcome<T>): Promise<Outcome<T>> {
      return new Promise((resolve) => {
        let outcome: Outcome<T>;
        const run = () => void (outcome = database.write(work));
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ run, answer: () => resolve(outcome) });
      });
    },
    flush,
  };
}
