// The one port behind which threads live. The parts are files of their own and share one connection;
// a server database could take its place by giving the same answers.
import { type Clock, type Outcome, ok, type RandomBytes, systemRandom } from '../base/index.ts';
import type { Audit } from '../kernel/index.ts';
import { type Approvals, createApprovals } from './approvals.ts';
import { createStoreAudit } from './audit.ts';
import { type Budgets, createBudgets } from './budgets/budgets.ts';
import { createGroup, type Group } from './database/database.ts';
import { createEventLog } from './database/event-log.ts';
import { checkOwner, type Durability, openDatabase } from './database/open-file.ts';
import { type Artifacts, createArtifacts } from './journal/artifacts.ts';
import { createJournal, type Journal } from './journal/journal.ts';
import { createSignals, type Signals } from './journal/signals.ts';
import { createStandings, type Standings } from './journal/standing.ts';
import { createFeed, createWatch, type Feed, type Watch } from './journal/watch.ts';
import { isOwnerGone } from './leases/lease-owner.ts';
import { createLeases, type Leases } from './leases/leases.ts';
import { createPrune, type Prune } from './threads/prune.ts';
import { createQuery, type Query } from './threads/query.ts';
import { createThreads, type Threads } from './threads/threads.ts';
import { createSealedSecrets, type SealedSecrets } from './vault.ts';

/** Never throws; what fails says so in its outcome, and then has changed nothing. */
export interface Store
  extends Threads,
    Query,
    Journal,
    Omit<Leases, 'born'>,
    Signals,
    Omit<Budgets, 'open' | 'charge'>,
    Watch,
    Prune,
    Standings,
    Pick<Feed, 'onSignal'>,
    Pick<Group, 'grouped'> {
  approvals: Approvals;
  artifacts: Artifacts;
  audit: Audit;
  secrets: SealedSecrets;
  /** Several calls of this store in one commit: all of them, or none when the outcome is a failure. */
  together<T>(work: () => Outcome<T>): Outcome<T>;
  /** Ends every watch. Calls after it answer `store_closed`. */
  close(): void;
}

export interface StoreOptions {
  /** `.ai/threads/registry.db`; made when it is not there. */
  file: string;
  clock: Clock;
  durability?: Durability;
  random?: RandomBytes;
  /** A key of the user: a registry that was made without it is refused (`store_foreign`). */
  identity?: Uint8Array;
  /** How long a writer waits for other processes. */
  patienceMs?: number;
  /** Is the process behind a lease certainly not there any more? Asked before its time is up. */
  isGone?: (owner: string) => boolean;
  /** How often commits of other processes are looked for while somebody watches. */
  watchIntervalMs?: number;
}

const PATIENCE_MS = 10_000;
const WATCH_INTERVAL_MS = 25;

export function openStore(options: StoreOptions): Outcome<Store> {
  const { file, clock, random = systemRandom, durability = 'commit' } = options;
  const { patienceMs = PATIENCE_MS, watchIntervalMs = WATCH_INTERVAL_MS } = options;
  const opened = openDatabase(file, { clock, random, patienceMs }, durability);
  if (!opened.ok) return opened;
  const database = opened.output;
  const owned = options.identity ? checkOwner(database, file, options.identity, random) : ok(null);
  if (!owned.ok) {
    database.close();
    return owned;
  }

  const sent = { count: 0 };
  const { listening, ...standings } = createStandings(database, clock, sent);
  const log = listening(createEventLog(database, clock));
  const { open, charge, ...budgets } = createBudgets(database, clock);
  const { born, ...leases } = createLeases(database, clock, log, options.isGone ?? isOwnerGone);
  const signals = createSignals(database, clock, sent);
  const feed = createFeed(database, { intervalMs: watchIntervalMs, sent });
  const group = createGroup(database);
  return ok({
    ...createThreads(database, clock, log, { open }, { born }),
    ...createQuery(database),
    ...createJournal(database, clock, log, { charge }),
    ...leases,
    ...signals,
    ...budgets,
    ...createWatch(database, feed),
    ...createPrune(database),
    ...standings,
    onSignal: feed.onSignal,
    grouped: group.grouped,
    approvals: createApprovals(database, clock, random, signals),
    artifacts: createArtifacts(database, clock),
    audit: createStoreAudit(database, clock),
    secrets: createSealedSecrets(database),
    together: (work) => database.write(work),
    close() {
      group.flush();
      database.close();
      feed.close();
    },
  });
}
