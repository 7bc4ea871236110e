// The one port behind which threads live: asynchronous and made of data, so that a server database
// can take the place of the file. INVARIANT: whoever holds a thread writes through `commit` alone,
// fenced by (seq, epoch), with at least one event; so what was written once cannot be written twice.
import type { Json, JsonObject, Outcome } from '../base/index.ts';
import type { AuditFilter, AuditRow } from '../kernel/index.ts';
import type { Amounts, BudgetLimits } from './amounts.ts';
import type { Fleet } from './fleet-port.ts';
import type { ThreadStatus } from './thread-id.ts';

export type Answer<T> = Promise<Outcome<T>>;

/** Never throws. What is refused has changed nothing. */
export interface Store extends ThreadTable, Journal, Leases, Signals, Approvals, Records {
  /** What a store knows that several machines share; a file has none. */
  readonly fleet?: Fleet;
  /** Answers everything asked for so far; `store_closed` after it. */
  close(): Promise<void>;
}

/** Creates, reads and removes the rows of threads. */
export interface ThreadTable {
  /** A root: row, budget, first events, lease or job in one commit. Children are made by `commit`. `thread_exists`. */
  createThread(thread: NewThread): Answer<LeasedThread>;
  thread(id: string): Answer<ThreadRow>;
  query(filter?: ThreadFilter): Answer<ThreadPage>;
  /** Threads that began at `since` (milliseconds since 1970) or later, newest first, for sums over all of them. */
  spent(since: number): Answer<SpentThread[]>;
  /** The ids that are gone, whole trees; their folders with transcripts are the caller's to remove. */
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
  /** Oldest first, pages of at most 10,000; `last`: so many from the end. */
  read(thread: string, range?: EventRange): Answer<StoredEvent[]>;
  /** How many events of a type these threads have, together; none of them is read. */
  countEvents(threads: readonly string[], type: string): Answer<number>;
  /**
   * Events of the wanted types in each of these threads, oldest first, with the wanted values of their
   * data alone: for sums over many journals.
   */
  fieldsOf(threads: readonly string[], wanted: WantedFields): Answer<EventFields[][]>;
  /** One thread, gapless, after `seq`. Ends with the signal or the store. */
  watch(cursor: { thread: string; seq: number }, signal: AbortSignal): AsyncIterable<StoredEvent>;
  /** Threads that moved after this call: the newest state of each at least once; what lies between may be left out. */
  changes(filter: { threads?: readonly string[] }, signal: AbortSignal): AsyncIterable<Head>;
}

export interface Leases {
  /** `lease_held`, `thread_ended`. `force`: from whoever holds it; `reopen`: also what has ended. */
  claim(thread: string, owner: Owner, how?: { force?: true; reopen?: true }): Answer<LeasedThread>;
  /** Queued threads of these projects, the longest waiting first; waits at most `waitMs` for the first. */
  take(owner: Owner, wanted: Wanted): Answer<LeasedThread[]>;
  /** All that this process holds, in one call; what is missing in the answer is lost. */
  renew(leases: readonly Lease[], ttlMs: number): Answer<Renewed[]>;
  /**
   * Without writing; `again`: queued, at once or after `delayMs` (whatever it has not heard; what is said to
   * it later wakes it at once). A stale epoch is no error.
   */
  release(lease: Lease, how?: { again?: true; delayMs?: number }): Answer<null>;
  /** At work and their holder gone: `interrupted`. Ended and never let go: told, for their transcripts. */
  sweep(): Answer<{ interrupted: string[]; unreleased: (Lease & { seq: number })[] }>;
}

export interface Signals {
  /**
   * The same key again is the same signal. Wakes a parked thread in the same commit. `thread_ended`.
   * `audit`: in the same commit, when a person sends it.
   */
  signal(signal: NewSignal, audit?: AuditEntry): Answer<{ number: number }>;
  /** After number `after`, oldest first, at most 1,000. */
  signals(thread: string, after?: number): Answer<Signal[]>;
  /** For threads this process holds, sent by any process, within about 50 ms; answers with the end. */
  onSignal(listener: (signal: SignalNote) => void): () => void;
}

export interface Approvals {
  /** Outside threads (a call, a script); the same open binding again is the same row. Threads ask by `commit`. */
  ask(approval: NewApproval): Answer<Approval>;
  /** Replaces the text of a pending approval request whose subject has changed. A decided one stays as it is. */
  restate(asked: Pick<Approval, 'id' | 'thread' | 'shown'>): Answer<Approval>;
  /** One use of such an approval, before the effect. `approval_pending/denied/expired/used`. */
  use(id: string, binding: JsonObject): Answer<Approval>;
  /** Once, by a person; the thread is signalled (`approval`) in the same commit. `conflict` when it was decided. */
  decide(id: string, decision: Decision, audit?: AuditEntry): Answer<Approval>;
  /** Oldest first, 100 when no limit is given. */
  approvals(filter: ApprovalFilter): Answer<Approval[]>;
}

