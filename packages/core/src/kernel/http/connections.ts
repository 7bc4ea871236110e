// Opens connections to checked addresses, and makes exchanges over them. undici implements HTTP/1.1.
// INVARIANT: a connection is always used only for an address that was checked for this request. A kept
// connection must lead to a listed address, and a new one is opened to the list, not to the name. A name
// that changes its answer in between (DNS rebinding) has no effect.
import { isIP, isIPv6, type LookupFunction, connect as openTcp, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as openTls } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { type Outcome, ok } from '../../base/index.ts';
import { type AddressPorts, hostOf, portOf } from './address.ts';
import { malformation, malformed, networkFault } from './fault.ts';
import type { WireRequest } from './request.ts';
import type { TimeWatch, TimeWatchPorts } from './time-limits.ts';

/** Consumes a chunk. `true` asks for more, `false` stops; a promise delays the next chunk until it settles. */
export type Take = (bytes: Buffer) => boolean | Promise<boolean>;

/** The end of a body. `stopped`: the consumer or a time limit stopped it. An error: the body is incomplete. */
export type BodyEnd = 'end' | 'stopped' | Error;

export interface Body {
  /** Passes the chunks to `take` and returns how the body ended. May be called once. */
  read(take: Take): Promise<BodyEnd>;
  destroy(): void;
}

/** A response. Its receiver reads or destroys the body. */
export interface HttpAnswer {
  status: number;
  statusText: string;
  /** Names are in lower case. Several values are joined with a comma. */
  headers: Readonly<Record<string, string>>;
  body: Body;
}

/**
 * The receiving side of a body. All chunks that arrive in one turn of the event loop are passed on
 * together, also if there are a thousand small ones.
 */
class Incoming implements Body {
  readonly #controller: Dispatcher.DispatchController;
  readonly #watch: TimeWatch;
  readonly #drop: () => void;
  #waiting: Buffer[] = [];
  /** True while the connection is paused, because its consumer has not started or is slow. */
  #isPaused = false;
  #isScheduled = false;
  #isOver = false;
  #ended: 'end' | Error | undefined;
  #take: Take | undefined;
  readonly #over = Promise.withResolvers<BodyEnd>();

  constructor(controller: Dispatcher.DispatchController, watch: TimeWatch, drop: () => void) {
    this.#controller = controller;
    this.#watch = watch;
    this.#drop = drop;
  }

  read(take: Take): Promise<BodyEnd> {
    this.#take = take;
    if (this.#watch.failure !== undefined) this.destroy();
    else if (this.#isPaused) this.#goOn(true);
    return this.#over.promise;
  }

  destroy(): void {
    this.#finish('stopped');
  }

  push(bytes: Buffer): void {
    if (this.#isOver) return;
    this.#waiting.push(bytes);
    this.#schedule();
  }

  /** Ends the body. Later calls have no effect. */
  end(end: 'end' | Error): void {
    this.#ended ??= end;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(this.#flush);
  }

  readonly #flush = (): void => {
    this.#isScheduled = false;
    if (this.#isPaused || this.#isOver) return;
    if (this.#take === undefined) return this.#pause();
    const [first] = this.#waiting;
    if (first !== undefined) {
      const bytes = this.#waiting.length === 1 ? first : Buffer.concat(this.#waiting);
      this.#waiting = [];
      this.#watch.touch();
      try {
        const wanted = this.#take(bytes);
        if (wanted === false) return this.destroy();
        if (wanted !== true) {
          this.#pause();
          this.#watch.hold();
          wanted.then(this.#goOn, this.#fail);
          return;
        }
      } catch (error) {
        return this.#fail(error);
      }
    }
    if (this.#ended !== undefined) this.#finish(this.#ended);
  };

  #pause(): void {
    this.#isPaused = true;
    this.#controller.pause();
  }

  readonly #goOn = (isWanted: boolean): void => {
    if (this.#isOver) return;
    if (!isWanted) return this.destroy();
    this.#isPaused = false;
    this.#watch.enter('idle');
    this.#controller.resume();
    this.#flush();
  };

  readonly #fail = (error: unknown): void => {
    this.#over.reject(error);
    this.destroy();
  };

  #finish(end: BodyEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (end === 'stopped' && this.#ended === undefined) this.#drop();
    this.#over.resolve(end);
  }
}

/** Returns a resolver that answers only with the checked addresses. */
function lookupFrom(addresses: readonly string[]): LookupFunction {
  const list = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  const [first] = list;
  return (_host, options, callback) => {
    if (options.all) callback(null, list);
    else callback(null, first?.address ?? '', first?.family ?? 4);
  };
}

const MAX_HEAD = 64 * 1024;
/** A kept connection is dropped this long before its announced end, because a request could be lost. */
const MARGIN_MS = 1000;

interface KeepLimits {
  /** Time in milliseconds for which an idle connection is kept if the server announces none. */
  idleMs?: number;
  maxIdleMs?: number;
  /** Maximum number of kept connections. The one that was unused for the longest time is closed first. */
  maxKept?: number;
}

/** One connection at a time to one origin. The first request opens it. */
export class Connection {
  readonly client: Client;
  /** The checked addresses of the present request. A new connection is opened to them. */
  addresses: readonly string[];
  /** True if this connection has carried an earlier exchange. */
  isReused = false;
  /** Address of the server, empty without a connection. */
  address = '';
  #socket: Socket | undefined;

  constructor(
    url: URL,
    addresses: readonly string[],
    { idleMs = 30_000, maxIdleMs = 120_000 }: KeepLimits = {},
    maxMessage?: number,
  ) {
    const isSecure = url.protocol === 'https:' || url.protocol === 'wss:';
    this.addresses = addresses;
    this.client = new Client(`${isSecure ? 'https' : 'http'}://${url.host}`, {
      connect: (_options, callback) => this.#open(url, isSecure, callback),
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: MAX_HEAD,
      // `TimeWatch` enforces all time limits.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: maxIdleMs,
      keepAliveTimeoutThreshold: MARGIN_MS,
      ...(maxMessage !== undefined && { webSocket: { maxPayloadSize: maxMessage } }),
    });
  }

  #open(url: URL, isSecure: boolean, callback: buildConnector.Callback): void {
    const host = hostOf(url);
    const lookup = lookupFrom(this.addresses);
    const options = { host, port: portOf(url), lookup, noDelay: true };
    const name = isIP(host) === 0 ? { servername: host } : {};
    this.isReused = false;
    const socket = isSecure
      ? openTls({ ...options, ...name, ALPNProtocols: ['http/1.1'] })
      : openTcp(options);
    this.#socket = socket;
    let isReported = false;
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      isReported = true;
      this.address = socket.remoteAddress ?? '';
      callback(null, socket);
    });
    // undici handles later errors.
    socket.on('error', (error) => {
      if (!isReported) callback(error, null);
      isReported = true;
    });
  }

