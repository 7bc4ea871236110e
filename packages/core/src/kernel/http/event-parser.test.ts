import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StreamEvent } from '../sink.ts';
import { createEventParser } from './event-parser.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);

function parse(chunks: readonly Uint8Array[], maxEvent?: number) {
  const events: StreamEvent[] = [];
  const parser = createEventParser((event) => events.push(event), maxEvent);
  const codes = chunks.map((chunk) => parser.push(chunk));
  const failed = codes.find((code) => !code.ok);
  return { events, failed, ...parser.end(), retryMs: parser.retryMs };
}

function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let at = 0;
  for (const size of sizes) {
    chunks.push(bytes.subarray(at, at + size));
    at = Math.min(bytes.length, at + size);
  }
  return [...chunks, bytes.subarray(at)];
}

test('event, id, multi-line data, retry and comments are read as the format says', () => {
  const text =
    ': hello\nretry: 1500\nevent: delta\nid: 7\ndata: one\ndata:two\ndata\n\n' +
    'data: {"a":1}\r\n\r\nid: only\n\ndata:  kept blank\r\rnonsense: x\ndata: last\n\n';
  const result = parse([bytesOf(text)]);
  expect(result.events).toEqual([
    { event: 'delta', id: '7', data: 'one\ntwo\n' },
    { data: '{"a":1}' },
    { data: ' kept blank' },
    { data: 'last' },
  ]);
  expect(result).toMatchObject({ retryMs: 1500, unfinished: false, failed: undefined });
});

test('a byte order mark at the beginning is not part of the first field', () => {
  expect(parse([bytesOf('\uFEFFdata: x\n\n')]).events).toEqual([{ data: 'x' }]);
  expect(parse(cut(bytesOf('\uFEFFdata: x\n\n'), [1, 1, 1])).events).toEqual([{ data: 'x' }]);
});

const line = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('data: ', 'data:', 'data', 'event: ', 'id:', 'retry: ', ':', 'x', ''),
      fc.string({ unit: 'grapheme', maxLength: 12 }),
    )
    .map(([field, value]) => field + value.replace(/[\r\n]/g, '')),
  fc.constant(''),
  fc.constant('data: ok'),
);
const stream = fc
  .array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 30 })
  .map((lines) => bytesOf(lines.map(([text, end]) => text + end).join('')));
const sizes = fc.array(fc.nat(7), { maxLength: 200 });

test('any chunking of a stream gives the same events and the same end', () => {
  fc.assert(
    fc.property(stream, sizes, (bytes, at) => {
      const [whole, parts] = [parse([bytes]), parse(cut(bytes, at))];
      expect(parts.events).toEqual(whole.events);
      expect(parts.unfinished).toBe(whole.unfinished);
      expect(parts.retryMs).toBe(whole.retryMs);
    }),
    { numRuns: runs(1000) },
  );
});

test('any chunking of garbage gives the same events, as if it had been decoded whole', () => {
  const noise = fc.array(
    fc.oneof(
      fc.uint8Array({ maxLength: 6 }),
      fc.constantFrom('data: ', '\n\n', 'é', '😀', '\uFEFF').map(bytesOf),
      fc
        .constantFrom([0xf0, 0x9f], [0xe0, 0x80], [0xed, 0xa0, 0x80], [0xc3])
        .map((list) => Uint8Array.from(list)),
    ),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(noise, sizes, (parts, at) => {
      const bytes = Buffer.concat([bytesOf('data: '), ...parts, bytesOf('\n\n')]);
      const decoded = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
      const expected = parse([bytesOf(decoded)]).events;
      expect(parse(cut(bytes, at)).events).toEqual(expected);
      expect(parse([bytes]).events).toEqual(expected);
    }),
    { numRuns: runs(1000) },
  );
});

test('the limit for an event does not depend on the chunking', () => {
  fc.assert(
    fc.property(fc.integer({ min: 90, max: 110 }), sizes, (length, at) => {
      const bytes = bytesOf(`event: e\nid: 1\ndata: ${'x'.repeat(length)}\n\n`);
      const result = parse(cut(bytes, at), 100);
      expect(result.events.length).toBe(length <= 100 ? 1 : 0);
      expect(result.failed === undefined).toBe(length <= 100);
    }),
  );
});

test('an event of 100 MB is refused while little of it is held', () => {
  const piece = Buffer.alloc(100_000, 'x');
  const events: StreamEvent[] = [];
  const parser = createEventParser((event) => events.push(event), 1_000_000);
  parser.push(bytesOf('data: first\n\ndata: '));
  let accepted = 0;
  for (let sent = 0; sent < 1000; sent++) if (parser.push(piece).ok) accepted++;
  expect(parser.push(bytesOf('\n\n'))).toMatchObject({ error: { code: 'response_too_large' } });
  expect(events).toEqual([{ data: 'first' }]);
  expect(accepted).toBeLessThanOrEqual(10);
});

test.each(['data: ', 'event: ', 'id: '])('an endless `%s` line is refused', (field) => {
  const parser = createEventParser(() => {}, 10_000);
  const piece = Buffer.alloc(1000, 'y');
  parser.push(bytesOf(field));
  let refused = false;
  for (let sent = 0; sent < 20; sent++) refused ||= !parser.push(piece).ok;
  expect(refused).toBe(true);
});

test('one huge chunk meets the same limit as many small ones', () => {
  const bytes = bytesOf(`data: ${'z'.repeat(300_000)}\n\n`);
  expect(parse([bytes], 100_000).failed).toMatchObject({ error: { code: 'response_too_large' } });
});

test('endless data lines without a blank line are refused', () => {
  const parser = createEventParser(() => {}, 1000);
  let refused = false;
  for (let sent = 0; sent < 600; sent++) refused ||= !parser.push(bytesOf('data:x\n')).ok;
  expect(refused).toBe(true);
});

test.each([
  ['data: x\n\n', false],
  ['', false],
  ['data: x\n\n: bye\n', false],
  ['data: x\n\n: by', true],
  ['data: x\n', true],
  ['data: x', true],
  ['dat', true],
  ['event: e\n', true],
  ['id: 1\r', true],
  ['data: x\r\n\r\n', false],
  ['data: x\r\r', false],
])('after %j an event is unfinished: %s', (text, unfinished) => {
  expect(parse([bytesOf(text)]).unfinished).toBe(unfinished);
});