export interface Records {
  /** In the order asked for: a whole chain is one question. */
  budgets(threads: readonly string[]): Answer<BudgetState[]>;
  /** By the hash of its bytes (`sha256:…`), before the commit that names it. Kept as long as the thread is. */
  putArtifact(thread: string, bytes: Uint8Array, secrets?: readonly Sealed[]): Answer<string>;
  /** Only what this thread put there itself. */
  artifact(thread: string, hash: string): Answer<Uint8Array>;
  secrets(thread: string): Answer<Sealed[]>;
  audit(rows: readonly AuditEntry[]): Answer<null>;
  /** The latest, oldest first. */
  auditRows(filter: AuditFilter): Answer<AuditRow[]>;
}

export interface Commit {
  /** `quiet`: refused with `signalled` when a signal waits that was not heard; for commits that let the thread go. */
  expect: { seq: number; epoch: number; quiet?: true };
  /** At least one: the sequence number also tells whether a commit arrived. */
  events: readonly [NewEvent, ...NewEvent[]];
  /** Signals up to this one are obeyed. */
  heard?: number;
  status?: ThreadStatus;
  cost?: JsonObject;
  result?: Json;
  attempt?: number;
  /** Budgets, in this order, along the thread's chain: what was used is charged before more is set aside. */
  settle?: readonly Settle[];
  /** New ceilings of this thread, each at least what it was. */
  raise?: Amounts;
  /** Its limits as the row shows them from now on. */
  limits?: JsonObject;
  /** Text of its end that a search finds, in the place of that of an earlier end; masked by the caller. */
  search?: string;
  /** A person takes it that the thread goes on with these. */
  items?: string;
  charge?: Amounts;
  reserve?: readonly Reserve[];
  /** Their parent is this thread; their reservations are made after those above. */
  children?: readonly NewThread[];
  /** Signals to others: the end of a child to its parent, an end to children. Those that have ended are left out. */
  tell?: readonly NewSignal[];
  /** What is asked already and still open is answered with the row that stands, under its id. */
  ask?: readonly NewApproval[];
  /** One use each, of this thread's or an ancestor's; `back`: taken for a call that did not exercise it. */
  use?: readonly ApprovalUse[];
  secrets?: readonly Sealed[];
  audit?: readonly AuditEntry[];
  /** The lease is given back: parked, queued again at `wake` (milliseconds since 1970), or over. */
  release?: true | { wake: number };
}

export interface Committed {
  seq: number;
  /** That this process has not been told yet; usually none. */
  signals: readonly Signal[];
  lease_ms: number;
  /** The nearest of its chain whose word counts no more. */
  revoked?: string;
  /** Keys of what was set aside, for the thread and for its new children. */
  reserved: readonly string[];
  /** As asked for, in that order. */
  children: readonly LeasedThread[];
  approvals: readonly Approval[];
}

/** An open reservation of this thread, or of one above it, is closed; `{}` gives all of it back. */
export interface Settle {
  key: string;
  actual: Amounts;
}

export interface Reserve {
  key: string;
  amounts: Amounts;
  /** Out of this open reservation instead of what the chain has left. */
  from?: string;
  /** Left out, and missing in `reserved`, if it exceeds a limit or its source is not open along the chain. */
  optional?: true;
  /** Held until the thread ends (hooks, a detached child): nobody waits for it. */
  standing?: true;
}

