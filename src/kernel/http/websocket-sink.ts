// Forwards a stream to a WebSocket, live. While there is no connection, events wait in a bounded
// buffer and go out in order once there is one again; what does not fit is counted. An event counts
// as delivered when it was handed to the connection; that the other side read it is known only when
// it answers the close at the end, and the report says when it did not.
import type { Clock, JsonObject, Outcome } from '../../base/index.ts';
import { fail, getOwn, ok, systemClock } from '../../base/index.ts';
import {
  choiceField,
  countField,
  type Sink,
  type SinkContext,
  type SinkFactory,
  type StreamEvent,
} from '../sink.ts';
import { type AddressPorts, allowTarget, hostOf } from './address.ts';
import { buildRequest, type WireRequest } from './request.ts';
import { systemTimer, type Timer, TimeWatch } from './time-limits.ts';
import type { WebSocketLine, WebSocketUser } from './websocket-line.ts';

export interface WebSocketSinkPorts extends AddressPorts {
  clock?: Clock;
  timer?: Timer;
}

type Ports = Required<Omit<WebSocketSinkPorts, 'lookup'>> & AddressPorts;

interface Settings {
  attempts: number;
  backoffMs: number;
  bufferMax: number;
  text: (event: StreamEvent) => string;
}

const TYPE = 'websocket_sink';
const HOUR = 3_600_000;
const TIMEOUTS = { connect: 10_000, first_byte: 10_000, idle: HOUR, total: 500 * HOUR };
const MAX_BACKOFF_MS = 30_000;
/** How long the end may take: writing out what waits, and the other side's answer to the close. */
const CLOSE_MS = 3000;
/** What the other side sends is not ours to keep. */
const MAX_INCOMING = 64 * 1024;

function settingsOf(destination: JsonObject): Outcome<Settings> {
  const attempts = countField(destination, 'reconnect_attempts', 3, 0);
  if (!attempts.ok) return attempts;
  const backoff = countField(destination, 'backoff_ms', 500, 0);
  if (!backoff.ok) return backoff;
  const buffer = countField(destination, 'buffer_max_size', 1000, 0);
  if (!buffer.ok) return buffer;
  const format = choiceField(destination, 'format', ['raw', 'jsonl']);
  if (!format.ok) return format;
  const keeps = getOwn(destination, 'buffer_on_disconnect') !== false;
  return ok({
    attempts: attempts.output,
    backoffMs: backoff.output,
    bufferMax: keeps ? buffer.output : 0,
    text: format.output === 'raw' ? ({ data }) => data : (event) => JSON.stringify(event),
  });
}

type Connected = { line: WebSocketLine } | { reason: string };

/** One attempt. The target is judged every time: the name may lead elsewhere by now. */
async function connectOnce(
  request: WireRequest,
  context: SinkContext,
  stop: AbortSignal,
  ports: Ports,
  user: WebSocketUser,
): Promise<Connected> {
  const { openWebSocket } = await import('./websocket-line.ts');
  const watch = new TimeWatch(TIMEOUTS, stop, ports);
  try {
    const target = { url: request.url };
    const addresses = await allowTarget(target, 'net.websocket', context.verify, ports, watch);
    if (!addresses.ok) return { reason: addresses.error.detail.message };
    const opened = await openWebSocket(request, addresses.output, watch, MAX_INCOMING, user);
    if (!opened.ok) return { reason: opened.error.detail.message };
    return { line: opened.output.line };
  } finally {
    watch.end();
  }
}

const pause = (ms: number, timer: Timer, stop: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (stop.aborted) return resolve();
    const done = (): void => {
      cancel();
      stop.removeEventListener('abort', done);
      resolve();
    };
    const cancel = timer(ms, done);
    stop.addEventListener('abort', done, { once: true });
  });

