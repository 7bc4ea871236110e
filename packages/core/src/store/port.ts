// The port of the store. It is asynchronous and exchanges plain data, so a server database can
// replace the file. INVARIANT: the owner of a lease always writes through `commit`, fenced by (seq,
// epoch) and with at least one event, so the same commit is never written twice.
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { AuditFilter, AuditRow } from '../kernel/index.ts';
import type { Amounts, BudgetLimits } from './amounts.ts';
import type { Fleet } from './fleet-port.ts';
import type { Memories } from './memory.ts';
import type { ThreadStatus } from './thread-id.ts';

export type Answer<T> = Promise<Outcome<T>>;

/** A store never throws. A refused call changes nothing. */
export interface Store
  extends ThreadTable,
    Journal,
    Leases,
    Signals,
    Approvals,
    Records,
    Memories,
    Schedules {
  /** Workers, queues and shared limits. Absent: the store is a file, so machines do not share it. */
  readonly fleet?: Fleet;
  /** Completes all calls made so far. Later calls fail with `store_closed`. */
  close(): Promise<void>;
}

/** Creates, reads and removes the rows of threads. */
export interface ThreadTable {
  /**
   * Creates a root and its artifacts atomically; `commit` creates children. `artifacts`: bytes by the names that the
   * events have. Fails with `thread_exists` if the id is in use.
   */
  createThread(thread: NewThread, artifacts?: Artifacts): Answer<LeasedThread>;
  thread(id: string): Answer<ThreadRow>;
  query(filter?: ThreadFilter): Answer<ThreadPage>;
  /** Returns all threads created at `since` (milliseconds since 1970) or later, newest first. */
  spent(since: number): Answer<SpentThread[]>;
  /** Removes whole trees and returns all their ids. The caller removes the folders with their transcripts. */
  prune(options: PruneOptions): Answer<{ removed: string[] }>;
}

export interface Journal {
  /**
   * Writes all of a commit or nothing. The owner of a lease has no other way to write. A commit with several
   * problems reports the first in this order: fence (epoch, seq, lease, quiet), ids of children, budgets in
   * the order of `Commit`, secrets, approval requests, uses of approvals. A store can limit the number of
   * events of a thread: a commit beyond the limit reports `invalid_input`. The SQLite store allows 2^24 - 1,
   * because its key is the number of the thread and of the event in one integer.
   */
  commit(thread: string, commit: Commit): Answer<Committed>;
  /** Returns events, oldest first, at most 10,000 in a page. `last`: the number of events from the end. */
  read(thread: string, range?: EventRange): Answer<StoredEvent[]>;
  /** Counts the events of one type in all these threads together. It does not read their data. */
  countEvents(threads: readonly string[], type: string): Answer<number>;
  /**
   * Returns the events of the wanted types for each of these threads, oldest first. An event has only the
   * wanted values of its data, so that a sum over many journals is cheap.
   */
  fieldsOf(threads: readonly string[], wanted: WantedFields): Answer<EventFields[][]>;
  /** Yields all events of one thread after `seq`, without gaps, until the signal aborts or the store closes. */
  watch(cursor: { thread: string; seq: number }, signal: AbortSignal): AsyncIterable<StoredEvent>;
  /** Yields the newest state of every thread that changes after this call. It can skip states in between. */
  changes(filter: { threads?: readonly string[] }, signal: AbortSignal): AsyncIterable<Head>;
}

export interface Leases {
  /**
   * Claims the lease of one thread. Fails with `lease_held` if another owner has it (unless `force`) and
   * with `thread_ended` if the thread has ended (unless `reopen`).
   */
  claim(thread: string, owner: Owner, how?: { force?: true; reopen?: true }): Answer<LeasedThread>;
  /** Takes queued threads of these projects by priority, then by age. Waits at most `waitMs` for the first. */
  take(owner: Owner, wanted: Wanted): Answer<LeasedThread[]>;
  /** Renews all leases of this process in one call. A lease that the answer does not contain is lost. */
  renew(leases: readonly Lease[], ttlMs: number): Answer<Renewed[]>;
  /**
   * Releases the lease without an event. `again`: the thread is queued, at once or after `delayMs`, even if
   * it has a pending signal. A later signal wakes it at once. A stale epoch is not an error.
   */
  release(lease: Lease, how?: { again?: true; delayMs?: number }): Answer<null>;
  /**
   * Marks running threads whose lease has expired, or whose owner is gone, as `interrupted`. Also returns
   * ended threads that were never released, so that the caller can complete their transcripts.
   */
  sweep(): Answer<{ interrupted: string[]; unreleased: (Lease & { seq: number })[] }>;
}

