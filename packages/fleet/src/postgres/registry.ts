// What all parts of a registry on a server work with.
import type { Clock, RandomBytes } from '@kernmantle/core/base';
import type { Head, SignalNote } from '@kernmantle/core/store';
import type { Database, Sql } from './connection.ts';
import type { AccountCache, HeldHereMap } from './leased-thread.ts';
import { AGREE_MS } from './schema.ts';

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

/** What the server's times are on the clock of this process. */
export interface ServerTime {
  /** The clock of this process. */
  said(): number;
  /** `now`: of the server, in the same answer. */
  here(time: number, now: number): number;
}

export interface ServerRegistry {
  readonly database: Database;
  readonly clock: Clock;
  readonly time: ServerTime;
  readonly random: RandomBytes;
  readonly held: HeldHereMap;
  readonly accounts: AccountCache;
  readonly feed: ServerFeed;
  readonly jobs: Jobs;
  /** Forms of the journal that this program reads; it writes the last of them. */
  readonly formats: readonly number[];
  /** The longest lease. */
  readonly maxLeaseMs: number;
  /** Is the process behind a lease certainly not there any more? */
  readonly isGone: (owner: string) => boolean;
}

/** Changes only when the clocks do, so that the same time is always shown as the same. */
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
