// Writes the journal of a thread whose lease this process owns. Events are queued: one commit runs at a time, and
// the events that are recorded during it form the next one. INVARIANT: memory always changes in the same synchronous
// stretch as the queue, never after an await, so that conversation, cost and journal have one order. After the first
// failed commit that is not a refusal, the writer rejects all further work, because the state of the journal is
// unknown.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { MaybePromise } from '../../flow/index.ts';
import { type JournalEvent, type Noted, oddField } from '../../journal/index.ts';
import type {
  AuditEntry,
  Commit,
  Committed,
  LeasedThread,
  NewEvent,
  Signal,
  Store,
  ThreadStatus,
} from '../../store/index.ts';

/** An event that is ready to be written. Its text is created once: for the store, the seal and the transcript. */
export type Encoded = Noted & NewEvent & { readonly text: string };

/**
 * Returns the event for the store. Fails with `internal_error` {type, field} for an event of another shape, which
 * is a bug. INVARIANT: every written event always passes this check, so no reader refuses it.
 */
function checkedEvent(event: JournalEvent & Partial<Noted>, turn: number): Outcome<Encoded> {
  const { type, text = JSON.stringify(event.data) } = event;
  // The type `JournalEvent` allows nothing but JSON. A replayed event keeps its recorded turn.
  const encoded = { turn, text, ...event } as Encoded;
  const field = oddField(type, encoded.data);
  if (field === undefined) return ok(encoded);
  const message = `event \`${type}\` cannot be recorded: field \`${field}\` is invalid`;
  return fail('internal_error', message, { type, field });
}

/** Returns all events for the store, or the failure of the first one that cannot be recorded. */
export function checkedEvents(
  events: readonly JournalEvent[],
  turn: number,
): Outcome<readonly Encoded[]> {
  const encoded: Encoded[] = [];
  for (const event of events) {
    const one = checkedEvent(event, turn);
    if (!one.ok) return one;
    encoded.push(one.output);
  }
  return ok(encoded);
}

/** Returns the event that records a change of status. */
export const statusEvent = (status: ThreadStatus): JournalEvent => ({
  type: 'status',
  data: { status },
});

export type Change = Pick<Commit, 'status' | 'cost' | 'result' | 'attempt' | 'settle' | 'raise'> & {
  readonly back?: Commit['use'];
};
export type Refusable = Change &
  Pick<
    Commit,
    'charge' | 'reserve' | 'children' | 'ask' | 'use' | 'release' | 'limits' | 'items' | 'search'
  > & {
    /** The commit fails with `signalled` if the thread has unhandled signals. */
    readonly quiet?: true;
  };
type Events = JournalEvent | readonly JournalEvent[];

interface WriterPorts {
  store: Pick<Store, 'commit' | 'renew' | 'signals'>;
  /** Returns the monotonic time in milliseconds. */
  now(): number;
  /** Writes the transcript. A failure is reported and does not stop the thread: the store has the events. */
  transcribe(events: readonly Encoded[], firstSeq: number): void;
  /** Called when signals arrive and when the lease is lost. */
  alarmed(): void;
  /** Called when an event has an invalid shape. This is a bug, and it ends the thread. */
  wrong(failure: Failure): void;
  /** Called with audit rows that this process can no longer commit. */
  unwritten(rows: readonly AuditEntry[]): void;
}

export const LEASE_MS = 30_000;
/** Age up to which an answer of the store proves that this process has the lease. */
const FRESH_MS = 250;
const AGAIN_MS = 50;

/** Codes of a rolled back commit. It is sent again while the lease lasts, for `LEASE_MS` at most. */
const AGAIN: ReadonlySet<string> = new Set(['store_busy', 'disk_full', 'store_failed']);
/** Codes after which the writer is lost, even if the store can refuse the commit. */
const FINAL: ReadonlySet<string> = new Set([
  ...(['conflict', 'stale_epoch', 'lease_expired', 'store_unknown'] as const),
  ...(['store_closed', 'store_newer', 'store_foreign', 'internal_error'] as const),
]);

