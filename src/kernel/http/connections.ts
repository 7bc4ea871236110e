// Connections to checked addresses, and one exchange over one of them. HTTP/1.1 itself is undici's.
// INVARIANT: a connection is used only for an address that was checked for this very request: a kept
// one is taken only if its other side is on the list, and a new one is opened to the list, not the name.
import { createRequire } from 'node:module';
import { isIP, connect as openTcp, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as openTls } from 'node:tls';
import type { buildConnector, Dispatcher, Client as UndiciClient } from 'undici';
import { type Outcome, ok } from '../../base/index.ts';
import { hostOf, portOf } from './address.ts';
import {
  type HttpAnswer,
  isSecure,
  lookupFrom,
  malformation,
  malformed,
  networkFault,
} from './connect.ts';
import type { WireRequest } from './request.ts';
import { type ByteFeed, createFeed } from './source.ts';
import type { TimeWatch } from './time-limits.ts';

// Only the part that is used: all of undici takes three times as long to load.
const Client = createRequire(import.meta.url)(
  'undici/lib/dispatcher/client.js',
) as typeof UndiciClient;

const MAX_HEAD = 64 * 1024;
/** The other side may close a moment earlier than it said: a request would be lost on the way. */
const MARGIN_MS = 1000;

export interface KeepLimits {
  /** How long a connection is kept without a word of the other side about it. */
  idleMs?: number;
  /** Whatever it says. */
  maxIdleMs?: number;
  /** All places together; the one that was not used for longest goes first. */
  maxKept?: number;
}

/** One connection at a time, to one place. */
export interface Connection {
  readonly client: UndiciClient;
  /** Whose turn it is: what a new connection is opened to. */
  addresses: readonly string[];
  /** Has this very connection carried an exchange before? */
  isReused(): boolean;
  /** Of the other side, when there is a connection. */
  address(): string | undefined;
  /** Is it open, with everything that was sent on its way? */
  isIdle(): boolean;
  /** An exchange went well: the next one finds it used. */
  used(): void;
  destroy(): void;
}

const originOf = (url: URL): string => `${isSecure(url) ? 'https' : 'http'}://${url.host}`;