/** The connection, as long as there is one, and how to get the next. */
function createLink(
  request: WireRequest,
  settings: Settings,
  context: SinkContext,
  ports: Ports,
  stop: AbortSignal,
  onEnded: () => void,
) {
  let line: WebSocketLine | undefined;
  let destroyLine = (): void => {};
  let onLost: (isAnswered: boolean) => void = () => {};
  let connections = 0;
  let error: string | undefined;

  function take(made: WebSocketLine): void {
    line = made;
    connections++;
    destroyLine = () => made.destroy();
    stop.addEventListener('abort', destroyLine, { once: true });
  }
  /** What the other side says is not for us: only that it is over. */
  const user: WebSocketUser = {
    text() {},
    async refused({ status, body }) {
      body.destroy();
      return fail('http_error', `the server answered ${status}`);
    },
    ended({ isAnswered }) {
      stop.removeEventListener('abort', destroyLine);
      line = undefined;
      onLost(isAnswered);
      onEnded();
    },
  };

  return {
    line: () => line,
    connections: () => connections,
    error: () => error,
    /** False when it was stopped, or given up. */
    async open(): Promise<boolean> {
      for (let attempt = 0; attempt <= settings.attempts; attempt++) {
        const wait = Math.min(settings.backoffMs * 2 ** (attempt - 1), MAX_BACKOFF_MS);
        if (attempt > 0) await pause(wait, ports.timer, stop);
        if (stop.aborted) return false;
        const made = await connectOnce(request, context, stop, ports, user);
        if ('line' in made) {
          take(made.line);
          return true;
        }
        error = made.reason;
      }
      return false;
    },
    /** Ends it, with the other side's word that it got everything. */
    async close(): Promise<void> {
      if (line === undefined) return;
      const answered = new Promise<boolean>((resolve) => {
        onLost = resolve;
      });
      line.close();
      if (!(await answered)) error ??= 'the other side did not confirm the end';
    },
  };
}

function createSink(
  request: WireRequest,
  settings: Settings,
  context: SinkContext,
  given: WebSocketSinkPorts,
): Sink {
  const ports = { clock: systemClock, timer: systemTimer, ...given };
  const stop = new AbortController();
  const onAbort = (): void => stop.abort();
  context.signal.addEventListener('abort', onAbort, { once: true });
  if (context.signal.aborted) onAbort();
  const waiting: string[] = [];
  const link = createLink(request, settings, context, ports, stop.signal, connect);
  let connecting: Promise<void> | undefined;
  let [delivered, dropped] = [0, 0];

  /** Sends what waits, in order; what was not sent when the connection broke waits on. */
  async function flush(): Promise<void> {
    for (let text = waiting[0]; text !== undefined; text = waiting[0]) {
      const sent = link.line()?.send(text) ?? false;
      if (sent === false) return;
      waiting.shift();
      delivered++;
      if (sent !== true) await sent;
    }
  }

  async function connectAndFlush(): Promise<void> {
    if (await link.open()) await flush();
    else stop.abort();
  }

  /** Only while something waits: a server that hangs up on us is not called for nothing. */
  function connect(): void {
    if (link.line() !== undefined || waiting.length === 0 || stop.signal.aborted) return;
    connecting ??= connectAndFlush().finally(() => {
      connecting = undefined;
      connect();
    });
  }

  function keep(text: string): void {
    const isFirst = link.connections() === 0 && waiting.length === 0;
    if (waiting.length < settings.bufferMax || isFirst) waiting.push(text);
    else dropped++;
    connect();
  }

  async function finish(): Promise<void> {
    await connecting;
    // Lost and called again while we waited.
    if (connecting !== undefined) return await finish();
    await link.close();
  }

  return {
    type: TYPE,
    write(event) {
      if (stop.signal.aborted) {
        dropped++;
        return;
      }
      const text = settings.text(event);
      const sent = connecting === undefined && (link.line()?.send(text) ?? false);
      if (sent === false) return keep(text);
      delivered++;
      if (sent !== true) return sent.then(() => {});
    },
    async close() {
      await Promise.race([finish(), pause(CLOSE_MS, ports.timer, stop.signal)]);
      const isLate = link.line() !== undefined || waiting.length > 0;
      const error = link.error() ?? (isLate ? 'not everything was sent in time' : undefined);
      dropped += waiting.splice(0).length;
      stop.abort();
      context.signal.removeEventListener('abort', onAbort);
      const url = `${request.url.origin}${request.url.pathname}`;
      const report = { type: TYPE, delivered, dropped, connections: link.connections(), url };
      return error === undefined ? report : { ...report, error };
    },
  };
}

export const createWebSocketSinkFactory =
  (ports: WebSocketSinkPorts): SinkFactory =>
  (destination, context) => {
    const { url = null, headers = null, auth = null } = destination;
    const request = buildRequest({ url, headers: headers ?? {}, auth }, {}, ['ws:', 'wss:']);
    if (!request.ok) return request;
    const settings = settingsOf(destination);
    if (!settings.ok) return settings;
    const scope = { host: hostOf(request.output.url) };
    const held = context.verify({ capability: 'net.websocket', scope });
    return held.ok ? ok(createSink(request.output, settings.output, context, ports)) : held;
  };
