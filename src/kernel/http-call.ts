// What the parts of one call share: its config read, its time limits, its sinks, its secrets.
import { getOwn, isObject, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { AddressPorts } from './http-address.ts';
import type { LinePool } from './http-pool.ts';
import type { Redactor } from './http-redact.ts';
import type { Watch, WatchPorts } from './http-watch.ts';
import type { PrimitiveCall } from './primitive.ts';
import type { Fan } from './sinks/fan-out.ts';
import { choiceField, countField } from './sinks/null.ts';

export interface HttpPorts extends AddressPorts, WatchPorts {}

export interface HttpCall {
  call: PrimitiveCall;
  settings: Settings;
  ports: HttpPorts;
  pool: LinePool;
  watch: Watch;
  fan: Fan;
  redact: Redactor;
}

export interface Settings {
  transport: 'none' | 'sse' | 'websocket';
  maxBytes: number;
  maxEvent: number;
  maxRedirects: number;
}

const MB = 1024 * 1024;
const PRESETS = { sync: 10 * MB, stream: 100 * MB, event: 8 * MB, redirects: 5 };

/** A stream is asked for by `mode`, or by `stream: true` when the tool knows how to stream. */
function wantsStream({ config, parameters }: PrimitiveCall): Outcome<boolean> {
  if (getOwn(config, 'mode') !== undefined) {
    const mode = choiceField(config, 'mode', ['sync', 'stream']);
    return mode.ok ? ok(mode.output === 'stream') : mode;
  }
  const asked = [getOwn(parameters, 'stream'), getOwn(getOwn(config, 'body'), 'stream')];
  return ok(isObject(getOwn(config, 'stream')) && asked.includes(true));
}

/** Reads what decides how a call goes; anything odd is the author's mistake. */
export function settingsOf(call: PrimitiveCall): Outcome<Settings> {
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
