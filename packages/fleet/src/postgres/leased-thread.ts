// Caches the leases of this process: when each ends, which signals were delivered, and the rows that the
// next commit of the thread is decided on. An entry lives as long as the lease.
import type { readAccount, Signal, ThreadStatus } from '@kernmantle/core/store';

/** A thread after its last commit. Under one epoch, only a commit or a signal changes these columns. */
export interface CachedRow {
  /** The last event. A commit that expects another one reads the row. */
  readonly seq: number;
  readonly status: ThreadStatus;
  /** Number of the last signal to the thread. The server can have a higher one. */
  readonly wakes: number;
  /** Number of the last signal that the thread acknowledged. */
  readonly heard: number;
  /** The thread first, its root last. */
  readonly chain: readonly string[];
}

interface HeldHere {
  readonly epoch: number;
  /** The last signal that an answer delivered. */
  told: number;
  /** The last signal that listeners were called for. */
  announced: number;
  /** When the lease ends, on the monotonic clock of this process. */
  until: number;
  /** Absent: the next commit reads the row. */
  row?: CachedRow | undefined;
}

export type HeldHereMap = ReturnType<typeof createHeldHere>;

export function createHeldHere() {
  const all = new Map<string, HeldHere>();
  return {
    get: (thread: string): HeldHere | undefined => all.get(thread),
    /** `until` counts from before the request. */
    add(thread: string, { epoch, until, row }: { epoch: number; until: number; row: CachedRow }) {
      all.set(thread, { epoch, told: row.heard, announced: row.heard, until, row });
    },
    /** Removes the entry if its lease has this epoch. */
    drop(thread: string, epoch: number): void {
      if (all.get(thread)?.epoch === epoch) all.delete(thread);
    },
    /** Returns the signals that were not delivered before, and marks them as delivered. */
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
    /** Absent: nothing is sure about the row, so the next commit reads it. */
    setRow(thread: string, epoch: number, row: CachedRow | undefined): void {
      const held = all.get(thread);
      if (held?.epoch === epoch) held.row = row;
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
 * Accounts as this process last saw them. Threads of one tree share the accounts above them. An account
 * here can be old: a write compares its version.
 */
export function createAccountCache() {
  const all = new Map<string, VersionedAccount>();
  return {
    /** Returns the accounts of a chain, or undefined if one of them is not cached. */
    chain(threads: readonly string[]): VersionedAccount[] | undefined {
      const found = threads.flatMap((thread) => all.get(thread) ?? []);
      return found.length === threads.length ? found : undefined;
    },
    add(accounts: readonly VersionedAccount[]): void {
      if (all.size > MAX_ACCOUNTS) all.clear();
      for (const entry of accounts) {
        const { thread } = entry.account;
        // Answers can arrive in another order than the server gave them.
        if ((all.get(thread)?.version ?? -1) <= entry.version) all.set(thread, entry);
      }
    },
  };
}
