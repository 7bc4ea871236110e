// The one place that writes a thread's history. Everything is one append: events, status, cost and
// what a reservation really took, all or nothing. Whoever cannot append no longer acts.
import type { JsonObject, Outcome } from '../base/index.ts';
import { ok } from '../base/index.ts';
import type { Change, NewEvent, Store } from '../store/index.ts';

export interface ThreadLog {
  readonly thread: string;
  /** Counts on; also used to number calls and reservations. */
  turn: number;
  append(events: readonly NewEvent[], change?: Change): Outcome<null>;
  /** One event of the current turn. */
  note(type: string, data: JsonObject, change?: Change): Outcome<null>;
  /** Just before an effect: does this process still hold the thread? */
  isHeld(): boolean;
}

export interface LogPorts {
  store: Pick<Store, 'append' | 'isHeld'>;
  /** People read the transcript; the registry is the truth. A failure here is reported, not fatal. */
  transcribe(events: readonly NewEvent[], firstSeq: number): void;
}

export function createThreadLog(
  thread: string,
  start: { seq: number; epoch: number; turn: number },
  { store, transcribe }: LogPorts,
): ThreadLog {
  let { seq } = start;
  const log: ThreadLog = {
    thread,
    turn: start.turn,
    append(events, change) {
      const stamped = events.map((event) => ({ turn: log.turn, ...event }));
      const done = store.append(thread, seq, start.epoch, stamped, change);
      if (!done.ok) return done;
      transcribe(stamped, seq + 1);
      seq = done.output.seq;
      return ok(null);
    },
    note: (type, data, change) => log.append([{ type, data }], change),
    isHeld: () => store.isHeld(thread, start.epoch),
  };
  return log;
}
