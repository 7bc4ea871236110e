// Sends one stream to several sinks. A sink that fails (also by throwing, which it should not) gets no
// more events, and the others continue. A batch without slow sinks costs no promise.
import { type JsonObject, messageOf } from '../../base/index.ts';
import type { Sink, SinkReport, StreamEvent } from '../sink.ts';

export type Fan = ReturnType<typeof createFan>;

interface Seat {
  sink: Sink;
  error?: string;
  /** Number of events after its failure. */
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

/** Returns a promise if the sink needs time. If a batch fails, none of its events counts as delivered. */
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
    /** Returns a promise only if a sink needs time, and the reader waits for it. Never rejects. */
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
    /** Closes every sink once, and waits until `patience` settles at most. Never rejects. */
    close: (patience: Promise<void>): Promise<SinkReport[]> =>
      Promise.all(seats.map((seat) => closeSeat(seat, patience))),
  };
}

/** Returns the report of a sink for the call's result: no events, no absolute paths. */
export function publicReport(report: SinkReport): JsonObject {
  const { events: _events, file: _file, ...fields } = report;
  return fields as JsonObject;
}