export interface Signals {
  /**
   * Sends a signal and wakes a parked thread in one commit. A key that was used before names the same
   * signal. Fails with `thread_ended`. `audit` is for a signal from a person; the same commit writes it.
   */
  signal(signal: NewSignal, audit?: AuditEntry): Answer<{ number: number }>;
  /** Returns the signals with a number above `after`, oldest first, at most 1,000. */
  signals(thread: string, after?: number): Answer<Signal[]>;
  /** Reports signals from any process to threads that this process owns, in about 50 ms. Returns `unsubscribe`. */
  onSignal(listener: (signal: SignalNote) => void): () => void;
}

export interface Approvals {
  /** Creates a request outside threads, or returns the pending one with this binding. Threads use `commit`. */
  ask(approval: NewApproval): Answer<Approval>;
  /** Replaces the text of a pending approval request whose subject has changed. A decided one stays as it is. */
  restate(request: Pick<Approval, 'id' | 'thread' | 'shown'>): Answer<Approval>;
  /** Uses an approval outside threads once, before the effect. Fails with `approval_pending/denied/expired/used`. */
  use(id: string, binding: JsonObject): Answer<Approval>;
  /** Decides a request and signals its thread (`approval`) in one commit. `conflict`: it is decided already. */
  decide(id: string, decision: Decision, audit?: AuditEntry): Answer<Approval>;
  /** Takes the answer of an approved request back, so that it allows nothing more. `conflict`: it is not approved. */
  withdraw(id: string, audit?: AuditEntry): Answer<Approval>;
  /** Returns approval requests, oldest first, at most 100 unless the filter has a limit. */
  approvals(filter: ApprovalFilter): Answer<Approval[]>;
}

export interface Records {
  /** Returns budgets in the order of the ids. One call reads a whole chain. */
  budgets(threads: readonly string[]): Answer<BudgetState[]>;
  /** Returns the hash (`sha256:…`). The caller stores an artifact before the commit that names it. */
  putArtifact(thread: string, bytes: Uint8Array, secrets?: readonly Sealed[]): Answer<string>;
  /** Returns an artifact that this thread stored. Artifacts of other threads are not found. */
  artifact(thread: string, hash: string): Answer<Uint8Array>;
  secrets(thread: string): Answer<Sealed[]>;
  audit(rows: readonly AuditEntry[]): Answer<null>;
  /** Returns the latest rows of the audit log, oldest first. */
  auditRows(filter: AuditFilter): Answer<AuditRow[]>;
}

export interface Commit {
  /** `quiet`: the commit fails with `signalled` if a signal is not acknowledged. Commits with `release` use it. */
  expect: { seq: number; epoch: number; quiet?: true };
  /** A commit has at least one event, because the sequence number shows if a lost answer was written. */
  events: readonly [NewEvent, ...NewEvent[]];
  /** The thread acknowledges all signals up to this number. */
  acknowledged?: number;
  status?: ThreadStatus;
  cost?: JsonObject;
  result?: Json;
  attempt?: number;
  /** Budget changes of the chain apply in the order of these fields, so amounts are charged before new reservations. */
  settle?: readonly Settle[];
  /** New limits of this thread. A limit cannot become lower. */
  raise?: Amounts;
  /** New value of `ThreadRow.limits`. It does not change the budget. */
  limits?: JsonObject;
  /** Searchable text of the end of the thread, masked by the caller. It replaces the text of an earlier end. */
  search?: string;
  /** Digest of the items that a person accepted for the rest of the thread. */
  items?: string;
  charge?: Amounts;
  reserve?: readonly Reserve[];
  /** New children of this thread. Their reservations are made after those of this thread. */
  children?: readonly NewThread[];
  /** Signals to the parent or to children, for example about an end. An ended thread gets none. */
  tell?: readonly NewSignal[];
  /** Creates approval requests. An identical request that is still pending is returned instead of a new one. */
  ask?: readonly NewApproval[];
  /** Uses approvals of this thread or of an ancestor, one time each. */
  use?: readonly ApprovalUse[];
  secrets?: readonly Sealed[];
  audit?: readonly AuditEntry[];
  /** Releases the lease. `wake`: the thread is queued at this time, in milliseconds since 1970. */
  release?: true | { wake: number };
}

