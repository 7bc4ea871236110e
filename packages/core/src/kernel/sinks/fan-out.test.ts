import { expect, test } from 'vitest';
import type { Sink } from '../sink.ts';
import { createFan, publicReport } from './fan-out.ts';

const never = new Promise<void>(() => {});

function collecting(type: string, log: string[]): Sink {
  let delivered = 0;
  return {
    type,
    write(events) {
      log.push(...events.map(({ data }) => data));
      delivered += events.length;
    },
    close: async () => ({ type, delivered, dropped: 0 }),
  };
}

test('synchronous sinks cost no promise', () => {
  const fan = createFan([collecting('a', []), collecting('b', [])]);
  expect(fan.write([{ data: 'x' }])).toBeUndefined();
});

test('a sink that throws or rejects is left out and the others go on', async () => {
  const log: string[] = [];
  const throws: Sink = {
    type: 'throws',
    write() {
      throw new Error('broken');
    },
    close: async () => ({ type: 'throws', delivered: 0, dropped: 0 }),
  };
  const rejects: Sink = {
    type: 'rejects',
    write: async () => Promise.reject(new Error('later')),
    close: async () => Promise.reject(new Error('twice')),
  };
  const fan = createFan([throws, collecting('ok', log), rejects]);
  for (const data of ['1', '2', '3']) await fan.write([{ data }]);
  expect(log).toEqual(['1', '2', '3']);
  expect(await fan.close(never)).toEqual([
    { type: 'throws', delivered: 0, dropped: 3, error: 'broken' },
    { type: 'ok', delivered: 3, dropped: 0 },
    { type: 'rejects', delivered: 0, dropped: 3, error: 'later' },
  ]);
});

test('a sink that rejects a batch misses it and what comes after, and says how much', async () => {
  let calls = 0;
  const second: Sink = {
    type: 'second',
    write: async () => (++calls === 2 ? Promise.reject(new Error('two')) : undefined),
    close: async () => ({ type: 'second', delivered: 1, dropped: 0 }),
  };
  const log: string[] = [];
  const fan = createFan([second, collecting('ok', log)]);
  for (const batch of [['1'], ['2', '3'], ['4']]) {
    await fan.write(batch.map((data) => ({ data })));
  }
  expect(log).toEqual(['1', '2', '3', '4']);
  expect(await fan.close(never)).toMatchObject([{ dropped: 3, error: 'two' }, { dropped: 0 }]);
});

test('a sink that takes batches gets them whole, and is left out when it throws', async () => {
  const seen: unknown[] = [];
  const batches: Sink = {
    type: 'batches',
    write(events) {
      seen.push(events.length);
      if (seen.length === 2) throw new Error('two');
    },
    close: async () => ({ type: 'batches', delivered: 2, dropped: 0 }),
  };
  const log: string[] = [];
  const fan = createFan([batches, collecting('ok', log)]);
  for (const list of [['1', '2'], ['3'], ['4']]) {
    expect(fan.write(list.map((data) => ({ data })))).toBeUndefined();
  }
  expect(seen).toEqual([2, 1]);
  expect(log).toEqual(['1', '2', '3', '4']);
  expect(await fan.close(never)).toMatchObject([{ dropped: 2, error: 'two' }, { dropped: 0 }]);
});

test('the reader waits for a slow sink', async () => {
  let release = () => {};
  const slow: Sink = {
    type: 'slow',
    write: () => new Promise((resolve) => (release = resolve)),
    close: async () => ({ type: 'slow', delivered: 1, dropped: 0 }),
  };
  const fan = createFan([slow]);
  let done = false;
  const wait = fan.write([{ data: 'x' }])?.then(() => (done = true));
  await Promise.resolve();
  expect(done).toBe(false);
  release();
  await wait;
  expect(done).toBe(true);
});

test('a sink that does not close is reported, not waited for', async () => {
  const stuck: Sink = { type: 'stuck', write() {}, close: () => new Promise(() => {}) };
  const [report] = await createFan([stuck]).close(Promise.resolve());
  expect(report).toMatchObject({ type: 'stuck', error: 'the sink did not close in time' });
});

test('a public report holds neither events nor real paths', () => {
  const report = { type: 'x', delivered: 1, dropped: 0, events: [1], file: { absolute: '/a' } };
  expect(publicReport(report)).toEqual({ type: 'x', delivered: 1, dropped: 0 });
});
