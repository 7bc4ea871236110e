import { ok } from '@kernmantle/core/base';
import { expect, test } from 'vitest';
import { createRate, pauseAfter, waitedFor } from './pace.ts';

test('pauses grow with every failure, to a bound', () => {
  expect([0, 1, 2, 3, 4].map(pauseAfter)).toEqual([0, 250, 500, 1000, 2000]);
  expect(pauseAfter(1000)).toBe(30_000);
});

test('a rate lets so many through in each second', () => {
  let now = 0;
  const may = createRate(2, { monotonic: () => now });
  expect([may(), may(), may()]).toEqual([true, true, false]);
  now = 999;
  expect(may()).toBe(false);
  now = 1000;
  expect([may(), may(), may()]).toEqual([true, true, false]);
});

test('who stops waiting is answered at once, whatever comes later', async () => {
  const never = new Promise<never>(() => undefined);
  const stop = new AbortController();
  const waiting = waitedFor(never, { signal: stop.signal, timeoutMs: 60_000 });
  stop.abort();
  expect(await waiting).toMatchObject({ ok: false, error: { code: 'cancelled' } });
  const { signal } = new AbortController();
  expect(await waitedFor(never, { signal, timeoutMs: 1 })).toMatchObject({
    ok: false,
    error: { code: 'timeout' },
  });
  expect(await waitedFor(Promise.resolve(ok(1)), { signal, timeoutMs: 60_000 })).toEqual(ok(1));
});