export interface Committed {
  seq: number;
  /** Signals that were not delivered to this process before. The list is usually empty. */
  signals: readonly Signal[];
  lease_ms: number;
  /** The nearest thread of the chain that was revoked: it was killed, or its status revokes it. */
  revoked?: string;
  reserved: readonly string[];
  children: readonly LeasedThread[];
  approvals: readonly Approval[];
}

/** Closes an open reservation of this thread or of an ancestor. `{}` as `actual`: nothing was used. */
export interface Settle {
  key: string;
  actual: Amounts;
}

export interface Reserve {
  key: string;
  amounts: Amounts;
  /** The open reservation that supplies the amounts. Absent: the rest of the chain supplies them. */
  from?: string;
  /** True: a reservation that exceeds a limit, or whose source is not open in the chain, is skipped. */
  optional?: true;
  /** The reservation lasts until the thread ends (hooks, a detached child), so waiting for it is useless. */
  standing?: true;
}

export type Artifacts = ReadonlyMap<string, Uint8Array>;

export interface NewThread {
  id: string;
  directive: string;
  version: string;
  runner: string;
  /** Tenant of the thread in a shared store. Absent or empty: no tenant. A child always gets the tenant of its root. */
  tenant?: string;
  /** Path of the project folder. In a store that machines share: the stable id of the project. */
  project: string;
  /** Digest of the items at the start. A worker with other items releases the thread. Absent: as the parent. */
  items?: string;
  /** A thread of kind `hook` does not count in `depth`. Absent: `thread`. */
  kind?: 'thread' | 'hook';
  detached?: boolean;
  limits: JsonObject;
  inputs: Json;
  /** One line for lists, masked by the caller. Absent: the run has no title and no prompt text. */
  title?: string;
  /** Searchable text of the start of the thread, masked by the caller. */
  search?: string;
  budget: BudgetLimits;
  /** Events after number 1. The store writes event 1, the first `status`. */
  events: readonly NewEvent[];
  reserve?: readonly Reserve[];
  secrets?: readonly Sealed[];
  /** `lease`: this process runs it now (`running`). `queue`: a worker takes it (`spawning`), not before `after`. */
  start: { lease: Owner } | { queue: { priority?: number; after?: number } };
}

export interface Owner {
  owner: string;
  ttlMs: number;
}

export interface Lease {
  thread: string;
  epoch: number;
}

/** All data to start or resume a run, except its events. A queued thread has no lease: epoch 0, 0 ms. */
export interface LeasedThread extends Lease {
  row: ThreadRow;
  /** Number of the last signal that the thread acknowledged. */
  acknowledged: number;
  /** Rest of the lease in milliseconds, counted from the call. */
  lease_ms: number;
  /** Open reservations that an earlier process did not settle. */
  open: readonly OpenReservation[];
}

export interface OpenReservation {
  key: string;
  amounts: Amounts;
  from?: string;
}

export interface Wanted {
  count: number;
  /** Only threads of this tenant. Absent or empty: threads without a tenant. */
  tenant?: string;
  projects: readonly string[];
  waitMs?: number;
}

export interface Renewed {
  thread: string;
  lease_ms: number;
  /** Signals that were not delivered to this process before. */
  signals: readonly Signal[];
}

export interface Head {
  thread: string;
  seq: number;
  status: ThreadStatus;
}

export interface NewEvent {
  type: string;
  data: JsonObject;
  /** `data` as JSON text. Absent: the store encodes `data`. */
  text?: string;
  /** Number of the turn. Absent: 0, which is before the first turn. */
  turn?: number;
  /** Milliseconds since 1970. Absent: the time of the commit. */
  ts?: number;
}

