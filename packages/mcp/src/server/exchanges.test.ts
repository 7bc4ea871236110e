import { expect, test } from 'vitest';
import { createExchanges } from './exchanges.ts';

/** Returns an endless stream, and whether its reader cancelled it. */
function endless() {
  let isLeft = false;
  let send: (text: string) => void = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      send = (text) => controller.enqueue(Buffer.from(text));
    },
    cancel() {
      isLeft = true;
    },
  });
  const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  return { response, send: (text: string) => send(text), isLeft: () => isLeft };
}

function open() {
  const exchanges = createExchanges();
  const gone = new AbortController();
  let ends = 0;
  const exchange = exchanges.open('ann', gone.signal);
  exchange.after(() => {
    ends += 1;
  });
  return { ...exchanges, exchange, gone, ends: () => ends };
}

test('what is no stream is over with its answer', () => {
  const { exchange, ends, clients } = open();
  const answer = Response.json({ a: 1 });
  expect(exchange.answer(answer)).toBe(answer);
  expect([ends(), clients().size]).toEqual([1, 0]);
});

test.each(['before', 'after'])(
  'a client that goes %s its stream was begun, and never read, lets go',
  async (when) => {
    const { exchange, gone, ends, clients } = open();
    const stream = endless();
    if (when === 'before') gone.abort();
    exchange.answer(stream.response);
    if (when === 'after') gone.abort();
    await new Promise(setImmediate);
    expect([ends(), clients().size, stream.isLeft()]).toEqual([1, 0, true]);
  },
);

test('a stream goes on until its reader has had enough, or it is cut', async () => {
  const first = open();
  const read = endless();
  const reader = first.exchange.answer(read.response).body?.getReader();
  read.send('one');
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('one');
  expect(first.clients()).toEqual(new Set(['ann']));
  await reader?.cancel();
  expect([first.ends(), read.isLeft()]).toEqual([1, true]);

  const second = open();
  const cut = endless();
  const text = second.exchange.answer(cut.response).text();
  cut.send('last words');
  await new Promise(setImmediate);
  second.cut('bob');
  expect(second.ends()).toBe(0);
  second.cut('ann');
  expect(await text).toBe('last words');
  expect([second.ends(), cut.isLeft()]).toEqual([1, true]);
});

test('who reads nothing is cut off, within a bound', async () => {
  const { exchange, ends } = open();
  const stream = endless();
  const body = exchange.answer(stream.response).body;
  const piece = 'x'.repeat(1024 * 1024);
  let sent = 0;
  for (; sent < 100 && ends() === 0; sent += 1) {
    stream.send(piece);
    await new Promise(setImmediate);
  }
  expect(sent).toBeLessThan(12);
  expect(stream.isLeft()).toBe(true);
  await expect(body?.getReader().read()).rejects.toThrow('the client does not read');
});
