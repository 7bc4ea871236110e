import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../base/index.ts';
import type { ObservedCall } from '../thread/thread.ts';
import { createLoopDetector, loopFault } from './loop-detector.ts';

const call = (tool: string, args: Json, more: Partial<ObservedCall> = {}): ObservedCall => ({
  tool,
  arguments: args,
  ...more,
});
const read = (path: string) => call('fs/read_file', { path });

/** Returns the pattern that was found at each call. */
function patterns(calls: readonly ObservedCall[], detector = createLoopDetector()) {
  return calls.map((each) => detector.observe(each)?.pattern ?? '-');
}

test('the same call three times within five is a loop', () => {
  expect(patterns([read('a'), read('a'), read('a')])).toEqual(['-', '-', 'repeated']);
  expect(patterns([read('a'), read('b'), read('a'), read('c'), read('a')]).at(-1)).toBe('repeated');
  expect(
    patterns([read('a'), read('b'), read('c'), read('a'), read('d'), read('e'), read('a')]),
  ).not.toContain('repeated');
});

test('another call after a loop is no loop', () => {
  expect(patterns([read('a'), read('a'), read('a'), read('b')])).toEqual([
    '-',
    '-',
    'repeated',
    '-',
  ]);
});

test('going on with the loop is found again', () => {
  expect(patterns([read('a'), read('a'), read('a'), read('b'), read('a')]).at(-1)).toBe('repeated');
});

test('the order of arguments does not matter, the tool does', () => {
  const one = call('t', { a: 1, b: [{ x: 1, y: 2 }] });
  const two = call('t', { b: [{ y: 2, x: 1 }], a: 1 });
  expect(patterns([one, two, one]).at(-1)).toBe('repeated');
  expect(patterns([one, call('u', { a: 1, b: [{ x: 1, y: 2 }] }), one])).not.toContain('repeated');
});

test('two calls that take turns are a loop', () => {
  const list = call('fs/list_dir', { path: '.' });
  expect(patterns([read('a'), list, read('a'), list])).toEqual(['-', '-', '-', 'alternating']);
  expect(patterns([read('a'), list, read('b'), list])).not.toContain('alternating');
});

test('four of five nearly equal calls of one tool are a loop', () => {
  const search = (pattern: string) => call('fs/grep', { pattern, path: 'src' });
  const calls = [search('a'), search('b'), read('x'), search('c'), search('d')];
  expect(patterns(calls)).toEqual(['-', '-', '-', '-', 'similar']);
  const two = (pattern: string, path: string) => call('fs/grep', { pattern, path });
  expect(patterns([two('a', '1'), two('b', '2'), two('c', '3'), two('d', '4')])).not.toContain(
    'similar',
  );
});

test('reading one file after another is no loop: nothing of the calls is the same', () => {
  expect(patterns(['a', 'b', 'c', 'd', 'e', 'f'].map(read))).not.toContain('similar');
});

test('calls made at once are one attempt', () => {
  const spawn = (n: number, turn: number) =>
    call('threads/thread_directive', { directive_name: 'x', inputs: { n } }, { turn });
  expect(patterns([1, 2, 3, 4, 5].map((n) => spawn(n, 1)))).toEqual(Array(5).fill('-'));
  expect(patterns([1, 2, 3, 4].map((n) => spawn(n, n))).at(-1)).toBe('similar');
});

test('volatile parameters, times and ids beside other arguments are ignored', () => {
  const noise: Json[][] = [
    ['2026-01-01T10:00:00Z', '2026-01-01T10:00:01.5+02:00', '2026-01-02 09:00'],
    [1767261600, 1767261601, 1767261602000],
    ['1767261600', '1767261601', '1767261602'],
    [
      '0b8f0c0e-6a2e-4f57-9d2b-0d6d4b0c9a11',
      '1b8f0c0e-6a2e-4f57-9d2b-0d6d4b0c9a11',
      '2B8F0C0E-6A2E-4F57-9D2B-0D6D4B0C9A11',
    ],
    ['01ARZ3NDEKTSV4RRFFQ69G5FAV', '01ARZ3NDEKTSV4RRFFQ69G5FAW', '01BX5ZZKBKACTAV9WEVGEMMVRZ'],
    [
      'req_011CSHoEeqs5C35K2UUqR7Fy',
      'req_011CSHoEeqs5C35K2UUqR7Fz',
      'req_911CSHoEeqs5C35K2UUqR7Fy',
    ],
    ['507f1f77bcf86cd799439011', '507f1f77bcf86cd799439012', '507f1f77bcf86cd799439013'],
  ];
  for (const values of noise) {
    const flat = values.map((at) => call('t', { path: 'a', at }));
    const nested = values.map((at) => call('t', { path: 'a', meta: { at } }));
    expect([values[0], patterns(flat).at(-1)]).toEqual([values[0], 'repeated']);
    expect([values[0], patterns(nested).at(-1)]).toEqual([values[0], 'repeated']);
  }
  const volatile = [1, 2, 3].map((nonce) => call('t', { q: 'a', nonce }, { volatile: ['nonce'] }));
  expect(patterns(volatile).at(-1)).toBe('repeated');
});

