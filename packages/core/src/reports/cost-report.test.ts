import { expect, test } from 'vitest';
import { type JsonObject, ok } from '../base/index.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { valuesAt } from '../store/encode.ts';
import type { Store, ThreadSummary } from '../store/index.ts';
import { costReport } from './cost-report.ts';

interface Made {
  readonly row: Partial<ThreadSummary> & { readonly id: string };
  /** Of itself and all below it, in thousandths of a unit. */
  readonly spend: number;
  readonly tokens: number;
  readonly events?: readonly [string, JsonObject][];
}

const DAY = 86_400_000;
const usage = (tokens: number, estimated = false) => ({
  input_tokens: tokens - 3,
  output_tokens: 2,
  cache_read_tokens: 1,
  cache_write_tokens: 0,
  tokens,
  context_tokens: tokens - 2,
  estimated,
});
const reply = (model: string, tokens: number, spend: string): [string, JsonObject] => [
  'assistant_message',
  { content: [], stop: 'end', usage: usage(tokens), model, price_row: `row ${model}`, spend },
];
const ask = (model: string): [string, JsonObject] => ['turn_start', { model }];

/** A registry with these threads in it, newest first; counts how often journals are read. */
function registry(threads: readonly Made[]) {
  const reads: string[] = [];
  const rows = threads.map(({ row, spend, tokens }) => ({
    root: row.id,
    depth: 0,
    kind: 'thread',
    directive: 'look',
    status: 'completed',
    seq: 1,
    created: 5 * DAY,
    used: { spend: BigInt(spend) * 1_000_000n, tokens: BigInt(tokens) },
    ...row,
  }));
  const of = (id: string): Made | undefined => threads.find(({ row }) => row.id === id);
  const store = {
    spent: async (since: number) => ok(rows.filter(({ created }) => created >= since)),
    fieldsOf: async (ids: string[], wanted: Parameters<Store['fieldsOf']>[1]) => {
      if (wanted.turn_start) reads.push(...ids);
      return ok(
        ids.map((id) =>
          (of(id)?.events ?? []).flatMap(([type, data]) => {
            const paths = wanted[type];
            return paths ? [{ type, values: valuesAt(data, paths) }] : [];
          }),
        ),
      );
    },
  } as unknown as Store;
  return { store, reads };
}

const runtime = {
  library: { config: () => ({ value: { currency: 'EUR' } }) },
} as unknown as Runtime;

async function report(threads: readonly Made[], since = 0) {
  const made = registry(threads);
  const done = await costReport(runtime, made.store, since);
  if (!done.ok) throw new Error(done.error.detail.message);
  return { ...done.output, ...made };
}

test('a parent pays for itself alone, its child and its hook for themselves', async () => {
  const { total, by_directive } = await report([
    {
      row: { id: 'hook', parent: 'top', kind: 'hook', directive: 'helper' },
      spend: 1,
      tokens: 10,
      events: [reply('m', 10, '0.001')],
    },
    {
      row: { id: 'low', parent: 'top', directive: 'helper' },
      spend: 2,
      tokens: 20,
      events: [reply('m', 20, '0.002')],
    },
    {
      row: { id: 'top', status: 'limit' },
      spend: 7,
      tokens: 70,
      events: [reply('m', 40, '0.004'), ['permission_denied', {}]],
    },
  ]);
  expect(total).toMatchObject({ threads: 3, spend: '0.007', tokens: 70, requests: 3, denied: 1 });
  expect(by_directive.map(({ directive, kind, spend }) => [directive, kind, spend])).toEqual([
    ['look', undefined, '0.004'],
    ['helper', undefined, '0.002'],
    ['helper', 'hook', '0.001'],
  ]);
  expect(by_directive[0]).toMatchObject({ at_limit: 1, denied: 1 });
});

