import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { freezeJson, isDeeperThan } from './json.ts';
import type { Json } from './outcome.ts';

const json = fc.jsonValue({ maxDepth: 6 }) as fc.Arbitrary<Json>;

/** Freezes some of the values inside, as the messages of a conversation are. */
function freezeSome(value: Json, choose: () => boolean): void {
  if (typeof value !== 'object' || value === null) return;
  for (const child of Object.values(value)) freezeSome(child, choose);
  if (choose()) freezeJson(value);
}

function isFrozenBelow(value: Json): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozenBelow);
}

test('depth is the same for what is remembered and what is not', () => {
  fc.assert(
    fc.property(
      json,
      fc.infiniteStream(fc.boolean()),
      fc.integer({ min: 0, max: 8 }),
      (value, bits, limit) => {
        const expected = isDeeperThan(value, limit);
        freezeSome(value, () => bits.next().value);
        expect(isDeeperThan(value, limit)).toBe(expected);
        expect(isDeeperThan(freezeJson(value), limit)).toBe(expected);
      },
    ),
  );
});

test('everything below is frozen, also under what somebody froze half', () => {
  fc.assert(
    fc.property(json, (value) => {
      const half = Object.freeze({ a: [value], b: Object.freeze([{ c: value }]) });
      expect(isFrozenBelow(freezeJson(half as unknown as Json))).toBe(true);
    }),
  );
});

test('a value that is nested very deeply is handled', () => {
  let deep: Json = [];
  for (let level = 0; level < 100_000; level++) deep = [deep];
  expect(isDeeperThan(freezeJson(deep), 99_999)).toBe(true);
  expect(isDeeperThan(deep, 100_000)).toBe(false);
});

test('a frozen value is the value it was', () => {
  fc.assert(
    fc.property(json, (value) => {
      const plain = structuredClone(value);
      expect(freezeJson(value)).toEqual(plain);
      expect(isFrozenBelow(freezeJson([value, undefined as unknown as Json, value]))).toBe(true);
    }),
  );
});
