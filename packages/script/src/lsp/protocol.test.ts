import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFraming, frame } from './protocol.ts';

const MAX_MESSAGE = 32 * 1024 * 1024;

function read(chunks: readonly Uint8Array[]): { taken: string[]; complaints: string[] } {
  const taken: string[] = [];
  const complaints: string[] = [];
  const framing = createFraming(
    (text) => taken.push(text),
    (why) => complaints.push(why),
  );
  for (const chunk of chunks) framing.push(chunk);
  return { taken, complaints };
}

const bytes = (text: string): Uint8Array => Buffer.from(text);

test('where the stream was cut does not matter', () => {
  const cut = fc.array(fc.nat({ max: 400 }), { maxLength: 12 });
  const messages = fc.array(fc.jsonValue(), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(messages, cut, (values, places) => {
      const whole = Buffer.from(values.map((value) => frame(value)).join(''));
      const at = [0, ...places.map((place) => place % whole.length), whole.length].sort(
        (a, b) => a - b,
      );
      const chunks = at.slice(1).map((end, index) => whole.subarray(at[index], end));
      expect(read(chunks).taken).toEqual(values.map((value) => JSON.stringify(value)));
    }),
  );
});

test('a header without a length is passed over, and the next message is read', () => {
  const { taken, complaints } = read([bytes(`Content-Type: x\r\n\r\n${frame(1)}`)]);
  expect(taken).toEqual(['1']);
  expect(complaints).toHaveLength(1);
});

test('a message that is too long is passed over without being kept', () => {
  const huge = `Content-Length: ${MAX_MESSAGE + 1}\r\n\r\n`;
  const filler = Buffer.alloc(1024 * 1024, 'x');
  const rest = (MAX_MESSAGE + 1) % filler.length;
  const chunks = [
    bytes(huge),
    ...Array.from({ length: Math.floor((MAX_MESSAGE + 1) / filler.length) }, () => filler),
    filler.subarray(0, rest),
    bytes(frame({ ok: true })),
  ];
  const { taken, complaints } = read(chunks);
  expect(taken).toEqual(['{"ok":true}']);
  expect(complaints).toHaveLength(1);
});

test('garbage without any header is not kept', () => {
  const { taken, complaints } = read([
    Buffer.alloc(100_000, 'x'),
    bytes('\r\n\r\n'),
    bytes(frame('after')),
  ]);
  expect(taken).toEqual(['"after"']);
  expect(complaints.length).toBeGreaterThan(0);
});

test('no bytes make it fail', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (chunks) => void read(chunks)),
  );
});
