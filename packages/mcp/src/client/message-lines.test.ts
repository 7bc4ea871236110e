import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLineReader, idOfAnswer } from './message-lines.ts';

/** Reads a text that arrives in these pieces. */
function readIn(pieces: readonly string[], maxBytes: number) {
  const lines: string[] = [];
  const long: string[] = [];
  const read = createLineReader(maxBytes, {
    line: (text) => lines.push(text),
    long: (head, tail, isOver) => long.push(`${head.slice(0, 3)}…${tail.slice(-3)} ${isOver}`),
  });
  for (const piece of pieces) read(Buffer.from(piece));
  return { lines, long };
}

test('where the pieces are cut does not matter', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'é', '{', '\n', ' '), maxLength: 40 });
  fc.assert(
    fc.property(fc.array(word), (pieces) => {
      const whole = readIn([pieces.join('')], 16);
      expect(readIn(pieces, 16)).toEqual(whole);
    }),
  );
});

test('a line that is too long is told by both ends, and the next one is read', () => {
  const { lines, long } = readIn([`abc${'x'.repeat(50)}`, 'xyz\nnext\n'], 16);
  expect(long).toEqual(['abc…xyz false']);
  expect(lines).toEqual(['next']);
});

test('a line without end is told of while it comes', () => {
  const { long } = readIn(['abc', 'x'.repeat(500)], 16);
  expect(long).toEqual(['abc…xxx true']);
});

test.each([
  ['{"jsonrpc":"2.0","id":7,"result":{"con', '…"}]}}', 7],
  ['{"id": "a-1", "result":', '}}', 'a-1'],
  ['{"result":{"content":[', ']},"jsonrpc":"2.0","id":12}', 12],
  ['{"result":{"content":[', ']},"id":12,"jsonrpc":"2.0"}', 12],
  ['{"result":{"id":3,"content":[', ']}}', undefined],
  ['no message', 'at all', undefined],
])('whose answer it is: %s … %s', (head, tail, id) => {
  expect(idOfAnswer(head, tail)).toBe(id);
});
