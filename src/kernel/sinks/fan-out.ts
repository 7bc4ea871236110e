// One stream, several sinks. A sink that fails (also by throwing, which it should not) is left out
// from then on; the others never notice. Events come in batches, as they were received: each sink
// takes a batch in order and at its own pace, and while it answers at once an event costs no promise.
import { type JsonObject, messageOf } from '../../base/index.ts';
import type { Sink, SinkReport, StreamEvent } from '../sink.ts';

export type Fan = ReturnType<typeof createFan>;

interface Seat {
  sink: Sink;
  error?: string;
  /** Events that came after it failed. */
  missed: number;
}

async function closeSeat(seat: Seat, patience: Promise<void>): Promise<SinkReport> {
  const blank: SinkReport = { type: seat.sink.type, delivered: 0, dropped: 0 };
  const late = patience.then(
    (): SinkReport => ({ ...blank, error: 'the sink did not close in time' }),
  );
  let report: SinkReport;
  try {
    report = await Promise.race([seat.sink.close(), late]);
  } catch (cause) {
    report = { ...blank, error: messageOf(cause) };
  }
  const dropped = report.dropped + seat.missed;
  const error = seat.error ?? report.error;
  return { ...report, dropped, ...(error !== undefined && { error }) };
}

function failSeat(seat: Seat, cause: unknown, missed: number): void {
  seat.error ??= messageOf(cause);
  seat.missed += missed;
}

/** Gives a sink its part of a batch; a promise when it needs time for one of the events. */
function feed(seat: Seat, events: readonly StreamEvent[], from = 0): undefined | Promise<void> {
  const { sink } = seat;
  let at = from;
  try {
    if (sink.writeAll) {
      sink.writeAll(events);
      return undefined;
    }
    for (; at < events.length; at++) {
      const wait = sink.write(events[at] as StreamEvent);
      if (wait === undefined) continue;
      const next = at + 1;
      return wait.then(
        () => feed(seat, events, next),
        (cause: unknown) => failSeat(seat, cause, events.length - next + 1),
      );
    }
  } catch (cause) {
    failSeat(seat, cause, events.length - at);
  }
  return undefined;
}

export function createFan(sinks: readonly Sink[]) {
  const seats: Seat[] = sinks.map((sink) => ({ sink, missed: 0 }));
  return {
    /** A promise only when a sink needs time: the reader waits for it. Never rejects. */
    write(events: readonly StreamEvent[]): undefined | Promise<void> {
      let waits: Promise<void>[] | undefined;
      for (const seat of seats) {
        if (seat.error !== undefined) {
          seat.missed += events.length;
          continue;
        }
        const wait = feed(seat, events);
        if (wait !== undefined) (waits ??= []).push(wait);
      }
      return waits && Promise.all(waits).then(() => {});
    },
    /** Closes every sink once, and waits no longer than `patience` allows. Never rejects. */
    close: (patience: Promise<void>): Promise<SinkReport[]> =>
      Promise.all(seats.map((seat) => closeSeat(seat, patience))),
  };
}

/** What the call's result says about a sink: no events, no absolute paths. */
export function publicReport(report: SinkReport): JsonObject {
  const { events: _events, file: _file, ...shown } = report;
  return shown as JsonObject;
}
