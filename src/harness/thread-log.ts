// The one place that writes a thread's history. Everything is one append: events, status, cost and
// what a reservation really took, all or nothing. INVARIANT: whoever could not append no longer acts;
// the first failure is final, because nobody knows any more what the journal says.
import { type Failure, fail, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Change, NewEvent, Pulse, Store } from '../store/index.ts';

export interface ThreadLog {
  readonly thread: string;
  /** Counts on; also used to number calls and reservations. */
  turn: number;
  append(events: readonly NewEvent[], change?: Change): Outcome<null>;
  /** One event of the current turn. */
  note(type: string, data: JsonObject, change?: Change): Outcome<null>;
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

export interface LogPorts {
  store: Pick<Store, 'append' | 'isHeld' | 'pulse' | 'renew' | 'thread'>;
  /** People read the transcript; the registry is the truth. A failure here is reported, not fatal. */
  transcribe(events: readonly NewEvent[], firstSeq: number): void;
}

/** After these nothing was written; after any other failure it may have been. */
const SURELY_REFUSED: ReadonlySet<string> = new Set([
  'conflict',
  'stale_epoch',
  'lease_expired',
  'invalid_input',
  'not_found',
]);

export function createThreadLog(
  thread: string,
  start: { seq: number; epoch: number; turn: number },
  { store, transcribe }: LogPorts,
): ThreadLog {
  let { seq } = start;
  let lost: Failure | undefined;

  /** Did it arrive all the same? Only the holder of the epoch can have moved the sequence. */
  function arrived(failure: Failure, count: number): boolean {
    if (SURELY_REFUSED.has(failure.error.code) || count === 0) return false;
    const row = store.thread(thread);
    return row.ok && row.output.seq === seq + count && row.output.epoch === start.epoch;
  }

  const log: ThreadLog = {
    thread,
    turn: start.turn,
    append(events, change) {
      if (lost) return lost;
      const stamped = events.map((event) => ({ turn: log.turn, ...event }));
      let refused: Failure | undefined;
      const first = (): Outcome<null> => {
        const answer = change?.first?.() ?? ok(null);
        if (!answer.ok) refused = answer;
        return answer;
      };
      const all = change?.first ? { ...change, first } : change;
      const done = store.append(thread, seq, start.epoch, stamped, all);
      // What had to come first was refused: nothing was written, and nobody is lost.
      if (refused) return refused;
      if (!done.ok && !arrived(done, stamped.length)) {
        lost = done;
        return done;
      }
      transcribe(stamped, seq + 1);
      seq += stamped.length;
      return ok(null);
    },
    note: (type, data, change) => log.append([{ type, data }], change),
    isHeld: () => lost === undefined && store.isHeld(thread, start.epoch),
    pulse(lastSignal) {
      const { held, called } = store.pulse(thread, start.epoch, lastSignal);
      return { held: held && lost === undefined, called };
    },
    renew(ttlMs) {
      const renewed = log.isHeld() && store.renew(thread, start.epoch, ttlMs).ok;
      if (!renewed) lost ??= fail('lease_expired', `the lease of thread \`${thread}\` ran out`);
      return renewed;
    },
    seq: () => seq,
    lost: () => lost,
  };
  return log;
}
