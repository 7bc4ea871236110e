import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  closePayload,
  createFrameReader,
  encodeFrame,
  type Message,
  OPCODES,
} from './websocket-frames.ts';

/** A frame as a server sends it. */
function frame(opcode: number, payload: Uint8Array | string, fin = true): Buffer {
  const bytes = Buffer.from(payload as string);
  const { length } = bytes;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = (fin ? 0x80 : 0) | opcode;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, bytes]);
}

function readAll(
  chunks: readonly Buffer[],
  max = 1_000_000,
): ReturnType<ReturnType<typeof createFrameReader>['push']> {
  const reader = createFrameReader(max);
  const messages: Message[] = [];
  for (const chunk of chunks) {
    const { messages: more, failure } = reader.push(chunk);
    messages.push(...more);
    if (failure) return { messages, failure };
  }
  return { messages };
}

test('what we send is masked, whole and readable for a server', () => {
  for (const length of [0, 1, 125, 126, 65_535, 65_536, 70_000]) {
    const payload = Buffer.alloc(length, 'abc');
    const sent = encodeFrame(OPCODES.text, payload, Uint8Array.from([1, 2, 3, 4]));
    expect((sent[1] as number) & 0x80).toBe(0x80);
    const start = sent.length - length;
    const plain = sent.subarray(start).map((byte, at) => byte ^ ((at & 3) + 1));
    expect(Buffer.from(plain).equals(payload)).toBe(true);
  }
});

const message = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 300 }).map((text) => ({ kind: 'text' as const, text })),
  fc.string({ maxLength: 100 }).map((text) => ({ kind: 'ping' as const, text })),
  fc.nat(200).map((size) => ({ kind: 'binary' as const, size })),
);

test('messages survive any fragmentation and any chunking', () => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 10 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 60 }),
      (list, sizes) => {
        const frames = list.flatMap((item, index) => {
          if (item.kind === 'ping') return [frame(OPCODES.ping, item.text)];
          if (item.kind === 'binary') return [frame(OPCODES.binary, Buffer.alloc(item.size))];
          const bytes = Buffer.from(item.text);
          const at = bytes.length === 0 ? 0 : (index * 7) % bytes.length;
          return [
            frame(OPCODES.text, bytes.subarray(0, at), false),
            frame(OPCODES.pong, ''),
            frame(OPCODES.continuation, bytes.subarray(at)),
          ];
        });
        const wire = Buffer.concat(frames);
        const chunks: Buffer[] = [];
        let from = 0;
        for (const size of sizes) chunks.push(wire.subarray(from, (from += size)));
        const { messages, failure } = readAll([...chunks, wire.subarray(from)]);
        expect(failure).toBeUndefined();
        expect(messages.filter(({ kind }) => kind !== 'pong')).toEqual(
          list.map((item) =>
            item.kind === 'ping' ? { kind: 'ping', payload: Buffer.from(item.text) } : item,
          ),
        );
      },
    ),
  );
});

test('no bytes make the reader throw', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 30 })), (chunks) => {
      readAll(chunks.map((chunk) => Buffer.from(chunk)));
    }),
  );
});

test.each([
  ['reserved bits', Buffer.from([0xc1, 0])],
  ['a masked frame', Buffer.from([0x81, 0x80, 0, 0, 0, 0])],
  ['an unknown opcode', Buffer.from([0x83, 0])],
  ['a fragmented ping', Buffer.from([0x09, 0])],
  ['a long ping', Buffer.concat([Buffer.from([0x89, 126, 0, 200]), Buffer.alloc(200)])],
  ['a continuation of nothing', frame(OPCODES.continuation, 'x')],
  ['a message inside another', Buffer.concat([frame(1, 'a', false), frame(1, 'b')])],
  ['invalid UTF-8', frame(OPCODES.text, Buffer.from([0xff]))],
  ['half a close code', frame(OPCODES.close, Buffer.from([3]))],
])('%s is refused', (_, bytes) => {
  expect(readAll([bytes])).toMatchObject({
    messages: [],
    failure: { error: { code: 'network_error' } },
  });
});

test('a message that announces too much is refused before it arrives', () => {
  for (const size of [200n, 2n ** 40n, 2n ** 63n]) {
    const head = Buffer.alloc(10);
    head.set([0x81, 127]);
    head.writeBigUInt64BE(size, 2);
    expect(readAll([head], 100)).toMatchObject({
      failure: { error: { code: 'response_too_large' } },
    });
  }
  const part = frame(OPCODES.text, 'x'.repeat(60), false);
  expect(readAll([part, frame(OPCODES.continuation, 'x'.repeat(60))], 100)).toMatchObject({
    failure: { error: { code: 'response_too_large' } },
  });
});

test('a close is read with its code and reason', () => {
  expect(readAll([frame(OPCODES.close, closePayload(1011, 'oops'))]).messages).toEqual([
    { kind: 'close', code: 1011, reason: 'oops' },
  ]);
  expect(readAll([frame(OPCODES.close, '')]).messages).toMatchObject([{ code: 1005 }]);
});
