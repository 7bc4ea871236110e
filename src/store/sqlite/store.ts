// The registry in one SQLite file: every writing call is a value in one queue, every read is made at
// once. The connection is never inside a transaction when other code runs, so what is read was
// committed, and your own writes are there because you were answered after their COMMIT.
import type { DatabaseSync } from 'node:sqlite';
import {
  type Clock,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
  systemRandom,
} from '../../base/index.ts';
import { isOwnerGone } from '../leases/lease-owner.ts';
import type { Answer, Store } from '../port.ts';
import { createAccounts } from './account.ts';
import { createFeed } from './feed.ts';
import { pause } from './file/connection.ts';
import { isBusy } from './file/fault.ts';
import { createGroup } from './file/group.ts';
import { type Durability, openFile } from './file/open-file.ts';
import { createHeldThreads } from './held.ts';
import {
  approvalsPort,
  journalPort,
  leasesPort,
  type Parts,
  recordsPort,
  signalsPort,
  threadsPort,
} from './ports.ts';

export interface SqliteOptions {
  /** `.ai/threads/registry.db`; made when it is not there. `:memory:` is for one use: nothing of it stays. */
  file: string;
  clock: Clock;
  durability?: Durability;
  random?: RandomBytes;
  /** A key of the user: a registry that was made without it is refused (`store_foreign`). */
  identity?: Uint8Array;
  /** How long a group waits for other processes. */
  patienceMs?: number;
  /** Is the process behind a lease certainly not there any more? Asked before its time is up. */
  isGone?: (owner: string) => boolean;
  /** How often commits of other processes are looked for while somebody waits for them. */
  watchIntervalMs?: number;
  /** The connection itself, for who wants to see what happens when it fails. */
  connect?: (file: string) => DatabaseSync;
}

const PATIENCE_MS = 10_000;
const WATCH_INTERVAL_MS = 25;

export async function openSqliteStore(options: SqliteOptions): Answer<Store> {
  const { file, clock, random = systemRandom, durability = 'commit', identity, connect } = options;
  const { patienceMs = PATIENCE_MS, watchIntervalMs = WATCH_INTERVAL_MS } = options;
  const opened = await openFile({
    file,
    clock,
    random,
    durability,
    patienceMs,
    ...(identity && { identity }),
    ...(connect && { connect }),
  });
  if (!opened.ok) return opened;
  const connection = opened.output;
  const held = createHeldThreads(connection);
  const accounts = createAccounts(connection);
  const feed = createFeed(connection, held, watchIntervalMs, accounts.forget);
  const closed = fail('store_closed', `the registry \`${file}\` was closed`, { file });
  const [onBegin, onEnd] = [feed.onBegin, accounts.write];
  const group = createGroup(connection, { clock, random, patienceMs, onBegin, onEnd, closed });
  let [isClosing, isClosed] = [false, false];
  const unfinished = new Set<Promise<unknown>>();

  async function look<T>(work: () => Outcome<T>): Answer<T> {
    const deadline = clock.monotonic() + patienceMs;
    for (let tries = 0; ; tries++) {
      if (isClosed) return closed;
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || clock.monotonic() >= deadline) return connection.fault(error);
      }
      await pause(random, tries);
    }
  }

  async function steps<T>(work: () => Answer<T>): Answer<T> {
    if (isClosing) return closed;
    const answer = work();
    unfinished.add(answer);
    const outcome = await answer;
    unfinished.delete(answer);
    return outcome;
  }

  const parts: Parts = {
    connection,
    clock,
    random,
    isGone: options.isGone ?? isOwnerGone,
    group,
    feed,
    held,
    accounts,
    look,
    steps,
    read: (work) => (isClosing ? Promise.resolve(closed) : look(work)),
    write: (work, how) => (isClosing ? Promise.resolve(closed) : group.write(work, how)),
  };
  return ok({
    ...threadsPort(parts),
    ...journalPort(parts),
    ...leasesPort(parts),
    ...signalsPort(parts),
    ...approvalsPort(parts),
    ...recordsPort(parts),
    async close() {
      isClosing = true;
      feed.close();
      await Promise.all(unfinished);
      await group.close();
      isClosed = true;
      connection.close();
    },
  });
}