export interface NewThread {
  id: string;
  directive: string;
  version: string;
  runner: string;
  /** Whose it is, where several share a store; left out or empty: nobody's in particular. Children have their root's. */
  tenant?: string;
  /** Path of its folder; in a store that machines share, its stable id. */
  project: string;
  /** Digest of the items it was started with: whoever has others lets it go again. A child has its parent's unless it says. */
  items?: string;
  /** A hook's thread: not counted in depth. */
  kind?: 'thread' | 'hook';
  detached?: boolean;
  limits: JsonObject;
  inputs: Json;
  /** One line for lists, masked by the caller. Absent: the run has neither a title nor words. */
  title?: string;
  /** Text of its beginning that a search finds, masked by the caller. */
  search?: string;
  budget: BudgetLimits;
  /** After the `status` event of its birth, which the store writes as number 1. */
  events: readonly NewEvent[];
  reserve?: readonly Reserve[];
  secrets?: readonly Sealed[];
  /** Run here at once (born `running`), or by whoever takes it (`spawning`), not before `after`. */
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

/** Everything a run needs to begin or go on, but its history. Without a lease (queued): epoch 0, 0 ms. */
export interface LeasedThread extends Lease {
  row: ThreadRow;
  /** The last signal that its journal has obeyed. */
  heard: number;
  /** From the moment of the question on. */
  lease_ms: number;
  /** What a lost process left open. */
  open: readonly OpenReservation[];
}

export interface OpenReservation {
  key: string;
  amounts: Amounts;
  from?: string;
}

export interface Wanted {
  count: number;
  /** Only theirs; left out or empty: of those that belong to nobody in particular. */
  tenant?: string;
  projects: readonly string[];
  waitMs?: number;
}

export interface Renewed {
  thread: string;
  lease_ms: number;
  /** That this process has not been told yet. */
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
  /** `data` as JSON, when it is made already. */
  text?: string;
  /** 0 when left out: before the first turn. */
  turn?: number;
  /** The time of the commit when left out. */
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

/** For each type of event, the paths of the values that are wanted: `['usage', 'tokens']`. */
export type WantedFields = Readonly<Record<string, readonly (readonly string[])[]>>;

/** The values in the order of their paths, null where there is none. */
export interface EventFields {
  readonly type: string;
  readonly values: readonly Json[];
}

/** `types`: only events of these; the others are not read at all. */
export type EventRange =
  | { after?: number; limit?: number; types?: readonly string[] }
  | { last: number };

export interface NewSignal {
  thread: string;
  kind: string;
  payload: Json;
  key: string;
  /** Who sent it. */
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

/** What a list shows of a thread; small, whatever the thread was given. */
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
  /** Masked, one line, at most 80 characters. Absent: the run has none. */
  title?: string;
  status: ThreadStatus;
  /** How many events its journal holds. */
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

/** A thread, and the part of its budget that it and all threads below it have used. */
export interface SpentThread
  extends Pick<
    ThreadSummary,
    'id' | 'parent' | 'kind' | 'directive' | 'status' | 'seq' | 'created'
  > {
  used: Required<Pick<Amounts, 'tokens' | 'spend'>>;
}

export interface ThreadRow extends ThreadSummary {
  /** The thread itself first, its root last. */
  chain: readonly string[];
  limits: JsonObject;
  inputs: Json;
  result?: Json;
  /** As in `Committed`. */
  revoked?: string;
}

export interface ThreadFilter {
  status?: ThreadStatus | readonly ThreadStatus[];
  directive?: string;
  parent?: string;
  /** The whole tree of this root. */
  root?: string;
  /** This thread and everything below it. */
  within?: string;
  kind?: 'thread' | 'hook';
  /** Empty: those that belong to nobody in particular. */
  tenant?: string;
  project?: string;
  /**
   * A part of the id, the directive, the title, the message, an input or an output; case does not count. A
   * query looks at `MAX_LOOKED` threads: a page may hold few rows, or none, and a cursor.
   */
  search?: string;
  /** Newest first by default. */
  order_by?: 'created' | 'updated';
  direction?: 'desc' | 'asc';
  /** 10 by default, 500 at most. */
  limit?: number;
  cursor?: string;
}

export interface ThreadPage {
  rows: ThreadSummary[];
  /** There is more when present. */
  next_cursor?: string;
}

export interface PruneOptions {
  /** Milliseconds since 1970: trees that ended before go. */
  before: number;
  /** Trees with a failed thread in them stay. */
  keepFailed?: boolean;
  /** At most so many trees; all when left out. */
  trees?: number;
  /** Only trees that began in this project. */
  project?: string;
}

type ApprovalKind = 'call' | 'capability' | 'limit' | 'question';
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'used';
/** Ways in which a person, and nobody else, reaches us. */
type HumanChannel = 'cli' | 'web' | 'mcp' | 'library';

/** The asker names it, so that the event of the same commit can. */
export interface NewApproval {
  id: string;
  kind: ApprovalKind;
  /** The thread above that it is for, when a hook asks; whoever commits it when absent. */
  thread?: string;
  /** What exactly is asked for: tool, hash of arguments and token; or capability or limit and scope. */
  binding: JsonObject;
  /** For the person: redacted, no secrets. */
  shown: JsonObject;
  /** How often it may be used; 1 when left out. */
  uses?: number;
  /** Milliseconds since 1970; also ends the waiting for an answer. */
  expires?: number;
}

/** Without a thread: asked outside threads. */
export interface Approval extends NewApproval {
  state: ApprovalState;
  /** How many are left. */
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
  /** To a question: words. */
  answer?: Json;
  /** The person may give less or more than was asked for. */
  uses?: number;
  expires?: number;
}
