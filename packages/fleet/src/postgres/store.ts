// Opens a registry on a server that several machines share. Requests use a pool of connections, one more
// connection listens, and the library of the queue has its own.
import { type Clock, fail, ok, type RandomBytes, systemRandom } from '@kernmantle/core/base';
import type { Answer, Store } from '@kernmantle/core/store';
import { createWatch, isOwnerGone } from '@kernmantle/core/store';
import { serverApprovals } from './approvals.ts';
import { serverJournal } from './commit.ts';
import { type DatabaseAddress, type DatabaseOptions, openDatabase } from './connection.ts';
import { createListeningFeed } from './feed.ts';
import { createFleet } from './fleet.ts';
import { createJobs } from './jobs.ts';
import { createAccountCache, createLocalLeases } from './leased-thread.ts';
import { type LeaseParts, serverLeases } from './leases.ts';
import { serverMemories } from './memories.ts';
import { checkForm } from './migrate.ts';
import { serverRecords } from './records.ts';
import { createServerTime } from './registry.ts';
import { serverSchedules } from './schedules.ts';
import { JOURNAL_FORMATS } from './schema.ts';
import { serverSignals } from './signals.ts';
import { serverThreads } from './threads.ts';
import { createEventReader } from './watch.ts';

export type { DatabaseAddress } from './connection.ts';

/** Maximum duration of a lease without a renewal. It is short, so that a lost worker is found soon. */
const MAX_LEASE_MS = 10_000;

export interface PostgresOptions
  extends Pick<DatabaseOptions, 'patienceMs' | 'connections' | 'Client'> {
  readonly place: DatabaseAddress;
  /** Text of the address, without its password. */
  readonly shown: string;
  readonly clock: Clock;
  readonly random?: RandomBytes;
  /** Key of the user. A registry of another key fails with `store_foreign`. Absent: any registry opens. */
  readonly identity?: Uint8Array;
  /** Journal formats that are read. The last one is written. Absent: those of this program. */
  readonly formats?: readonly number[];
  /** Maximum duration of a lease in milliseconds. Absent: 10,000. */
  readonly maxLeaseMs?: number;
  /** True if the process of this owner is certainly gone, so its lease ends. Absent: `isOwnerGone`. */
  readonly isGone?: (owner: string) => boolean;
}

type Method = (...args: never[]) => Promise<unknown>;

/** Refuses requests after the store was closed. Earlier requests are completed. */
function createGate(place: string) {
  const closed = fail('store_closed', `the registry at ${place} was closed`, { place });
  const unanswered = new Set<Promise<unknown>>();
  let isClosed = false;
  const through =
    (method: Method): Method =>
    async (...args) => {
      if (isClosed) return closed;
      const answer = method(...args);
      unanswered.add(answer);
      try {
        return await answer;
      } finally {
        unanswered.delete(answer);
      }
    };
  return {
    guard: <P extends { [K in keyof P]: Method }>(port: P): P =>
      Object.fromEntries(
        Object.entries<Method>(port).map(([name, method]) => [name, through(method)]),
      ) as P,
    close: (): void => void (isClosed = true),
    async answered(): Promise<void> {
      while (unanswered.size > 0) await Promise.allSettled(unanswered);
    },
  };
}

export async function openPostgresStore(options: PostgresOptions): Answer<Store> {
  const { place, clock, random = systemRandom, maxLeaseMs = MAX_LEASE_MS } = options;
  const { formats = JOURNAL_FORMATS } = options;
  const opened = await openDatabase({ ...options, random });
  if (!opened.ok) return opened;
  const database = opened.output;
  const ready = await checkForm(database, { ...options, random });
  if (!ready.ok) {
    await database.close();
    return ready;
  }
  const gate = createGate(options.shown);
  const localLeases = createLocalLeases();
  const feed = createListeningFeed(database, localLeases, clock);
  const jobs = createJobs(place);
  const isGone = options.isGone ?? isOwnerGone;
  const time = createServerTime(clock);
  const accounts = createAccountCache();
  const own = { database, clock, time, random, held: localLeases, accounts, feed, jobs };
  const parts: LeaseParts = { ...own, formats, maxLeaseMs, isGone };
  const fleet = createFleet(database, jobs, clock, formats.at(-1) ?? 0);
  const reader = createEventReader(database, feed);
  let ending: Promise<void> | undefined;
  async function end(): Promise<void> {
    gate.close();
    await feed.close(gate.answered);
    await jobs.close();
    await database.close();
  }

  return ok({
    ...gate.guard({
      ...serverThreads(parts),
      ...serverJournal(parts),
      ...serverLeases(parts),
      ...serverSignals(parts),
      ...serverApprovals(parts),
      ...serverRecords(database),
      ...serverMemories(database, clock),
      ...serverSchedules(parts, fleet),
    }),
    ...createWatch(feed, reader.join),
    onSignal: (listener) => feed.onSignal(listener),
    fleet,
    close: () => (ending ??= end()),
  });
}
