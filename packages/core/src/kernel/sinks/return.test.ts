import { expect, test } from 'vitest';
import type { SinkContext } from '../sink.ts';
import { createNullSink, createReturnSink } from './return.ts';

const context: SinkContext = {
  projectRoot: '/',
  threadId: undefined,
  verify: () => ({ ok: true, output: null }),
  signal: new AbortController().signal,
};

async function make(destination: Record<string, number | string>) {
  const made = await createReturnSink({ type: 'return', ...destination }, context);
  if (!made.ok) throw new Error(made.error.detail.message);
  return made.output;
}

test('the return sink hands back what it was given, in order', async () => {
  const sink = await make({});
  void sink.write([{ event: 'a', data: '1' }]);
  void sink.write([{ data: '2', id: 'x' }]);
  expect(await sink.close()).toEqual({
    type: 'return',
    delivered: 2,
    dropped: 0,
    events: [
      { event: 'a', data: '1' },
      { data: '2', id: 'x' },
    ],
  });
});

test('the return sink counts what it drops, and never leaves a hole', async () => {
  const few = await make({ max_size: 2 });
  for (const data of ['1', '2', '3']) void few.write([{ data }]);
  expect(await few.close()).toMatchObject({ delivered: 2, dropped: 1 });
  const small = await make({ max_bytes: 5, format: 'raw' });
  for (const data of ['1234', 'long', 'x']) void small.write([{ data }]);
  expect(await small.close()).toMatchObject({ events: ['1234'], dropped: 2 });
});

test('a wrong bound is the author’s mistake', async () => {
  for (const destination of [{ max_size: 0 }, { max_size: 'many' }, { format: 'xml' }]) {
    expect(await createReturnSink(destination, context)).toMatchObject({
      error: { code: 'config_invalid' },
    });
  }
});

test('the null sink keeps nothing but the count', async () => {
  const made = await createNullSink({}, context);
  if (!made.ok) throw new Error('no sink');
  void made.output.write([{ data: 'x' }]);
  expect(await made.output.close()).toEqual({ type: 'null_sink', delivered: 1, dropped: 0 });
});
