// `/api/socket`: the frames of the stream for programs, over a WebSocket with a bearer token. A
// program subscribes by message. An invalid message is answered with an error, and too many close
// the socket.
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import {
  type Failure,
  fail,
  getOwn,
  type Json,
  type Outcome,
  ok,
  parseJson,
} from '@kernmantle/core/base';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import type { StreamFrame, Topic } from '../model/api.ts';
import type { AdmitSocket, Subscription, WebParts } from './context.ts';
import { threadTopic } from './live/client.ts';
import { writePosition } from './live/positions.ts';
import { ALIVE_MS, createBacklog, frameText } from './live/wire.ts';
import { MAX_TOPICS, readTopics } from './stream.ts';

const PATH = '/api/socket';
const MAX_MESSAGE = 4096;
const MAX_DEPTH = 4;
/** Bound of messages per interval. No real client subscribes that often. */
const MAX_MESSAGES = 100;
const WHILE_MS = 10_000;
const GOING_AWAY = 1001;
const POLICY = 1008;
const TRY_AGAIN = 1013;

interface SocketRequest {
  readonly action: 'subscribe' | 'unsubscribe';
  readonly topic: Topic;
  readonly after?: string;
}

const wrong = (message: string): Failure => fail('invalid_input', message);

/** Parses a message. `docs/web-api.md` lists the messages. */
function readRequest(text: string): Outcome<SocketRequest> {
  const read = parseJson(text, MAX_DEPTH);
  if (!read.ok) return wrong('a message must be a JSON object such as {"action": "subscribe", …}');
  const field = (name: string): Json | undefined => getOwn(read.output, name);
  const [action, thread, name, from] = ['action', 'thread_id', 'topic', 'from_seq'].map(field);
  if (action !== 'subscribe' && action !== 'unsubscribe') {
    return wrong('`action` must be `subscribe` or `unsubscribe`');
  }
  const id = typeof thread === 'string' && name === undefined ? thread : undefined;
  const word = typeof name === 'string' ? name : '';
  const topics = readTopics(id === undefined ? word : threadTopic(id));
  const [topic] = topics.ok ? topics.output : [];
  if (topic === undefined || (topics.ok && topics.output.length > 1)) {
    return wrong('give a `thread_id`, or a `topic`: `threads`, `approvals` or `fleet`');
  }
  const after = field('after');
  if (
    from !== undefined &&
    !(Number.isSafeInteger(from) && Number(from) >= 1 && id !== undefined)
  ) {
    return wrong('`from_seq` must be the number of an event of this thread, 1 or more');
  }
  if (from === undefined) {
    return ok({ action, topic, ...(typeof after === 'string' ? { after } : {}) });
  }
  const position = writePosition('socket', undefined, [[id ?? '', Number(from) - 1]]);
  return ok({ action, topic, after: position });
}

/** Text of a message. With the default of the server a message is one buffer. */
const textOf = (data: RawData): string => (Buffer.isBuffer(data) ? data.toString() : '');

/** Returns false if one more message is too many. */
function createMeter(now: () => number): () => boolean {
  let [since, count] = [now(), 0];
  return () => {
    if (now() - since > WHILE_MS) [since, count] = [now(), 0];
    count += 1;
    return count <= MAX_MESSAGES;
  };
}

function serve(socket: WebSocket, { hub, clock }: WebParts, expires: number): void {
  const backlog = createBacklog(() => socket.bufferedAmount);
  const isMeasured = createMeter(clock.monotonic);
  const topics = new Set<Topic>();
  let subscription: Subscription | undefined;
  let isAlive = true;

  function send(frame: StreamFrame, position?: string): boolean {
    if (socket.readyState !== socket.OPEN) return true;
    const text = frameText(frame);
    if (backlog.isFull() || !backlog.hasRoom(text.length, frame)) return false;
    backlog.add(frame);
    const whole =
      position === undefined ? text : `{"id":${JSON.stringify(position)},${text.slice(1)}`;
    socket.send(whole, () => {
      if (backlog.taken(frame)) subscription?.ready();
    });
    return true;
  }

  function onMessage(data: RawData, isBinary: boolean): void {
    if (!isMeasured()) {
      socket.close(POLICY, 'too many messages');
      return;
    }
    const request = isBinary ? wrong('a message must be text') : readRequest(textOf(data));
    if (!request.ok) {
      socket.send(JSON.stringify({ kind: 'error', error: request.error }));
      return;
    }
    const { action, topic, after } = request.output;
    if (action === 'unsubscribe') topics.delete(topic);
    else if (topics.size < MAX_TOPICS || topics.has(topic)) topics.add(topic);
    else {
      const { error } = wrong(`at most ${MAX_TOPICS} topics can be subscribed to at once`);
      socket.send(JSON.stringify({ kind: 'error', error }));
      return;
    }
    subscription?.change([...topics], after);
  }

  const subscribed = hub.subscribe({ topics: [], send, isSocket: true });
  if (!subscribed.ok) {
    socket.close(TRY_AGAIN, 'too many streams');
    return;
  }
  subscription = subscribed.output;
  const alive = setInterval(() => {
    if (!isAlive || backlog.isStuck() || clock.now() >= expires) socket.terminate();
    isAlive = false;
    socket.ping();
  }, ALIVE_MS).unref();
  socket.on('pong', () => {
    isAlive = true;
  });
  socket.on('message', onMessage);
  // An error of the client closes its socket with a code. The server does not report it.
  socket.on('error', () => {});
  socket.on('close', () => {
    clearInterval(alive);
    subscribed.output.end();
  });
}

const STATUS: Readonly<Record<number, string>> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  421: 'Misdirected Request',
  429: 'Too Many Requests',
};

function refuse(socket: Duplex, status: number, message: string): void {
  const body = `${message}\n`;
  const head = `HTTP/1.1 ${status} ${STATUS[status] ?? 'Refused'}`;
  const length = `Content-Length: ${Buffer.byteLength(body)}`;
  // A refused client cannot keep the connection half open.
  socket.once('finish', () => socket.destroy());
  socket.end(
    `${head}\r\nConnection: close\r\nContent-Type: text/plain\r\n${length}\r\n\r\n${body}`,
  );
}

/** Returns the path of the request line, in which a client can write any text. */
function pathOf(target: string): string {
  if (target.startsWith('/')) return target.split('?', 1)[0] ?? '';
  return URL.canParse(target) ? new URL(target).pathname : '';
}

/** Handles upgrades of a listener. Every path except `/api/socket` is refused. */
export function addSocket(
  server: Server,
  admit: AdmitSocket,
  parts: WebParts,
): { close(): Promise<void> } {
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE,
    perMessageDeflate: false,
  });
  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy());
    if (pathOf(incoming.url ?? '/') !== PATH) {
      refuse(socket, 404, 'address not found');
      return;
    }
    const verdict = admit(incoming);
    if (!('asker' in verdict)) {
      refuse(socket, verdict.status, verdict.message);
      return;
    }
    const { expires } = verdict.asker;
    sockets.handleUpgrade(incoming, socket, head, (opened) => serve(opened, parts, expires));
  });
  return {
    async close() {
      for (const socket of sockets.clients) socket.close(GOING_AWAY, 'the server is closing');
      await new Promise<void>((resolve) => sockets.close(() => resolve()));
      for (const socket of sockets.clients) socket.terminate();
    },
  };
}
