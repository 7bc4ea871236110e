// Caches facts about the threads that this process owns: their chain, the delivered signals, and if the
// thread is revoked. A release drops the entry, so the number of leases is the bound.
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
  /** Number of the last signal that was delivered. */
  delivered: number;
  /** Number of the last signal for which listeners were called. */
  announced: number;
  /** The nearest revoked thread of the chain at version `asOf`. */
  revoked: string | undefined;
  asOf: number;
  /** The row after the last commit, valid at version `rowAsOf`. */
  row?: FenceRow;
  rowAsOf: number;
}

const revokedOf = byLength(
  (places) => `SELECT id FROM threads WHERE id IN (${places}) AND
  (status IN (${REVOKING.map((status) => `'${status}'`).join(', ')}) OR (wakes > 0 AND EXISTS
    (SELECT 1 FROM signals WHERE signals.thread = threads.id AND signals.kind = 'kill')))`,
);

export type LeaseTable = ReturnType<typeof createLeaseTable>;

export function createLeaseTable(connection: Connection) {
  const all = new Map<string, CachedLease>();
  let [version, rowVersion] = [0, 0];
  const forgetRows = (): void => void (rowVersion += 1);

  return {
    get: (thread: string): CachedLease | undefined => all.get(thread),
    /** Adds an entry. `acknowledged`: last acknowledged signal. `wakes`: last sent signal. */
    add(
      thread: string,
      facts: { epoch: number; chain: readonly string[]; acknowledged: number; wakes: number },
    ): CachedLease {
      const { epoch, chain, acknowledged: delivered, wakes: announced } = facts;
      const entry = {
        epoch,
        chain,
        delivered,
        announced,
        revoked: undefined,
        asOf: -1,
        rowAsOf: -1,
      };
      all.set(thread, entry);
      return entry;
    },
    /** Drops the entry if it has this epoch. */
    drop(thread: string, epoch: number): void {
      if (all.get(thread)?.epoch === epoch) all.delete(thread);
    },
    markDelivered(entry: CachedLease, to: number): void {
      const before = entry.delivered;
      if (to <= before) return;
      entry.delivered = to;
      connection.afterRollback(() => {
        entry.delivered = before;
      });
    },
    /** Returns the nearest revoked thread of the chain. A leased thread caches it. */
    revokedIn(chain: readonly string[], entry?: CachedLease): string | undefined {
      if (entry?.asOf === version) return entry.revoked;
      const rows = connection.all(revokedOf(chain.length), ...chain);
      const nearest =
        rows.length === 0 ? undefined : chain.find((id) => rows.some((row) => row['id'] === id));
      if (entry) [entry.revoked, entry.asOf] = [nearest, version];
      return nearest;
    },
    /** Returns the cached row, or undefined. INVARIANT: inside a transaction it always equals the row in the file. */
    rowOf: (entry: CachedLease | undefined): FenceRow | undefined =>
      entry?.rowAsOf === rowVersion ? entry.row : undefined,
    keepRow(entry: CachedLease, row: FenceRow): void {
      [entry.row, entry.rowAsOf] = [row, rowVersion];
      connection.afterRollback(forgetRows);
    },
    /** A write that is not a commit of the thread changed rows, so they must be read again. */
    forgetRows,
    /** A thread ended or another process wrote, so `revoked` must be read again. */
    forgetWords(): void {
      version += 1;
      // A result from a transaction that is rolled back must not stay in the cache.
      if (connection.isInside()) connection.afterRollback(() => void (version += 1));
    },
  };
}
