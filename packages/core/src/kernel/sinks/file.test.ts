import { createHash } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, type JsonObject, ok } from '../../base/index.ts';
import type { Sink, SinkContext } from '../sink.ts';
import { createFileSinkFactory } from './file.ts';

const ownFolder = (id: string): string => `.ai/threads/${id}`;

type WriteSome = NonNullable<Parameters<typeof createFileSinkFactory>[1]>;

let root = '';
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'km-sink-')));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const asked: unknown[] = [];
function contextOf(options: { threadId?: string; denied?: boolean } = {}): SinkContext {
  asked.length = 0;
  return {
    projectRoot: root,
    threadId: options.threadId,
    verify(need) {
      asked.push(need);
      return options.denied
        ? fail('permission_denied', 'no', { missing: need.capability })
        : ok(null);
    },
    signal: new AbortController().signal,
  };
}

async function make(
  destination: JsonObject,
  context = contextOf(),
  write?: WriteSome,
): Promise<Sink> {
  const made = await createFileSinkFactory(ownFolder, write)(destination, context);
  if (!made.ok) throw new Error(made.error.detail.message);
  return made.output;
}

const read = (path: string) => readFileSync(join(root, path), 'utf8');

test('events become lines of JSON, also those that are not JSON', async () => {
  const sink = await make({ path: 'out/log.jsonl' });
  for (const data of ['{"a": 1}', '[DONE]', '{\n"b": 2\n}', 'two\nlines'])
    void sink.write([{ data }]);
  const report = await sink.close();
  expect(read('out/log.jsonl')).toBe('{"a": 1}\n"[DONE]"\n{"b":2}\n"two\\nlines"\n');
  expect(report).toMatchObject({ delivered: 4, dropped: 0, path: 'out/log.jsonl' });
  const sha256 = createHash('sha256').update(read('out/log.jsonl')).digest('hex');
  expect(report.file).toEqual({
    absolute: join(root, 'out/log.jsonl'),
    relative: 'out/log.jsonl',
    sha256,
  });
  expect(asked).toEqual([{ capability: 'fs.write', scope: { path: 'out/log.jsonl' } }]);
});

const text = fc.string().filter((data) => !/^\{.*\}$/s.test(data));

test('whatever the data, unless it only looks like an object, every line is JSON', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(fc.json(), text), { maxLength: 20 }), async (list) => {
      rmSync(join(root, 'p.jsonl'), { force: true });
      const sink = await make({ path: 'p.jsonl', flush_every: 3 });
      for (const data of list) void sink.write([{ data }]);
      await sink.close();
      const lines = list.length === 0 ? [] : read('p.jsonl').trimEnd().split('\n');
      expect(lines.length).toBe(list.length);
      for (const line of lines) JSON.parse(line);
    }),
    { numRuns: runs(50) },
  );
});

test('a batch is written as its events would be one by one', async () => {
  const one = await make({ path: 'one.jsonl' });
  const all = await make({ path: 'all.jsonl' });
  const batch = ['{"a":1}', '{\n"b":2}', '[DONE]', 'two\nlines', ''].map((data) => ({ data }));
  for (const event of batch) void one.write([event]);
  void all.write(batch);
  expect(await all.close()).toMatchObject({ delivered: 5, dropped: 0 });
  await one.close();
  expect(read('all.jsonl')).toBe(read('one.jsonl'));
});

test('raw writes the data as it came', async () => {
  const sink = await make({ path: 'a.txt', format: 'raw' });
  void sink.write([{ data: '[DONE]' }]);
  await sink.close();
  expect(read('a.txt')).toBe('[DONE]\n');
});

test('waiting events reach the file every `flush_every` events and at the end', async () => {
  const sink = await make({ path: 'a.txt', format: 'raw', flush_every: 2 });
  void sink.write([{ data: '1' }]);
  expect(existsSync(join(root, 'a.txt'))).toBe(false);
  void sink.write([{ data: '2' }]);
  void sink.write([{ data: '3' }]);
  await Promise.resolve();
  // Events of the same burst are written together.
  expect(read('a.txt')).toBe('1\n2\n3\n');
  void sink.write([{ data: '4' }]);
  await Promise.resolve();
  expect(read('a.txt')).toBe('1\n2\n3\n');
  await sink.close();
  expect(read('a.txt')).toBe('1\n2\n3\n4\n');
});

