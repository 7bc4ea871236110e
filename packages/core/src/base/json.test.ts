import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  canonicalJson,
  getOwn,
  isDeeperThan,
  isFiniteJson,
  jsonEqual,
  mergeDeep,
  parseJson,
} from './json.ts';
import type { Json, JsonObject } from './outcome.ts';

const json = fc.jsonValue() as fc.Arbitrary<Json>;
const shuffled = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(shuffled);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([k, v]) => [k, shuffled(v)]),
  );
};

test('canonical text is the same for equal values and reads back as the value', () => {
  fc.assert(
    fc.property(json, (value) => {
      const text = canonicalJson(value);
      expect(canonicalJson(shuffled(value))).toBe(text);
      expect(jsonEqual(JSON.parse(text), value)).toBe(true);
    }),
  );
});

test('different values have different canonical texts', () => {
  fc.assert(
    fc.property(json, json, (a, b) => {
      expect(canonicalJson(a) === canonicalJson(b)).toBe(jsonEqual(a, b));
    }),
  );
});

test('what is no JSON value has no canonical text', () => {
  for (const value of [Number.NaN, undefined, () => 1, 1n]) {
    expect(() => canonicalJson(value as never)).toThrow();
  }
});

test('`__proto__` is an ordinary key, inherited names do not exist', () => {
  const value = JSON.parse('{"__proto__":{"a":1}}') as Json;
  expect(getOwn(value, '__proto__')).toEqual({ a: 1 });
  expect(getOwn({}, 'constructor')).toBeUndefined();
  const merged = mergeDeep({ x: 1 }, value as never);
  expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
  expect(canonicalJson(merged)).toBe('{"__proto__":{"a":1},"x":1}');
});

test('merging is deep for objects and whole for lists', () => {
  expect(mergeDeep({ a: { b: 1, c: [1] }, d: 1 }, { a: { c: [2] }, d: null })).toEqual({
    a: { b: 1, c: [2] },
    d: null,
  });
});

test('depth is measured without recursion', () => {
  const text = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
  expect(parseJson(text)).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  expect(isDeeperThan([[1]], 1)).toBe(false);
  expect(isDeeperThan([[[1]]], 1)).toBe(true);
});

test.each(['1e999', '[-1e400]', '{"a":{"b":[1,1E+309]}}', '9'.repeat(400), '1e0999'])(
  'a number that is too large is refused: %s',
  (text) => {
    expect(parseJson(text)).toMatchObject({
      error: { code: 'invalid_input', detail: { not_finite: true } },
    });
  },
);

test('what only looks like one is read', () => {
  for (const text of ['"1e999"', '{"1e999":1}', '1e308', '1e-999', `"${'9'.repeat(400)}"`]) {
    expect(parseJson(text), text).toMatchObject({ ok: true });
  }
  const own: Record<string, unknown> = { a: undefined };
  own.own = own;
  expect(isFiniteJson(own as JsonObject)).toBe(true);
});

test('any JSON that can be written is read as it was, and any number too large is found', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const text = JSON.stringify(value);
      expect(parseJson(text).ok).toBe(true);
      expect(parseJson(`[${text},2e308]`).ok).toBe(false);
    }),
  );
});
