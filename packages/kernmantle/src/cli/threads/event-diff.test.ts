import { expect, test } from 'vitest';
import { around, firstDifference } from './event-diff.ts';

test('the first field that is not the same is named, at any depth', () => {
  const recorded = { status: 'completed', cost: { tokens: 10, parts: [1, { a: 2 }] } };
  const replayed = { status: 'completed', cost: { tokens: 10, parts: [1, { a: 3 }] } };
  const found = { path: 'cost.parts.1.a', recorded: 2, replayed: 3 };
  expect(firstDifference(recorded, replayed)).toEqual(found);
  expect(firstDifference(recorded, recorded)).toBeUndefined();
  expect(firstDifference({ a: 1 }, {})).toMatchObject({ path: 'a', recorded: 1 });
  expect(firstDifference({}, { a: 1 })).toMatchObject({ path: 'a', replayed: 1 });
  expect(firstDifference({ a: [] }, { a: {} })).toMatchObject({ path: 'a' });
});

test('two long values never look the same', () => {
  const same = 'x'.repeat(5000);
  const [one, other] = [around(`${same}one`, `${same}two`), around(`${same}two`, `${same}one`)];
  expect([one, other]).toEqual([
    expect.stringMatching(/^…x+one$/),
    expect.stringMatching(/^…x+two$/),
  ]);
  expect(around('1', 1)).not.toBe(around(1, '1'));
});
