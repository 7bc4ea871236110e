// Connections to checked addresses, and one exchange over one of them. HTTP/1.1 itself is undici's.
// INVARIANT: a connection is used only for an address that was checked for this very request: a kept
// one is taken only if its other side is on the list, and a new one is opened to the list, not the name.
// A name that changes its answer in between (DNS rebinding) changes nothing.
import { isIP, isIPv6, type LookupFunction, connect as openTcp, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as openTls } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { type Outcome, ok } from '../../base/index.ts';
import { type AddressPorts, hostOf, portOf } from './address.ts';
import { malformation, malformed, networkFault } from './fault.ts';
import type { WireRequest } from './request.ts';
import type { TimeWatch, TimeWatchPorts } from './time-limits.ts';

/** `true`: more is wanted. A promise: nothing more is handed over until it settles. */
export type Take = (bytes: Buffer) => boolean | Promise<boolean>;

/** `stopped`: by whoever takes it, or by a time limit. An error: it is not whole. */
export type BodyEnd = 'end' | 'stopped' | Error;

export interface Body {
  /** Hands over what comes, and says how it ended. Called once, or not at all. */
  read(take: Take): Promise<BodyEnd>;
  destroy(): void;
}

/** What came back. Whoever is handed it reads or destroys the body. */
export interface HttpAnswer {
  status: number;
  statusText: string;
  /** Names in lower case, several values joined with a comma. */
  headers: Readonly<Record<string, string>>;
  body: Body;
}

/**
 * The side of a body where the bytes come in. What comes in one turn of the event loop is handed over
 * at once, also when it was sent as a thousand little chunks.
 */
class Incoming implements Body {
  readonly #controller: Dispatcher.DispatchController;
  readonly #watch: TimeWatch;
  readonly #drop: () => void;
  #waiting: Buffer[] = [];
  /** Whoever is to read begins at once, or is slow. */
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

  /** The first end counts. */
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

/** A resolver that knows only the checked addresses. */
function lookupFrom(addresses: readonly string[]): LookupFunction {
  const list = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  const [first] = list;
  return (_host, options, callback) => {
    if (options.all) callback(null, list);
    else callback(null, first?.address ?? '', first?.family ?? 4);
  };
}

const MAX_HEAD = 64 * 1024;
/** The other side may close a moment earlier than it said: a request would be lost on the way. */
const MARGIN_MS = 1000;

interface KeepLimits {
  /** How long a connection is kept without a word of the other side about it. */
  idleMs?: number;
  maxIdleMs?: number;
  /** All places together; the one that was not used for longest goes first. */
  maxKept?: number;
}

/** One connection at a time, to one place. Nothing is opened before the first request. */
export class Connection {
  readonly client: Client;
  /** Whose turn it is: what a new connection is opened to. */
  addresses: readonly string[];
  /** Has this very connection carried an exchange before? */
  isReused = false;
  /** Of the other side, when there is a connection. */
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
      // The watch has all time limits.
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
    let isTold = false;
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      isTold = true;
      this.address = socket.remoteAddress ?? '';
      callback(null, socket);
    });
    // Later errors are undici's to see.
    socket.on('error', (error) => {
      if (!isTold) callback(error, null);
      isTold = true;
    });
  }

  /** Is it open, with everything that was sent on its way? */
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

/** Called in the moment the head is there, and reads or destroys the body. */
type ReadAnswer<T> = (answer: HttpAnswer) => Promise<Outcome<T>>;

export interface Ask<T> {
  connection: Connection;
  url: URL;
  watch: TimeWatch;
  read: ReadAnswer<T>;
  /** The exchange went well, to its end. */
  release: () => void;
  settle: (answer: Outcome<T> | Promise<Outcome<T>>) => void;
  /** The connection was kept from before, and was closed without a word about this request. */
  stale?: () => void;
  /** Only what has certainly not reached the other side is stale. */
  isOnce?: boolean;
}

/** One exchange, from the side of undici. */
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

  /** Is there an answer, and its body being read? */
  get isAnswered(): boolean {
    return this.#body !== undefined;
  }

  /** Nothing more is to be had of this connection. */
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
    // Some servers send this before they close an idle connection: it is about no request at all. A
    // gateway that gave up on this very request sends the same.
    const isGoodbye = status === 408 && headers['connection']?.toLowerCase() === 'close';
    if (connection.isReused && isGoodbye && !isOnce) {
      this.#drop();
      return stale?.();
    }
    // Where the body ends is known for this one only.
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
    // Afterwards it is known whether the connection stays: undici closes it in this very moment, or
    // when it finds bytes behind the answer.
    queueMicrotask(this.ask.release);
    this.#body?.end('end');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: NodeJS.ErrnoException): void {
    const { connection, url, watch, settle, stale, isOnce = false } = this.ask;
    // Before anything was sent, whatever came is not about this request.
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

/** What is open, and kept for the next request to the same place. */
export class Connections {
  readonly #limits: KeepLimits;
  /** By place, each in the order in which they were laid aside. */
  readonly #kept = new Map<Connection, string>();
  #isClosed = false;

  constructor(limits: KeepLimits = {}) {
    this.#limits = limits;
  }

  /**
   * Sends over a connection that was kept, or a new one. Whether an old one is still good is known
   * only after something was sent: `mayRepeat` says that sending it a second time does no harm; `once`
   * uses an old one too, and fails where it cannot be told whether it was received. When there are as
   * many as the system allows, it waits for one of the others to end.
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
    const isOnce = mayRepeat === 'once';
    let mayBeOld = mayRepeat !== false;
    for (;;) {
      const old = mayBeOld ? this.#take(place, addresses) : undefined;
      const connection = old ?? this.#open(url, addresses);
      if (watch.failure !== undefined) {
        connection.destroy();
        return watch.failure;
      }
      const asked = await new Promise<Outcome<T> | 'stale'>((settle) => {
        const release = (): void => this.#keep(connection, place);
        const stale = (): void => settle('stale');
        connection.client.dispatch(
          { path, method, headers, body: body ?? null },
          new Asking({ connection, url, watch, read, release, settle, stale, isOnce }),
        );
      });
      if (asked === 'stale') mayBeOld = false;
      else {
        // Nothing was sent when the system lets this process open no more.
        const reason = asked.ok ? undefined : asked.error.detail.reason;
        if (reason !== 'EMFILE' && reason !== 'ENFILE') return asked;
        const waited = await watch.race(sleep(FILES_RETRY_MS).then(() => ok(null)));
        if (!waited.ok) return waited;
      }
      watch.enter('connect');
    }
  }

  /** Closes what is kept, and from now on whatever is no longer needed. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#kept.keys()) this.#drop(connection);
  }

  /** The last one is the least likely to be closed at the other end. */
  #take(place: string, addresses: readonly string[]): Connection | undefined {
    let found: Connection | undefined;
    for (const [connection, at] of this.#kept) {
      if (at === place && addresses.includes(connection.address)) found = connection;
    }
    if (found === undefined) return undefined;
    this.#kept.delete(found);
    found.addresses = addresses;
    return found;
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