test('bursts of any size are written whole, also of characters of several bytes', async () => {
  const sink = await make({ path: 'a.txt', format: 'raw' });
  const list = [1, 60_000, 90_000, 5, 400_000, 1_200_000, 3].map((size) => '€'.repeat(size));
  for (const data of list) {
    void sink.write([{ data }]);
    for (let index = 0; index < 10; index++) void sink.write([{ data: 'ü' }]);
    await Promise.resolve();
  }
  const report = await sink.close();
  const expected = list.map((data) => `${data}\n${'ü\n'.repeat(10)}`).join('');
  expect(read('a.txt')).toBe(expected);
  const sha256 = createHash('sha256').update(expected).digest('hex');
  expect(report).toMatchObject({ delivered: 77, dropped: 0, file: { sha256 } });
});

test('a thread may write below its own folder without a right, and nowhere else', async () => {
  const context = contextOf({ threadId: 't_1', denied: true });
  const sink = await make({ path: '.ai/threads/{thread_id}/transcript.jsonl' }, context);
  void sink.write([{ data: '1' }]);
  await sink.close();
  expect(read('.ai/threads/t_1/transcript.jsonl')).toBe('1\n');
  for (const path of ['.ai/threads/t_2/x', '.ai/threads/t_1/../x', '.ai/threads/t_1', 'x']) {
    expect(await createFileSinkFactory(ownFolder)({ path }, context)).toMatchObject({
      error: { code: 'permission_denied', detail: { missing: 'fs.write' } },
    });
  }
});

test('a path with a thread id needs a harmless one', async () => {
  for (const threadId of [undefined, '../x', 'a/b', '']) {
    const context = contextOf(threadId === undefined ? {} : { threadId });
    expect(
      await createFileSinkFactory()({ path: 'logs/{thread_id}.jsonl' }, context),
    ).toMatchObject({
      error: { code: 'invalid_input' },
    });
  }
});

test('a path out of the project is refused, and a link is not followed', async () => {
  expect(await createFileSinkFactory()({ path: '../x' }, contextOf())).toMatchObject({
    error: { code: 'permission_denied' },
  });
  const sink = await make({ path: 'later.txt', flush_every: 1 });
  symlinkSync(join(root, '..', 'km-elsewhere'), join(root, 'later.txt'));
  void sink.write([{ data: 'x' }]);
  expect(await sink.close()).toMatchObject({ delivered: 0, dropped: 1 });
  expect(existsSync(join(root, '..', 'km-elsewhere'))).toBe(false);
});

test('a line that a crash cut off is not continued', async () => {
  writeFileSync(join(root, 'a.jsonl'), '{"a":1}\n{"b"');
  const sink = await make({ path: 'a.jsonl' });
  void sink.write([{ data: '{"c":3}' }]);
  await sink.close();
  expect(read('a.jsonl')).toBe('{"a":1}\n{"b"\n{"c":3}\n');
});

test('a write that takes only a part is continued', async () => {
  const oneByte: WriteSome = (fd, bytes, offset) => writeSync(fd, bytes, offset, 1);
  const sink = await make({ path: 'a.txt', format: 'raw' }, contextOf(), oneByte);
  void sink.write([{ data: 'häl😀' }]);
  expect(await sink.close()).toMatchObject({ delivered: 1, dropped: 0 });
  expect(read('a.txt')).toBe('häl😀\n');
});

test.each([
  ['takes nothing', () => 0],
  [
    'throws',
    () => {
      throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    },
  ],
])('a full disk that %s is reported and leaves only whole lines', async (_, full) => {
  let room = 12;
  const write: WriteSome = (fd, bytes, offset) => {
    const size = Math.min(room, bytes.length - offset);
    if (size === 0) return full();
    room -= size;
    return writeSync(fd, bytes, offset, size);
  };
  const sink = await make({ path: 'a.txt', format: 'raw', flush_every: 1 }, contextOf(), write);
  for (const data of ['12345678', 'abcdefgh', 'later']) void sink.write([{ data }]);
  const report = await sink.close();
  expect(report).toMatchObject({ delivered: 1, dropped: 2 });
  expect(report.error).toMatch(/^cannot write `a.txt`: /);
  expect(read('a.txt')).toBe('12345678\n');
});

test('a sink appends to what is there', async () => {
  appendFileSync(join(root, 'a.txt'), 'old\n');
  const sink = await make({ path: 'a.txt', format: 'raw' });
  void sink.write([{ data: 'new' }]);
  await sink.close();
  expect(read('a.txt')).toBe('old\nnew\n');
});

test('a stream without events leaves no file', async () => {
  const sink = await make({ path: 'a.txt' });
  expect(await sink.close()).toEqual({
    type: 'file_sink',
    delivered: 0,
    dropped: 0,
    path: 'a.txt',
  });
  expect(existsSync(join(root, 'a.txt'))).toBe(false);
});
