// `GET /api/stream`: frames of the hub for one client, as server-sent events. They are written to the
// connection directly, so that many clients share the same bytes and a frame is serialized once.
import type { ServerResponse } from 'node:http';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type { StreamFrame, Topic } from '../model/api.ts';
import { answer } from './answer.ts';
import type { AddRoutes, Hub, Subscription, WebCaller } from './context.ts';
import { addHeaders } from './headers.ts';
import { ALIVE_MS, createBacklog, frameBlock } from './live/wire.ts';
import { needs } from './roles.ts';

export const MAX_TOPICS = 30;
const TOPIC = /^(threads|approvals|fleet|thread:[\w-]{1,80})$/;
/** Longest time that a timer supports. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export function readTopics(text: string): Outcome<Topic[]> {
  const topics = [...new Set(text.split(',').filter(Boolean))];
  const wrong = topics.find((topic) => !TOPIC.test(topic));
  if (wrong !== undefined || topics.length === 0) {
    const name = (wrong ?? '').slice(0, 100);
    const message = `\`topics\` must be of \`threads\`, \`approvals\`, \`fleet\`, \`thread:ID\`, not \`${name}\``;
    return fail('invalid_input', message);
  }
  return topics.length <= MAX_TOPICS
    ? ok(topics)
    : fail('invalid_input', `at most ${MAX_TOPICS} topics can be subscribed to at once`);
}

/** Writes the headers once. A refused request gets another answer. */
function begin(outgoing: ServerResponse): void {
  if (outgoing.headersSent) return;
  const headers = new Headers({
    'content-type': 'text/event-stream; charset=utf-8',
    // A buffering proxy would delay frames.
    'x-accel-buffering': 'no',
  });
  addHeaders(headers);
  outgoing.writeHead(200, Object.fromEntries(headers));
  outgoing.flushHeaders();
}

/** Sends frames until the connection, the session or the server ends. */
function sendFrames(
  hub: Hub,
  outgoing: ServerResponse,
  request: { readonly topics: readonly Topic[]; readonly after?: string },
  lifeMs: number,
): Outcome<Subscription> {
  const backlog = createBacklog(() => outgoing.writableLength);
  let subscription: Subscription | undefined;
  let isCorked = false;

  /** Buffers the frames of one turn, so that they leave in one write. */
  function cork(): void {
    if (isCorked) return;
    isCorked = true;
    outgoing.cork();
    process.nextTick(() => {
      isCorked = false;
      outgoing.uncork();
    });
  }

  function send(frame: StreamFrame, position?: string): boolean {
    if (outgoing.destroyed || outgoing.writableEnded) return true;
    const block = frameBlock(frame);
    if (backlog.isFull() || !backlog.hasRoom(block.length, frame)) return false;
    backlog.add(frame);
    begin(outgoing);
    cork();
    if (position !== undefined) outgoing.write(`id: ${position}\n`);
    outgoing.write(block, () => {
      if (backlog.taken(frame)) subscription?.ready();
    });
    return true;
  }

  const subscribed = hub.subscribe({ ...request, send });
  if (!subscribed.ok) return subscribed;
  subscription = subscribed.output;
  const { end } = subscription;
  begin(outgoing);
  const alive = setInterval(() => {
    if (backlog.isStuck()) outgoing.destroy();
    else if (!backlog.isFull()) outgoing.write(':\n\n');
  }, ALIVE_MS).unref();
  const over = setTimeout(() => outgoing.end(), Math.min(lifeMs, MAX_TIMER_MS)).unref();
  outgoing.once('close', () => {
    clearInterval(alive);
    clearTimeout(over);
    end();
  });
  return subscribed;
}

const lifeOf = ({ expires }: WebCaller, now: number): number =>
  Number.isFinite(expires) ? Math.max(0, expires - now) : MAX_TIMER_MS;

export const addStream: AddRoutes = (api, { hub, clock }) => {
  api.get('/stream', needs('view'), (context) => {
    const { req, env } = context;
    const topics = readTopics(req.query('topics') ?? '');
    if (!topics.ok) return answer(context, topics);
    if (req.method === 'HEAD') return context.body(null, 200);
    // Each snapshot has its own position. `readPosition` merges them.
    const after = (req.queries('after') ?? []).filter(Boolean).join(' ');
    const request = { topics: topics.output, ...(after === '' ? {} : { after }) };
    const life = lifeOf(context.get('asker'), clock.now());
    const result = sendFrames(hub, env.outgoing, request, life);
    if (!result.ok) return answer(context, result);
    return new Response(null, RESPONSE_ALREADY_SENT);
  });
};