/** Nothing is opened before the first request. */
export function createConnection(
  url: URL,
  addresses: readonly string[],
  { idleMs = 30_000, maxIdleMs = 120_000 }: KeepLimits = {},
  maxMessage?: number,
): Connection {
  const [host, port] = [hostOf(url), portOf(url)];
  let socket: Socket | undefined;
  let isReused = false;

  const open: buildConnector.connector = (_options, callback) => {
    const options = { host, port, lookup: lookupFrom(connection.addresses), noDelay: true };
    const name = isIP(host) === 0 ? { servername: host } : {};
    isReused = false;
    const opened = isSecure(url)
      ? openTls({ ...options, ...name, ALPNProtocols: ['http/1.1'] })
      : openTcp(options);
    socket = opened;
    let isTold = false;
    opened.once(isSecure(url) ? 'secureConnect' : 'connect', () => {
      isTold = true;
      callback(null, opened);
    });
    // Later errors are undici's to see.
    opened.on('error', (error) => {
      if (!isTold) callback(error, null);
      isTold = true;
    });
  };
  const client = new Client(originOf(url), {
    connect: open,
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
  const connection: Connection = {
    client,
    addresses,
    isReused: () => isReused,
    address: () => socket?.remoteAddress,
    isIdle: () => socket?.destroyed === false && socket.writable && socket.writableLength === 0,
    used() {
      isReused = true;
    },
    destroy() {
      socket?.destroy();
      void client.destroy();
    },
  };
  return connection;
}

export const flatHeaders = (headers: Readonly<Record<string, string | string[] | undefined>>) => {
  const result: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value !== undefined) result[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return result;
};

/** What some servers say before they close an idle connection: it is about no request at all. */
const isGoodbye = (status: number, headers: HttpAnswer['headers']): boolean =>
  status === 408 && headers['connection']?.toLowerCase() === 'close';

/** `stale`: the connection was kept from before, and was closed without a word about this request. */
type Asked = Outcome<HttpAnswer> | 'stale';

class Asking implements Dispatcher.DispatchHandler {
  readonly #connection: Connection;
  readonly #request: WireRequest;
  readonly #watch: TimeWatch;
  readonly #release: (connection: Connection) => void;
  readonly #settle: (asked: Asked) => void;
  readonly #forget: () => void;
  #isSent = false;
  #isHeard = false;
  #isSettled = false;
  #feed: ByteFeed | undefined;

  constructor(
    connection: Connection,
    request: WireRequest,
    watch: TimeWatch,
    release: (connection: Connection) => void,
    settle: (asked: Asked) => void,
  ) {
    this.#connection = connection;
    this.#request = request;
    this.#watch = watch;
    this.#release = release;
    this.#settle = settle;
    this.#forget = watch.onStop((failure) => {
      connection.destroy();
      this.#answer(failure);
    });
  }

  #answer(asked: Asked): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#settle(asked);
  }

  onRequestStart(): void {
    this.#isSent = true;
    this.#watch.enter('first_byte');
  }

  onResponseStarted(): void {
    this.#isHeard = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    raw: Readonly<Record<string, string | string[] | undefined>>,
    statusText = '',
  ): void {
    if (status < 200) return;
    const headers = flatHeaders(raw);
    const connection = this.#connection;
    if (connection.isReused() && isGoodbye(status, headers)) {
      this.#forget();
      connection.destroy();
      return this.#answer('stale');
    }
    // Where the body ends is known for this one only.
    const encoding = headers['transfer-encoding'] ?? 'chunked';
    if (encoding.toLowerCase() !== 'chunked') {
      this.#forget();
      connection.destroy();
      const reason = `transfer encoding \`${encoding}\` is not supported`;
      return this.#answer(malformed(this.#request.url, reason));
    }
    this.#feed = createFeed({
      pause: () => controller.pause(),
      resume: () => controller.resume(),
      destroy: () => {
        this.#forget();
        connection.destroy();
      },
    });
    this.#watch.enter('idle');
    this.#answer(ok({ status, statusText, headers, body: this.#feed.source }));
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    this.#feed?.push(bytes);
  }

  onResponseEnd(): void {
    this.#forget();
    // Afterwards it is known whether the connection stays: undici closes it in this very moment, or
    // when it finds bytes behind the answer.
    queueMicrotask(() => this.#release(this.#connection));
    this.#feed?.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: NodeJS.ErrnoException): void {
    this.#forget();
    const connection = this.#connection;
    // Before anything was sent, whatever came is not about this request.
    const isLost = !this.#isSent || (!this.#isHeard && malformation(error) === undefined);
    const isStale = connection.isReused() && isLost;
    connection.destroy();
    if (this.#feed !== undefined) return this.#feed.end(error);
    const fault = () => networkFault(error, this.#request.url, this.#isSent);
    this.#answer(this.#watch.failure() ?? (isStale ? 'stale' : fault()));
  }
}

export interface Connections {
  /**
   * Sends over a connection that was kept, or a new one. Whether an old one is still good is known
   * only after something was sent: `mayRepeat` says that sending it a second time does no harm. When
   * there are as many as the system allows, it waits for one of the others to end.
   */
  send(
    request: WireRequest,
    addresses: readonly string[],
    watch: TimeWatch,
    mayRepeat: boolean,
  ): Promise<Outcome<HttpAnswer>>;
  /** Closes what is kept, and from now on whatever is no longer needed. */
  close(): void;
}

/** Nothing was sent, because the system lets this process open no more. */
const isOutOfFiles = (answer: Outcome<HttpAnswer>): boolean =>
  !answer.ok && ['EMFILE', 'ENFILE'].includes(answer.error.detail.reason as string);
const FILES_RETRY_MS = 50;

export function createConnections(limits: KeepLimits = {}): Connections {
  const { maxKept = 256 } = limits;
  /** By place, each in the order in which they were laid aside. */
  const kept = new Map<Connection, string>();
  let isClosed = false;

  const drop = (connection: Connection): void => {
    kept.delete(connection);
    connection.destroy();
  };
  const keep = (connection: Connection, place: string): void => {
    if (isClosed || !connection.isIdle()) return connection.destroy();
    connection.used();
    kept.set(connection, place);
    const [oldest] = kept.keys();
    if (kept.size > maxKept && oldest !== undefined) drop(oldest);
  };
  /** The last one is the least likely to be closed at the other end. */
  const take = (place: string, addresses: readonly string[]): Connection | undefined => {
    let found: Connection | undefined;
    for (const [connection, at] of kept) {
      if (at === place && addresses.includes(connection.address() ?? '')) found = connection;
    }
    if (found !== undefined) kept.delete(found);
    return found;
  };
  const open = (url: URL, addresses: readonly string[]): Connection => {
    const connection = createConnection(url, addresses, limits);
    connection.client.on('disconnect', () => {
      if (kept.has(connection)) drop(connection);
    });
    return connection;
  };
  const ask = (connection: Connection, request: WireRequest, watch: TimeWatch): Promise<Asked> => {
    const stopped = watch.failure();
    if (stopped !== undefined) {
      connection.destroy();
      return Promise.resolve(stopped);
    }
    return new Promise((resolve) => {
      const { method, url, headers, body } = request;
      const release = (): void => keep(connection, originOf(url));
      const handler = new Asking(connection, request, watch, release, resolve);
      const path = `${url.pathname}${url.search}`;
      connection.client.dispatch({ path, method, headers, body: body ?? null }, handler);
    });
  };

  async function askAnyhow(
    request: WireRequest,
    addresses: readonly string[],
    watch: TimeWatch,
    mayRepeat: boolean,
  ): Promise<Outcome<HttpAnswer>> {
    const { url } = request;
    const old = mayRepeat ? take(originOf(url), addresses) : undefined;
    if (old !== undefined) {
      old.addresses = addresses;
      const answer = await ask(old, request, watch);
      if (answer !== 'stale') return answer;
      watch.enter('connect');
    }
    const answer = await ask(open(url, addresses), request, watch);
    if (answer === 'stale') throw new Error('a new connection was stale');
    return answer;
  }

  return {
    async send(request, addresses, watch, mayRepeat) {
      for (;;) {
        const answer = await askAnyhow(request, addresses, watch, mayRepeat);
        if (!isOutOfFiles(answer)) return answer;
        const waited = await watch.race(sleep(FILES_RETRY_MS).then(() => ok(null)));
        if (!waited.ok) return waited;
        watch.enter('connect');
      }
    },
    close() {
      isClosed = true;
      for (const connection of kept.keys()) drop(connection);
    },
  };
}
