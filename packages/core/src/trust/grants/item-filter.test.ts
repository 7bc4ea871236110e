import { expect, test } from 'vitest';
import { readValue } from '../../base/index.ts';
import { itemFilters, listRefusal, missingInList, refusingList } from './item-filter.ts';

const filterAllows = (...given: Parameters<typeof refusingList>): boolean =>
  refusingList(...given) === undefined;

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
  expect(readValue(value, 'filters', itemFilters).ok).toBe(false);
});

test.each([
  [{ deny_categories: ['ops'] }, 'deny_categories'],
  [{ deny_directives: ['drop*'], allow_categories: ['ops'] }, 'deny_directives'],
  [{ allow_categories: ['test'], allow_directives: ['x'] }, 'allow_categories'],
  [{ allow_directives: ['x'] }, 'allow_directives'],
  [{ allow_categories: [] }, 'allow_categories'],
] as const)('the list that leaves an item out is named: %o', (filter, list) => {
  const lists = Object.fromEntries(
    Object.entries(filter).map(([name, globs]) => [name, [...globs]]),
  );
  expect(refusingList(lists, 'ops', 'a/drop_all')).toBe(list);
});

test('only an entry of an allow list can be missing', () => {
  expect(missingInList('directives.allow_categories')).toEqual([
    { capability: 'directives.allow_categories' },
  ]);
  expect(missingInList('directives.deny_categories')).toEqual([]);
  expect(listRefusal('orchestration.allow_directives')).toContain('add it');
  expect(listRefusal('knowledge.deny_categories')).toContain('remove it');
});
