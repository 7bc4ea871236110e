// What the parts of one request share: its config read, its time limits, its secrets, and who gets
// the events of a stream.
import {
  type Failure,
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  type Redactor,
} from '../../base/index.ts';
import type { PrimitiveCall, Verifier } from '../primitive.ts';
import type { StreamEvent } from '../sink.ts';
import { choiceField, countField } from '../sinks/null.ts';
import type { AddressPorts } from './address.ts';
import type { Connections } from './connections.ts';
import type { TimeWatch, TimeWatchPorts } from './time-limits.ts';

export interface HttpPorts extends AddressPorts, TimeWatchPorts {
  connections: Connections;
}

/**
 * Takes the events that came together. A promise means that it needs time: nothing more is read until
 * it settles, and it never rejects.
 */
export type OnEvents = (events: readonly StreamEvent[]) => undefined | Promise<void>;

/** A request on its way. */
export interface Sending {
  settings: Settings;
  ports: HttpPorts;
  verify: Verifier;
  watch: TimeWatch;
  redact: Redactor;
  onEvents: OnEvents;
}

/** How a stream ended. */
export interface StreamEnd {
  /** `status`, `headers` and what else the transport has to say. */
  facts: JsonObject;
  /** How many events were handed over. */
  count: number;
  /** Did the other side end it, with nothing left unfinished? */
  endedCleanly: boolean;
  failure?: Failure;
}

/** Takes secrets out of the events of one stream. `isCleared`: this one alone is known to hold none. */
export function createEventMask({ isIdle, text, follow }: Redactor) {
  const next = follow();
  return (event: StreamEvent, isCleared = false): StreamEvent => {
    if (isIdle) return event;
    const data = next(event.data, isCleared);
    if (isCleared) return data === event.data ? event : { ...event, data };
    const masked: StreamEvent = { ...event, data };
    if (event.event !== undefined) masked.event = text(event.event);
    if (event.id !== undefined) masked.id = text(event.id);
    return masked;
  };
}

/** What a request is made of. */
export type Configured = Pick<PrimitiveCall, 'config' | 'parameters'>;

export interface Settings {
  transport: 'none' | 'sse' | 'websocket';
  maxBytes: number;
  maxEvent: number;
  maxRedirects: number;
}

const MB = 1024 * 1024;
const PRESETS = { sync: 10 * MB, stream: 100 * MB, event: 8 * MB, redirects: 5 };

/** A stream is asked for by `mode`, or by `stream: true` when the tool knows how to stream. */
function wantsStream({ config, parameters }: Configured): Outcome<boolean> {
  if (getOwn(config, 'mode') !== undefined) {
    const mode = choiceField(config, 'mode', ['sync', 'stream']);
    return mode.ok ? ok(mode.output === 'stream') : mode;
  }
  const asked = [getOwn(parameters, 'stream'), getOwn(getOwn(config, 'body'), 'stream')];
  return ok(isObject(getOwn(config, 'stream')) && asked.includes(true));
}

/** Reads what decides how a call goes; anything odd is the author's mistake. */
export function settingsOf(call: Configured): Outcome<Settings> {
  const { config } = call;
  const stream = wantsStream(call);
  if (!stream.ok) return stream;
  const given = getOwn(config, 'stream');
  const streamConfig: JsonObject = isObject(given) ? given : {};
  const transport = choiceField(streamConfig, 'transport', ['sse', 'websocket']);
  if (!transport.ok) return transport;
  const maxBytes = countField(config, 'max_bytes', stream.output ? PRESETS.stream : PRESETS.sync);
  if (!maxBytes.ok) return maxBytes;
  const maxEvent = countField(streamConfig, 'max_event', PRESETS.event);
  if (!maxEvent.ok) return maxEvent;
  const maxRedirects = countField(config, 'max_redirects', PRESETS.redirects, 0);
  if (!maxRedirects.ok) return maxRedirects;
  return ok({
    transport: stream.output ? transport.output : 'none',
    maxBytes: maxBytes.output,
    maxEvent: maxEvent.output,
    maxRedirects: maxRedirects.output,
  });
}