interface CommitPart {
  readonly events: readonly Encoded[];
  readonly change: Refusable;
  /** Failure of an event that could not be recorded. An `error` event takes its place. */
  readonly wrong?: Failure;
}

/** One commit: the recorded events, and after them at most one part that the store can refuse. */
interface Batch {
  noted: CommitPart;
  asked?: CommitPart & { readonly answer: (outcome: Outcome<Committed>) => void };
}

const NOTHING: CommitPart = { events: [], change: {} };

/** Joins two parts. The later cost, status and result count; lists and raises of both are kept. */
function joined(before: CommitPart, after: CommitPart): CommitPart {
  if (before === NOTHING) return after;
  const [old, change] = [before.change, after.change];
  const both: { -readonly [K in keyof Refusable]: Refusable[K] } = { ...old, ...change };
  if (old.settle && change.settle) both.settle = [...old.settle, ...change.settle];
  if (old.back && change.back) both.back = [...old.back, ...change.back];
  if (old.raise && change.raise) both.raise = { ...old.raise, ...change.raise };
  return { events: [...before.events, ...after.events], change: both };
}

export class JournalWriter {
  readonly thread: string;
  readonly epoch: number;
  /** Length of the lease when this process got it, in milliseconds. */
  readonly lease_ms: number;
  /** Number of the current turn. Every event contains it. */
  turn: number;
  readonly #ports: WriterPorts;
  readonly #heardBefore: number;
  #seq: number;
  #acknowledged: number;
  #delivered: number;
  #keys = 0;
  #deadline: number;
  #answered: number;
  #lost: Failure | undefined;
  #revoked: string | undefined;
  #queue: Batch[] = [];
  /** Events for the next commit. They do not start a commit themselves. */
  #held: CommitPart = NOTHING;
  #inbox: readonly Signal[] = [];
  #rows: AuditEntry[] = [];
  /** Number of events in the commit that the store has not answered yet. */
  #underWay = 0;
  #draining: Promise<void> | undefined;
  #soon: NodeJS.Immediate | undefined;

  /** `since`: time of the request for the lease, by `now`. */
  constructor(held: LeasedThread, turn: number, since: number, ports: WriterPorts) {
    this.thread = held.thread;
    this.epoch = held.epoch;
    this.lease_ms = held.lease_ms;
    this.turn = turn;
    this.#ports = ports;
    this.#seq = held.row.seq;
    this.#acknowledged = held.acknowledged;
    this.#delivered = held.acknowledged;
    this.#heardBefore = held.acknowledged;
    this.#deadline = since + held.lease_ms;
    this.#answered = since;
  }

