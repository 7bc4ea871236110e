import { expect, test } from 'vitest';
import { filterAllows, readFilters } from './item-filter.ts';

test('without lists everything passes', () => {
  expect(filterAllows({}, 'any', 'a/b')).toBe(true);
});

test('an allow list of categories or of names is enough, and is needed', () => {
  const filter = { allow_categories: ['test'], allow_directives: ['verify_*'] };
  expect(filterAllows(filter, 'test', 'x/run')).toBe(true);
  expect(filterAllows(filter, 'other', 'x/verify_all')).toBe(true);
  expect(filterAllows(filter, 'other', 'x/run')).toBe(false);
});

test('an empty allow list lets nothing through', () => {
  expect(filterAllows({ allow_categories: [] }, 'test', 'a')).toBe(false);
});

test('deny wins, whatever is allowed and however it is spelled', () => {
  const filter = {
    allow_categories: ['*'],
    deny_directives: ['delete_*'],
    deny_categories: ['Admin'],
  };
  expect(filterAllows(filter, 'test', 'x/delete_all')).toBe(false);
  expect(filterAllows(filter, 'admin', 'x/list')).toBe(false);
  expect(filterAllows(filter, 'test', 'x/list')).toBe(true);
});

test('a name with a slash is about full ids', () => {
  expect(filterAllows({ deny_directives: ['ops/*'] }, '', 'ops/drop')).toBe(false);
  expect(filterAllows({ deny_directives: ['ops/*'] }, '', 'dev/drop')).toBe(true);
});

test.each([
  [null],
  [{ spawning: {} }],
  [{ spawn: { allow: ['x'] } }],
  [{ spawn: { allow_categories: 'x' } }],
  [{ spawn: { allow_categories: ['{a}'] } }],
  [{ spawn: [] }],
])('filters with anything unknown are refused: %j', (value) => {
  expect(readFilters(value).ok).toBe(false);
});