test('a thread that asked two models paid each of them, and a day is made of both', async () => {
  const { by_model, by_day } = await report([
    {
      row: { id: 'a' },
      spend: 5,
      tokens: 50,
      events: [reply('x', 20, '0.002'), reply('y', 30, '0.003')],
    },
  ]);
  expect(by_model).toMatchObject([
    {
      model: 'y',
      threads: 1,
      requests: 1,
      spend: '0.003',
      input: 27,
      cached: 1,
      output: 2,
      price_row: 'row y',
    },
    { model: 'x', threads: 1, requests: 1, spend: '0.002' },
  ]);
  expect(by_day).toMatchObject([
    {
      day: '1970-01-06',
      models: [
        { name: 'y', spend: '0.003' },
        { name: 'x', spend: '0.002' },
      ],
    },
  ]);
});

test('what nobody answered was asked of a model too, and is an estimate', async () => {
  const { by_model, total } = await report([
    {
      row: { id: 'a' },
      spend: 9,
      tokens: 90,
      events: [ask('x'), reply('x', 20, '0.002'), ask('y')],
    },
  ]);
  expect(by_model).toMatchObject([
    { model: 'y', requests: 1, spend: '0.007', tokens: 70, estimated: true },
    { model: 'x', requests: 1, spend: '0.002', tokens: 20 },
  ]);
  expect(by_model[1]).not.toHaveProperty('estimated');
  expect(total.estimated).toBe(true);
});

test('a reply that was withheld is charged once: by itself, not again by the end of its turn', async () => {
  const charged = { model: 'x', tokens: 20, input_tokens: 18, output_tokens: 2, spend: '0.002' };
  const { by_model } = await report([
    {
      row: { id: 'a' },
      spend: 4,
      tokens: 40,
      events: [
        ask('x'),
        reply('x', 20, '0.002'),
        ['turn_end', { withheld: true, charged }],
        ask('x'),
        ['turn_end', { failed: true, charged }],
      ],
    },
  ]);
  expect(by_model).toMatchObject([
    { model: 'x', requests: 2, spend: '0.004', tokens: 40, estimated: true },
  ]);
});

test('what has ended is read once, what goes on every time, and what paid nothing never', async () => {
  const { store, reads } = await report([
    { row: { id: 'over' }, spend: 1, tokens: 10, events: [reply('m', 10, '0.001')] },
    {
      row: { id: 'runs', status: 'running' },
      spend: 1,
      tokens: 10,
      events: [reply('m', 10, '0.001')],
    },
    { row: { id: 'free' }, spend: 0, tokens: 0, events: [['permission_denied', {}]] },
  ]);
  const again = await costReport(runtime, store, 0);
  expect(reads).toEqual(['over', 'runs', 'runs']);
  expect(again.ok && again.output.total).toMatchObject({ threads: 3, denied: 1, spend: '0.002' });
});

test('a thread that paid nobody is no row of a model', async () => {
  const { by_model, by_directive, by_day, total } = await report([
    { row: { id: 'refused', status: 'failed' }, spend: 0, tokens: 0, events: [ask('x')] },
    { row: { id: 'paid' }, spend: 1, tokens: 10, events: [ask('x'), reply('x', 10, '0.001')] },
  ]);
  expect(by_model).toMatchObject([{ model: 'x', threads: 1, requests: 1 }]);
  expect(by_day).toMatchObject([{ threads: 2, models: [{ name: 'x', spend: '0.001' }] }]);
  expect([by_directive[0]?.threads, total.threads]).toEqual([2, 2]);
  const lost = await report([{ row: { id: 'lost' }, spend: 1, tokens: 10 }]);
  expect(lost.by_model).toMatchObject([{ model: 'not recorded', tokens: 10, estimated: true }]);
});

test('threads that began before are left out, and without a registry there is nothing', async () => {
  const old: Made = { row: { id: 'old', created: 0 }, spend: 1, tokens: 1 };
  expect((await report([old], DAY)).total).toMatchObject({ threads: 0, spend: '0.00' });
  const none = await costReport(runtime, undefined, 0);
  expect(none.ok && none.output).toMatchObject({ currency: 'EUR', by_model: [], by_day: [] });
});
