import { createParser, type EventSourceMessage } from 'eventsource-parser';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StreamEvent } from './sink.ts';
import { createEventParser } from './sse.ts';
import { createPlainReader } from './sse-plain.ts';

function read(text: string, maxEvent = 1000) {
  const events: StreamEvent[] = [];
  const end = createPlainReader((event) => events.push(event), maxEvent)(text, 0);
  return { events, rest: text.slice(end) };
}

test('plain events are taken, named or not, up to the first that is not plain', () => {
  const plain = 'data: {"a":1}\n\nevent: x\ndata:2\n\nevent:x\ndata:  3\n\nevent: y\ndata:\n\n';
  expect(read(`${plain}id: 7\ndata: 5\n\ndata: 6\n\n`)).toEqual({
    events: [
      { data: '{"a":1}' },
      { event: 'x', data: '2' },
      { event: 'x', data: ' 3' },
      { event: 'y', data: '' },
    ],
    rest: 'id: 7\ndata: 5\n\ndata: 6\n\n',
  });
});

test.each([
  '',
  '\n',
  'data: x',
  'data: x\n',
  'data: x\ndata: y\n\n',
  'data\n\n',
  'database: x\n\n',
  'event:\ndata: x\n\n',
  'event: \ndata: x\n\n',
  'event: x\n\ndata: x\n\n',
  'event: x\nid: 1\ndata: x\n\n',
  'data: x\nevent: x\n\n',
  ': comment\n\n',
])('%j is left to the library', (text) => {
  expect(read(text)).toEqual({ events: [], rest: text });
});

test('what is longer than the limit is not taken', () => {
  expect(read('event: 1234\ndata: 1234\n\n', 4).events).toHaveLength(1);
  expect(read('data: 12345\n\n', 4).events).toEqual([]);
  expect(read('event: 12345\ndata: 1\n\n', 4).events).toEqual([]);
});

test('names that never come twice end the search before it costs too much', () => {
  const names = Array.from(
    { length: 2000 },
    (_, index) => `event: n${10_000 + index}\ndata: x\n\n`,
  );
  const { events, rest } = read(names.join(''));
  expect(events.length).toBeLessThan(20);
  expect(rest.startsWith('event: n100')).toBe(true);
});

const name = fc.constantFrom('delta', 'ping', 'content_block_delta', ' two', 'é', '');
const data = fc.oneof(
  fc.json(),
  fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => text.replace(/[\r\n]/g, '')),
);
const part = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(name, data).map(([a, b]) => `event: ${a}\ndata: ${b}\n\n`) },
  { weight: 6, arbitrary: data.map((text) => `data:${text}\n\n`) },
  fc.tuple(data, data).map(([a, b]) => `data: ${a}\ndata: ${b}\n\n`),
  fc.constantFrom(': hi\n', '\n', 'id: 1\n', 'event: late\n', 'data', 'x', 'data: a\r\n\r\n', '\r'),
);
const stream = fc
  .tuple(fc.constantFrom('', '\uFEFF'), fc.array(part, { maxLength: 25 }))
  .map(([mark, parts]) => mark + parts.join(''));
const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 60 });

function throughLibrary(text: string): StreamEvent[] {
  const events: StreamEvent[] = [];
  const onEvent = ({ event, data, id }: EventSourceMessage) =>
    events.push({
      data,
      ...(event !== undefined && { event }),
      ...(id !== undefined && { id }),
    });
  createParser({ onEvent }).feed(text);
  return events;
}

test('the short way and the library read the same, whatever the chunking', () => {
  fc.assert(
    fc.property(stream, sizes, (text, lengths) => {
      const bytes = Buffer.from(text);
      const events: StreamEvent[] = [];
      const parser = createEventParser((event) => events.push(event));
      let at = 0;
      for (const length of lengths) parser.push(bytes.subarray(at, (at += length)));
      parser.push(bytes.subarray(at));
      expect(events).toEqual(throughLibrary(bytes.toString()));
    }),
    { numRuns: 3000 },
  );
});
