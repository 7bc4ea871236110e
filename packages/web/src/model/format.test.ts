import { expect, test } from 'vitest';
import {
  ago,
  bytes,
  count,
  limitOrigin,
  limitValue,
  money,
  seconds,
  shortCount,
} from './format.ts';

test('money keeps two to four places, and never looks like nothing when it is something', () => {
  expect([0, 0.5, 0.2955, 0.003, 12.41, 0.00001, '0.81', 1234.5].map(money)).toEqual([
    '0.00',
    '0.50',
    '0.2955',
    '0.0030',
    '12.41',
    '< 0.0001',
    '0.81',
    '1,234.50',
  ]);
});

test('counts have groups, large ones a unit', () => {
  expect([0, 999, 1204, 1234567].map(count)).toEqual(['0', '999', '1,204', '1,234,567']);
  expect([999, 9_999, 88_400, 200_000, 2_100_000].map(shortCount)).toEqual([
    '999',
    '9,999',
    '88.4 k',
    '200 k',
    '2.1 M',
  ]);
  expect([412, 4200, 5e6].map(bytes)).toEqual(['412 B', '4.2 KB', '5.0 MB']);
});

test('times have the two units that matter', () => {
  expect([0, 0.012, 3.9, 26, 59.7, 321, 7800, 3 * 86_400 + 14_400].map(seconds)).toEqual([
    '0 s',
    '12 ms',
    '3.9 s',
    '26 s',
    '1 m 00 s',
    '5 m 21 s',
    '2 h 10 m',
    '3 d 4 h',
  ]);
  expect([400, 12_000, 300_000, 7.2e6, 9 * 86_400_000].map(ago)).toEqual([
    'now',
    '12 s',
    '5 m',
    '2 h',
    '9 d',
  ]);
});

test('a limit says who sets it in words', () => {
  expect(
    ['default (bundle)', 'default (project)', 'policy', 'directive', 'toString'].map(limitOrigin),
  ).toEqual(['built in', 'default of the project', 'policy', 'directive', 'toString']);
});

test('a limit is told in its own unit', () => {
  expect(limitValue('spend', 0.5)).toBe('0.50');
  expect(limitValue('duration_seconds', 1800)).toBe('30 m');
  expect(limitValue('tokens', 200_000)).toBe('200 k');
  expect(limitValue('turns', 12)).toBe('12');
});
