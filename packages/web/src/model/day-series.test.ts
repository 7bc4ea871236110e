import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { CostGroup, CostReport } from './api.ts';
import { daySeries } from './day-series.ts';

const NOW = Date.UTC(2026, 10, 16, 12);
const DAY = 86_400_000;
const group = (name: string, spend: string, models: CostGroup['models'] = []): CostGroup => ({
  name,
  threads: 1,
  tokens: 1,
  spend,
  models,
});
const report = (by_day: readonly CostGroup[], rest: Partial<CostReport> = {}): CostReport => ({
  currency: 'USD',
  since: NOW - 6 * DAY,
  total: group('total', '0'),
  by_directive: [],
  by_model: [],
  by_day,
  ...rest,
});

test('every day of the range has a bar, also without cost', () => {
  const { days } = daySeries(report([group('2026-11-14', '0.5')]), NOW);
  expect(days.map(({ day, spend }) => `${day} ${spend}`)).toEqual([
    '2026-11-10 0',
    '2026-11-11 0',
    '2026-11-12 0',
    '2026-11-13 0',
    '2026-11-14 0.5',
    '2026-11-15 0',
    '2026-11-16 0',
  ]);
});

test('models are stacked, the dearest at the foot, the rest on top', () => {
  const models = [
    { name: 'small', spend: '0.1' },
    { name: 'large', spend: '0.3' },
  ];
  const { days, models: names } = daySeries(report([group('2026-11-16', '0.5', models)]), NOW);
  expect(names).toEqual(['large', 'small']);
  const parts = days.at(-1)?.parts ?? [];
  expect(parts.map(({ model }) => model)).toEqual(['large', 'small', 'others']);
  expect(parts.at(-1)?.to).toBeCloseTo(0.5);
});

test('many models become five series', () => {
  const models = Array.from({ length: 9 }, (_, index) => ({ name: `m${index}`, spend: '1' }));
  const { models: names, days } = daySeries(report([group('2026-11-16', '9', models)]), NOW);
  expect(names).toEqual(['m0', 'm1', 'm2', 'm3', 'others']);
  expect(days.at(-1)?.parts.at(-1)).toMatchObject({ from: 4, to: 9 });
});

test('the axis reaches over bars with few ticks', () => {
  const spends = fc.double({ min: 0, max: 1e7, noNaN: true });
  fc.assert(
    fc.property(spends, (spend) => {
      const { top, ticks } = daySeries(report([group('2026-11-16', String(spend))]), NOW);
      expect(top).toBeGreaterThanOrEqual(spend * (1 - 1e-6));
      expect(ticks.length).toBeGreaterThanOrEqual(2);
      expect(ticks.length).toBeLessThanOrEqual(6);
    }),
  );
});

test('a range without end is 90 days', () => {
  expect(daySeries(report([], { since: 0 }), NOW).days).toHaveLength(90);
  expect(daySeries(report([], { since: NOW + 9 * DAY }), NOW).days).toHaveLength(1);
});
