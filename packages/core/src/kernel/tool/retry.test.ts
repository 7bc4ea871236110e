import { expect, test } from 'vitest';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { ToolEffect } from '../../flow/index.ts';
import { withRetry } from './retry.ts';

const retry = {
  max_attempts: 3,
  backoff_ms: [10, 100],
  retryable_errors: ['TIMEOUT', '418_TEAPOT', 'CONNECTION_RESET'],
};
const plain = { ...retry, retryable_errors: [] };

/** How long it waits before each further attempt at what always fails. */
async function pausesOf(failure: Failure, how: typeof retry, effect: ToolEffect, delivered = 0) {
  const pauses: number[] = [];
  const sleep = async (ms: number): Promise<void> => void pauses.push(ms);
  const attempt = async () => structuredClone(failure);
  const { signal } = new AbortController();
  await withRetry(how, effect, () => delivered, attempt, signal, { sleep });
  return pauses;
}

test.each<[string, Failure, ToolEffect, number, boolean]>([
  ['declared codes match without case', fail('timeout', 'x'), 'write', 0, true],
  [
    'a leading number is an HTTP status',
    fail('http_error', 'x', { status: 418 }),
    'write',
    0,
    true,
  ],
  ['old names of network errors are known', fail('network_error', 'x'), 'write', 0, true],
  ['other codes are final', fail('invalid_input', 'x'), 'read', 0, false],
  [
    'whoever knows that it would fail again is believed',
    fail('timeout', 'x', { retryable: false }),
    'read',
    0,
    false,
  ],
  [
    'a server that cannot be reached is the network',
    fail('mcp_connection_failed', 'x'),
    'write',
    0,
    true,
  ],
  ['a broken stream is never retried here', fail('stream_incomplete', 'x'), 'read', 0, false],
  ['a write is not repeated once a sink got something', fail('timeout', 'x'), 'write', 1, false],
  ['a read is', fail('timeout', 'x'), 'read', 1, true],
])('%s', async (_, failure, effect, delivered, expected) => {
  const pauses = await pausesOf(failure, retry, effect, delivered);
  expect(pauses).toHaveLength(expected ? 2 : 0);
});

test.each<[string, Failure, ToolEffect, boolean]>([
  ['a network error of a read', fail('network_error', 'x'), 'read', true],
  ['a network error of a write, perhaps sent', fail('network_error', 'x'), 'write', false],
  [
    'a network error of a write, surely not sent',
    fail('network_error', 'x', { sent: false }),
    'write',
    true,
  ],
  ['429 of a write', fail('rate_limit', 'x', { status: 429 }), 'write', true],
  ['500 of a write', fail('http_error', 'x', { status: 500 }), 'write', false],
  ['500 of an idempotent tool', fail('http_error', 'x', { status: 500 }), 'idempotent', true],
])('without declared codes: %s', async (_, failure, effect, expected) => {
  expect(await pausesOf(failure, plain, effect)).toHaveLength(expected ? 2 : 0);
});

test('the pause is the declared one, or what the other side asked for when longer', async () => {
  const pauses = (failure: Failure) => pausesOf(failure, { ...retry, max_attempts: 4 }, 'read');
  const asked = (retry_after_ms: number) => fail('rate_limit', 'x', { retry_after_ms });
  expect(await pauses(fail('timeout', 'x'))).toEqual([10, 100, 100]);
  expect(await pauses(asked(5000))).toEqual([5000, 5000, 5000]);
  expect(await pauses(asked(1e9))).toEqual([60_000, 60_000, 60_000]);
});

async function attempts(results: Outcome<string>[], abortAfter = 99) {
  const controller = new AbortController();
  const slept: number[] = [];
  let count = 0;
  const outcome = await withRetry(
    retry,
    'read',
    () => 0,
    async () => results[count++] as Outcome<string>,
    controller.signal,
    {
      async sleep(ms) {
        slept.push(ms);
        if (slept.length >= abortAfter) controller.abort();
      },
    },
  );
  return { outcome, count, slept };
}

test('it stops at the first success', async () => {
  expect(await attempts([fail('timeout', 'x'), ok('y')])).toEqual({
    outcome: ok('y'),
    count: 2,
    slept: [10],
  });
});

test('the last failure says how often it was tried', async () => {
  const { outcome, count } = await attempts([
    fail('timeout', '1'),
    fail('timeout', '2'),
    fail('timeout', '3'),
  ]);
  expect(count).toBe(3);
  expect(outcome).toEqual(fail('timeout', '3', { attempts: 3 }));
});

test('a cancelled call is not tried again', async () => {
  expect((await attempts([fail('timeout', '1'), ok('2')], 1)).count).toBe(1);
});