  /** True if the connection is open and everything was sent. */
  get isIdle(): boolean {
    const socket = this.#socket;
    return socket?.destroyed === false && socket.writable && socket.writableLength === 0;
  }

  destroy(): void {
    this.#socket?.destroy();
    void this.client.destroy();
  }
}

type RawHeaders = Readonly<Record<string, string | string[] | undefined>>;

export const flatHeaders = (headers: RawHeaders) => {
  const result: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value !== undefined) result[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return result;
};

/** Called when the head has arrived. Reads or destroys the body. */
type ReadAnswer<T> = (answer: HttpAnswer) => Promise<Outcome<T>>;

export interface Ask<T> {
  connection: Connection;
  url: URL;
  watch: TimeWatch;
  read: ReadAnswer<T>;
  /** Called after a complete exchange without errors. */
  release: () => void;
  settle: (answer: Outcome<T> | Promise<Outcome<T>>) => void;
  /** Called if a kept connection was closed before the server answered this request. */
  stale?: () => void;
  /** If true, only a request that certainly did not reach the server is reported as stale. */
  isOnce?: boolean;
}

/** One exchange, as a handler of undici. */
export class Asking<T> implements Dispatcher.DispatchHandler {
  readonly ask: Ask<T>;
  readonly #forget: () => void;
  #isSent = false;
  #isHeard = false;
  #body: Incoming | undefined;

