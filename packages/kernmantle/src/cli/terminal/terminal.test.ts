import { Writable } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import { createOutput } from './output.ts';
import { createTerminal, visible } from './terminal.ts';

/** Returns a stream that accepts every write, or fails with this code. */
function sink() {
  const written: string[] = [];
  const state: { code?: string } = {};
  const stream = new Writable({
    decodeStrings: false,
    autoDestroy: false,
    write(chunk: string, _encoding, done) {
      if (state.code !== undefined) return done(Object.assign(new Error('no'), state));
      written.push(chunk);
      done();
    },
  });
  return { stream, written, state };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
afterEach(() => vi.restoreAllMocks());

test('a reader that went away is no loss, and nothing more is written to it', async () => {
  const [out, err, onLoss] = [sink(), sink(), vi.fn()];
  const output = createOutput(out.stream, err.stream, onLoss);
  output.out('one');
  out.state.code = 'EPIPE';
  output.out('two');
  await settled();
  output.out('three');
  output.err('still heard');
  expect(output.closed.aborted).toBe(true);
  expect([out.written, err.written]).toEqual([['one'], ['still heard']]);
  expect(onLoss).not.toHaveBeenCalled();
});

test('a full disk is said once, on the other stream', async () => {
  const [out, err, onLoss] = [sink(), sink(), vi.fn()];
  const output = createOutput(out.stream, err.stream, onLoss);
  out.state.code = 'ENOSPC';
  output.out('one');
  await settled();
  output.out('two');
  await settled();
  expect(onLoss).toHaveBeenCalledOnce();
  expect(err.written).toEqual([expect.stringContaining('ENOSPC')]);
});

test('messages that cannot be written are no reason to stop', async () => {
  const [out, err, onLoss] = [sink(), sink(), vi.fn()];
  const output = createOutput(out.stream, err.stream, onLoss);
  err.state.code = 'ENOSPC';
  output.err('one');
  await settled();
  output.err('two');
  output.out('data');
  expect([out.written, output.closed.aborted]).toEqual([['data'], false]);
  expect(onLoss).not.toHaveBeenCalled();
});

test('control characters and what turns the direction of writing can be seen', () => {
  expect(visible('a\u001b]0;x\u0007b\tc\nd')).toBe('a\\u001b]0;x\\u0007b\tc\nd');
  for (const char of '\u009b\u200e\u200f\u061c\u202e\u2066') {
    expect(visible(`a${char}b`)).toBe(`a\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}b`);
  }
  expect(visible('naïve → 日本語 👩‍💻')).toBe('naïve → 日本語 👩‍💻');
});

test.each([
  [true, '\\u001b[31mred'],
  [false, '\u001b[31mred'],
])('what a script prints reaches a terminal without its escapes (%s)', (isTTY, shown) => {
  vi.spyOn(process, 'stdout', 'get').mockReturnValue({ isTTY } as never);
  vi.spyOn(process, 'stderr', 'get').mockReturnValue({ isTTY } as never);
  const [out, err] = [sink(), sink()];
  const terminal = createTerminal(
    false,
    createOutput(out.stream, err.stream, () => {}),
  );
  terminal.print('out', '\u001b[31mred');
  terminal.print('err', '\u001b[31mred');
  expect([out.written, err.written]).toEqual([[shown], [shown]]);
});
