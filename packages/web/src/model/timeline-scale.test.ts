import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ListedRun } from './api.ts';
import { costSeries } from './cost-series.ts';
import type { TimelineEntry } from './timeline-entry.ts';
import { createScale, scaleMarks } from './timeline-scale.ts';

const moments = fc
  .array(fc.nat(1_000_000), { minLength: 1, maxLength: 80 })
  .map((times) => times.sort((a, b) => a - b));
const spanOf = (times: readonly number[], tail: number) => ({
  from: times[0] ?? 0,
  to: (times.at(-1) ?? 0) + tail,
});

test('a later moment never stands before an earlier one, and none outside of the lane', () => {
  fc.assert(
    fc.property(moments, fc.nat(600_000), fc.boolean(), (times, tail, unfolded) => {
      const scale = createScale(times, spanOf(times, tail), { unfolded });
      let last = 0;
      for (let step = -1; step <= 101; step++) {
        const ms = scale.from + ((scale.to - scale.from) * step) / 100;
        const place = scale.at(ms);
        expect(place).toBeGreaterThanOrEqual(last);
        expect(place).toBeLessThanOrEqual(100);
        last = place;
      }
    }),
  );
});

test('stretches cover the whole, one after the other', () => {
  fc.assert(
    fc.property(moments, fc.nat(600_000), (times, tail) => {
      const { stretches, from, to } = createScale(times, spanOf(times, tail));
      expect(stretches[0]?.from).toBe(from);
      expect(stretches.at(-1)?.to).toBe(to);
      for (const [index, one] of stretches.entries()) {
        if (index > 0) expect(one.from).toBe(stretches[index - 1]?.to);
        expect(one.right).toBeGreaterThanOrEqual(one.left);
      }
    }),
  );
});

test('marks stand apart and in order', () => {
  fc.assert(
    fc.property(moments, fc.nat(600_000), (times, tail) => {
      const marks = scaleMarks(createScale(times, spanOf(times, tail)));
      for (const [index, mark] of marks.entries()) {
        const before = marks[index - 1];
        if (before) expect(mark.left - before.left).toBeGreaterThanOrEqual(19);
      }
    }),
  );
});

test('four idle minutes are folded to a few pixels, ten idle seconds of an hour are not', () => {
  const times = Array.from({ length: 60 }, (_, index) => index * 1_100);
  const scale = createScale(times, { from: 0, to: 321_000 });
  const folded = scale.stretches.filter(({ isFolded }) => isFolded);
  expect(folded.length).toBe(1);
  expect((folded[0]?.right ?? 0) - (folded[0]?.left ?? 0)).toBeCloseTo((12 / 236) * 100);
  expect(scale.at(64_900)).toBeGreaterThan(80);
  const steady = createScale(
    Array.from({ length: 300 }, (_, index) => index * 12_000),
    { from: 0, to: 3_600_000 },
  );
  expect(steady.stretches.length).toBe(1);
});

test('a thread of one moment has a scale', () => {
  const scale = createScale([5], { from: 5, to: 5 });
  expect(scale.at(5)).toBe(0);
  expect(scaleMarks(scale)).toEqual([{ left: 0, ms: 0 }]);
});

const turn = (number: number, spend: number): TimelineEntry => ({
  seq: number * 10,
  kind: 'turn',
  turn: number,
  state: 'done',
  name: `Turn ${number}`,
  text: '',
  why: '',
  labels: [],
  start: 0,
  denials: [],
  spend,
});

test('costs are summed by turn, children apart, also of those that still run', () => {
  const child = { ...turn(2, 0.05), seq: 21, kind: 'child' as const, thread: 'c1' };
  const below = [
    { id: 'c1', cost: { spend: '0.05' } },
    { id: 'c2', cost: { spend: '0.01' } },
  ] as unknown as ListedRun[];
  const { points, total } = costSeries([turn(1, 0.02), turn(2, 0.03), child, turn(3, 0.04)], below);
  expect(points.map(({ own, children }) => [own.toFixed(2), children.toFixed(2)])).toEqual([
    ['0.02', '0.00'],
    ['0.05', '0.05'],
    ['0.09', '0.06'],
  ]);
  expect(total).toBeCloseTo(0.15);
});

test('sums never fall, and a long thread keeps its last one', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000), { maxLength: 900 }), (spends) => {
      const { points, own } = costSeries(spends.map((spend, index) => turn(index + 1, spend)));
      expect(points.length).toBeLessThanOrEqual(200);
      expect(points.at(-1)?.own ?? 0).toBe(own);
      for (const [index, point] of points.entries()) {
        expect(point.own).toBeGreaterThanOrEqual(points[index - 1]?.own ?? 0);
      }
    }),
  );
});
