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

/** Ready to be written. Its text is made once: for the registry, for sealing and for the transcript. */
export type Encoded = Noted & NewEvent & { readonly text: string };

/**
 * INVARIANT: every event that is written into a journal comes from here, so its reader refuses none.
 * `internal_error` {type, field} for an event of another shape: a bug of ours.
 */
function checkedEvent(event: JournalEvent & Partial<Noted>, turn: number): Outcome<Encoded> {
  const { type, text = JSON.stringify(event.data) } = event;
  // JSON by construction: the union holds nothing else. What was noted before, in a replay, keeps its turn.
  const encoded = { turn, text, ...event } as Encoded;
  const field = oddField(type, encoded.data);
  if (field === undefined) return ok(encoded);
  const message = `an event \`${type}\` cannot be recorded: \`${field}\` is not what it should be`;
  return fail('internal_error', message, { type, field });
}

/** All of them, or the failure of the first that cannot be recorded. */
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

/** A change of status is an event too. */
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
    /** Refused with `signalled` when something was said that is not obeyed yet. */
    readonly quiet?: true;
  };
type Events = JournalEvent | readonly JournalEvent[];

interface WriterPorts {
  store: Pick<Store, 'commit' | 'renew' | 'signals'>;
  /** Monotonic, in milliseconds. */
  now(): number;
  /** People read the transcript; the registry is the truth. A failure here is reported, not fatal. */
  transcribe(events: readonly Encoded[], firstSeq: number): void;
  /** Somebody said something, or the lease is gone. */
  alarmed(): void;
  /** An event of ours has not the shape that its reader asks for: a bug, which ends the thread. */
  wrong(failure: Failure): void;
  /** Rows of what was done, and nobody can commit them any more. */
  unwritten(rows: readonly AuditEntry[]): void;
}

export const LEASE_MS = 30_000;
/** An answer that is older does not say whether the thread was taken away meanwhile. */
const FRESH_MS = 250;
const AGAIN_MS = 50;

/** Rolled back: the same commit may be sent again while the lease lasts, for `LEASE_MS` at most. */
const AGAIN: ReadonlySet<string> = new Set(['store_busy', 'disk_full', 'store_failed']);
/** Final, also for a commit that may be refused. */
const FINAL: ReadonlySet<string> = new Set([
  ...(['conflict', 'stale_epoch', 'lease_expired', 'store_unknown'] as const),
  ...(['store_closed', 'store_newer', 'store_foreign', 'internal_error'] as const),
]);

interface CommitPart {
  readonly events: readonly Encoded[];
  readonly change: Refusable;
  /** One of the events could not be recorded; an error is in its place. */
  readonly wrong?: Failure;
}

/** One commit: what was noted, and at its end what may be refused, if there is something. */
interface Batch {
  noted: CommitPart;
  asked?: CommitPart & { readonly answer: (outcome: Outcome<Committed>) => void };
}

const NOTHING: CommitPart = { events: [], change: {} };

