// The part of the store port that machines share: workers, queues and limits over all machines. A store
// in a file does not implement it.
import type { Outcome } from '../base/index.ts';

export interface Fleet extends Workers, FleetLimits, LabelRows {
  /** Address of the server, without its password. */
  readonly place: string;
  /** Version of the journal that this program writes. It also reads earlier versions. */
  readonly journal: number;
  contents(): FleetAnswer<FleetContents>;
}

export interface FleetContents {
  /** Version that the server reports. */
  server: string;
  /** Versions of the tables (`form`), of the journal, and of the tables of the queue. */
  form: number;
  journal: number;
  queue: number;
  /** Number of threads in each state, over all projects. */
  threads: { status: string; count: number }[];
}

interface Workers {
  /**
   * Reports every few seconds that a worker is alive. A worker that was silent for `GONE_MS` is gone. Queued
   * threads that no worker could run are due at once if this worker has their items.
   */
  announce(worker: WorkerState): FleetAnswer<null>;
  /** Removes a worker that stops normally, so that it never counts as lost. */
  leave(worker: string): FleetAnswer<null>;
  /** Returns the workers that announced themselves recently, oldest first. */
  workers(): FleetAnswer<WorkerRow[]>;
  /**
   * Returns the named workers that are gone: they announced nothing for `GONE_MS` and did not leave. A
   * worker that stopped normally, or that never announced itself, is not returned.
   */
  lost(workers: readonly string[]): FleetAnswer<{ id: string; heartbeat: number }[]>;
  /** Time of the store in milliseconds since 1970. Workers, queues and leases use this clock. */
  now(): FleetAnswer<number>;
  /** Counts queued threads, one row for each tenant, project and items. */
  queues(): FleetAnswer<QueueRow[]>;
}

type FleetAnswer<T> = Promise<Outcome<T>>;

export const GONE_MS = 15_000;

export interface WorkerState {
  /** Name of the worker as the owner of leases. */
  id: string;
  /** Name of the machine, for people. */
  host: string;
  version: string;
  /** Version of the journal that the worker writes. */
  journal: number;
  slots: number;
  /** Number of threads that the worker runs now. */
  busy: number;
  tenants: readonly string[];
  projects: readonly { project: string; items: string }[];
  /** True: the worker takes no more threads and completes the current steps of its threads. */
  draining: boolean;
  /** Resident memory of the process in bytes. */
  memory: number;
}

export interface WorkerRow extends WorkerState {
  /** Milliseconds since 1970 by the clock of the store. */
  started: number;
  heartbeat: number;
  /** Difference between its clock and the clock of the store, in milliseconds. */
  clock_off: number;
}

export interface QueueRow {
  tenant: string;
  project: string;
  items: string;
  /** Number of threads that are due now (`ready`) and later (`later`). */
  ready: number;
  later: number;
  /** Time since which the oldest thread waits, in milliseconds since 1970. */
  oldest: number;
  /** Number of live workers that have this project with these items. */
  served_by: number;
}

/** Limits of a provider's key or of a tenant, over all machines. An absent field is not limited. */
export interface SharedLimit {
  /** The scope is `provider:NAME` or `tenant:NAME`. */
  scope: string;
  concurrent?: number;
  requests_per_minute?: number;
  tokens_per_minute?: number;
  /** Maximum spend in nano-units of the currency, like every spend of the store. */
  spend_per_day?: bigint;
}

export interface Entering {
  provider: string;
  tenant: string;
  /** Process that sends the request. The place is lost if this process is gone. */
  owner: string;
  /** Largest number of tokens that the request can use. */
  tokens: number;
  /** Largest cost of the request. Absent: the model has no price, so a spend limit refuses it. */
  spend?: bigint;
  /** Time until the place is lost. `stay` renews it. A process that cannot renew it ends its request before. */
  ttlMs: number;
}

/** Time from `enter` to the sending of the request, by the local clock. A later request needs a new place. */
export const SEND_WITHIN_MS = 5_000;

export interface FleetLimits {
  limits(): FleetAnswer<SharedLimit[]>;
  /** Replaces the limit of this scope. A limit without figures removes it. */
  setLimit(limit: SharedLimit): FleetAnswer<null>;
  /**
   * Gets a place for one request to a provider. INVARIANT: a request is never sent without a place, and the
   * places together never exceed a limit. If a limit is reached, it returns the time until the next try. It
   * fails with `shared_limit` if that time is not today. An empty place: no limit exists.
   */
  enter(
    request: Entering,
  ): FleetAnswer<{ place: string } | { wait_ms: number; limit: string; scope: string }>;
  /** Renews places. A place that the answer does not contain is lost. */
  stay(places: readonly string[], ttlMs: number): FleetAnswer<string[]>;
  /** Returns a place with the amounts that its request used. A second call has no effect. */
  exit(place: string, took: { tokens: number; spend: bigint }): FleetAnswer<null>;
}

/** Labels of files. They are the same on every machine that resumes a thread. */
interface LabelRows {
  /** Returns rows after a number in the order of writing, at most 1,000 in a page. */
  labelRows(project: string, after: number): FleetAnswer<{ number: number; text: string }[]>;
  addLabelRows(project: string, rows: readonly string[]): FleetAnswer<null>;
}
