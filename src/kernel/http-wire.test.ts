import { once } from 'node:events';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFraming, type Framing } from './http-framing.ts';
import { framingOf, parseHead } from './http-wire.ts';

/** What comes out of a body when the connection brings these bytes and closes; 'cut' if it was not whole. */
async function bodyOf(framing: Framing, chunks: readonly Uint8Array[]): Promise<string> {
  const body = createFraming(framing);
  const parts: Buffer[] = [];
  body.on('data', (part: Buffer) => parts.push(part));
  const ended = once(body, 'end');
  ended.catch(() => {});
  for (const chunk of chunks) body.write(Buffer.from(chunk));
  body.end();
  try {
    await ended;
  } catch (error) {
    return `cut: ${(error as NodeJS.ErrnoException).code}`;
  }
  return Buffer.concat(parts).toString('latin1');
}

const chunked: Framing = { kind: 'chunked' };
const bytes = (text: string) => Buffer.from(text, 'latin1');

test('chunks come out joined, whatever the borders', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 40 }),
      fc.constantFrom('', ';ext=1', ' '),
      async (parts, sizes, extension) => {
        const frames = parts.map((part) =>
          Buffer.concat([
            bytes(`${part.length.toString(16)}${extension}\r\n`),
            part,
            bytes('\r\n'),
          ]),
        );
        const wire = Buffer.concat([...frames, bytes('0\r\nTrailer: x\r\n\r\n')]);
        const pieces: Buffer[] = [];
        let at = 0;
        for (const size of sizes) pieces.push(wire.subarray(at, (at += size)));
        const result = await bodyOf(chunked, [...pieces, wire.subarray(at)]);
        expect(result).toBe(Buffer.concat(parts).toString('latin1'));
      },
    ),
    { numRuns: 300 },
  );
});

test.each([
  'x\r\n',
  '\r\n',
  'fffffffff\r\n',
  '2\r\nabc\r\n',
  '-1\r\n',
  `1;${'e'.repeat(20_000)}\r\n`,
])('the frame %j is refused', async (text) => {
  expect(await bodyOf(chunked, [bytes(text.slice(0, 30_000))])).toBe('cut: BAD_CHUNK');
});

test('a body that is shorter than announced was cut, one without length ends with the connection', async () => {
  expect(await bodyOf(chunked, [bytes('3\r\nabc\r\n')])).toBe('cut: ECONNRESET');
  expect(await bodyOf({ kind: 'length', length: 4 }, [bytes('abc')])).toBe('cut: ECONNRESET');
  expect(await bodyOf({ kind: 'length', length: 2 }, [bytes('abc')])).toBe('ab');
  expect(await bodyOf({ kind: 'length', length: 0 }, [])).toBe('');
  expect(await bodyOf({ kind: 'close' }, [bytes('abc')])).toBe('abc');
});

test('a head is read, several values of one name are joined', () => {
  expect(parseHead('HTTP/1.1 200 OK\r\nA:  1 \r\na: 2\r\nX-Empty:')).toMatchObject({
    status: 200,
    statusText: 'OK',
    headers: { a: '1, 2', 'x-empty': '' },
  });
  expect(parseHead('HTTP/1.0 404')).toMatchObject({ status: 404, statusText: '' });
});

test.each([
  '',
  'HTTP/2 200 OK',
  'HTTP/1.1 99 x',
  'HTTP/1.1 200 OK\r\nno colon',
  'HTTP/1.1 200 OK\r\n folded: x',
  'HTTP/1.1 200 OK\r\na: b\u0000',
  'HTTP/1.1 200 OK\r\na: b\nc: d',
  'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2',
])('the head %j is refused', (text) => {
  expect(typeof parseHead(text)).toBe('string');
});

test('no head makes the parser throw', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (first, second) => {
      parseHead(first);
      parseHead(`HTTP/1.1 200 OK\r\n${first}: ${second}`);
    }),
  );
});

test.each([
  [{ 'transfer-encoding': 'Chunked' }, { kind: 'chunked' }],
  [{ 'content-length': '12' }, { kind: 'length', length: 12 }],
  [{}, { kind: 'close' }],
])('headers %j say how the body ends', (headers, framing) => {
  const head = { status: 200, statusText: '', headers: headers as Record<string, string> };
  expect(framingOf(head, 'GET')).toEqual(framing);
  expect(framingOf({ ...head, status: 204 }, 'GET')).toEqual({ kind: 'length', length: 0 });
  expect(framingOf(head, 'HEAD')).toEqual({ kind: 'length', length: 0 });
});

test.each([
  { 'transfer-encoding': 'gzip, chunked' },
  { 'transfer-encoding': 'chunked', 'content-length': '5' },
  { 'content-length': '-5' },
  { 'content-length': '5, 6' },
])('headers %j are refused', (headers) => {
  const head = { status: 200, statusText: '', headers: headers as Record<string, string> };
  expect(typeof framingOf(head, 'GET')).toBe('string');
});