/** The later cost, status and result count; what is settled by two is settled by both. */
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
  /** How long the lease was when it began. */
  readonly lease_ms: number;
  /** Counts on; stands with every event. */
  turn: number;
  readonly #ports: WriterPorts;
  readonly #heardBefore: number;
  #seq: number;
  #heard: number;
  #told: number;
  #keys = 0;
  #deadline: number;
  #answered: number;
  #lost: Failure | undefined;
  #revoked: string | undefined;
  #queue: Batch[] = [];
  /** For the next commit, which this alone does not cause. */
  #held: CommitPart = NOTHING;
  #inbox: readonly Signal[] = [];
  #rows: AuditEntry[] = [];
  /** How many events are in the commit that waits for its answer. */
  #underWay = 0;
  #draining: Promise<void> | undefined;
  #soon: NodeJS.Immediate | undefined;

  /** `since`: when the lease was asked for, by `now`. */
  constructor(held: LeasedThread, turn: number, since: number, ports: WriterPorts) {
    this.thread = held.thread;
    this.epoch = held.epoch;
    this.lease_ms = held.lease_ms;
    this.turn = turn;
    this.#ports = ports;
    this.#seq = held.row.seq;
    this.#heard = held.heard;
    this.#told = held.heard;
    this.#heardBefore = held.heard;
    this.#deadline = since + held.lease_ms;
    this.#answered = since;
  }

  /**
   * Rides with the next commit, at the latest at the end of this round of the event loop. `hold`: waits
   * for whatever is written next. INVARIANT: `confirm` writes it before an effect. So an intent is in one
   * commit with the question that comes before its effect, and a process that is lost between the two
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
   * What may be refused, in one commit with everything that was noted before it. A refusal takes
   * nothing along: what was noted before is written all the same, and the thread is not lost.
   */
  commit(events: Events, change: Refusable): Promise<Outcome<Committed>> {
    if (this.#lost) return Promise.resolve(this.#lost);
    const part = this.#encode(events, change);
    if (part.wrong) {
      // INVARIANT: what could not be recorded is not begun.
      this.note(part.events);
      return Promise.resolve(part.wrong);
    }
    const { promise, resolve: answer } = Promise.withResolvers<Outcome<Committed>>();
    this.#open().asked = { ...part, answer };
    void this.#drained();
    return promise;
  }

  /** Rides with whatever is written next; false: nothing is any more. */
  audit(row: AuditEntry): boolean {
    if (this.#lost) return false;
    this.#rows.push(row);
    return true;
  }

  /** Everything so far is in the store; false: this process no longer acts. */
  async flush(): Promise<boolean> {
    // What is lost has an empty queue.
    if (this.#held !== NOTHING) this.#open();
    while (this.#queue.length + this.#underWay > 0) await this.#drained();
    return this.#lost === undefined;
  }

  /**
   * Just before an effect: flushed, and the lease was looked at a moment ago. The commit of the intent
   * says both, so mostly nothing has to be waited for.
   */
  confirm(): boolean | Promise<boolean> {
    const isFlushed = this.#queue.length + this.#underWay === 0 && this.#held === NOTHING;
    const isFresh = this.#ports.now() - this.#answered <= FRESH_MS;
    return isFlushed && isFresh ? this.hasLease() : this.#look();
  }

  /** By the local deadline; nothing is asked. */
  hasLease(): boolean {
    return this.#lost === undefined && this.#ports.now() < this.#deadline;
  }

  /** What was said to the thread and is not obeyed yet. */
  signals(): readonly Signal[] {
    return this.#inbox;
  }

  /** Obeyed up to this one; with the next commit. */
  heard(number: number): void {
    this.#heard = Math.max(this.#heard, number);
    this.#inbox = this.#inbox.filter((signal) => signal.number > this.#heard);
  }

  /** An answer about the lease that did not come with a commit; undefined: it is gone. */
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

  /** Reads what was said meanwhile; for a note that a signal has come. */
  async listen(): Promise<void> {
    const signals = await this.#ports.store.signals(this.thread, this.#told);
    if (signals.ok) this.#hear(signals.output);
  }

  /**
   * Called before a decision that depends on other threads and people. Nothing to wait for in a live thread: its
   * process is told at once. A replay records what others did at this place first.
   */
  catchUp(): MaybePromise<void> {
    return undefined;
  }

  /** The nearest of its chain whose word counts no more. */
  revoked(): string | undefined {
    return this.#revoked;
  }

  /** Why nothing can be written any more. */
  lost(): Failure | undefined {
    return this.#lost;
  }

  /** The number of the last event, noted ones included. */
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

  /** A change of status is an event too; the end of a thread is its last. */
  #encode(given: Events, change: Refusable): CommitPart {
    const { status } = change;
    const events: Encoded[] = [];
    let wrong: Failure | undefined;
    const own: JournalEvent[] = status === undefined ? [] : [statusEvent(status)];
    for (const event of own.concat(given)) {
      const checked = checkedEvent(event, this.turn);
      if (checked.ok) events.push(checked.output);
      else {
        wrong = checked;
        const told = checkedEvent({ type: 'error', data: wrong.error }, this.turn);
        if (told.ok) events.push(told.output);
      }
    }
    if (wrong) this.#ports.wrong(wrong);
    return wrong ? { events, change, wrong } : { events, change };
  }

  /** The last one, while it takes more; what was held goes with it. */
  #open(): Batch {
    const held = this.#held;
    this.#held = NOTHING;
    const last = this.#queue.at(-1);
    if (last && !last.asked) {
      if (held !== NOTHING) last.noted = joined(last.noted, held);
      return last;
    }
    const batch: Batch = { noted: held };
    this.#queue.push(batch);
    return batch;
  }

  async #look(): Promise<boolean> {
    if (!(await this.flush())) return false;
    const asked = this.#ports.now();
    if (asked - this.#answered <= FRESH_MS) return this.hasLease();
    const { thread, epoch } = this;
    const answer = await this.#ports.store.renew([{ thread, epoch }], LEASE_MS);
    if (answer.ok) this.renewed(answer.output[0], asked);
    return this.hasLease();
  }

  #hear(signals: readonly Signal[]): void {
    if (signals.length === 0) return;
    const fresh = signals.filter(({ number }) => number > this.#told);
    const last = fresh.at(-1);
    if (!last) return;
    this.#inbox = [...this.#inbox, ...fresh];
    this.#told = last.number;
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
    if (this.#heard > this.#heardBefore) commit.heard = this.#heard;
    if (back ?? use) commit.use = [...(back ?? []), ...(use ?? [])];
    const rows = this.#rows;
    if (rows.length > 0) {
      commit.audit = rows;
      this.#rows = [];
    }
    this.#underWay = events.length;
    let since = this.#ports.now();
    let done = await this.#ports.store.commit(this.thread, commit);
    const cause = done;
    // INVARIANT: by this clock too, because a lease is renewed even where the commit finds no room.
    const until = since + LEASE_MS;
    while (!done.ok && AGAIN.has(done.error.code) && this.hasLease() && this.#ports.now() < until) {
      await sleep(AGAIN_MS);
      since = this.#ports.now();
      done = await this.#ports.store.commit(this.thread, commit);
    }
    // The lease ran out because nothing could be written: that is what a person can mend.
    if (!done.ok && done.error.code === 'lease_expired' && !cause.ok) done = cause;
    this.#underWay = 0;
    if (!done.ok && rows.length > 0) this.#rows = [...rows, ...this.#rows];
    if (done.ok) {
      this.#deadline = since + done.output.lease_ms;
      this.#answered = since;
      this.#revoked = done.output.revoked;
      this.#ports.transcribe(events, this.#seq + 1);
      this.#seq = done.output.seq;
      this.#hear(done.output.signals);
    } else if (!asked || FINAL.has(done.error.code) || AGAIN.has(done.error.code)) {
      asked?.answer(done);
      this.#lose(done);
      return;
    } else {
      if (noted.events.length > 0) this.#queue.unshift({ noted });
      if (done.error.code === 'signalled') await this.listen();
    }
    asked?.answer(done);
  }
}
