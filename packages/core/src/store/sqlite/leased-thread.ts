// What this process knows about the threads it holds: their chain, which signals it was told, and
// whether their word still counts. Bounded by the threads that are held; what is let go is forgotten.
import type { Fence } from '../decide.ts';
import { REVOKING } from '../thread-id.ts';
import { byLength, type Connection } from './file/connection.ts';

export interface FenceRow extends Fence {
  number: number;
  root: string;
  depth: number;
}

export interface CachedLease {
  epoch: number;
  chain: readonly string[];
  /** The last signal that went out with an answer. */
  told: number;
  /** The last signal that listeners were called for. */
  announced: number;
  /** As of `asOf`. */
  revoked: string | undefined;
  asOf: number;
  /** As the last commit left it, as of `rowAsOf`. */
  row?: FenceRow;
  rowAsOf: number;
}

const revokedOf = byLength(
  (places) => `SELECT id FROM threads WHERE id IN (${places}) AND
  (status IN (${REVOKING.map((status) => `'${status}'`).join(', ')}) OR (wakes > 0 AND EXISTS
    (SELECT 1 FROM signals WHERE signals.thread = threads.id AND signals.kind = 'kill')))`,
);

export type HeldThreads = ReturnType<typeof createHeldThreads>;

export function createHeldThreads(connection: Connection) {
  const all = new Map<string, CachedLease>();
  let [version, rowVersion] = [0, 0];
  const forgetRows = (): void => void (rowVersion += 1);

  return {
    get: (thread: string): CachedLease | undefined => all.get(thread),
    /** A new one; `heard` is what its journal has obeyed, `wakes` what was said to it so far. */
    add(
      thread: string,
      facts: { epoch: number; chain: readonly string[]; heard: number; wakes: number },
    ): CachedLease {
      const { epoch, chain, heard: told, wakes: announced } = facts;
      const held = { epoch, chain, told, announced, revoked: undefined, asOf: -1, rowAsOf: -1 };
      all.set(thread, held);
      return held;
    },
    /** Only when it is held under this epoch. */
    drop(thread: string, epoch: number): void {
      if (all.get(thread)?.epoch === epoch) all.delete(thread);
    },
    markDelivered(held: CachedLease, to: number): void {
      const before = held.told;
      if (to <= before) return;
      held.told = to;
      connection.afterRollback(() => {
        held.told = before;
      });
    },
    /** The nearest of the chain whose word counts no more. Remembered for what is held. */
    revokedIn(chain: readonly string[], held?: CachedLease): string | undefined {
      if (held?.asOf === version) return held.revoked;
      const rows = connection.all(revokedOf(chain.length), ...chain);
      const found =
        rows.length === 0 ? undefined : chain.find((id) => rows.some((row) => row['id'] === id));
      if (held) [held.revoked, held.asOf] = [found, version];
      return found;
    },
    /** Undefined: it has to be read. INVARIANT: true inside a transaction, as the file has it. */
    rowOf: (held: CachedLease | undefined): FenceRow | undefined =>
      held?.rowAsOf === rowVersion ? held.row : undefined,
    keepRow(held: CachedLease, row: FenceRow): void {
      [held.row, held.rowAsOf] = [row, rowVersion];
      connection.afterRollback(forgetRows);
    },
    /** Somebody wrote rows who is no commit of the thread itself: whatever they say now is read again. */
    forgetRows,
    /** Somebody ended, or another process wrote: what was known about words counts no more. */
    forgetWords(): void {
      version += 1;
      // What was looked up in a transaction that is undone was never so.
      if (connection.isInside()) connection.afterRollback(() => void (version += 1));
    },
  };
}
