// `/api/socket` over the real server: the same frames for programs with a token.
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { must } from '@kernmantle/test-support/registry';
import { aThread, owner, writerOf } from '@kernmantle/test-support/store-suite/stage';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import type { StreamFrame } from '../src/model/api.ts';
import { hear, message, nothingHeard } from './support/live.ts';
import { bearerOf, type Headers, openServed, type ServedStage } from './support/serve.ts';

async function openThread({ threads }: ServedStage, id: string) {
  const start = { lease: { ...owner(), ttlMs: 600_000 } };
  return writerOf(threads.store, must(await threads.store.createThread(aThread(id, { start }))));
}

const addressOf = ({ url }: ServedStage, path = '/api/socket'): string =>
  `${url.replace('http', 'ws')}${path}`;

async function connect(served: ServedStage, headers: Headers) {
  const socket = new WebSocket(addressOf(served), { headers });
  const heard = nothingHeard();
  const errors: string[] = [];
  let code: number | undefined;
  socket.on('message', (data) => {
    const reply = JSON.parse((data as Buffer).toString()) as
      | (StreamFrame & { id?: string })
      | { kind: 'error'; error: { detail: { message: string } } };
    if (reply.kind === 'error') errors.push(reply.error.detail.message);
    else hear(heard, reply, 'id' in reply ? reply.id : undefined);
  });
  socket.on('close', (given) => {
    code = given;
  });
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  const say = (wish: unknown): void =>
    socket.send(typeof wish === 'string' ? wish : JSON.stringify(wish));
  return { socket, heard, errors, say, code: () => code };
}

/** The status that an upgrade is refused with. */
async function refusal(served: ServedStage, headers: Headers, path?: string): Promise<number> {
  const socket = new WebSocket(addressOf(served, path), { headers });
  socket.on('error', () => {});
  const [, response] = (await once(socket, 'unexpected-response')) as [
    unknown,
    { statusCode: number },
  ];
  return response.statusCode;
}

test('a program subscribes to a thread from a number on, and to rows', async () => {
  const served = await openServed();
  const thread = await openThread(served, 'one');
  await thread.must({ events: [message('a'), message('b')] });
  const { heard, say } = await connect(served, bearerOf(served.fixture, 'view'));
  say({ action: 'subscribe', thread_id: 'one', from_seq: 2 });
  await expect.poll(() => heard.seqs).toEqual([2, 3]);
  say({ action: 'subscribe', topic: 'threads' });
  await expect.poll(() => heard.position).toMatch(/\.\d+,one\.3$/);
  await thread.must({ events: [message('c')] });
  await expect.poll(() => heard.rows.get('one')?.seq).toBe(4);
  await expect.poll(() => heard.seqs).toEqual([2, 3, 4]);
  say({ action: 'unsubscribe', thread_id: 'one' });
  await expect.poll(() => heard.rows.get('one')?.seq).toBe(4);
  await thread.must({ events: [message('d')] });
  await expect.poll(() => heard.rows.get('one')?.seq).toBe(5);
  expect(heard.seqs).toEqual([2, 3, 4]);
});

test('only a bearer token opens it', async () => {
  const served = await openServed();
  expect(await refusal(served, {})).toBe(401);
  // A browser would send these, and a page of another origin could open sockets with them.
  expect(await refusal(served, served.headers)).toBe(401);
  expect(await refusal(served, { authorization: 'Bearer wrong' })).toBe(401);
  const bearer = bearerOf(served.fixture, 'view');
  expect(await refusal(served, { ...bearer, host: 'evil.example' })).toBe(421);
  expect(await refusal(served, { ...bearer, origin: 'http://evil.example' })).toBe(403);
  expect(await refusal(served, bearer, '/api/other')).toBe(404);
});

test('what cannot be understood is answered, and the connection goes on', async () => {
  const served = await openServed();
  await openThread(served, 'one');
  const { heard, errors, say, socket } = await connect(served, bearerOf(served.fixture, 'view'));
  const wrong = [
    'no json',
    '[]',
    '{}',
    '{"action":"delete"}',
    '{"action":"subscribe"}',
    '{"action":"subscribe","thread_id":"../a"}',
    '{"action":"subscribe","thread_id":"one","from_seq":0}',
    '{"action":"subscribe","topic":"threads","from_seq":1}',
    '{"action":"subscribe","topic":"threads,approvals"}',
  ];
  for (const text of wrong) say(text);
  socket.send(Buffer.from([1, 2, 3]));
  await expect.poll(() => errors.length).toBe(wrong.length + 1);
  say({ action: 'subscribe', thread_id: 'one', from_seq: 1 });
  await expect.poll(() => heard.seqs).toEqual([1]);
});

test('who says too much, or too long a thing, is let go', async () => {
  const served = await openServed();
  const bearer = bearerOf(served.fixture, 'view');
  const chatty = await connect(served, bearer);
  for (let index = 0; index < 150; index++) chatty.say('{}');
  await expect.poll(chatty.code).toBe(1008);
  const long = await connect(served, bearer);
  long.say('x'.repeat(10_000));
  await expect.poll(long.code).toBe(1009);
});

test('nobody listens to more than there may be, and hears that', async () => {
  const served = await openServed();
  const { errors, heard, say } = await connect(served, bearerOf(served.fixture, 'view'));
  for (let index = 0; index < 31; index++) say({ action: 'subscribe', thread_id: `t${index}` });
  await expect.poll(() => errors).toEqual(['at most 30 topics can be subscribed to at once']);
  say({ action: 'unsubscribe', thread_id: 't0' });
  say({ action: 'subscribe', topic: 'threads' });
  await openThread(served, 'one');
  await expect.poll(() => heard.rows.has('one')).toBe(true);
});

const upgrade = (path: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;

test('an upgrade for any target whatever is refused, and the server lives', async () => {
  const served = await openServed();
  for (const path of ['//', '//[', 'http://[', '*', '//evil.example/api/socket', '/%']) {
    const socket = createConnection(served.port, '127.0.0.1');
    socket.write(upgrade(path));
    const [said] = (await once(socket, 'data')) as [Buffer];
    expect(said.toString()).toMatch(/^HTTP\/1.1 404 /);
    socket.destroy();
  }
  expect((await served.get('me')).status).toBe(200);
});

test('who was refused does not keep the connection by not closing it', async () => {
  const served = await openServed();
  const socket = createConnection({ port: served.port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  let isCut = false;
  socket.on('error', () => {
    isCut = true;
  });
  socket.write(upgrade('/api/socket'));
  socket.resume();
  await once(socket, 'end');
  await expect
    .poll(() => {
      socket.write('x');
      return isCut;
    })
    .toBe(true);
});

test('a server that goes down says so', async () => {
  const served = await openServed();
  const { code } = await connect(served, bearerOf(served.fixture, 'view'));
  await served.close();
  await expect.poll(code).toBe(1001);
});
