// One connection of our own, for one exchange at a time. `node:http` hands over every chunk of a
// chunked body by itself, at two microseconds each, which for a stream of small events is more than
// everything else together; here a read of the socket stays in one piece.
import { connect as connectTcp, isIP, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { hostOf, portOf } from './http-address.ts';
import { isSecure, lookupFrom } from './http-connect.ts';
import { headText } from './http-head.ts';
import type { WireRequest } from './http-request.ts';

/** Who is told what happens on a line while an exchange is under way. */
export interface LineUser {
  /** The bytes may be changed, and are gone afterwards. */
  bytes(bytes: Buffer): void;
  /** The connection is over. Without an error it was ended by the other side, in order. */
  over(error?: Error): void;
}

export interface Line {
  /** Has it carried an exchange before this one? */
  isReused: boolean;
  /** Of the other side, once connected. */
  address(): string;
  isOpen(): boolean;
  /** Takes the line; nobody else may hold it. `connected` is called once the request can be sent. */
  use(user: LineUser, connected: () => void): void;
  send(request: WireRequest): void;
  pause(): void;
  resume(): void;
  destroy(): void;
  /** Lays it aside: the process does not wait for it, and it closes by itself after a while. */
  rest(ms: number, closed: () => void): void;
  /** Is everything that was sent on its way? */
  isDrained(): boolean;
}

const READ_SIZE = 64 * 1024;
let shared: Buffer | undefined;

/**
 * All lines read into the same bytes: what was read is handled before the next read. Not on Windows,
 * where a read is given its place long before there is anything to read.
 */
function readBuffer(): Buffer {
  if (process.platform === 'win32') return Buffer.allocUnsafeSlow(READ_SIZE);
  shared ??= Buffer.allocUnsafeSlow(READ_SIZE);
  return shared;
}

function openSocket(url: URL, addresses: readonly string[], onread: OnReadOpts): Socket {
  const host = hostOf(url);
  const options = { host, port: portOf(url), lookup: lookupFrom(addresses), noDelay: true, onread };
  if (!isSecure(url)) return connectTcp(options);
  return connectTls({
    ...options,
    ALPNProtocols: ['http/1.1'],
    ...(isIP(host) === 0 && { servername: host }),
  });
}

export function openLine(url: URL, addresses: readonly string[]): Line {
  let user: LineUser | undefined;
  let failure: Error | undefined;
  let isReady = false;
  let onRestEnd = (): void => {};
  const over = (error?: Error): void => {
    const last = user;
    user = undefined;
    last?.over(error);
  };
  const socket = openSocket(url, addresses, {
    buffer: readBuffer(),
    callback(size, buffer) {
      // Nobody asked for this: whatever it is, it is not the answer to the next request.
      if (user === undefined) socket.destroy();
      else user.bytes(Buffer.from(buffer.buffer, buffer.byteOffset, size));
      return true;
    },
  });
  socket.on('error', (error) => {
    failure = error;
  });
  socket.once('end', () => over());
  socket.once('close', () => {
    over(failure ?? new Error('the connection was closed'));
    onRestEnd();
  });
  socket.on('timeout', () => socket.destroy());

  return {
    isReused: false,
    address: () => socket.remoteAddress ?? '',
    isOpen: () => !socket.destroyed && socket.readable && socket.writable,
    use(given, connected) {
      user = given;
      onRestEnd = () => {};
      if (isReady) {
        socket.setTimeout(0);
        socket.ref();
        return connected();
      }
      socket.once(isSecure(url) ? 'secureConnect' : 'connect', () => {
        isReady = true;
        connected();
      });
    },
    send(request) {
      socket.cork();
      socket.write(headText(request), 'latin1');
      if (request.body !== undefined) socket.write(request.body);
      socket.uncork();
    },
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    destroy() {
      user = undefined;
      socket.destroy();
    },
    rest(ms, closed) {
      user = undefined;
      onRestEnd = closed;
      socket.setTimeout(ms);
      socket.unref();
      // A word of the other side, or its end, is to be noticed.
      if (socket.isPaused()) socket.resume();
    },
    isDrained: () => socket.writableLength === 0,
  };
}
