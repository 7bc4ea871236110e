// What a store knows that several machines share: who works, what waits for whom, and the limits that
// hold for all of them together. A file has none of it.
import type { Outcome } from '../base/index.ts';

export interface Fleet extends Workers, FleetLimits, LabelRows {
  /** Of the server that holds it, without its password. */
  readonly place: string;
  /** Form of the journal that this program writes; it reads those before it. */
  readonly journal: number;
  /** What is there, for people. */
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
  /** It goes by itself: nobody has to wait until it is not heard of. */
  leave(worker: string): Told<null>;
  /** Those that were heard of lately, the oldest first. */
  workers(): Told<WorkerRow[]>;
  /**
   * Returns those of the named workers that announced nothing for `GONE_MS` and did not leave: they are
   * gone. A worker that left in good order, or that never announced itself, is not returned.
   */
  lost(workers: readonly string[]): Told<{ id: string; heard: number }[]>;
  /** Of the store, in milliseconds since 1970: what the times of workers, queues and leases are told by. */
  now(): Told<number>;
  /** What is queued, one row for each tenant, project and items. */
  queues(): Told<QueueRow[]>;
}

type Told<T> = Promise<Outcome<T>>;

export const GONE_MS = 15_000;

export interface WorkerState {
  /** As leases name it. */
  id: string;
  /** Name of the machine, for people. */
  host: string;
  version: string;
  /** Form of the journal that it writes. */
  journal: number;
  slots: number;
  /** Threads that it holds now. */
  busy: number;
  tenants: readonly string[];
  projects: readonly { project: string; items: string }[];
  /** Takes nothing any more, and ends what it holds. */
  draining: boolean;
  /** Resident bytes. */
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
  /** Due now, and later. */
  ready: number;
  later: number;
  /** Since when the first of them waits, in milliseconds since 1970. */
  oldest: number;
  /** Workers that were heard of and have this project with these items. */
  served_by: number;
}

/** Limits of a provider's key or of a tenant, over all machines. Left out: none. */
export interface SharedLimit {
  /** `provider:NAME` or `tenant:NAME`. */
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
  /** Whoever holds a place and is gone loses it. */
  owner: string;
  /** The worst case: what it may take and cost. */
  tokens: number;
  /** Left out: the model has no price; refused where spend is limited. */
  spend?: bigint;
  /** How long it is held without a word; who cannot say `stay` in time ends its request before. */
  ttlMs: number;
}

/** From the question to the sending, by one's own clock: who is later has to ask again. */
export const SEND_WITHIN_MS = 5_000;

export interface FleetLimits {
  limits(): Told<SharedLimit[]>;
  /** Takes the place of what stood for this scope; without a figure the scope has no limit any more. */
  setLimit(limit: SharedLimit): Told<null>;
  /**
   * One request to a provider. INVARIANT: whoever has a place may send, and nobody else does; what was
   * handed out never passes a limit. No room: when to ask again, or `shared_limit` when that is not today.
   * An empty place: nothing is limited, and nobody counted.
   */
  enter(ask: Entering): Told<{ place: string } | { wait_ms: number; limit: string; scope: string }>;
  /** They are held so much longer; what is missing in the answer is lost. */
  stay(places: readonly string[], ttlMs: number): Told<string[]>;
  /** It was answered or called off, and took this much. The same place again is nothing. */
  exit(place: string, took: { tokens: number; spend: bigint }): Told<null>;
}

/** Labels of files, which are the same wherever a thread goes on. */
interface LabelRows {
  /** In the order in which they were written, after a number; pages of at most 1,000. */
  labelRows(project: string, after: number): Told<{ number: number; text: string }[]>;
  addLabelRows(project: string, rows: readonly string[]): Told<null>;
}
