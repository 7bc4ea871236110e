import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { capture, truncationMark } from './output.ts';

const folder = mkdtempSync(join(tmpdir(), 'km-output-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;
const nextFile = () => join(folder, 'made', `${count++}.txt`);
const stream = (...chunks: string[]) => Readable.from(chunks.map((text) => Buffer.from(text)));

test('what fits is kept whole and makes no file', async () => {
  const file = nextFile();
  const got = await capture(stream('ab', 'c'), { maxBytes: 3, secrets: [], file: () => file });
  expect(got).toEqual({ text: 'abc', bytes: 3, truncated: false, lost: 0 });
  expect(truncationMark('stdout', got, '/')).toEqual({});
  expect(existsSync(file)).toBe(false);
});

test('what does not fit is in the file from the first byte on', async () => {
  const file = nextFile();
  const got = await capture(stream('ab', 'cd', 'ef'), {
    maxBytes: 3,
    secrets: [],
    file: () => file,
  });
  expect(got).toEqual({ text: 'abc', bytes: 6, truncated: true, lost: 0, file });
  expect(readFileSync(file, 'utf8')).toBe('abcdef');
});

test('whoever listens hears every piece as text, without secrets, before the next one', async () => {
  const heard: string[] = [];
  const onText = (text: string) => void heard.push(text);
  const pieces = [Buffer.from('on\u00e9').subarray(0, 3), Buffer.from('on\u00e9!').subarray(3)];
  const got = await capture(
    Readable.from([...pieces, Buffer.from(' tok'), Buffer.from('en12 x')]),
    {
      maxBytes: 4,
      secrets: ['token12'],
      onText,
    },
  );
  expect(heard.join('')).toBe('on\u00e9! [secret] x');
  expect(heard[0]).toBe('on');
  expect(got.text).toBe('on\u00e9');
});

test('without a file, or with one that cannot be made, the loss is counted', async () => {
  const options = { maxBytes: 2, secrets: [] };
  expect(await capture(stream('abcd'), options)).toMatchObject({ text: 'ab', lost: 2 });
  const got = await capture(stream('abcd'), { ...options, file: () => '/dev/null/no/place' });
  expect(got).toMatchObject({ text: 'ab', truncated: true, lost: 2 });
  expect(truncationMark('stdout', got, '/')).toEqual({ stdout: { bytes: 4, lost: 2 } });
});

test('a file has a limit too', async () => {
  const file = nextFile();
  const options = { maxBytes: 1, secrets: [], file: () => file, maxFileBytes: 4 };
  const got = await capture(stream('ab', 'cd', 'ef'), options);
  expect(got).toMatchObject({ bytes: 6, lost: 2 });
});

test('half a character at the cut is not shown', async () => {
  const got = await capture(stream('aé'), { maxBytes: 2, secrets: [] });
  expect(got.text).toBe('a');
});

test('a stream that breaks ends there', async () => {
  const broken = Readable.from(
    (async function* () {
      yield Buffer.from('so far');
      throw new Error('cut');
    })(),
  );
  expect(await capture(broken, { maxBytes: 99, secrets: [] })).toMatchObject({ text: 'so far' });
});

test('the file or the text holds everything, however it was cut into chunks', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string()), fc.nat(30), async (chunks, maxBytes) => {
      const file = nextFile();
      const got = await capture(stream(...chunks), { maxBytes, secrets: [], file: () => file });
      const all = chunks.join('');
      expect(got.bytes).toBe(Buffer.byteLength(all));
      expect(got.file ? readFileSync(got.file, 'utf8') : got.text).toBe(all);
    }),
    { numRuns: runs(100) },
  );
});
