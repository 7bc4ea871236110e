// Caches the leases of this process: the end of each lease, the delivered signals, and the rows from which the
// next commit of the thread is decided. A release drops the entry.
import type { readAccount, Signal, ThreadStatus } from '@kernmantle/core/store';

/** A thread after its last commit. Under one epoch, only a commit or a signal changes these columns. */
export interface CachedRow {
  /** Number of the last event. A commit that expects another number reads the row. */
  readonly seq: number;
  readonly status: ThreadStatus;
  /** Number of the last signal to the thread. The server can have a higher one. */
  readonly wakes: number;
  /** Number of the last signal that the thread acknowledged. */
  readonly acknowledged: number;
  /** Ids from the thread up to its root. */
  readonly chain: readonly string[];
}

interface LocalLease {
  readonly epoch: number;
  /** Number of the last signal that an answer delivered. */
  delivered: number;
  /** Number of the last signal for which listeners were called. */
  announced: number;
  /** End of the lease, on the monotonic clock of this process. */
  until: number;
  /** Absent: the next commit reads the row. */
  row?: CachedRow | undefined;
}

export type LocalLeases = ReturnType<typeof createLocalLeases>;

export function createLocalLeases() {
  const all = new Map<string, LocalLease>();
  return {
    get: (thread: string): LocalLease | undefined => all.get(thread),
    /** Adds an entry. `until` counts from the time before the request. */
    add(thread: string, { epoch, until, row }: { epoch: number; until: number; row: CachedRow }) {
      all.set(thread, {
        epoch,
        delivered: row.acknowledged,
        announced: row.acknowledged,
        until,
        row,
      });
    },
    /** Removes the entry if its lease has this epoch. */
    drop(thread: string, epoch: number): void {
      if (all.get(thread)?.epoch === epoch) all.delete(thread);
    },
    /** Returns the signals that were not delivered before, and marks them as delivered. */
    tell(thread: string, epoch: number, signals: readonly Signal[]): readonly Signal[] {
      const entry = all.get(thread);
      if (entry?.epoch !== epoch || signals.length === 0) return signals;
      const fresh = signals.filter(({ number }) => number > entry.delivered);
      entry.delivered = Math.max(entry.delivered, fresh.at(-1)?.number ?? 0);
      return fresh;
    },
    renew(thread: string, epoch: number, until: number): void {
      const entry = all.get(thread);
      if (entry?.epoch === epoch) entry.until = until;
    },
    /** Caches a row. Undefined: the next commit reads the row. */
    setRow(thread: string, epoch: number, row: CachedRow | undefined): void {
      const entry = all.get(thread);
      if (entry?.epoch === epoch) entry.row = row;
    },
  };
}

export interface VersionedAccount {
  readonly account: ReturnType<typeof readAccount>;
  readonly version: number;
}

export type AccountCache = ReturnType<typeof createAccountCache>;

const MAX_ACCOUNTS = 10_000;

/**
 * Caches accounts. Threads of one tree share the accounts of their ancestors. A cached account can be old, so a
 * write compares its version.
 */
export function createAccountCache() {
  const all = new Map<string, VersionedAccount>();
  return {
    /** Returns the accounts of a chain, or undefined if one of them is not cached. */
    chain(threads: readonly string[]): VersionedAccount[] | undefined {
      const accounts = threads.flatMap((thread) => all.get(thread) ?? []);
      return accounts.length === threads.length ? accounts : undefined;
    },
    add(accounts: readonly VersionedAccount[]): void {
      if (all.size > MAX_ACCOUNTS) all.clear();
      for (const entry of accounts) {
        const { thread } = entry.account;
        // Answers can arrive in another order than the server sent them.
        if ((all.get(thread)?.version ?? -1) <= entry.version) all.set(thread, entry);
      }
    },
  };
}
