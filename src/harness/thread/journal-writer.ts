// The one writer of a held thread's journal. Writing is an enqueue: one commit is under way at a time,
// and what is noted meanwhile goes as one commit after it. INVARIANT: memory changes in the same
// synchronous stretch as the enqueue, never after an await; so conversation, cost and journal have one
// order. Whoever could not commit no longer acts: the first failure that is no refusal is final,
// because nobody knows any more what the journal says.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Failure, fail, isObject, type Json, type Outcome } from '../../base/index.ts';
import type { Commit, Committed, NewEvent, Signal, Store } from '../../store/index.ts';
import { encode } from './journal-codec.ts';
import type { JournalEvent, Noted } from './journal-event.ts';

export interface JournalWriter {
  readonly thread: string;
  readonly epoch: number;
  /** Counts on; stands with every event. */
  turn: number;
  /** Rides with the next commit, at the latest at the end of this round of the event loop. */
  note(event: JournalEvent | readonly JournalEvent[], change?: Change): void;
  /**
   * What may be refused, in one commit with everything that was noted before it. A refusal takes
   * nothing along: what was noted before is written all the same, and the thread is not lost.
   */
  commit(
    event: JournalEvent | readonly JournalEvent[],
    change: Refusable,
  ): Promise<Outcome<Committed>>;
  /** Everything so far is in the store; false: this process no longer acts. */
  flush(): Promise<boolean>;
  /** Just before an effect: flushed, and the lease was looked at a moment ago. */
  confirm(): Promise<boolean>;
  /** By the local deadline; nothing is asked. */
  isHeld(): boolean;
  /** What was said to the thread and is not obeyed yet. */
  signals(): readonly Signal[];
  /** Obeyed up to this one; with the next commit. */
  heard(number: number): void;
  /** An answer about the lease that did not come with a commit; undefined: it is gone. */
  renewed(
    answer: { lease_ms: number; signals: readonly Signal[] } | undefined,
    asked: number,
  ): void;
  /** Reads what was said meanwhile; for a note that a signal has come. */
  listen(): Promise<void>;
  /** The nearest of its chain whose word counts no more. */
  revoked(): string | undefined;
  /** Why nothing can be written any more. */
  lost(): Failure | undefined;
  /** The number of the last event, noted ones included. */
  seq(): number;
  /** For keys of reservations: no two are alike, whoever held the thread before. */
  nextKey(): string;
}

/** What a note may change besides. */
export type Change = Pick<
  Commit,
  'status' | 'cost' | 'result' | 'attempt' | 'settle' | 'raise' | 'tell'
> & { readonly back?: Commit['use'] };
export type Refusable = Change &
  Pick<Commit, 'charge' | 'reserve' | 'children' | 'ask' | 'use' | 'release'> & {
    /** Refused with `signalled` when something was said that is not obeyed yet. */
    readonly quiet?: true;
  };

export interface WriterStart {
  seq: number;
  epoch: number;
  turn: number;
  /** The last signal that the journal has obeyed. */
  heard: number;
  lease_ms: number;
  /** When the lease was asked for, by `now`. */
  since: number;
}

export interface WriterPorts {
  store: Pick<Store, 'commit' | 'renew' | 'signals'>;
  /** Monotonic, in milliseconds. */
  now(): number;
  /** People read the transcript; the registry is the truth. A failure here is reported, not fatal. */
  transcribe(events: readonly Noted[], firstSeq: number): void;
  /** Somebody said something, or the lease is gone. */
  alarmed(): void;
}

export const LEASE_MS = 30_000;
/** An answer that is older does not say whether the thread was taken away meanwhile. */
const FRESH_MS = 250;
const AGAIN_MS = 50;

/** Rolled back: the same commit may be sent again while the lease lasts. */
const AGAIN: ReadonlySet<string> = new Set(['store_busy', 'disk_full', 'store_failed']);
/** Final, also for a commit that may be refused. */
const FINAL: ReadonlySet<string> = new Set([
  ...(['conflict', 'stale_epoch', 'lease_expired', 'store_unknown'] as const),
  ...(['store_closed', 'store_newer', 'store_foreign', 'internal_error'] as const),
]);

interface Entry {
  events: readonly Noted[];
  change: Refusable;
  /** Of a commit that may be refused. */
  answer?: (outcome: Outcome<Committed>) => void;
}

const joinLists = <T>(a: readonly T[] | undefined, b: readonly T[] | undefined) =>
  a && b ? [...a, ...b] : (a ?? b);

/** The later cost, status and result count; what is settled by two is settled by both. */
function joined(before: Refusable, after: Refusable): Refusable {
  const settle = joinLists(before.settle, after.settle);
  const tell = joinLists(before.tell, after.tell);
  const back = joinLists(before.back, after.back);
  return {
    ...before,
    ...after,
    ...(settle && { settle }),
    ...(tell && { tell }),
    ...(back && { back }),
    ...((before.raise ?? after.raise) && { raise: { ...before.raise, ...after.raise } }),
  };
}

function isSignal(value: Json): value is Json & Signal {
  return isObject(value) && typeof value.number === 'number' && typeof value.kind === 'string';
}

/** In the detail of a refusal. */
function signalsIn({ error }: Failure): Signal[] {
  const { signals } = error.detail;
  return Array.isArray(signals) ? signals.filter(isSignal) : [];
}

