import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createUnframer, type Framing } from './http-framing.ts';
import { framingOf, isPersistent, keptFor, parseHead } from './http-head.ts';

/** What comes out of a body when the connection brings these bytes and closes; 'cut' if it was not whole. */
function bodyOf(framing: Framing, chunks: readonly Uint8Array[]): string {
  const unframer = createUnframer(framing);
  const parts: Buffer[] = [];
  try {
    // Works in place, so what comes out is looked at before the next bytes go in.
    for (const chunk of chunks) parts.push(Buffer.from(unframer.take(Buffer.from(chunk))));
  } catch (error) {
    return `bad: ${(error as Error).message}`;
  }
  const text = Buffer.concat(parts).toString('latin1');
  return unframer.isDone() || framing.kind === 'close' ? text : 'cut';
}

const chunked: Framing = { kind: 'chunked' };
const bytes = (text: string) => Buffer.from(text, 'latin1');

test('chunks come out joined, whatever the borders', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 40 }),
      fc.constantFrom('', ';ext=1', ' '),
      (parts, sizes, extension) => {
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
        const result = bodyOf(chunked, [...pieces, wire.subarray(at)]);
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
])('the frame %j is refused', (text) => {
  expect(bodyOf(chunked, [bytes(text.slice(0, 30_000))])).toMatch(/^bad: /);
});

test('a body that is shorter than announced was cut, one without length ends with the connection', () => {
  expect(bodyOf(chunked, [bytes('3\r\nabc\r\n')])).toBe('cut');
  expect(bodyOf({ kind: 'length', length: 4 }, [bytes('abc')])).toBe('cut');
  expect(bodyOf({ kind: 'length', length: 2 }, [bytes('abc')])).toBe('ab');
  expect(bodyOf({ kind: 'length', length: 0 }, [])).toBe('');
  expect(bodyOf({ kind: 'close' }, [bytes('abc')])).toBe('abc');
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
  const head = { status: 200, headers: headers as Record<string, string> };
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
  const head = { status: 200, headers: headers as Record<string, string> };
  expect(typeof framingOf(head, 'GET')).toBe('string');
});

test('bytes behind a body are noticed: then nobody knows what the connection says next', () => {
  for (const [framing, text] of [
    [chunked, '1\r\na\r\n0\r\n\r\n'],
    [{ kind: 'length', length: 3 }, 'abc'],
  ] as const) {
    for (const more of ['', 'x', 'HTTP/1.1 200 OK']) {
      const unframer = createUnframer(framing);
      unframer.take(bytes(text + more));
      expect([unframer.isDone(), unframer.hasExtra()]).toEqual([true, more !== '']);
    }
  }
});

test.each([
  ['HTTP/1.1 200 OK', true],
  ['HTTP/1.1 200 OK\r\nConnection: keep-alive', true],
  ['HTTP/1.1 200 OK\r\nConnection: close', false],
  ['HTTP/1.1 200 OK\r\nConnection: x, Close', false],
  ['HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close', false],
  ['HTTP/1.0 200 OK\r\nConnection: keep-alive', false],
  ['HTTP/1.1 101 Switching', false],
])('after %j another request may follow: %s', (text, may) => {
  const head = parseHead(text);
  if (typeof head === 'string') throw new Error(head);
  expect(isPersistent(head, chunked)).toBe(may);
  expect(isPersistent(head, { kind: 'close' })).toBe(false);
});

test.each([
  ['timeout=5', 5000],
  ['max=100, timeout=5', 5000],
  ['timeout=0', 0],
  ['max=3', undefined],
  ['timeout=x', undefined],
])('the header keep-alive %j means %s', (text, ms) => {
  expect(keptFor({ headers: { 'keep-alive': text } })).toBe(ms);
});
