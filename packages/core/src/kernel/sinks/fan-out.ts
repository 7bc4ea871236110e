// One stream, several sinks. A sink that fails (also by throwing, which it should not) is left out
// from then on; the others never notice. While a sink answers at once a batch costs no promise.
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

/** A promise when the sink needs time. Of a batch it fails at nothing is known to have arrived. */
function feed(seat: Seat, events: readonly StreamEvent[]): void | Promise<void> {
  const failed = (cause: unknown): void => {
    seat.error ??= messageOf(cause);
    seat.missed += events.length;
  };
  try {
    return seat.sink.write(events)?.catch(failed);
  } catch (cause) {
    failed(cause);
  }
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
