import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { freezeJson, growJson, isDeeperThan, jsonText } from './json.ts';
import type { Json, JsonObject } from './outcome.ts';

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

test('the text is that of JSON.stringify, whatever is remembered, also the second time', () => {
  fc.assert(
    fc.property(json, fc.infiniteStream(fc.boolean()), (value, bits) => {
      const expected = JSON.stringify(value);
      expect(jsonText(value)).toBe(expected);
      freezeSome(value, () => bits.next().value);
      expect(jsonText(value)).toBe(expected);
      expect(jsonText(value)).toBe(expected);
      expect(jsonText([value, { value }])).toBe(JSON.stringify([value, { value }]));
    }),
  );
});

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

test('what is no JSON is left out as JSON.stringify leaves it out', () => {
  const odd = { a: undefined, b: [undefined, 1], c: { d: undefined } } as unknown as JsonObject;
  expect(jsonText(odd)).toBe(JSON.stringify(odd));
  const proto = JSON.parse('{"__proto__":{"x":1},"y":2}') as JsonObject;
  expect(jsonText(proto)).toBe('{"__proto__":{"x":1},"y":2}');
});

test('a list that grows is the list it would be, with its text and its depth', () => {
  fc.assert(
    fc.property(fc.array(fc.array(json)), fc.integer({ min: 0, max: 8 }), (parts, limit) => {
      let grown: Json[] = growJson([], []);
      for (const part of parts) grown = growJson(grown, part);
      const plain = structuredClone(parts.flat());
      expect(grown).toEqual(plain);
      expect(isFrozenBelow(grown)).toBe(true);
      expect(jsonText(grown)).toBe(JSON.stringify(plain));
      expect(jsonText({ grown })).toBe(JSON.stringify({ grown: plain }));
      expect(isDeeperThan({ grown }, limit)).toBe(isDeeperThan({ grown: plain }, limit));
    }),
  );
});