export interface StoredEvent {
  thread: string;
  seq: number;
  ts: number;
  turn: number;
  type: string;
  data: JsonObject;
}

/** Maps an event type to the paths of its wanted values, for example `['usage', 'tokens']`. */
export type WantedFields = Readonly<Record<string, readonly (readonly string[])[]>>;

/** The values have the order of the paths. A missing value is null. */
export interface EventFields {
  readonly type: string;
  readonly values: readonly Json[];
}

/** `types`: the store reads only events of these types. */
export type EventRange =
  | { after?: number; limit?: number; types?: readonly string[] }
  | { last: number };

export interface NewSignal {
  thread: string;
  kind: string;
  payload: Json;
  key: string;
  by: string;
}

/** `number` counts the signals of one thread, without gaps. */
export interface Signal extends NewSignal {
  number: number;
  ts: number;
}

export type SignalNote = Pick<Signal, 'thread' | 'number' | 'kind'>;

export interface Sealed {
  number: number;
  sealed: Uint8Array;
}

export type AuditEntry = Omit<AuditRow, 'time'>;

export interface BudgetState {
  thread: string;
  limits: BudgetLimits;
  used: Required<Amounts>;
  reserved: Required<Amounts>;
}

/** The fields of a thread in a list. Its size does not depend on the inputs of the thread. */
export interface ThreadSummary {
  id: string;
  parent?: string;
  root: string;
  depth: number;
  kind: 'thread' | 'hook';
  directive: string;
  version: string;
  runner: string;
  tenant?: string;
  project: string;
  items?: string;
  detached: boolean;
  /** One masked line of at most 80 characters. Absent: the run has no title. */
  title?: string;
  status: ThreadStatus;
  seq: number;
  epoch: number;
  attempt: number;
  owner?: string;
  /** Milliseconds since 1970, like the other times. */
  lease_until?: number;
  created: number;
  updated: number;
  ended?: number;
  cost: JsonObject;
}

/** A thread with the amounts that it and all threads below it have used. */
export interface SpentThread
  extends Pick<
    ThreadSummary,
    'id' | 'parent' | 'kind' | 'directive' | 'status' | 'seq' | 'created'
  > {
  used: Required<Pick<Amounts, 'tokens' | 'spend'>>;
}

export interface ThreadRow extends ThreadSummary {
  /** Ids from the thread itself up to its root. */
  chain: readonly string[];
  limits: JsonObject;
  inputs: Json;
  result?: Json;
  /** The nearest revoked thread of the chain, as in `Committed`. */
  revoked?: string;
}

export interface ThreadFilter {
  status?: ThreadStatus | readonly ThreadStatus[];
  directive?: string;
  parent?: string;
  root?: string;
  /** This thread and everything below it. */
  within?: string;
  kind?: 'thread' | 'hook';
  runner?: string;
  /** Only threads of this tenant. Empty: threads without a tenant. */
  tenant?: string;
  project?: string;
  /**
   * A part of the id, the directive, the title, the message, an input or an output. Case does not matter. A
   * query reads at most `MAX_LOOKED` threads, so a page can have few rows, or none, and a cursor.
   */
  search?: string;
  /** Absent: by creation, newest first. */
  order_by?: 'created' | 'updated';
  direction?: 'desc' | 'asc';
  /** Maximum number of rows, at most 500. Absent: 10. */
  limit?: number;
  cursor?: string;
}

export interface ThreadPage {
  rows: ThreadSummary[];
  /** Start of the next page. Absent: this is the last page. */
  next_cursor?: string;
}

export interface PruneOptions {
  /** Removes trees that ended before this time, in milliseconds since 1970. */
  before: number;
  keepFailed?: boolean;
  /** Maximum number of trees to remove. Absent: no maximum. */
  trees?: number;
  project?: string;
}

type ApprovalKind = 'call' | 'capability' | 'limit' | 'question';
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'used';
/** Channels over which only a person can send a decision. */
type HumanChannel = 'cli' | 'web' | 'mcp' | 'acp' | 'library';

