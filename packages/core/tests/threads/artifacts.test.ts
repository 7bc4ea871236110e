// Results over a size are kept whole, with their labels; everybody else gets how they begin.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineTool } from '@kernmantle/test-support/define-tool';
import { expectSame } from '@kernmantle/test-support/expect-same';
import {
  directiveText,
  execute,
  READ,
  read,
  run,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type Json, type JsonObject, plainText } from '../../src/base/index.ts';

const BIG = Array.from({ length: 20_000 }, (_, index) => `line ${index}`).join('\n');
const ALLOWED = `${READ}<execute resource="tool" id="test/fetch"/>`;
const FILES = { '.ai/directives/look.md': directiveText('look', { permissions: ALLOWED }) };
const fetching = (content: string) => ({
  tools: [
    defineTool({
      id: 'test/fetch',
      description: 'Answers at length',
      effect: 'read',
      labels: ['untrusted'],
      parameters: {},
      run: () => ({ path: 'notes/big.txt', content }),
    }),
  ],
});
const FETCH = { tool_calls: [execute('test/fetch', {})] };
const results = async ({ threads }: Stage, id: string): Promise<JsonObject[]> => {
  const events = await threads.store.read(id);
  return (events.ok ? events.output : []).flatMap(({ type, data }) =>
    type === 'tool_result' && data.call_id !== 'call_directive' ? [data] : [],
  );
};
/** The hash in the last result that the model was sent. */
const hashIn = (body: Json): string =>
  /sha256:[0-9a-f]{64}/.exec(JSON.stringify(body))?.[0] ?? 'none';
const piece = (id: string, parameters: JsonObject) => ({
  tool_calls: [
    { name: 'execute', arguments: { item_type: 'artifact', item_id: id, parameters } as Json },
  ],
});

test('a large result is kept, the model reads the rest piece by piece, with its labels', async () => {
  const made = await stage(
    FILES,
    ({ body, assistant_messages: turn }) => {
      if (turn === 1) return FETCH;
      const id = hashIn(body);
      if (turn === 2) return piece(id, { field: '/content', offset: 100_000, length: 40 });
      if (turn === 3) return piece(id, { field: '/content', offset: BIG.length - 10 });
      if (turn === 4) return piece(id, { field: '/nothing' });
      return { text: 'read' };
    },
    fetching(BIG),
  );
  const { thread_id, status } = await run(made, 'look');
  expect(status).toBe('completed');
  const [whole, middle, end, wrong] = await results(made, thread_id);
  expect(JSON.stringify(whole?.content).length).toBeLessThan(25_000);
  expect(whole?.content).toMatchObject({
    artifact: expect.stringMatching(/^sha256:/),
    preview: { path: 'notes/big.txt' },
  });
  expect(middle?.content).toMatchObject({
    text: BIG.slice(100_000, 100_040),
    characters: BIG.length,
    next_offset: 100_040,
  });
  expect(getOwn(end?.content, 'text')).toBe(BIG.slice(-10));
  expect(getOwn(end?.content, 'next_offset')).toBeUndefined();
  expect(JSON.stringify(wrong?.content)).toContain('part `/nothing` not found');
  // What the file carries, the piece carries.
  const [from, there] = [whole?.marks, middle?.marks].map((marks) => getOwn(marks, 'taint'));
  for (const label of from as string[]) expect(there).toContain(label);
  expect(there).toContain('untrusted');
  for (const { body } of made.provider.requests) {
    expect(JSON.stringify(body).length).toBeLessThan(80_000);
  }
  const replayed = await made.threads.replay(thread_id);
  expectSame(replayed);
});

test('a resumed thread goes on with the same preview and reads the same artifact', async () => {
  const ask = { tool_calls: [{ name: 'help', arguments: { action: 'escalate', reason: 'ok?' } }] };
  const made = await stage(
    FILES,
    ({ body, assistant_messages: turn }) => {
      if (turn === 1) return FETCH;
      if (turn === 2) return ask;
      if (turn === 3) return piece(hashIn(body), { field: '/content', offset: 50_000, length: 20 });
      return { text: 'read' };
    },
    fetching(BIG),
  );
  const { thread_id } = await run(made, 'look');
  const other = await made.fixture.open(fetching(BIG));
  const threads = await other.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const [open] = ((await threads.output.store.approvals({})) as { output: { id: string }[] })
    .output;
  const said = { decision: 'approved' as const, who: 'ann', channel: 'cli' as const, why: '' };
  await threads.output.store.decide(open?.id ?? '', { ...said, answer: 'yes' });
  const done = await threads.output.resume(thread_id);
  expect(done.ok && done.output.status).toBe('completed');
  await other.close();
  expect(getOwn((await results(made, thread_id)).at(-1)?.content, 'text')).toBe(
    BIG.slice(50_000, 50_020),
  );
});

test('nobody but the thread reads its artifact', async () => {
  let hash = '';
  const made = await stage(
    {
      ...FILES,
      '.ai/directives/pry.md': directiveText('pry', { permissions: READ }),
    },
    ({ body, assistant_messages: turn }) => {
      if (JSON.stringify(body).includes('run directive pry')) {
        return turn === 1 ? piece(hash, {}) : { text: 'no' };
      }
      if (turn === 1) return FETCH;
      hash = hashIn(body);
      return { text: 'read' };
    },
    fetching(BIG),
  );
  await run(made, 'look');
  const { thread_id } = await run(made, 'pry');
  expect(JSON.stringify(await results(made, thread_id))).toMatch(/artifact .* not found/);
  const request = { item_type: 'artifact', item_id: hash };
  const outside = await made.runtime.call('execute', request, { surface: 'cli' });
  expect(outside.ok || outside.error.code).toBe('permission_denied');
});

test('a secret in a large result is sealed like everything else', async () => {
  const secret = 'k3y-9f8e7d6c5b4a3210';
  const made = await stage(
    {
      ...FILES,
      '.ai/directives/look.md': directiveText('look', { permissions: ALLOWED }).replace(
        '<process>',
        '<inputs><input name="api_key" type="string" required="true">k</input></inputs><process>',
      ),
    },
    ({ body, assistant_messages: turn }) => {
      if (turn === 1) return FETCH;
      if (turn === 2) return piece(hashIn(body), { field: '/content', offset: 89_990, length: 50 });
      return { text: 'read' };
    },
    fetching(`${BIG.slice(0, 90_000)} ${secret} ${BIG.slice(90_000)}`),
  );
  await run(made, 'look', { inputs: { api_key: secret } });
  // The model itself sees what it reads.
  expect(JSON.stringify(made.provider.requests.at(-1)?.body)).toContain(secret);
  const dir = join(made.fixture.root, '.ai/threads');
  for (const name of readdirSync(dir)) {
    if (!name.startsWith('registry')) continue;
    expect(readFileSync(join(dir, name)).includes(secret), name).toBe(false);
  }
});

test('how large is large is data', async () => {
  const made = await stage(
    { ...FILES, 'notes/mid.txt': 'x'.repeat(5000), '.ai/config/limits.yaml': 'max_result: 4000\n' },
    [read('notes/mid.txt'), { text: 'read' }],
  );
  const { thread_id } = await run(made, 'look');
  const [first] = await results(made, thread_id);
  expect(plainText(getOwn(first?.content, 'artifact'))).toMatch(/^sha256:/);
});
