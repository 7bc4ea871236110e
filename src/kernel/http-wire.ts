// HTTP/1.1 for event streams, on a connection that is used once. `node:http` hands over every chunk
// of a chunked body by itself, at two microseconds each, which for a stream of small events is more
// than everything else together; here a read of the socket stays in one piece. Only what a stream
// needs is understood, and what is odd is refused. Other requests go through `node:http`.
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { fail, type Outcome, ok } from '../base/index.ts';
import { hostOf, portOf } from './http-address.ts';
import { type Answer, isSecure, lookupFrom, networkFault } from './http-connect.ts';
import { createFraming, type Framing } from './http-framing.ts';
import type { WireRequest } from './http-request.ts';
import type { Watch } from './http-watch.ts';

const MAX_HEAD = 64 * 1024;
const STATUS_LINE = /^HTTP\/1\.[01] ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;

export interface Head {
  status: number;
  statusText: string;
  /** Names in lower case, several values joined with a comma. */
  headers: Record<string, string>;
}

/** The head of an answer; a text says what is wrong with it. */
export function parseHead(text: string): Head | string {
  const [first = '', ...lines] = text.split('\r\n');
  const status = STATUS_LINE.exec(first);
  if (status === null) return 'the status line is not valid';
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const line of lines) {
    const [, name = '', value = ''] = FIELD.exec(line) ?? [];
    if (name === '') return 'a header is not valid';
    const key = name.toLowerCase();
    const before = headers[key];
    if (before !== undefined && key === 'content-length' && before !== value) {
      return 'two lengths are given';
    }
    headers[key] = before === undefined || key === 'content-length' ? value : `${before}, ${value}`;
  }
  return { status: Number(status[1]), statusText: status[2] ?? '', headers };
}

/** How the body is delimited; a text says why that cannot be known. */
export function framingOf({ status, headers }: Head, method: string): Framing | string {
  if (method === 'HEAD' || status === 204 || status === 304) return { kind: 'length', length: 0 };
  const encoding = headers['transfer-encoding']?.toLowerCase();
  const length = headers['content-length'];
  if (encoding !== undefined) {
    if (encoding !== 'chunked') return `transfer encoding \`${encoding}\` is not supported`;
    return length === undefined ? { kind: 'chunked' } : 'both a length and chunks are announced';
  }
  if (length === undefined) return { kind: 'close' };
  return /^[0-9]{1,15}$/.test(length)
    ? { kind: 'length', length: Number(length) }
    : 'the length is not a number';
}

/** The request's head. Names and values were checked when the request was built. */
function headText({ method, url, headers, body }: WireRequest): string {
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `host: ${url.host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined) lines.push(`content-length: ${body.length}`);
  return `${lines.join('\r\n')}\r\nconnection: close\r\n\r\n`;
}

function openSocket(url: URL, addresses: readonly string[]): Socket {
  const host = hostOf(url);
  const options = { host, port: portOf(url), lookup: lookupFrom(addresses), noDelay: true };
  if (!isSecure(url)) return connectTcp(options);
  return connectTls({
    ...options,
    ALPNProtocols: ['http/1.1'],
    ...(isIP(host) === 0 && { servername: host }),
  });
}

/** Reads up to the end of the final head (interim answers are passed over) and no further. */
function readHead(socket: Socket, method: string, settle: (answer: Answer | string) => void): void {
  let waiting: Buffer = Buffer.alloc(0);
  const take = (bytes: Buffer): void => {
    waiting = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
    for (;;) {
      const end = waiting.indexOf('\r\n\r\n');
      if (end === -1) {
        if (waiting.length > MAX_HEAD) settle('the head is too long');
        return;
      }
      const head = parseHead(waiting.toString('latin1', 0, end));
      waiting = waiting.subarray(end + 4);
      if (typeof head !== 'string' && head.status < 200 && head.status !== 101) continue;
      socket.off('data', take);
      socket.pause();
      return settle(typeof head === 'string' ? head : bodyOf(head, socket, waiting, method));
    }
  };
  socket.on('data', take);
}

function bodyOf(head: Head, socket: Socket, rest: Buffer, method: string): Answer | string {
  const framing = framingOf(head, method);
  if (typeof framing === 'string') return framing;
  const body = createFraming(framing);
  if (rest.length > 0) socket.unshift(rest);
  // Errors reach the reader through the body; the callback only keeps them from being thrown.
  pipeline(socket, body, () => {});
  body.once('end', () => socket.destroy());
  return { ...head, body };
}

/** Sends a request to one of the checked addresses; the answer's body is still to be read. */
export function sendWire(
  request: WireRequest,
  addresses: readonly string[],
  watch: Watch,
): Promise<Outcome<Answer>> {
  return new Promise((resolve) => {
    const { url, method, body } = request;
    const socket = openSocket(url, addresses);
    let sent = false;
    const lost = (error: Error) => resolve(watch.failure() ?? networkFault(error, url, sent));
    watch.signal.addEventListener('abort', () => socket.destroy(), { once: true });
    socket.on('error', lost);
    socket.once('close', () => lost(new Error('the connection was closed')));
    socket.once(isSecure(url) ? 'secureConnect' : 'connect', () => {
      sent = true;
      watch.enter('first_byte');
      socket.write(headText(request), 'latin1');
      if (body !== undefined) socket.write(body);
    });
    readHead(socket, method, (answer) => {
      if (typeof answer !== 'string') {
        watch.enter('idle');
        return resolve(ok(answer));
      }
      socket.destroy();
      const host = hostOf(url);
      const words = `the answer of \`${host}\` is not valid HTTP: ${answer}`;
      resolve(fail('network_error', words, { host, reason: answer, sent }));
    });
  });
}
