// Opens a WebSocket to a checked address. undici implements the handshake and the frames. Its client does not
// report why it closed and cannot pause, so this file observes the socket.
import type { Duplex } from 'node:stream';
import { type CloseEvent, type Dispatcher, type MessageEvent, WebSocket } from 'undici';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import { type AddressPorts, allowTarget, hostOf } from './address.ts';
import { type Ask, Asking, Connection, flatHeaders, type HttpAnswer } from './connections.ts';
import type { TimeWatch } from './time-limits.ts';

/** Code of a close frame without a code. */
export const NO_CODE = 1005;
const [OPEN, CLOSE_FRAME, TOO_LARGE] = [1, 0x88, 1009];

export interface WebSocketEnd {
  /** Close code. 1006: the connection was lost. */
  code: number;
  reason: string;
  /** True if both sides sent a close frame. */
  isAnswered: boolean;
  /** The protocol error of the server. Absent: no error. */
  failure?: Failure;
}

export interface WebSocketUser {
  text(text: string): void;
  binary?(size: number): void;
  /** Receives the number of bytes that arrived, of whatever kind. */
  received?(bytes: number): void;
  /** Handles an ordinary answer, such as 401, instead of an upgrade. Returns its fault. */
  refused(answer: HttpAnswer): Promise<Failure>;
  /** Called once, when the connection has ended. */
  ended(end: WebSocketEnd): void;
}

export type WebSocketLine = ReturnType<typeof createLine>;

interface OpenedLine {
  line: WebSocketLine;
  headers: HttpAnswer['headers'];
}

/**
 * Observes the bytes that undici writes: the head of a frame, then its payload, or both at once.
 * INVARIANT: only a head is ever parsed; a masked payload can begin with any byte.
 */
function createSentFrames(onClose: (reason: string, code: number) => void) {
  let rest = 0;
  return (bytes: unknown): void => {
    if (!Buffer.isBuffer(bytes)) return;
    if (rest > 0) {
      rest -= bytes.length;
      return;
    }
    const [kind, short] = [bytes[0], (bytes[1] ?? 0) & 0x7f];
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    const size = extra === 0 ? short : Number(BigInt(`0x${bytes.toString('hex', 2, 2 + extra)}`));
    const start = 2 + extra + 4;
    rest = start + size - bytes.length;
    if (kind !== CLOSE_FRAME) return;
    const mask = bytes.subarray(start - 4, start);
    const payload = Buffer.from(
      bytes.subarray(start).map((byte, at) => byte ^ (mask[at & 3] ?? 0)),
    );
    const isEmpty = payload.length < 2;
    onClose(payload.toString('utf8', 2), isEmpty ? NO_CODE : payload.readUInt16BE(0));
  };
}

/** Reports close frames that are sent, and keeps undici from reading during a pause. */
function tap(socket: Duplex, onClose: (reason: string, code: number) => void) {
  const [write, resume] = [socket.write.bind(socket), socket.resume.bind(socket)];
  const sent = createSentFrames(onClose);
  let isPaused = false;
  socket.write = (frame: unknown, ...rest: unknown[]): boolean => {
    const isSmall = Reflect.apply(write, socket, [frame, ...rest]) as boolean;
    sent(frame);
    return isSmall;
  };
  socket.resume = () => (isPaused ? socket : resume());
  return {
    /** Stops receiving until `resume` is called. */
    pause(): void {
      isPaused = true;
      socket.pause();
    },
    resume(): void {
      isPaused = false;
      resume();
    },
  };
}

/** undici gives a reason if it closes because of a protocol error, and none if it answers a close frame. */
function offence(reason: string, code: number): Failure {
  return code === TOO_LARGE
    ? fail('response_too_large', 'a message is too long', { sent: true })
    : fail('network_error', `websocket: ${reason.replace(/\.$/, '')}`, { sent: true });
}

