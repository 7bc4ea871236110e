// The one place that writes a thread's history. Everything is one append: events, status, cost and
// what a reservation really took, all or nothing. INVARIANT: whoever could not append no longer acts;
// the first failure is final, because nobody knows any more what the journal says.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Change, Pulse, Store } from '../../store/index.ts';
import { encode } from './journal-codec.ts';
import type { JournalEvent, Noted } from './journal-event.ts';

export interface JournalWriter {
  readonly thread: string;
  /** Counts on; also used to number calls and reservations. */
  turn: number;
  append(events: readonly JournalEvent[], change?: Change): Outcome<null>;
  /**
   * In the commit of the next append, and at the latest at the end of this round of the event loop.
   * INVARIANT: `flush` comes before every effect and every wait. For what a killed process may just
   * as well not have come to: what is read again, or asked again and charged all the same.
   */
  appendSoon(events: readonly JournalEvent[], change?: SoonChange): Outcome<null>;
  /** Writes what is to be written soon. False: this process no longer acts. */
  flush(): boolean;
  /** One event of the current turn. */
  note(event: JournalEvent, change?: Change): Outcome<null>;
  /** Just before an effect: does this process still hold the thread? */
  isHeld(): boolean;
  /** The same, and whether anything was said to the thread after this signal: one question for both. */
  pulse(lastSignal: number): Pulse;
  /** Renews the lease; one that ran out is not taken up again, even if nobody else has come. */
  renew(ttlMs: number): boolean;
  /** The sequence number of the last event. */
  seq(): number;
  /** Why nothing can be written any more. */
  lost(): Failure | undefined;
}

/** What can wait for the next commit; the later cost counts. */
export type SoonChange = Pick<Change, 'cost' | 'settle'>;

export interface LogPorts {
  store: Pick<Store, 'append' | 'isHeld' | 'pulse' | 'renew' | 'thread'>;
  /** People read the transcript; the registry is the truth. A failure here is reported, not fatal. */
  transcribe(events: readonly Noted[], firstSeq: number): void;
  /** Nothing waits for the next commit. */
  atOnce?: boolean;
}

/** After these nothing was written; after any other failure it may have been. */
const SURELY_REFUSED: ReadonlySet<string> = new Set([
  'conflict',
  'stale_epoch',
  'lease_expired',
  'invalid_input',
  'not_found',
]);

function joined(before: Change | undefined, change: Change | undefined): Change | undefined {
  if (!before || !change) return change ?? before;
  const settle = [...(before.settle ?? []), ...(change.settle ?? [])];
  return { ...before, ...change, ...(settle.length > 0 && { settle }) };
}

export function createJournalWriter(
  thread: string,
  start: { seq: number; epoch: number; turn: number },
  { store, transcribe, atOnce = false }: LogPorts,
): JournalWriter {
  let { seq } = start;
  let lost: Failure | undefined;
  let soon: Noted[] = [];
  let soonChange: Change | undefined;

  /** Did it arrive all the same? Only the holder of the epoch can have moved the sequence. */
  function arrived(failure: Failure, count: number): boolean {
    if (SURELY_REFUSED.has(failure.error.code) || count === 0) return false;
    const row = store.thread(thread);
    return row.ok && row.output.seq === seq + count && row.output.epoch === start.epoch;
  }

  // What others put there in a replay has its turn already.
  const stamp = (events: readonly (JournalEvent | Noted)[]): Noted[] =>
    events.map((event) => ({ turn: journal.turn, ...event }));

  /** Everything that waits and this, in one commit. What was refused before it has lost nobody. */
  function write(
    stamped: readonly Noted[],
    change?: Change,
    isRefused = (): boolean => false,
  ): Outcome<null> {
    const events = soon.length === 0 ? stamped : [...soon, ...stamped];
    const encoded = events.map((event) => encode(event, event.turn));
    const done = store.append(thread, seq, start.epoch, encoded, joined(soonChange, change));
    if (!done.ok && isRefused()) return done;
    if (!done.ok && !arrived(done, events.length)) {
      lost = done;
      return done;
    }
    [soon, soonChange] = [[], undefined];
    transcribe(events, seq + 1);
    seq += events.length;
    return ok(null);
  }

  /** What has to come first may be refused: then nothing of this was written, and nobody is lost. */
  function writeAfter(
    first: () => Outcome<null>,
    events: readonly Noted[],
    change: Change,
  ): Outcome<null> {
    // What was used is charged before more is set aside.
    if (soonChange?.settle && !journal.flush()) return lost ?? ok(null);
    let refused: Failure | undefined;
    const asked = (): Outcome<null> => {
      const answer = first();
      if (!answer.ok) refused = answer;
      return answer;
    };
    const done = write(events, { ...change, first: asked }, () => refused !== undefined);
    if (!refused) return done;
    journal.flush();
    return refused;
  }

  const journal: JournalWriter = {
    thread,
    turn: start.turn,
    append(events, change) {
      if (lost) return lost;
      const stamped = stamp(events);
      return change?.first ? writeAfter(change.first, stamped, change) : write(stamped, change);
    },
    appendSoon(events, change) {
      if (lost || atOnce) return journal.append(events, change);
      if (soon.length === 0) setImmediate(journal.flush);
      soon.push(...stamp(events));
      soonChange = joined(soonChange, change);
      return ok(null);
    },
    flush() {
      if (lost === undefined && soon.length > 0) write([]);
      return lost === undefined;
    },
    note: (event, change) => journal.append([event], change),
    isHeld: () => lost === undefined && store.isHeld(thread, start.epoch),
    pulse(lastSignal) {
      const { held, called } = store.pulse(thread, start.epoch, lastSignal);
      return { held: held && lost === undefined, called };
    },
    renew(ttlMs) {
      const renewed = journal.isHeld() && store.renew(thread, start.epoch, ttlMs).ok;
      if (!renewed) lost ??= fail('lease_expired', `the lease of thread \`${thread}\` ran out`);
      return renewed;
    },
    seq: () => seq + soon.length,
    lost: () => lost,
  };
  return journal;
}