test('an id that is all there is to a call makes it another call', () => {
  const orders = ['0', '1', '2'].map((n) =>
    call('get_order', { id: `${n}b8f0c0e-6a2e-4f57-9d2b-0d6d4b0c9a11` }),
  );
  expect(patterns(orders)).not.toContain('repeated');
  const polls = [1, 2, 3].map((n) => call('status', { since: `2026-01-01T10:00:0${n}Z` }));
  expect(patterns(polls).at(-1)).toBe('repeated');
});

test('hashes that name a content are arguments like any other', () => {
  const commits = ['a', 'b', 'c'].map((n) => call('git/show', { ref: n.repeat(40), stat: true }));
  expect(patterns(commits)).not.toContain('repeated');
});

test('calls without arguments are compared too', () => {
  expect(patterns([call('t', {}), call('t', {}), call('t', {})]).at(-1)).toBe('repeated');
  expect(patterns([call('t', null), call('t', null), call('t', null)]).at(-1)).toBe('repeated');
});

test('a child that begins with what its parent did last counts on', () => {
  const parent = createLoopDetector();
  patterns([read('x'), read('a'), read('a')], parent);
  expect(parent.tail()).toHaveLength(3);
  expect(patterns([read('a')], createLoopDetector({ parentTail: parent.tail() }))).toEqual(['-']);
  patterns([read('a')], parent);
  const parentTail = JSON.parse(JSON.stringify(parent.tail())) as ReturnType<typeof parent.tail>;
  expect(patterns([read('a')], createLoopDetector({ parentTail }))).toEqual(['repeated']);
  expect(patterns([read('b'), read('a')], createLoopDetector({ parentTail }))).toEqual(['-', '-']);
});

test('a directive that only ever spawns itself is found in the third generation', () => {
  const spawn = call('threads/thread_directive', { directive_name: 'again' });
  const first = createLoopDetector();
  expect(patterns([spawn], first)).toEqual(['-']);
  const second = createLoopDetector({ parentTail: first.tail() });
  expect(patterns([spawn], second)).toEqual(['-']);
  expect(patterns([spawn], createLoopDetector({ parentTail: second.tail() }))).toEqual([
    'repeated',
  ]);
});

test('after a restart the calls before it still count', () => {
  const before = createLoopDetector();
  patterns([read('a'), read('a')], before);
  const history = JSON.parse(JSON.stringify(before.history())) as ReturnType<typeof before.history>;
  expect(patterns([read('a')], createLoopDetector({ history }))).toEqual(['repeated']);
});

test('results that differ each time are progress; equal, missing and unknown ones are not', () => {
  const found = (results: readonly (Json | undefined)[], isError = false) => {
    const detector = createLoopDetector();
    let last: ReturnType<typeof detector.observe>;
    for (const [at, result] of [...results, undefined].entries()) {
      last = detector.observe(call('shell/bash', { command: 'npm test' }, { id: `c${at}` }));
      if (result !== undefined) detector.learned(`c${at}`, result, isError);
    }
    return last?.pattern;
  };
  expect(found(['3 failed', '2 failed'])).toBe(undefined);
  expect(found(['3 failed', '2 failed'], true)).toBe(undefined);
  expect(found(['3 failed', '3 failed'])).toBe('repeated');
  expect(found(['3 failed', undefined])).toBe('repeated');
  // Only calls after the last new result count.
  expect(found(['3 failed', '3 failed', '2 failed'])).toBe(undefined);
  expect(found(['3 failed', '2 failed', '2 failed'])).toBe('repeated');
});

/** Makes calls in turn, each with its result. */
function live(calls: readonly (ObservedCall & { result: Json; isError?: boolean })[]) {
  const detector = createLoopDetector();
  return calls.map(({ result, isError = false, ...each }, at) => {
    const found = detector.observe({ ...each, id: `${at}`, turn: at });
    detector.learned(`${at}`, result, isError);
    return found?.pattern ?? '-';
  });
}

test('reading on is progress as long as it brings something else', () => {
  const page = (offset: number, result: string) => ({
    ...call('fs/read_file', { path: 'a', offset }, { volatile: ['offset'] }),
    result,
  });
  const pages = [1, 2, 3, 4, 5, 6, 7].map((n) => page(n, `page ${n}`));
  expect(live(pages)).toEqual(Array(7).fill('-'));
  expect(live([1, 2, 3].map((n) => page(n, 'nothing more'))).at(-1)).toBe('repeated');
});

