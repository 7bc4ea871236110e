// `npm run house`: the figures of every package as a table, compared with the ratchet. It fails if a
// figure has grown. `--tighten` writes the figures that have fallen, `--json` prints all of it as data,
// `--list FIGURE` prints the places behind a figure.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { allFigures } from './house/figures.ts';
import {
  BUDGET,
  type Cell,
  compare,
  hasFallen,
  hasGrown,
  type Ratchet,
  tighten,
} from './house/ratchet.ts';
import { readTree } from './house/tree.ts';
import { countTurn } from './house/turn.ts';
import { type Figure, inPackage, total } from './house/walls.mjs';

const RATCHET = new URL('./house/ratchet.json', import.meta.url);
const ratchet = JSON.parse(readFileSync(RATCHET, 'utf8')) as Ratchet;
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    list: { type: 'string' },
    tighten: { type: 'boolean', default: false },
  },
});

const tree = readTree();
const packages = [...tree.sources.packages, 'all'];
const figures = allFigures(fileURLToPath(new URL('..', import.meta.url)), tree, await countTurn());
tree.close();
const cells = compare(figures, packages, ratchet);
const isOf = (cell: Cell, figure: Figure, name: string): boolean =>
  cell.figure === figure.name && cell.package === name;

function table(): string {
  const rows = figures.map((figure) => [
    figure.name,
    ...packages.slice(0, -1).map((name) => {
      const cell = cells.find((one) => isOf(one, figure, name));
      return `${inPackage(figure, name)}${cell && hasGrown(cell) ? '!' : ''}`;
    }),
    `${total(figure)}`,
    figure.isPrinted === true ? 'no limit' : (figure.target ?? 'ratchet'),
  ]);
  const budget = packages.slice(0, -1).map((name) => `${ratchet[name]?.[BUDGET] ?? ''}`);
  const at = rows.findIndex(([name]) => name === 'lines') + 1;
  const all = [
    ['figure', ...packages, 'target'],
    ...rows.slice(0, at),
    [BUDGET, ...budget, '', ''],
    ...rows.slice(at),
  ];
  const widths = all[0]?.map((_, column) =>
    Math.max(...all.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((word, column) =>
        column === 0 || column === row.length - 1
          ? word.padEnd(widths?.[column] ?? 0)
          : word.padStart(widths?.[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return all.map(line).join('\n');
}

/** Returns the places of the figure whose name contains `part`, such as `--list casts`. */
function listed(part: string): string | undefined {
  const figure =
    figures.find(({ id, name }) => name === part || id === part) ??
    figures.find(({ name }) => name.includes(part));
  const rows = figure?.places.map(({ text, count }) =>
    count === undefined ? text : `${count} ${text}`,
  );
  return figure && [`${figure.name}: ${total(figure)}`, ...(rows ?? [])].join('\n');
}

const sentence = ({ package: name, figure, value, allowed = 0 }: Cell): string =>
  `${name}: ${figure} ${value}, allowed ${allowed}`;
const grown = cells.filter(hasGrown);
const fallen = cells.filter((cell) => hasFallen(cell, ratchet));
const answer = values.json
  ? JSON.stringify({ figures, cells }, undefined, 2)
  : values.list === undefined
    ? table()
    : listed(values.list);
if (answer === undefined) {
  const names = figures.map(({ name }) => name).join(', ');
  process.stderr.write(`figure \`${values.list}\` not found; use one of: ${names}\n`);
  process.exit(2);
}
process.stdout.write(`${answer}\n`);
if (values.tighten) {
  writeFileSync(RATCHET, `${JSON.stringify(tighten(cells, ratchet), undefined, 2)}\n`);
} else if (!values.json && values.list === undefined) {
  const notes = [
    ...grown.map((cell) => `grown: ${sentence(cell)}`),
    ...fallen.map((cell) => `fallen: ${sentence(cell)}`),
    ...(fallen.length > 0 ? ['run `npm run house -- --tighten` to keep the lower figures'] : []),
  ];
  if (notes.length > 0) process.stdout.write(`\n${notes.join('\n')}\n`);
  process.exitCode = grown.length > 0 ? 1 : 0;
}