export function createJournalWriter(
  thread: string,
  start: WriterStart,
  { store, now, transcribe, alarmed }: WriterPorts,
): JournalWriter {
  const { epoch } = start;
  let { seq, heard } = start;
  let [told, keys] = [start.heard, 0];
  let deadline = start.since + start.lease_ms;
  let answered = start.since;
  let lost: Failure | undefined;
  let revoked: string | undefined;
  let queue: Entry[] = [];
  let inbox: Signal[] = [];
  /** Events that are under way. */
  let underWay = 0;
  let draining: Promise<void> | undefined;
  let soon: NodeJS.Immediate | undefined;

  function hear(signals: readonly Signal[]): void {
    const fresh = signals.filter(({ number }) => number > told);
    if (fresh.length === 0) return;
    inbox = [...inbox, ...fresh];
    told = fresh.at(-1)?.number ?? told;
    alarmed();
  }
  function lose(failure: Failure): void {
    lost ??= failure;
    const left = queue;
    queue = [];
    for (const { answer } of left) answer?.(failure);
    alarmed();
  }
  const isHeld = (): boolean => lost === undefined && now() < deadline;

  /** Everything up to and with the first that may be refused. */
  function nextBatch(): Entry[] {
    const end = queue.findIndex(({ answer }) => answer !== undefined);
    return queue.splice(0, end < 0 ? queue.length : end + 1);
  }
  function commitOf(batch: readonly Entry[]): { commit: Commit; events: Noted[] } | undefined {
    const events = batch.flatMap((entry) => entry.events);
    const encoded = events.map((event) => encode(event, event.turn));
    const [first, ...rest] = encoded;
    if (!first) return undefined;
    const all: [NewEvent, ...NewEvent[]] = [first, ...rest];
    const change = batch.map((entry) => entry.change).reduce(joined, {});
    const { quiet, back, use, ...plain } = change;
    const uses = joinLists(back, use);
    return {
      events,
      commit: {
        ...plain,
        expect: { seq, epoch, ...(quiet && { quiet }) },
        events: all,
        ...(heard > start.heard && { heard }),
        ...(uses && { use: uses }),
      },
    };
  }
  async function send(commit: Commit): Promise<Outcome<Committed>> {
    for (;;) {
      const asked = now();
      const done = await store.commit(thread, commit);
      if (done.ok) {
        deadline = asked + done.output.lease_ms;
        answered = asked;
        revoked = done.output.revoked;
      }
      if (done.ok || !AGAIN.has(done.error.code) || !isHeld()) return done;
      await sleep(AGAIN_MS);
    }
  }
  async function sendBatch(batch: readonly Entry[]): Promise<void> {
    const made = commitOf(batch);
    if (!made) return;
    underWay = made.events.length;
    const done = await send(made.commit);
    underWay = 0;
    const last = batch.at(-1)?.answer;
    if (done.ok) {
      transcribe(made.events, seq + 1);
      seq = done.output.seq;
      hear(done.output.signals);
      last?.(done);
      return;
    }
    if (!last || FINAL.has(done.error.code) || AGAIN.has(done.error.code)) {
      last?.(done);
      lose(done);
      return;
    }
    hear(signalsIn(done));
    queue = [...batch.slice(0, -1), ...queue];
    last(done);
  }
  async function drain(): Promise<void> {
    for (let batch = nextBatch(); batch.length > 0; batch = nextBatch()) await sendBatch(batch);
  }
  function drained(): Promise<void> {
    clearImmediate(soon);
    soon = undefined;
    draining ??= drain().finally(() => {
      draining = undefined;
    });
    return draining;
  }
  /** A change of status is an event too; the end of a thread is its last. */
  function entryOf(
    event: JournalEvent | readonly JournalEvent[],
    change: Refusable,
  ): Omit<Entry, 'answer'> {
    const given = Array.isArray(event)
      ? (event as readonly JournalEvent[])
      : [event as JournalEvent];
    const status: JournalEvent[] =
      change.status === undefined ? [] : [{ type: 'status', data: { status: change.status } }];
    // What others put there in a replay has its turn already.
    const events = [...status, ...given].map((one) => ({ turn: writer.turn, ...one }));
    return { events, change };
  }
  async function flush(): Promise<boolean> {
    // What is lost has an empty queue.
    while (queue.length > 0 || draining) await drained();
    return lost === undefined;
  }

  const writer: JournalWriter = {
    thread,
    epoch,
    turn: start.turn,
    note(event, change = {}) {
      if (lost) return;
      queue.push(entryOf(event, change));
      soon ??= setImmediate(() => void drained());
    },
    commit(event, change) {
      if (lost) return Promise.resolve(lost);
      return new Promise((answer) => {
        queue.push({ ...entryOf(event, change), answer });
        void drained();
      });
    },
    flush,
    async confirm() {
      if (!(await flush())) return false;
      if (now() - answered <= FRESH_MS) return isHeld();
      const asked = now();
      const answer = await store.renew([{ thread, epoch }], LEASE_MS);
      if (answer.ok) writer.renewed(answer.output[0], asked);
      return isHeld();
    },
    isHeld,
    signals: () => inbox,
    heard(number) {
      heard = Math.max(heard, number);
      inbox = inbox.filter((signal) => signal.number > heard);
    },
    renewed(answer, asked) {
      if (!answer) {
        lose(fail('lease_expired', `the lease of thread \`${thread}\` ran out`));
        return;
      }
      deadline = asked + answer.lease_ms;
      answered = asked;
      hear(answer.signals);
    },
    async listen() {
      const signals = await store.signals(thread, told);
      if (signals.ok) hear(signals.output);
    },
    revoked: () => revoked,
    lost: () => lost,
    seq: () => seq + underWay + queue.reduce((count, { events }) => count + events.length, 0),
    nextKey() {
      keys += 1;
      return `${epoch}.${keys}`;
    },
  };
  return writer;
}
