// Tools of an embedding program: what they take is declared in words or by any Standard Schema.
import { defineTool } from '@kernmantle/test-support/define-tool';
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import type { Json, JsonObject } from '../../src/base/index.ts';
import type { RuntimeOptions } from '../../src/runtime/index.ts';

async function open(
  tools: NonNullable<RuntimeOptions['tools']>,
  files: Record<string, string> = {},
) {
  const fixture = makeFixture(files);
  const runtime = await fixture.open({ tools });
  onTestFinished(async () => {
    await runtime.close();
    fixture.remove();
  });
  const found = async (request: JsonObject) => {
    const page = await runtime.call('search', { query: '', ...request });
    if (!page.ok) throw new Error(page.error.detail.message);
    return page.output as { items: JsonObject[]; total: number; next_cursor?: string };
  };
  const call = (id: string, parameters: JsonObject): ReturnType<typeof runtime.call> =>
    runtime.call('execute', { item_type: 'tool', item_id: id, parameters });
  return { runtime, found, call };
}

const named = (id: string, description: string) =>
  defineTool({ id, description, effect: 'read', run: () => id });

test('a search with tools of the program keeps its limit, and pages through all of them once', async () => {
  const tools = Array.from({ length: 7 }, (_, at) => named(`mine/tool_${at}`, 'a zebra counter'));
  const { found } = await open(tools);
  const first = await found({ query: 'zebra', limit: 2 });
  expect(first).toMatchObject({ total: 7, items: [{}, {}] });
  const seen: Json[] = [];
  for (let cursor: string | undefined, page = 0; page < 5; page += 1) {
    const next = await found({ query: 'zebra', limit: 2, ...(cursor ? { cursor } : {}) });
    seen.push(...next.items.map(({ item_id }) => item_id ?? null));
    cursor = next.next_cursor;
    if (cursor === undefined) break;
  }
  expect(seen).toHaveLength(7);
  expect(new Set(seen)).toEqual(new Set(tools.map(({ id }) => id)));
});

test('tools of the program are ranked among all others, and said to be of the program', async () => {
  const { found } = await open([named('mine/notes', 'also mentions a file, once')]);
  const files = await found({ query: 'read file', limit: 3 });
  expect(files.items[0]).toMatchObject({ item_id: 'fs/read_file', source: 'bundle', signed: true });
  const own = await found({ query: 'mentions' });
  expect(own.items).toMatchObject([{ item_id: 'mine/notes', source: 'program', signed: false }]);
  for (const source of ['bundle', 'project', 'user']) {
    expect((await found({ query: 'mentions', source })).total).toBe(0);
  }
  expect((await found({ query: 'mentions', item_type: 'directive' })).total).toBe(0);
  expect((await found({ query: 'mentions', source: 'local', category: 'mine' })).total).toBe(1);
});

test('a file with the id of a program’s tool is behind it, also in a search', async () => {
  const file = 'tool_id: same\ntool_type: x\nversion: 1.0.0\ndescription: giraffe of the file\n';
  const { found, runtime } = await open([named('mine/same', 'giraffe of the program')], {
    '.ai/tools/mine/same.yaml': `${file}executor_id: function\nconfig: {function: fs/read_file}\n`,
  });
  expect((await found({ query: 'giraffe' })).items).toMatchObject([{ source: 'program' }]);
  expect(runtime.library.all('tool').filter(({ id }) => id === 'mine/same')).toHaveLength(1);
});

test('a schema of zod says what a tool takes, fills in and turns into values', async () => {
  const given: unknown[] = [];
  const book = defineTool({
    id: 'trips/book',
    description: 'Books a trip',
    effect: 'read',
    parameters: z.object({
      to: z.string().min(2),
      seats: z.number().int().default(1),
      on: z.iso.date().transform((text) => new Date(text)),
    }),
    run({ to, seats, on }) {
      given.push([to, seats, on]);
      return `${to} ${seats} ${on.getUTCFullYear()}`;
    },
  });
  const { call, found } = await open([book]);
  expect(await call('trips/book', { to: 'Oslo', on: '2026-12-01' })).toMatchObject({
    ok: true,
    output: { result: 'Oslo 1 2026' },
  });
  expect(given).toEqual([['Oslo', 1, new Date('2026-12-01')]]);
  const wrong: JsonObject[] = [
    { to: 'O', on: '2026-12-01' },
    { to: 'Oslo', on: 'soon' },
    { to: 'Oslo' },
    { to: 'Oslo', on: '2026-12-01', more: 1 },
  ];
  for (const parameters of wrong) {
    expect(await call('trips/book', parameters)).toMatchObject({
      error: { code: 'invalid_input' },
    });
  }
  const [told] = (await found({ query: 'trip', detail: 'schema' })).items;
  expect(told).toMatchObject({
    input_schema: { properties: { to: { type: 'string', minLength: 2 } }, required: ['to', 'on'] },
  });
});

/** As small as the interface allows: it cannot say what it looks like. */
const evenNumber = {
  '~standard': {
    version: 1 as const,
    vendor: 'mine',
    async validate(value: unknown) {
      const number = (value as { number?: unknown }).number;
      return typeof number === 'number' && number % 2 === 0
        ? { value: { half: number / 2 } }
        : { issues: [{ message: 'must be even', path: [{ key: 'number' }] }] };
    },
    types: undefined as { input: { number: number }; output: { half: number } } | undefined,
  },
};

test('a schema that cannot describe itself checks the call all the same', async () => {
  const halve = defineTool({
    id: 'math/halve',
    description: 'Halves',
    effect: 'read',
    parameters: evenNumber,
    run: ({ half }) => half,
  });
  const { call } = await open([halve]);
  expect(await call('math/halve', { number: 8 })).toMatchObject({ output: { result: 4 } });
  expect(await call('math/halve', { number: 7 })).toMatchObject({
    error: {
      code: 'invalid_input',
      detail: { validation_errors: [{ field: 'number', error: 'must be even' }] },
    },
  });
});

test('a schema that throws fails the call and nothing else', async () => {
  const bad = {
    '~standard': {
      version: 1 as const,
      vendor: 'mine',
      validate(): never {
        throw Object.create(null);
      },
      jsonSchema: {
        input(): never {
          throw new Error('cannot');
        },
      },
    },
  };
  const broken = defineTool({ id: 'a/b', description: 'x', parameters: bad, run: () => null });
  const { call } = await open([broken]);
  expect(await call('a/b', { any: 1 })).toMatchObject({ error: { code: 'tool_failed' } });
});

test('what `run` is given has the types that were declared', () => {
  const tool = defineTool({
    id: 'types/all',
    description: 'x',
    parameters: {
      word: 'string',
      size: { type: 'integer', default: 3 },
      mode: { enum: ['fast', 'slow'], required: true },
      list: { type: 'array' },
    },
    // @ts-expect-error there is no such parameter
    run({ word, size, mode, list, other }) {
      const both: 'fast' | 'slow' = mode;
      // @ts-expect-error it may be missing
      const { length } = list;
      return [word.toUpperCase(), size + 1, both, length, other ?? null];
    },
  });
  // @ts-expect-error there is no such type
  defineTool({ id: 'types/none', description: 'x', parameters: { a: 'text' }, run: () => 1 });
  expect(tool.id).toBe('types/all');
});