test('a write that succeeded with a new value is progress', () => {
  const write = (content: string, isError = false) => ({
    ...call('fs/write_file', { path: 'a', content }, { effect: 'idempotent' as const }),
    result: 'written',
    isError,
  });
  const values = ['1', '2', '3', '4', '5', '6', '7'];
  expect(live(values.map((value) => write(value)))).toEqual(Array(7).fill('-'));
  expect(live(values.map((value) => write(value, true)))[3]).toBe('similar');
  expect(live(['1', '1', '1'].map((value) => write(value))).at(-1)).toBe('repeated');
  expect(live(['1', '2', '1', '2'].map((value) => write(value))).at(-1)).toBe('alternating');
  // After a change the same question can have another answer.
  const ask = { ...call('shell/bash', { command: 'npm test' }), result: '1 failed' };
  expect(live([ask, write('1'), ask, write('2'), ask])).toEqual(Array(5).fill('-'));
  expect(live([ask, write('1'), ask, write('1'), ask]).at(-1)).toBe('alternating');
});

test('equal calls of one turn are one attempt, in every pattern', () => {
  const spawn = (turn: number) =>
    call('threads/thread_directive', { directive_name: 'x' }, { turn });
  const nine = (turn: number) => Array.from({ length: 9 }, () => spawn(turn));
  expect(patterns(nine(1))).toEqual(Array(9).fill('-'));
  // The same group of calls three times is one loop.
  const thrice = patterns([...nine(1), ...nine(2), ...nine(3)]);
  expect([thrice.filter((found) => found !== '-'), thrice[18]]).toEqual([['repeated'], 'repeated']);
  const both = (turn: number) => ['a', 'b'].map((path) => call('r', { path }, { turn }));
  expect(patterns([...both(1), ...both(1), ...both(2)])).toEqual(Array(6).fill('-'));
});

test('the calls that a parent made at once are one attempt for its child', () => {
  const parent = createLoopDetector();
  const spawn = (turn: number) =>
    call('threads/thread_directive', { directive_name: 'x' }, { turn });
  patterns([spawn(1), spawn(1), spawn(1)], parent);
  const child = createLoopDetector({ parentTail: parent.tail() });
  expect(patterns([spawn(1)], child)).toEqual(['-']);
  expect(patterns([spawn(1)], createLoopDetector({ parentTail: child.tail() }))).toEqual([
    'repeated',
  ]);
});

test('a new attempt starts a new window', () => {
  const detector = createLoopDetector();
  patterns([read('a'), read('a')], detector);
  detector.startOver();
  expect(patterns([read('a'), read('a'), read('a')], detector)).toEqual(['-', '-', 'repeated']);
});

test('errors that only repeat the changed argument are no progress', () => {
  const found = (isError: boolean) => {
    const detector = createLoopDetector();
    const seen = [1, 2, 3, 4].map((n) => {
      const loop = detector.observe(
        call('fs/grep', { pattern: `x${n}`, path: 'p' }, { id: `${n}` }),
      );
      detector.learned(`${n}`, `no match for x${n}`, isError);
      return loop;
    });
    return seen.at(-1)?.pattern;
  };
  expect([found(true), found(false)]).toEqual(['similar', undefined]);
});

test('what was found reads as an error with its details', () => {
  const detector = createLoopDetector();
  const found = [1, 2, 3].map(() => detector.observe(read('a'))).at(-1);
  expect(found && loopFault(found)).toEqual({
    code: 'loop_detected',
    detail: {
      pattern: 'repeated',
      tool: 'fs/read_file',
      count: 3,
      progress: false,
      message: '`fs/read_file` was called 3 times with the same arguments within 5 calls',
    },
  });
});

test('prints hold no argument in the clear', () => {
  const detector = createLoopDetector();
  detector.observe(call('t', { token: 'canary-secret', other: 1 }));
  expect(JSON.stringify(detector.history())).not.toContain('canary');
});

test('three equal calls in a row are found whatever they are, and nothing makes it throw', () => {
  fc.assert(
    fc.property(fc.string(), fc.jsonValue(), (tool, args) => {
      const same = call(tool, args as Json);
      expect(patterns([same, same, same]).at(-1)).toBe('repeated');
    }),
  );
  let deep: Json = 1;
  for (let depth = 0; depth < 1000; depth++) deep = [deep];
  const same = call('t', { deep });
  expect(patterns([same, same, same]).at(-1)).toBe('repeated');
});
