import { expect, test } from 'vitest';
import { createLeaseKeeper } from './lease-keeper.ts';

function keeper() {
  let now = 0;
  const renewed: string[] = [];
  const { keep, beat } = createLeaseKeeper(() => now, 10_000);
  return {
    renewed,
    keep: (name: string) => keep(() => void renewed.push(name)),
    at(time: number) {
      now = time;
      beat();
      return renewed.splice(0);
    },
  };
}

test('whoever works renews what is due, each at its own time, and nothing else', () => {
  const { keep, at } = keeper();
  const ends = [keep('a')];
  expect(at(4000)).toEqual([]);
  ends.push(keep('b'));
  expect(at(9999)).toEqual([]);
  expect(at(10_000)).toEqual(['a']);
  expect(at(10_001)).toEqual([]);
  expect(at(14_000)).toEqual(['b']);
  // Late as it is, each is renewed once.
  expect(at(70_000)).toEqual(['a', 'b']);
  expect(at(70_001)).toEqual([]);
  for (const end of ends) end();
  expect(at(200_000)).toEqual([]);
});

test('a lease that began earlier is due earlier', () => {
  let now = 9000;
  const renewed: string[] = [];
  const { keep, beat } = createLeaseKeeper(() => now, 10_000);
  const ends = [keep(() => void renewed.push('new')), keep(() => void renewed.push('old'), 1000)];
  now = 11_000;
  beat();
  expect(renewed).toEqual(['old']);
  now = 19_000;
  beat();
  expect(renewed).toEqual(['old', 'new']);
  for (const end of ends) end();
});

test('one that ends while others are renewed is left alone', () => {
  let now = 0;
  const renewed: string[] = [];
  const { keep, beat } = createLeaseKeeper(() => now, 10);
  const ends: (() => void)[] = [];
  ends.push(
    keep(() => {
      renewed.push('a');
      ends[1]?.();
    }),
    keep(() => void renewed.push('b')),
    keep(() => void renewed.push('c')),
  );
  now = 10;
  beat();
  expect(renewed).toEqual(['a', 'c']);
  for (const end of ends) end();
});
