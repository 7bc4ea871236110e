// Defines the parts that all functions of a registry on a server share.
import type { Clock, RandomBytes } from '@kernmantle/core/base';
import type { Head, SignalNote } from '@kernmantle/core/store';
import type { Database, Sql } from './connection.ts';
import type { AccountCache, LocalLeases } from './leased-thread.ts';
import { AGREE_MS } from './schema.ts';

/** Announces events to waiting callers in this process and in others, after they are written. */
export interface ServerFeed {
  moved(head: Head): void;
  /** Announces that this process queued a thread. */
  queued(): void;
  said(note: SignalNote): void;
}

/** Keeps the jobs of the queue equal to the rows. */
export interface Jobs {
  /**
   * Called inside the transaction that changed the threads. A thread with `queued` gets a job that is due at that
   * time. The job of any other thread is dropped, or completed if this process fetched it.
   */
  follow(sql: Sql, threads: readonly string[]): Promise<void>;
}

/** Converts times of the server to the clock of this process. */
export interface ServerTime {
  /** Returns the time on the clock of this process. */
  said(): number;
  /** Converts a time of the server. `now`: the time of the server in the same answer. */
  here(time: number, now: number): number;
}

export interface ServerRegistry {
  readonly database: Database;
  readonly clock: Clock;
  readonly time: ServerTime;
  readonly random: RandomBytes;
  readonly held: LocalLeases;
  readonly accounts: AccountCache;
  readonly feed: ServerFeed;
  readonly jobs: Jobs;
  /** Journal formats that this program reads. It writes the last of them. */
  readonly formats: readonly number[];
  /** Maximum duration of a lease in milliseconds. */
  readonly maxLeaseMs: number;
  /** True if the process of this owner is certainly gone. */
  readonly isGone: (owner: string) => boolean;
}

/** Caches the difference until a clock changes, so that one time is always converted to the same value. */
export function createServerTime(clock: Clock): ServerTime {
  let ahead = 0;
  return {
    said: () => clock.now(),
    here(time, now) {
      const measured = now - clock.now();
      if (Math.abs(measured - ahead) > AGREE_MS) {
        ahead = Math.abs(measured) > AGREE_MS ? measured : 0;
      }
      return time - ahead;
    },
  };
}
