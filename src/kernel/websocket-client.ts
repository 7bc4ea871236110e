// A WebSocket to a checked address. Node's own client takes no resolver, so it could connect to
// another address than the one that was judged; the handshake is an ordinary upgrade of `node:http`.
import { createHash } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { fail, type Outcome, ok, type RandomBytes } from '../base/index.ts';
import { hostOf } from './http-address.ts';
import { type Answer, pinnedRequest, trackRequest } from './http-connect.ts';
import { streamSource } from './http-source.ts';
import type { Watch } from './http-watch.ts';
import { closePayload, encodeFrame, OPCODES } from './websocket-frames.ts';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

export interface WebSocketLine {
  /** Received bytes, frames and all. Whoever reads it handles errors. */
  readonly socket: Duplex;
  /** A promise when the socket wants a pause; it never rejects. `false`: not sent, the line is dead. */
  send(text: string): true | false | Promise<true>;
  pong(payload: Uint8Array): void;
  close(code: number): void;
}

export type Opened =
  | { kind: 'line'; line: WebSocketLine; headers: Answer['headers'] }
  /** Not an upgrade: an ordinary answer, e.g. 401. */
  | { kind: 'answer'; answer: Answer };

function createLine(socket: Duplex, random: RandomBytes): WebSocketLine {
  const write = (opcode: number, payload: Uint8Array): boolean =>
    socket.write(encodeFrame(opcode, payload, random(4)));
  return {
    socket,
    send(text) {
      if (!socket.writable) return false;
      if (write(OPCODES.text, Buffer.from(text))) return true;
      return new Promise((resolve) => {
        const done = (): void => {
          socket.off('drain', done);
          socket.off('close', done);
          resolve(true);
        };
        socket.once('drain', done);
        socket.once('close', done);
      });
    },
    pong(payload) {
      if (socket.writable) write(OPCODES.pong, payload);
    },
    close(code) {
      if (socket.writable) write(OPCODES.close, closePayload(code));
    },
  };
}

const acceptOf = (key: string): string =>
  createHash('sha1').update(`${key}${GUID}`).digest('base64');

/** Connects and shakes hands. The watch is in `connect`; afterwards it is in `idle`. */
export function openWebSocket(
  request: { url: URL; headers: Record<string, string> },
  addresses: readonly string[],
  watch: Watch,
  random: RandomBytes,
): Promise<Outcome<Opened>> {
  return new Promise((resolve) => {
    const { url } = request;
    const key = Buffer.from(random(16)).toString('base64');
    const headers = {
      ...request.headers,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': key,
    };
    const outgoing = pinnedRequest({ url, method: 'GET', headers }, addresses);
    trackRequest(outgoing, url, watch, resolve);
    outgoing.once('response', (response) => {
      watch.enter('idle');
      const { statusCode: status = 0, statusMessage: statusText = '', headers } = response;
      const body = streamSource(response);
      resolve(ok({ kind: 'answer', answer: { status, statusText, headers, body } }));
    });
    outgoing.once('upgrade', (response, socket, head) => {
      watch.enter('idle');
      socket.on('error', () => {});
      watch.onStop(() => socket.destroy());
      const { headers } = response;
      const isOurs =
        headers['sec-websocket-accept'] === acceptOf(key) &&
        headers['sec-websocket-extensions'] === undefined;
      if (!isOurs) {
        socket.destroy();
        const host = hostOf(url);
        const words = `\`${host}\` does not speak WebSocket as agreed`;
        return resolve(fail('network_error', words, { host, reason: 'bad_handshake', sent: true }));
      }
      if (head.length > 0) socket.unshift(head);
      resolve(ok({ kind: 'line', line: createLine(socket, random), headers }));
    });
    outgoing.end();
  });
}
