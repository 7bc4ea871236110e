import { expect, test } from 'vitest';
import { isSoak, ofToday } from './soak.ts';

const ALL = ['a', 'b', 'c', 'd', 'e'];

test.skipIf(isSoak)(
  'a day chooses its share, and every case has its day [not when all run]',
  () => {
    expect(ofToday(ALL, 2, 7)).toEqual(['e', 'a']);
    const week = [1, 2, 3, 4, 5].flatMap((on) => ofToday(ALL, 2, on));
    expect(new Set(week)).toEqual(new Set(ALL));
  },
);

test('a share as large as the list is the list', () => {
  expect(ofToday(ALL, 5)).toEqual(ALL);
  expect(ofToday(ALL, 9)).toEqual(ALL);
});
