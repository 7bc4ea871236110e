// Tests the ratchet of `npm run house`: a larger figure fails, and only a smaller figure is written.
import { expect, test } from 'vitest';
import { BUDGET, compare, hasFallen, hasGrown, tighten } from '../../scripts/house/ratchet.ts';
import { measure, readSources } from '../../scripts/house/walls.mjs';

const figure = (name: string, counts: Readonly<Record<string, number>>) => ({
  id: name,
  name,
  places: Object.entries(counts).map(([own, count]) => ({ package: own, text: own, count })),
});
const ratchet = { core: { lines: 100, casts: 5 }, web: { [BUDGET]: 90, lines: 80 } };
const cellsOf = (...figures: readonly ReturnType<typeof figure>[]) =>
  compare(figures, ['core', 'web'], ratchet);

test('a figure that grows in one package fails, although it falls in another', () => {
  const cells = cellsOf(figure('casts', { core: 6 }), figure('lines', { core: 99, web: 80 }));
  expect(cells.filter(hasGrown)).toEqual([
    { package: 'core', figure: 'casts', value: 6, allowed: 5 },
  ]);
  expect(cells.filter((cell) => hasFallen(cell, ratchet)).map((cell) => cell.value)).toEqual([99]);
});

test('a figure without a number may only be 0', () => {
  expect(cellsOf(figure('loops', { web: 1 })).filter(hasGrown)).toHaveLength(1);
  expect(cellsOf(figure('loops', {})).filter(hasGrown)).toEqual([]);
});

test('a package below its line budget may grow up to the budget', () => {
  expect(cellsOf(figure('lines', { core: 100, web: 90 })).filter(hasGrown)).toEqual([]);
  expect(cellsOf(figure('lines', { core: 101, web: 91 })).filter(hasGrown)).toHaveLength(2);
});

test('only lower numbers are written', () => {
  const cells = cellsOf(
    figure('casts', { core: 6, web: 2 }),
    figure('lines', { core: 99, web: 95 }),
  );
  expect(tighten(cells, ratchet)).toEqual({
    core: { lines: 99, casts: 5 },
    web: { [BUDGET]: 90, lines: 80 },
  });
  expect(tighten(cells, { web: { [BUDGET]: 90 } })).toMatchObject({ web: { lines: 95, casts: 2 } });
});

test('the figures of text find what this checkout has', () => {
  const { figures } = measure(readSources('.'));
  const count = (name: string) => figures.find((one) => one.name === name)?.places.length ?? 0;
  expect(count('lines')).toBeGreaterThan(700);
  for (const name of ['event files', 'names of core used by others', 'parameters of type Thread']) {
    expect(count(name), name).toBeGreaterThan(5);
  }
});
