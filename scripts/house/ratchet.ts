// The ratchet: `ratchet.json` has the highest figure that each package may have. Numbers in it only fall.
import { type Figure, inPackage } from './walls.mjs';

/** Figures by package. `all` is the package of figures that belong to no package. */
export type Ratchet = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface Cell {
  readonly package: string;
  readonly figure: string;
  readonly value: number;
  /** Absent if the ratchet has no number for it. */
  readonly allowed: number | undefined;
}

/** The key of a package's line budget in the ratchet. */
export const BUDGET = 'line budget';

/**
 * Every figure of every package beside its limit. A package may have as many lines as the ratchet or its
 * budget says, whichever is more: it cannot grow until it is below its budget, and then up to the budget.
 */
export function compare(
  figures: readonly Figure[],
  packages: readonly string[],
  ratchet: Ratchet,
): Cell[] {
  return figures
    .filter(({ isPrinted = false }) => !isPrinted)
    .flatMap((figure) =>
      packages.map((name) => {
        const row = ratchet[name] ?? {};
        const number = row[figure.name];
        const budget = figure.name === 'lines' ? (row[BUDGET] ?? 0) : 0;
        return {
          package: name,
          figure: figure.name,
          value: inPackage(figure, name),
          allowed: number === undefined ? undefined : Math.max(number, budget),
        };
      }),
    );
}

/** A figure without a number has grown, unless it is 0. */
export const hasGrown = ({ value, allowed = 0 }: Cell): boolean => value > allowed;
export const hasFallen = (cell: Cell, ratchet: Ratchet): boolean =>
  cell.value < (ratchet[cell.package]?.[cell.figure] ?? 0);

/**
 * Returns the ratchet with lower numbers where a figure has fallen. A number never rises, and a figure
 * without a number stays at 0. Only a package that has no numbers at all is written as it is.
 */
export function tighten(cells: readonly Cell[], ratchet: Ratchet): Ratchet {
  const result: Record<string, Record<string, number>> = {};
  for (const { package: name, figure, value } of cells) {
    const row = (result[name] ??= { ...ratchet[name] });
    const isNew = Object.keys(ratchet[name] ?? {}).every((key) => key === BUDGET);
    const number = isNew ? value : Math.min(value, row[figure] ?? 0);
    if (number > 0) row[figure] = number;
    else delete row[figure];
  }
  return result;
}
