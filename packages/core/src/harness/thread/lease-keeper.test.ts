import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import type { Lease, Renewed } from '../../store/index.ts';
import { createLeaseKeeper } from './lease-keeper.ts';

/** A registry that renews all but those it does not hold any more. */
function keeper(gone: ReadonlySet<string> = new Set(), mostMs = Number.POSITIVE_INFINITY) {
  let now = 0;
  const calls: string[][] = [];
  const answers: string[] = [];
  const store = {
    async renew(leases: readonly Lease[], ttlMs: number) {
      calls.push(leases.map(({ thread }) => thread));
      const held = leases.filter(({ thread }) => !gone.has(thread));
      const lease_ms = Math.min(ttlMs, mostMs);
      return ok(held.map(({ thread }): Renewed => ({ thread, lease_ms, signals: [] })));
    },
  };
  const { keep, beat } = createLeaseKeeper(() => now, 10_000);
  return {
    calls,
    answers,
    keep: (thread: string, since?: number, lease_ms = 30_000) =>
      keep(
        {
          store,
          thread,
          epoch: 1,
          lease_ms,
          renewed: (answer, asked) =>
            void answers.push(`${thread} ${answer ? 'held' : 'gone'} ${asked}`),
        },
        since,
      ),
    async at(time: number) {
      now = time;
      beat();
      await Promise.resolve();
      await Promise.resolve();
      return calls.splice(0);
    },
  };
}

test('whoever works renews what is due, all of it in one call, and nothing else', async () => {
  const { keep, at } = keeper();
  const ends = [keep('a')];
  expect(await at(4000)).toEqual([]);
  ends.push(keep('b'));
  expect(await at(9999)).toEqual([]);
  expect(await at(10_000)).toEqual([['a']]);
  expect(await at(10_001)).toEqual([]);
  expect(await at(14_000)).toEqual([['b']]);
  // Late as it is, each is renewed once.
  expect(await at(70_000)).toEqual([['a', 'b']]);
  expect(await at(70_001)).toEqual([]);
  for (const end of ends) end();
  expect(await at(200_000)).toEqual([]);
});

test('a lease that began earlier is due earlier', async () => {
  const { keep, at } = keeper();
  await at(9000);
  const ends = [keep('new'), keep('old', 1000)];
  expect(await at(11_000)).toEqual([['old']]);
  expect(await at(19_000)).toEqual([['new']]);
  for (const end of ends) end();
});

test('what is missing in the answer is gone, and who has ended hears nothing', async () => {
  const { keep, at, answers } = keeper(new Set(['b']));
  const ends = [keep('a'), keep('b')];
  const other = keep('c');
  const renewing = at(10_000);
  other();
  await renewing;
  expect(answers).toEqual(['a held 10000', 'b gone 10000']);
  for (const end of ends) end();
});

test('a short lease is renewed after a third of it, together with those that are due soon', async () => {
  const { keep, at } = keeper(new Set(), 9000);
  const ends = [keep('a', 0, 9000)];
  expect(await at(1000)).toEqual([]);
  ends.push(keep('b', 1000, 9000));
  expect(await at(2999)).toEqual([]);
  expect(await at(3000)).toEqual([['a', 'b']]);
  expect(await at(5999)).toEqual([]);
  expect(await at(6000)).toEqual([['a', 'b']]);
  for (const end of ends) end();
});

test('what the store gives later says how often it is asked', async () => {
  const { keep, at } = keeper(new Set(), 3000);
  const end = keep('a', 0, 30_000);
  expect(await at(10_000)).toEqual([['a']]);
  // Once at the old pace, then at the new one.
  expect(await at(20_000)).toEqual([['a']]);
  expect(await at(20_999)).toEqual([]);
  expect(await at(21_000)).toEqual([['a']]);
  end();
});