  /**
   * Adds events to the next commit, which starts at the latest at the end of this round of the event loop. With
   * `hold` they wait for the next other write. INVARIANT: `confirm` always writes them before an effect. So an
   * intent is in one commit with the approval request before its effect. A process that is lost between the two
   * leaves neither.
   */
  note(events: Events, change: Change = {}, how?: 'hold'): void {
    if (this.#lost) return;
    const part = this.#encode(events, change);
    if (how === 'hold') {
      this.#held = joined(this.#held, part);
      return;
    }
    const open = this.#open();
    open.noted = joined(open.noted, part);
    this.#soon ??= setImmediate(() => void this.#drained());
  }

  /**
   * Commits events that the store can refuse, together with all queued events. After a refusal the queued events
   * are written without them, and the writer is not lost.
   */
  commit(events: Events, change: Refusable): Promise<Outcome<Committed>> {
    if (this.#lost) return Promise.resolve(this.#lost);
    const part = this.#encode(events, change);
    if (part.wrong) {
      // INVARIANT: work whose event cannot be recorded never begins.
      this.note(part.events);
      return Promise.resolve(part.wrong);
    }
    const { promise, resolve: answer } = Promise.withResolvers<Outcome<Committed>>();
    this.#open().asked = { ...part, answer };
    void this.#drained();
    return promise;
  }

  /** Adds an audit row to the next commit. Returns false if the writer is lost. */
  audit(row: AuditEntry): boolean {
    if (this.#lost) return false;
    this.#rows.push(row);
    return true;
  }

  /** Waits until the store has all events. Returns false if the writer is lost. */
  async flush(): Promise<boolean> {
    // A lost writer has an empty queue.
    if (this.#held !== NOTHING) this.#open();
    while (this.#queue.length + this.#underWay > 0) await this.#drained();
    return this.#lost === undefined;
  }

  /**
   * Flushes and checks the lease, just before an effect. The commit of the intent usually has done both a moment
   * ago, so most calls do not wait.
   */
  confirm(): boolean | Promise<boolean> {
    const isFlushed = this.#queue.length + this.#underWay === 0 && this.#held === NOTHING;
    const isFresh = this.#ports.now() - this.#answered <= FRESH_MS;
    return isFlushed && isFresh ? this.hasLease() : this.#look();
  }

  /** Checks the lease by the local deadline, without a request to the store. */
  hasLease(): boolean {
    return this.#lost === undefined && this.#ports.now() < this.#deadline;
  }

  /** Returns the delivered signals that are not handled yet. */
  signals(): readonly Signal[] {
    return this.#inbox;
  }

  /** Acknowledges all signals up to this number, in the next commit. */
  acknowledge(number: number): void {
    this.#acknowledged = Math.max(this.#acknowledged, number);
    this.#inbox = this.#inbox.filter((signal) => signal.number > this.#acknowledged);
  }

  /** Handles an answer about the lease that came without a commit. `undefined`: the lease is lost. */
  renewed(
    answer: { lease_ms: number; signals: readonly Signal[] } | undefined,
    asked: number,
  ): void {
    if (!answer) {
      this.#lose(fail('lease_expired', `the lease of thread \`${this.thread}\` expired`));
      return;
    }
    this.#deadline = asked + answer.lease_ms;
    this.#answered = asked;
    this.#hear(answer.signals);
  }

  /** Reads new signals, after a notification that there are some. */
  async listen(): Promise<void> {
    const signals = await this.#ports.store.signals(this.thread, this.#delivered);
    if (signals.ok) this.#hear(signals.output);
  }

  /**
   * Called before a decision that depends on other threads and people. Does nothing in a live thread, because its
   * process is notified at once. A replay first records the events of others at this point.
   */
  catchUp(): MaybePromise<void> {
    return undefined;
  }

  /** Returns the nearest revoked thread of the chain, and `undefined` if there is none. */
  revoked(): string | undefined {
    return this.#revoked;
  }

  /** Returns the failure after which nothing can be written. `undefined`: the writer works. */
  lost(): Failure | undefined {
    return this.#lost;
  }

  /** Returns the number of the last event, queued events included. */
  seq(): number {
    const queued = this.#queue.flatMap(({ noted, asked }) => [noted, asked ?? NOTHING]);
    const waiting = [...queued, this.#held];
    return waiting.reduce((sum, { events }) => sum + events.length, this.#seq + this.#underWay);
  }

  /** Returns a new key for a reservation. It contains the epoch, so no earlier owner of the lease used it. */
  nextKey(): string {
    this.#keys += 1;
    return `${this.epoch}.${this.#keys}`;
  }

  /** Encodes events after the event of a new status, so that `thread_end` is always the last one. */
  #encode(more: Events, change: Refusable): CommitPart {
    const { status } = change;
    const events: Encoded[] = [];
    let wrong: Failure | undefined;
    const own: JournalEvent[] = status === undefined ? [] : [statusEvent(status)];
    for (const event of own.concat(more)) {
      const checked = checkedEvent(event, this.turn);
      if (checked.ok) events.push(checked.output);
      else {
        wrong = checked;
        const fallback = checkedEvent({ type: 'error', data: wrong.error }, this.turn);
        if (fallback.ok) events.push(fallback.output);
      }
    }
    if (wrong) this.#ports.wrong(wrong);
    return wrong ? { events, change, wrong } : { events, change };
  }

  /** Returns the last batch that takes more events, or a new one, with the held events. */
  #open(): Batch {
    const waiting = this.#held;
    this.#held = NOTHING;
    const last = this.#queue.at(-1);
    if (last && !last.asked) {
      if (waiting !== NOTHING) last.noted = joined(last.noted, waiting);
      return last;
    }
    const batch: Batch = { noted: waiting };
    this.#queue.push(batch);
    return batch;
  }

  async #look(): Promise<boolean> {
    if (!(await this.flush())) return false;
    const start = this.#ports.now();
    if (start - this.#answered <= FRESH_MS) return this.hasLease();
    const { thread, epoch } = this;
    const answer = await this.#ports.store.renew([{ thread, epoch }], LEASE_MS);
    if (answer.ok) this.renewed(answer.output[0], start);
    return this.hasLease();
  }

  #hear(signals: readonly Signal[]): void {
    if (signals.length === 0) return;
    const fresh = signals.filter(({ number }) => number > this.#delivered);
    const last = fresh.at(-1);
    if (!last) return;
    this.#inbox = [...this.#inbox, ...fresh];
    this.#delivered = last.number;
    this.#ports.alarmed();
  }

  #lose(failure: Failure): void {
    this.#lost ??= failure;
    this.#held = NOTHING;
    if (this.#rows.length > 0) this.#ports.unwritten(this.#rows.splice(0));
    for (const { asked } of this.#queue.splice(0)) asked?.answer(failure);
    this.#ports.alarmed();
  }

  #drained(): Promise<void> {
    if (this.#soon) clearImmediate(this.#soon);
    this.#soon = undefined;
    if (this.#queue.length > 0) this.#draining ??= this.#drain();
    return this.#draining ?? Promise.resolve();
  }

  async #drain(): Promise<void> {
    try {
      for (let next = this.#queue.shift(); next; next = this.#queue.shift()) await this.#send(next);
    } finally {
      this.#draining = undefined;
    }
  }

  async #send({ noted, asked }: Batch): Promise<void> {
    const { events, change } = asked ? joined(noted, asked) : noted;
    const [first, ...rest] = events;
    if (!first) return;
    const { quiet, back, use, ...plain } = change;
    const expect: Commit['expect'] = { seq: this.#seq, epoch: this.epoch };
    if (quiet) expect.quiet = quiet;
    const commit: Commit = { ...plain, expect, events: [first, ...rest] };
    if (this.#acknowledged > this.#heardBefore) commit.acknowledged = this.#acknowledged;
    if (back ?? use) commit.use = [...(back ?? []), ...(use ?? [])];
    const rows = this.#rows;
    if (rows.length > 0) {
      commit.audit = rows;
      this.#rows = [];
    }
    this.#underWay = events.length;
    let since = this.#ports.now();
    let sent = await this.#ports.store.commit(this.thread, commit);
    const cause = sent;
    // INVARIANT: a commit is repeated for `LEASE_MS` at most. The lease can be renewed even if the disk is full.
    const until = since + LEASE_MS;
    while (!sent.ok && AGAIN.has(sent.error.code) && this.hasLease() && this.#ports.now() < until) {
      await sleep(AGAIN_MS);
      since = this.#ports.now();
      sent = await this.#ports.store.commit(this.thread, commit);
    }
    // If the lease expired during the repetitions, the first cause is reported, which a person can repair.
    if (!sent.ok && sent.error.code === 'lease_expired' && !cause.ok) sent = cause;
    this.#underWay = 0;
    if (!sent.ok && rows.length > 0) this.#rows = [...rows, ...this.#rows];
    if (sent.ok) {
      this.#deadline = since + sent.output.lease_ms;
      this.#answered = since;
      this.#revoked = sent.output.revoked;
      this.#ports.transcribe(events, this.#seq + 1);
      this.#seq = sent.output.seq;
      this.#hear(sent.output.signals);
    } else if (!asked || FINAL.has(sent.error.code) || AGAIN.has(sent.error.code)) {
      asked?.answer(sent);
      this.#lose(sent);
      return;
    } else {
      if (noted.events.length > 0) this.#queue.unshift({ noted });
      if (sent.error.code === 'signalled') await this.listen();
    }
    asked?.answer(sent);
  }
}
