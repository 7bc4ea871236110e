import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { ok } from '@kernmantle/core/base';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRpc, RPC, refuse } from './rpc.ts';

/** Sends the input in these pieces and returns the lines of the answer, in order of their ids. */
async function answers(input: string, sizes: readonly number[] = []): Promise<string[]> {
  const [source, output] = [new PassThrough(), new PassThrough()];
  const errors: unknown[] = [];
  const rpc = createRpc({
    input: source,
    output,
    onError: (error) => errors.push(error),
    methods: {
      echo: async (params) => ok(params),
      refuse: async () => refuse(RPC.notFound, 'no such thing', { thread: 't' }),
      throw: async () => Promise.reject(new Error('the password is hunter2')),
    },
  });
  const written = text(output);
  const bytes = Buffer.from(input);
  let at = 0;
  for (const size of sizes) {
    source.write(bytes.subarray(at, at + size));
    at += size;
  }
  source.end(bytes.subarray(at));
  await rpc.run();
  await new Promise((resolve) => setImmediate(resolve));
  output.end();
  return (await written).trim().split('\n').toSorted();
}

test('the borders of chunks do not matter', async () => {
  const input = ['{"jsonrpc":"2.0","id":1,"method":"echo","params":{"é":"😀"}}', 'x', '{"jsonrpc":']
    .map((line) => `${line}\n`)
    .join('');
  const whole = await answers(input);
  expect(whole).toHaveLength(3);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(40), { maxLength: 8 }), async (sizes) => {
      expect(await answers(input, sizes)).toEqual(whole);
    }),
    { numRuns: 50 },
  );
});

test('no input throws, and every answer is a message with an id', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.string(), fc.json()), async (line) => {
      for (const answer of (await answers(`${line}\n`)).filter(Boolean)) {
        expect(JSON.parse(answer)).toMatchObject({ jsonrpc: '2.0', error: {} });
      }
    }),
    { numRuns: 100 },
  );
});

test('a failure has its number and its fields, and an exception shows nothing', async () => {
  const call = (id: number, method: string) => JSON.stringify({ jsonrpc: '2.0', id, method });
  const lines = await answers(`${call(1, 'refuse')}\n${call(2, 'throw')}\n`);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32_002, message: 'no such thing', data: { thread: 't' } },
    },
    { jsonrpc: '2.0', id: 2, error: { code: -32_603, message: 'internal error' } },
  ]);
});
