// Implements the store in one SQLite file. Writes wait in one queue, and reads run at once. The connection is
// never inside a transaction when other code runs, so a read returns only committed data. A caller reads its
// own writes, because it was answered after their COMMIT.
import { fail, type Outcome, ok, systemRandom } from '../../base/index.ts';
import { isOwnerGone } from '../leases/lease-owner.ts';
import type { Answer, Store } from '../port.ts';
import { createAccounts } from './account.ts';
import { createFeed } from './feed.ts';
import { pause } from './file/connection.ts';
import { isBusy } from './file/errors.ts';
import { createGroup, type Group } from './file/group.ts';
import { type FileOptions, type OpenOptions, openFile } from './file/open-file.ts';
import { createLeaseTable } from './leased-thread.ts';
import {
  approvalsPort,
  journalPort,
  leasesPort,
  memoriesPort,
  type Parts,
  recordsPort,
  signalsPort,
  threadsPort,
} from './ports.ts';
import { schedulesPort } from './schedules.ts';

type Needed = Pick<FileOptions, 'file' | 'clock'>;

export interface SqliteOptions extends Needed, Partial<Omit<FileOptions, keyof Needed>> {
  /** True if the owner of a lease certainly does not exist, so the lease ends. Absent: `isOwnerGone`. */
  isGone?: (owner: string) => boolean;
  /** Interval at which a waiting caller looks for commits of other processes. Absent: 25 ms. */
  watchIntervalMs?: number;
}

const DEFAULTS = { random: systemRandom, durability: 'commit', patienceMs: 10_000 } as const;
const WATCH_INTERVAL_MS = 25;

export async function openSqliteStore(
  options: SqliteOptions & Pick<OpenOptions, 'connect'>,
): Answer<Store> {
  const settings: OpenOptions = { ...DEFAULTS, ...options };
  const { file, clock, random, patienceMs } = settings;
  const { watchIntervalMs = WATCH_INTERVAL_MS } = options;
  const opened = await openFile(settings);
  if (!opened.ok) return opened;
  const connection = opened.output;
  const leases = createLeaseTable(connection);
  const accounts = createAccounts(connection);
  const feed = createFeed(connection, leases, watchIntervalMs, () => {
    accounts.forget();
    leases.forgetRows();
  });
  const closed = fail('store_closed', `the registry \`${file}\` was closed`, { file });
  const [onBegin, onEnd] = [feed.onBegin, accounts.write];
  const group = createGroup(connection, { clock, random, patienceMs, onBegin, onEnd, closed });
  const write: Group['write'] = (work, how) =>
    group.write(() => {
      leases.forgetRows();
      return work();
    }, how);
  const refuse = () => Promise.resolve(closed);
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
    group: { ...group, write },
    feed,
    held: leases,
    accounts,
    look,
    steps,
    read: (work) => (isClosing ? refuse() : look(work)),
    write,
    commit: group.write,
  };
  return ok({
    ...threadsPort(parts),
    ...journalPort(parts),
    ...leasesPort(parts),
    ...signalsPort(parts),
    ...approvalsPort(parts),
    ...recordsPort(parts),
    ...memoriesPort(parts),
    ...schedulesPort(parts),
    async close() {
      isClosing = true;
      parts.write = refuse;
      parts.commit = refuse;
      feed.close();
      await Promise.all(unfinished);
      await group.close();
      isClosed = true;
      connection.close();
    },
  });
}
