// From a transport to the sinks: hides secrets, waits when a sink needs time, and puts together what
// the result says about the stream.
import { type Failure, type Json, type JsonObject, withDetail } from '../base/index.ts';
import type { HttpCall } from './http-call.ts';
import type { Redactor } from './http-redact.ts';
import type { SinkReport, StreamEvent } from './sink.ts';
import { publicReport } from './sinks/fan-out.ts';

/** How a stream ended, before its sinks are closed. */
export interface StreamEnd {
  /** `status`, `headers` and what else the transport has to say. */
  facts: JsonObject;
  /** Did the other side end it, with nothing left unfinished? */
  endedCleanly: boolean;
  failure?: Failure;
}

/**
 * Hands over a batch of events. Answers at once while the sinks do; a promise means that one of them
 * needs time. `false` when the call was stopped meanwhile. `areLines`: no data has a line break.
 */
export function deliver(
  events: readonly StreamEvent[],
  { fan, watch }: Pick<HttpCall, 'fan' | 'watch'>,
  areLines = false,
): boolean | Promise<boolean> {
  const wait = fan.write(events, areLines);
  const goOn = () => watch.failure() === undefined;
  return wait === undefined ? goOn() : wait.then(goOn);
}

/** The event without secrets. To be applied before `deliver`, unless it is known to hold none. */
export function maskEvent(event: StreamEvent, redact: Redactor): StreamEvent {
  if (redact.isIdle) return event;
  const masked: StreamEvent = { ...event, data: redact(event.data) };
  if (event.event !== undefined) masked.event = redact(event.event);
  if (event.id !== undefined) masked.id = redact(event.id);
  return masked;
}

/** The fields of a stream's result; a fault's detail holds the same ones. */
export function streamFields(
  end: StreamEnd,
  count: number,
  reports: readonly SinkReport[],
  redact: (value: Json) => Json,
): JsonObject {
  const events = reports.find(({ type }) => type === 'return')?.events;
  return {
    ...end.facts,
    body: Array.isArray(events) ? (events as Json[]) : null,
    stream_events_count: count,
    stream_destinations: redact(reports.map(publicReport)),
    dropped: reports.reduce((sum, { dropped }) => sum + dropped, 0),
    ended_cleanly: end.endedCleanly,
  };
}

/** What was received before the fault is told with it: nothing that arrived is lost. */
export const streamFault = (failure: Failure, fields: JsonObject): Failure =>
  withDetail(failure, fields);
