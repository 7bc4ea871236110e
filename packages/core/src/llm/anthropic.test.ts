import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createReader } from './reader.ts';

// A blank before an event means nothing, but it is not how a delta usually begins: with it every
// event is parsed as a whole.
const WAYS = ['', ' '] as const;

const PIECES = {
  text_delta: ['text', 'text'],
  input_json_delta: ['tool_use', 'partial_json'],
  thinking_delta: ['thinking', 'thinking'],
  signature_delta: ['thinking', 'signature'],
} as const;
type Type = keyof typeof PIECES;

const begin = (index: number, type: string): string =>
  JSON.stringify({
    type: 'content_block_start',
    index,
    content_block: { type, id: 'c', name: 'n' },
  });
const stop = (index: number): string => JSON.stringify({ type: 'content_block_stop', index });
const END = [
  '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
  '{"type":"message_stop"}',
];

function read(events: readonly string[], blank: string) {
  const pieces: string[] = [];
  const reader = createReader('anthropic', { onText: (piece) => pieces.push(piece) });
  const codes = events.map((data) => {
    const taken = reader.push({ data: blank + data });
    return taken.ok ? 'ok' : taken.error.code;
  });
  const reply = reader.end(true);
  return { pieces, codes, reply: reply.ok ? reply.output : reply.error.code };
}

const deltaText = (type: Type, middle: string, index = 0): string =>
  `{"type":"content_block_delta","index":${index},"delta":{"type":"${type}","${PIECES[type][1]}":"${middle}"}}`;

test('a delta is read the same the short way and the long way, whatever it says', () => {
  const type = fc.constantFrom(...(Object.keys(PIECES) as Type[]));
  // A JSON string, or anything that a server may put between two quotes.
  const middle = fc.oneof(
    fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text).slice(1, -1)),
    fc.constantFrom('\\', '"', '\\"', '","x":"', '"},"delta":{"text":"', '\\u0', '\n', '"}}', ''),
    fc.string(),
  );
  fc.assert(
    fc.property(type, fc.array(middle, { minLength: 1, maxLength: 6 }), (kind, middles) => {
      const deltas = middles.map((text) => deltaText(kind, text));
      const events = [begin(0, PIECES[kind][0]), ...deltas, stop(0), ...END];
      const [short, long] = WAYS.map((blank) => read(events, blank));
      expect(short).toEqual(long);
    }),
    { numRuns: runs(500) },
  );
});

test('blocks that are open at the same time, closed or begun again keep their own texts', () => {
  const event = fc.oneof(
    fc
      .tuple(fc.constantFrom(0, 1), fc.constantFrom('text', 'tool_use', 'other'))
      .map((a) => begin(...a)),
    fc.constantFrom(0, 1).map(stop),
    fc
      .tuple(
        fc.constantFrom<Type>('text_delta', 'input_json_delta'),
        fc.constantFrom('a', 'b'),
        fc.constantFrom(0, 1),
      )
      .map((a) => deltaText(...a)),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      const all = [begin(0, 'text'), ...events, ...END];
      const [short, long] = WAYS.map((blank) => read(all, blank));
      expect(short).toEqual(long);
    }),
    { numRuns: runs(500) },
  );
});

test('the size of a reply is bounded the short way too', () => {
  const reader = createReader('anthropic', { maxCharacters: 10 });
  reader.push({ data: begin(0, 'text') });
  const codes = ['1234', '5678', '90x'].map((piece) => {
    const taken = reader.push({ data: deltaText('text_delta', piece) });
    return taken.ok || taken.error.code;
  });
  expect(codes).toEqual([true, true, 'response_too_large']);
});
