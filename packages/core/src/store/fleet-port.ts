// The part of the store port that machines share: workers, queues and limits over all machines. A store
// in a file does not implement it.
import type { Outcome } from '../base/index.ts';

export interface Fleet extends Workers, FleetLimits, LabelRows {
  /** Address of the server, without its password. */
  readonly place: string;
  /** Form of the journal that this program writes; it reads those before it. */
  readonly journal: number;
  contents(): Told<FleetContents>;
}

export interface FleetContents {
  /** Version of the server, as it says. */
  server: string;
  /** Form of the tables, of the journal in them, and of the tables of the queue. */
  form: number;
  journal: number;
  queue: number;
  /** How many threads are in which state, of all projects. */
  threads: { status: string; count: number }[];
}

interface Workers {
  /**
   * Called every few seconds; a worker that was silent for `GONE_MS` is gone. Queued threads that were
   * handed back because no worker had their items are due at once if this worker has them.
   */
  announce(worker: WorkerState): Told<null>;
  /** Removes a worker that ends in good order, so that other workers do not wait for its silence. */
  leave(worker: string): Told<null>;
  /** Returns the workers that announced themselves lately, the oldest first. */
  workers(): Told<WorkerRow[]>;
  /**
   * Returns those of the named workers that announced nothing for `GONE_MS` and did not leave: they are
   * gone. A worker that left in good order, or that never announced itself, is not returned.
   */
  lost(workers: readonly string[]): Told<{ id: string; heard: number }[]>;
  /** Time of the store in milliseconds since 1970. Workers, queues and leases use this clock. */
  now(): Told<number>;
  /** Counts queued threads, one row for each tenant, project and items. */
  queues(): Told<QueueRow[]>;
}

type Told<T> = Promise<Outcome<T>>;

export const GONE_MS = 15_000;

export interface WorkerState {
  /** Name of the worker as the owner of leases. */
  id: string;
  /** Name of the machine, for people. */
  host: string;
  version: string;
  /** Form of the journal that it writes. */
  journal: number;
  slots: number;
  /** Number of threads that the worker runs now. */
  busy: number;
  tenants: readonly string[];
  projects: readonly { project: string; items: string }[];
  /** The worker takes no more threads and ends the steps of its threads. */
  draining: boolean;
  /** Resident memory of the process in bytes. */
  memory: number;
}

export interface WorkerRow extends WorkerState {
  /** Milliseconds since 1970 by the clock of the store. */
  started: number;
  heard: number;
  /** How far its clock is from the store's, in milliseconds. */
  clock_off: number;
}

export interface QueueRow {
  tenant: string;
  project: string;
  items: string;
  /** Numbers of threads that are due now and later. */
  ready: number;
  later: number;
  /** Since when the first of them waits, in milliseconds since 1970. */
  oldest: number;
  /** Workers that were heard of and have this project with these items. */
  served_by: number;
}

/** Limits of a provider's key or of a tenant, over all machines. Left out: none. */
export interface SharedLimit {
  /** The scope is `provider:NAME` or `tenant:NAME`. */
  scope: string;
  concurrent?: number;
  requests_per_minute?: number;
  tokens_per_minute?: number;
  /** In nano-units of the currency, like every spend of the store. */
  spend_per_day?: bigint;
}

export interface Entering {
  provider: string;
  tenant: string;
  /** Process that sends the request. It loses the place if it is gone. */
  owner: string;
  /** Largest number of tokens that the request can use. */
  tokens: number;
  /** Largest cost of the request. Absent: the model has no price, so a spend limit refuses it. */
  spend?: bigint;
  /** Time until the place is lost, unless `stay` renews it. A process that cannot renew ends its request before. */
  ttlMs: number;
}

/** Time from `enter` to the sending of the request, by the local clock. A later request needs a new place. */
export const SEND_WITHIN_MS = 5_000;

export interface FleetLimits {
  limits(): Told<SharedLimit[]>;
  /** Replaces the limit of this scope. A limit without figures removes it. */
  setLimit(limit: SharedLimit): Told<null>;
  /**
   * Gets a place for one request to a provider. INVARIANT: a request is never sent without a place, and the
   * places together never exceed a limit. If a limit is reached, it returns the time until the next try, or
   * fails with `shared_limit` if that is not today. An empty place: no limit exists, so nothing is counted.
   */
  enter(ask: Entering): Told<{ place: string } | { wait_ms: number; limit: string; scope: string }>;
  /** Renews places. A place that the answer does not contain is lost. */
  stay(places: readonly string[], ttlMs: number): Told<string[]>;
  /** Returns a place with the amounts that its request used. A second call has no effect. */
  exit(place: string, took: { tokens: number; spend: bigint }): Told<null>;
}

/** Labels of files. They are the same on every machine that resumes a thread. */
interface LabelRows {
  /** Returns rows after a number in the order of writing, at most 1,000 in a page. */
  labelRows(project: string, after: number): Told<{ number: number; text: string }[]>;
  addLabelRows(project: string, rows: readonly string[]): Told<null>;
}