function createLine(websocket: WebSocket, socket: Duplex, user: WebSocketUser) {
  let isClosing = false;
  let failure: Failure | undefined;
  const { pause, resume } = tap(socket, (reason, code) => {
    if (reason !== '') failure = offence(reason, code);
    // The close frame of the server was answered. Pending data is sent before the socket closes.
    else if (!isClosing) setImmediate(() => socket.end(() => socket.destroy()));
  });
  socket.on('data', (bytes: Buffer) => user.received?.(bytes.length));
  websocket.addEventListener('message', ({ data }: MessageEvent<string | ArrayBuffer>) => {
    if (typeof data === 'string') user.text(data);
    else user.binary?.(data.byteLength);
  });
  websocket.addEventListener('close', ({ code, reason, wasClean }: CloseEvent) => {
    const end = { code, reason, isAnswered: wasClean };
    user.ended(failure === undefined ? end : { ...end, failure });
  });
  return {
    /**
     * Returns a promise if the socket needs a pause; it never rejects. `false`: not sent, because the
     * connection is closed.
     */
    send(text: string): true | false | Promise<true> {
      if (websocket.readyState !== OPEN || !socket.writable) return false;
      websocket.send(text);
      if (!socket.writableNeedDrain) return true;
      return new Promise((resolve) => {
        const settle = (): void => {
          socket.off('drain', settle);
          socket.off('close', settle);
          resolve(true);
        };
        socket.once('drain', settle);
        socket.once('close', settle);
      });
    },
    /** Sends a close frame. The end comes with the answer of the server. */
    close(): void {
      isClosing = true;
      websocket.close(1000);
    },
    pause,
    resume,
    destroy: () => void socket.destroy(),
  };
}

/** Observes the handshake of undici. undici judges everything else. */
class Handshake extends Asking<OpenedLine> {
  readonly #inner: Dispatcher.DispatchHandler;
  agreed: { socket: Duplex; headers: HttpAnswer['headers'] } | undefined;

  constructor(ask: Ask<OpenedLine>, inner: Dispatcher.DispatchHandler) {
    super(ask);
    this.#inner = inner;
  }

  override onRequestStart(controller?: Dispatcher.DispatchController, context?: unknown): void {
    super.onRequestStart();
    // If undici has aborted, the answer may still be read.
    const abort = (reason: Error): void => {
      if (!this.isAnswered) controller?.abort(reason);
    };
    const controlled = Object.create(controller ?? null, { abort: { value: abort } });
    this.#inner.onRequestStart?.(controlled, context);
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Parameters<typeof flatHeaders>[0],
    socket: Duplex,
  ): void {
    this.ask.watch.enter('idle');
    socket.on('error', () => {});
    this.agreed = { socket, headers: flatHeaders(headers) };
    this.#inner.onRequestUpgrade?.(controller, status, headers, socket);
  }

  override onResponseStart(...values: Parameters<Asking<OpenedLine>['onResponseStart']>): void {
    super.onResponseStart(...values);
    if (this.isAnswered) this.#inner.onResponseError?.(values[0], new Error('not an upgrade'));
  }

  override onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    super.onResponseError(controller, error);
    if (!this.isAnswered) this.#inner.onResponseError?.(controller, error);
  }
}

/**
 * Connects and shakes hands, if that is allowed. The watch is in `connect`, afterwards in `idle`. A
 * message longer than `maxMessage` bytes ends the connection.
 */
export async function openWebSocket(
  { url, headers }: { url: URL; headers: Record<string, string> },
  { verify, ports, watch }: { verify: Verifier; ports: AddressPorts; watch: TimeWatch },
  maxMessage: number,
  user: WebSocketUser,
): Promise<Outcome<OpenedLine>> {
  const addresses = await allowTarget({ url }, 'net.websocket', verify, ports, watch);
  if (!addresses.ok) return addresses;
  const connection = new Connection(url, addresses.output, {}, maxMessage);
  return new Promise((resolve) => {
    let handshake: Handshake | undefined;
    const ask: Ask<OpenedLine> = {
      connection,
      url,
      watch,
      read: (answer) => user.refused(answer),
      release: () => connection.destroy(),
      settle: resolve,
    };
    const dispatcher = connection.client.compose((dispatch) => (options, inner) => {
      handshake = new Handshake(ask, inner);
      return dispatch(options, handshake);
    });
    const websocket = new WebSocket(url, { dispatcher, headers });
    websocket.binaryType = 'arraybuffer';
    websocket.addEventListener('open', () => {
      const agreed = handshake?.agreed;
      if (agreed === undefined) return;
      const line = createLine(websocket, agreed.socket, user);
      resolve(ok({ line, headers: agreed.headers }));
    });
    // An error before the opening is a failure of the handshake.
    websocket.addEventListener('close', () => {
      if (handshake?.agreed === undefined) return;
      connection.destroy();
      const host = hostOf(url);
      const words = `the WebSocket handshake of \`${host}\` is invalid`;
      resolve(fail('network_error', words, { host, reason: 'bad_handshake', sent: true }));
    });
  });
}
