// Forwards a stream to a WebSocket, live. Without a connection, events wait in a bounded buffer and are
// sent in order after a reconnection. Events that do not fit are counted. An event counts as delivered
// when it was passed to the connection. Only the answer to the close at the end confirms that the server
// read it; the report says if that answer is missing.
import type { Failure, JsonObject, Outcome } from '../../base/index.ts';
import { fail, getOwn, ok, systemClock } from '../../base/index.ts';
import {
  choiceField,
  countField,
  type Sink,
  type SinkContext,
  type SinkFactory,
  type SinkReport,
  type StreamEvent,
} from '../sink.ts';
import { type AddressPorts, hostOf } from './address.ts';
import type { HttpAnswer } from './connections.ts';
import { buildRequest, type WireRequest } from './request.ts';
import { systemTimer, type Timer, TimeWatch, type TimeWatchPorts } from './time-limits.ts';
import type { WebSocketEnd, WebSocketLine, WebSocketUser } from './websocket-line.ts';

interface Settings {
  attempts: number;
  backoffMs: number;
  bufferMax: number;
  text: (event: StreamEvent) => string;
}

interface Setup {
  request: WireRequest;
  settings: Settings;
  context: SinkContext;
  ports: AddressPorts & TimeWatchPorts;
}

const TYPE = 'websocket_sink';
const HOUR = 3_600_000;
const TIMEOUTS = { connect: 10_000, first_byte: 10_000, idle: HOUR, total: 500 * HOUR };
const MAX_BACKOFF_MS = 30_000;
/** Maximum time for the end: for sending the waiting events, and for the server's answer to the close. */
const CLOSE_MS = 3000;
/** Maximum size of an incoming message, which is dropped. */
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

const pause = (ms: number, timer: Timer, stop: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (stop.aborted) return resolve();
    const finish = (): void => {
      cancel();
      stop.removeEventListener('abort', finish);
      resolve();
    };
    const cancel = timer(ms, finish);
    stop.addEventListener('abort', finish, { once: true });
  });

class WebSocketSink implements Sink, WebSocketUser {
  readonly type = TYPE;
  readonly #setup: Setup;
  readonly #stop = new AbortController();
  readonly #waiting: string[] = [];
  #line: WebSocketLine | undefined;
  #connecting: Promise<void> | undefined;
  #onLost: (isAnswered: boolean) => void = () => {};
  #delivered = 0;
  #dropped = 0;
  #connections = 0;
  #error: string | undefined;

  constructor(setup: Setup) {
    this.#setup = setup;
    const { signal } = setup.context;
    signal.addEventListener('abort', this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
  }

  readonly #onAbort = (): void => {
    this.#stop.abort();
    this.#line?.destroy();
  };

  async write(events: readonly StreamEvent[]): Promise<void> {
    for (const event of events) {
      if (this.#stop.signal.aborted) {
        this.#dropped++;
        continue;
      }
      const text = this.#setup.settings.text(event);
      const sent = this.#connecting === undefined && (this.#line?.send(text) ?? false);
      if (sent === false) this.#keep(text);
      else this.#delivered++;
      if (typeof sent !== 'boolean') await sent;
    }
  }

