import { McpServer } from '@modelcontextprotocol/server';
import { expect, test } from 'vitest';
import { createExchanges } from './exchanges.ts';
import { createSessions } from './sessions.ts';

const HELLO = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'raw', version: '1' },
  },
};

function open() {
  let at = 0;
  let made = 0;
  const exchanges = createExchanges();
  const sessions = createSessions({
    clock: { monotonic: () => at },
    create() {
      made += 1;
      return new McpServer({ name: 'x', version: '1' }, { capabilities: { tools: {} } });
    },
    onError() {},
  });
  const send = async (client: string, body: typeof HELLO | undefined, session?: string) => {
    const gone = new AbortController();
    const exchange = exchanges.open(client, gone.signal);
    const request = new Request('http://127.0.0.1/mcp', {
      method: body ? 'POST' : 'GET',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        ...(session === undefined ? {} : { 'mcp-session-id': session }),
      },
    });
    const caller = { id: client, role: 'steer' } as const;
    const response = exchange.answer(await sessions.serve(request, body, caller, exchange));
    return { response, id: response.headers.get('mcp-session-id') ?? '' };
  };
  const hello = async (client = 'ann') => {
    const { response, id } = await send(client, HELLO);
    await response.text();
    return { status: response.status, id };
  };
  return {
    ...sessions,
    send,
    hello,
    made: () => made,
    pass(ms: number) {
      at += ms;
    },
  };
}

const HALF_AN_HOUR = 30 * 60 * 1000;

test('one that nobody uses ends after half an hour, one with an open stream does not', async () => {
  const sessions = open();
  const [idle, busy] = [await sessions.hello(), await sessions.hello()];
  const { response } = await sessions.send('ann', undefined, busy.id);
  expect(response.status).toBe(200);
  sessions.pass(HALF_AN_HOUR - 1);
  await sessions.sweep();
  expect(sessions.count()).toBe(2);
  sessions.pass(1);
  await sessions.sweep();
  expect(sessions.count()).toBe(1);
  expect((await sessions.send('ann', undefined, idle.id)).response.status).toBe(404);
  // The client closes its stream, so this session is idle too.
  await response.body?.cancel();
  sessions.pass(HALF_AN_HOUR);
  await sessions.sweep();
  expect(sessions.count()).toBe(0);
  await sessions.close();
});

test('a client has so many; its own make place, those of others do not', async () => {
  const sessions = open();
  const bob = await sessions.hello('bob');
  const first = await sessions.hello('ann');
  for (let n = 0; n < 100; n += 1) {
    sessions.pass(1);
    expect((await sessions.hello('ann')).status).toBe(200);
  }
  expect(sessions.count()).toBe(33);
  expect((await sessions.send('ann', undefined, first.id)).response.status).toBe(404);
  expect((await sessions.send('bob', undefined, bob.id)).response.status).toBe(200);
  await sessions.close();
  expect(sessions.count()).toBe(0);
});

test('while all of them are at work there is no more', async () => {
  const sessions = open();
  for (let n = 0; n < 32; n += 1) {
    const { id } = await sessions.hello();
    await sessions.send('ann', undefined, id);
  }
  expect((await sessions.hello()).status).toBe(503);
  expect(sessions.made()).toBe(32);
  expect((await sessions.hello('bob')).status).toBe(200);
  await sessions.endOf('ann');
  expect(sessions.count()).toBe(1);
  await sessions.close();
});

test('many at once do not slip past the bound', async () => {
  const sessions = open();
  await Promise.all(Array.from({ length: 200 }, () => sessions.hello()));
  expect(sessions.count()).toBeLessThanOrEqual(32);
  await sessions.close();
});
