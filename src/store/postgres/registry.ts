// What all parts of a registry on a server work with.
import type { Clock, RandomBytes } from '../../base/index.ts';
import type { Head, SignalNote } from '../port.ts';
import type { Database, Sql } from './connection.ts';
import type { HeldHereMap } from './held.ts';

/** What happened, told to whoever waits in this process and in others; after it is written. */
export interface ServerFeed {
  moved(head: Head): void;
  /** Something was queued here. */
  queued(): void;
  said(note: SignalNote): void;
}

/** Jobs of the engine follow what the rows say. */
export interface Jobs {
  /**
   * Inside the transaction that changed them: a thread with `queued` has a job that is due then, one
   * without has none (what this process held is completed).
   */
  follow(sql: Sql, threads: readonly string[]): Promise<void>;
}

export interface ServerRegistry {
  readonly database: Database;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly held: HeldHereMap;
  readonly feed: ServerFeed;
  readonly jobs: Jobs;
  /** The longest lease. */
  readonly maxLeaseMs: number;
  /** Is the process behind a lease certainly not there any more? */
  readonly isGone: (owner: string) => boolean;
}