/** The caller chooses `id`, so that an event of the same commit can contain it. */
export interface NewApproval {
  id: string;
  kind: ApprovalKind;
  /** The ancestor that the request of a hook is for. Absent: the thread that commits it. */
  thread?: string;
  /** The exact subject: tool, hash of arguments and token; or capability or limit and scope. */
  binding: JsonObject;
  /** The request as a person sees it, redacted and without secrets. */
  shown: JsonObject;
  /** Number of allowed uses. Absent: 1. */
  uses?: number;
  /** Milliseconds since 1970. A request that is still pending then expires, too. */
  expires?: number;
}

/** An approval without `thread` was requested outside threads. */
export interface Approval extends NewApproval {
  state: ApprovalState;
  /** Number of uses that are left. */
  uses: number;
  asked: number;
  decided?: number;
  who?: string;
  channel?: HumanChannel;
  why?: string;
  answer?: Json;
}

export interface ApprovalUse {
  approval: string;
  binding: JsonObject;
  /** The call did not exercise the approval, so the use is returned. */
  back?: true;
}

export interface ApprovalFilter {
  id?: string;
  thread?: string;
  binding?: JsonObject;
  state?: ApprovalState;
  limit?: number;
}

export interface Decision {
  decision: 'approved' | 'denied';
  who: string;
  channel: HumanChannel;
  why: string;
  /** The answer of the person, if the request is a question. */
  answer?: Json;
  /** Replaces the requested number of uses. A person can grant fewer or more. */
  uses?: number;
  expires?: number;
}

export interface Schedules {
  schedules(filter: ScheduleFilter): Answer<SchedulePage>;
  /**
   * Adds or changes a schedule, records its fires and creates their thread in one transaction. Fails with `conflict` if
   * the row has another stamp, if a tick has a row already, or if the project has a schedule of the new name.
   */
  fire(change: ScheduleChange): Answer<{ leased?: LeasedThread }>;
  /** Returns the fires of a schedule since a time (milliseconds since 1970), newest first. */
  fires(schedule: string, range: { since: number; limit?: number }): Answer<FireRow[]>;
  /** Returns the name of the schedule that started the tree of this thread. Empty: no schedule did. */
  scheduleOf(thread: string): Answer<string>;
  /** Announces a process that fires schedules of this file. A worker of a server announces itself. */
  serve(owner: string): Answer<null>;
  /** Returns the live processes that fire the schedules of this project. */
  servers(project: string): Answer<string[]>;
}

/** A row as it was read. `stamp` differs after every change of the row. It is empty in a row that is new. */
export interface ScheduleRow extends ScheduleState {
  readonly id: string;
  /** Name of the tenant. Empty: no tenant. */
  tenant: string;
  project: string;
  name: string;
  /** The signed part as JSON text. */
  body: string;
  signature: string;
  stamp: string;
  /** Threads of earlier fires that have not ended. It is filled in for schedules with work now. */
  open: readonly string[];
}

interface ScheduleState {
  /** Next tick in milliseconds since 1970. It only grows. */
  next: number;
  /** Tick whose run starts when the earlier run is over. */
  waiting: number | null;
  last: number | null;
  outcome: string | null;
  /** Reason of the pause. Null: the schedule is active. */
  paused: string | null;
  /** Number of refusals in a row. */
  refused: number;
}

export interface ScheduleFilter {
  project: string;
  /** Name of the tenant. Absent: schedules of all tenants. */
  tenant?: string;
  name?: string;
  /** True: only schedules with work now. */
  due?: true;
}

export interface SchedulePage {
  rows: ScheduleRow[];
  now: number;
  /** Time of the next work after now. Absent: none. */
  soonest?: number;
}

export interface NewFire {
  tick: number;
  outcome: 'started' | 'manual' | 'missed' | 'overlap' | 'waiting' | 'budget' | 'refused';
  reason: string;
  thread?: string;
}

export interface FireRow extends NewFire {
  at: number;
  status?: ThreadStatus;
  /** Spend of the thread and everything below it, in nano-units. */
  used: bigint;
  /** Spend that it can still reach: its limit until it has ended. */
  bound: bigint;
}

export interface ScheduleChange {
  row: ScheduleRow;
  set: Partial<ScheduleState>;
  fires?: readonly NewFire[];
  thread?: NewThread;
  remove?: true;
  audit?: AuditEntry;
}