  constructor(ask: Ask<T>) {
    this.ask = ask;
    this.#forget = ask.watch.onStop((failure) => {
      ask.connection.destroy();
      this.#body?.destroy();
      ask.settle(failure);
    });
  }

  /** True if a response has arrived, whose body may still be in transfer. */
  get isAnswered(): boolean {
    return this.#body !== undefined;
  }

  /** Makes the connection unusable for further requests. */
  #drop(): void {
    this.#forget();
    this.ask.connection.destroy();
  }

  onRequestStart(): void {
    this.#isSent = true;
    this.ask.watch.enter('first_byte');
  }

  onResponseStarted(): void {
    this.#isHeard = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    raw: RawHeaders,
    statusText = '',
  ): void {
    if (status < 200) return;
    const { connection, url, watch, read, settle, stale, isOnce = false } = this.ask;
    const headers = flatHeaders(raw);
    // Some servers send 408 before they close an idle connection, without a request. A gateway that gave
    // up on this request sends the same.
    const isGoodbye = status === 408 && headers['connection']?.toLowerCase() === 'close';
    if (connection.isReused && isGoodbye && !isOnce) {
      this.#drop();
      return stale?.();
    }
    // Only `chunked` tells where the body ends.
    const encoding = headers['transfer-encoding'] ?? 'chunked';
    if (encoding.toLowerCase() !== 'chunked') {
      this.#drop();
      return settle(malformed(url, `transfer encoding \`${encoding}\` is not supported`));
    }
    watch.enter('idle');
    this.#body = new Incoming(controller, watch, () => this.#drop());
    settle(read({ status, statusText, headers, body: this.#body }));
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    this.#body?.push(bytes);
  }

  onResponseEnd(): void {
    this.#forget();
    // A microtask later it is known whether the connection stays open: undici closes it now, or when it
    // finds bytes behind the answer.
    queueMicrotask(this.ask.release);
    this.#body?.end('end');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: NodeJS.ErrnoException): void {
    const { connection, url, watch, settle, stale, isOnce = false } = this.ask;
    // An error before anything was sent is not about this request.
    const isUnheard = !isOnce && !this.#isHeard && malformation(error) === undefined;
    const isLost = !this.#isSent || isUnheard;
    const isStale = connection.isReused && isLost;
    this.#drop();
    if (this.#body !== undefined) return this.#body.end(error);
    if (isStale && watch.failure === undefined) return stale?.();
    settle(watch.failure ?? networkFault(error, url, this.#isSent));
  }
}

export interface HttpPorts extends AddressPorts, TimeWatchPorts {
  connections: Connections;
}

const FILES_RETRY_MS = 50;

/** Open connections, and those that are kept for the next request to the same origin. */
export class Connections {
  readonly #limits: KeepLimits;
  /** Kept connections with their origin, in the order of their last use. */
  readonly #kept = new Map<Connection, string>();
  #isClosed = false;

  constructor(limits: KeepLimits = {}) {
    this.#limits = limits;
  }

  /**
   * Sends over a kept connection or a new one. Only a sending shows whether a kept connection still
   * works. `mayRepeat`: true if sending the request twice does no harm; `once` also uses a kept
   * connection but fails if the server may have received the request. If the system allows no more
   * connections, it waits until one ends.
   */
  async send<T>(
    { method, url, headers, body }: WireRequest,
    addresses: readonly string[],
    watch: TimeWatch,
    mayRepeat: boolean | 'once',
    read: ReadAnswer<T>,
  ): Promise<Outcome<T>> {
    const place = url.origin;
    const path = `${url.pathname}${url.search}`;
    const isStreamed = typeof body === 'object';
    const sent = isStreamed ? { ...headers, 'content-length': String(body.bytes) } : headers;
    const isOnce = mayRepeat === 'once';
    let mayBeOld = mayRepeat !== false;
    for (;;) {
      const old = mayBeOld ? this.#take(place, addresses) : undefined;
      const connection = old ?? this.#open(url, addresses);
      if (watch.failure !== undefined) {
        connection.destroy();
        return watch.failure;
      }
      const content = isStreamed ? Readable.from(body, { highWaterMark: 1 }) : (body ?? null);
      const answer = await new Promise<Outcome<T> | 'stale'>((settle) => {
        const release = (): void => this.#keep(connection, place);
        const stale = (): void => settle('stale');
        connection.client.dispatch(
          { path, method, headers: sent, body: content },
          new Asking({ connection, url, watch, read, release, settle, stale, isOnce }),
        );
      });
      if (answer === 'stale') mayBeOld = false;
      else {
        // Nothing was sent if the system refused to open a connection.
        const reason = answer.ok ? undefined : answer.error.detail.reason;
        if (reason !== 'EMFILE' && reason !== 'ENFILE') return answer;
        const waited = await watch.race(sleep(FILES_RETRY_MS).then(() => ok(null)));
        if (!waited.ok) return waited;
      }
      watch.enter('connect');
    }
  }

  /** Closes all kept connections. Connections in use are closed when they end. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#kept.keys()) this.#drop(connection);
  }

  /** Takes the most recently used connection, because the server is least likely to have closed it. */
  #take(place: string, addresses: readonly string[]): Connection | undefined {
    let candidate: Connection | undefined;
    for (const [connection, at] of this.#kept) {
      if (at === place && addresses.includes(connection.address)) candidate = connection;
    }
    if (candidate === undefined) return undefined;
    this.#kept.delete(candidate);
    candidate.addresses = addresses;
    return candidate;
  }

  #open(url: URL, addresses: readonly string[]): Connection {
    const connection = new Connection(url, addresses, this.#limits);
    connection.client.on('disconnect', () => {
      if (this.#kept.has(connection)) this.#drop(connection);
    });
    return connection;
  }

  #keep(connection: Connection, place: string): void {
    if (this.#isClosed || !connection.isIdle) return connection.destroy();
    connection.isReused = true;
    this.#kept.set(connection, place);
    const [oldest] = this.#kept.keys();
    const { maxKept = 256 } = this.#limits;
    if (this.#kept.size > maxKept && oldest !== undefined) this.#drop(oldest);
  }

  #drop(connection: Connection): void {
    this.#kept.delete(connection);
    connection.destroy();
  }
}