  async close(): Promise<SinkReport> {
    const { request, context, ports } = this.#setup;
    await Promise.race([this.#finish(), pause(CLOSE_MS, ports.timer, this.#stop.signal)]);
    const isLate = this.#line !== undefined || this.#waiting.length > 0;
    const error = this.#error ?? (isLate ? 'some events were not sent in time' : undefined);
    this.#dropped += this.#waiting.splice(0).length;
    this.#onAbort();
    context.signal.removeEventListener('abort', this.#onAbort);
    const report = {
      type: TYPE,
      delivered: this.#delivered,
      dropped: this.#dropped,
      connections: this.#connections,
      url: `${request.url.origin}${request.url.pathname}`,
    };
    return error === undefined ? report : { ...report, error };
  }

  // Incoming messages are dropped. Only the end of the connection matters.
  text(): void {}

  async refused({ status, body }: HttpAnswer): Promise<Failure> {
    body.destroy();
    return fail('http_error', `the server answered ${status}`);
  }

  ended({ isAnswered }: WebSocketEnd): void {
    this.#line = undefined;
    this.#onLost(isAnswered);
    this.#connect();
  }

  #keep(text: string): void {
    const isFirst = this.#connections === 0 && this.#waiting.length === 0;
    if (this.#waiting.length < this.#setup.settings.bufferMax || isFirst) this.#waiting.push(text);
    else this.#dropped++;
    this.#connect();
  }

  /** Connects only if events are waiting, so that a server that closes the connection gets no useless requests. */
  #connect(): void {
    const { aborted } = this.#stop.signal;
    if (this.#line !== undefined || this.#waiting.length === 0 || aborted) return;
    this.#connecting ??= this.#connectAndFlush().finally(() => {
      this.#connecting = undefined;
      this.#connect();
    });
  }

  /**
   * Sends the waiting events in order. Events that were not sent when the connection broke stay in the buffer.
   */
  async #connectAndFlush(): Promise<void> {
    if (!(await this.#open())) return this.#stop.abort();
    for (let text = this.#waiting[0]; text !== undefined; text = this.#waiting[0]) {
      const sent = this.#line?.send(text) ?? false;
      if (sent === false) return;
      this.#waiting.shift();
      this.#delivered++;
      if (sent !== true) await sent;
    }
  }

  /**
   * Returns false if the sink was stopped or gave up. The target is judged every time, because the name
   * may have moved.
   */
  async #open(): Promise<boolean> {
    const { openWebSocket } = await import('./websocket-line.ts');
    const { request, settings, context, ports } = this.#setup;
    const { attempts, backoffMs } = settings;
    const { signal } = this.#stop;
    for (let attempt = 0; attempt <= attempts; attempt++) {
      const wait = Math.min(backoffMs * 2 ** (attempt - 1), MAX_BACKOFF_MS);
      if (attempt > 0) await pause(wait, ports.timer, signal);
      if (signal.aborted) return false;
      const watch = new TimeWatch(TIMEOUTS, signal, ports);
      const sending = { verify: context.verify, ports, watch };
      const opening = openWebSocket(request, sending, MAX_INCOMING, this);
      const opened = await opening.finally(() => watch.end());
      if (opened.ok) {
        this.#line = opened.output.line;
        this.#connections++;
        if (signal.aborted) this.#line.destroy();
        return true;
      }
      this.#error = opened.error.detail.message;
    }
    return false;
  }

  /** Closes the connection and waits for the server's confirmation. */
  async #finish(): Promise<void> {
    // The connection may be lost and opened again during the wait.
    while (this.#connecting !== undefined) await this.#connecting;
    if (this.#line === undefined) return;
    const { promise: answered, resolve } = Promise.withResolvers<boolean>();
    this.#onLost = resolve;
    this.#line.close();
    if (!(await answered)) this.#error ??= 'the server did not confirm the end of the connection';
  }
}

export const createWebSocketSinkFactory =
  (options: AddressPorts & Partial<TimeWatchPorts>): SinkFactory =>
  (destination, context) => {
    const { url = null, headers = null, auth = null } = destination;
    const request = buildRequest({ url, headers: headers ?? {}, auth }, {}, ['ws:', 'wss:']);
    if (!request.ok) return request;
    const settings = settingsOf(destination);
    if (!settings.ok) return settings;
    const scope = { host: hostOf(request.output.url) };
    const allowed = context.verify({ capability: 'net.websocket', scope });
    if (!allowed.ok) return allowed;
    const ports = { clock: systemClock, timer: systemTimer, ...options };
    const setup = { request: request.output, settings: settings.output, context, ports };
    return ok(new WebSocketSink(setup));
  };
