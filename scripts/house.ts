// `npm run house`: the figures of the house as a table; fails when one is over what is allowed.
// `--json` prints all of it as data, `--list FIGURE` who makes a figure what it is.
import { parseArgs } from 'node:util';
import { type Figure, isOver, treeFigures, turnFigures } from './house/figures.ts';
import { readTree } from './house/tree.ts';
import { countTurn } from './house/turn.ts';

async function measure(): Promise<Figure[]> {
  const tree = readTree();
  try {
    return [...treeFigures(tree), ...turnFigures(await countTurn())];
  } finally {
    tree.close();
  }
}

function table(figures: readonly Figure[]): string {
  const width = Math.max(...figures.map(({ name }) => name.length));
  const line = (name: string, seen: string, allowed: string, note: string): string =>
    `${name.padEnd(width)} ${seen.padStart(8)} ${allowed.padStart(8)} ${note}`.trimEnd();
  const rows = figures.map((figure) =>
    line(figure.name, `${figure.seen}`, `${figure.allowed}`, isOver(figure) ? 'over' : ''),
  );
  return [line('figure', 'seen', 'allowed', ''), ...rows].join('\n');
}

/** Any part of the name will do: `--list casts`, `--list 40`. */
function listed(figures: readonly Figure[], part: string): string | undefined {
  const figure =
    figures.find(({ name }) => name === part) ?? figures.find(({ name }) => name.includes(part));
  return (
    figure && [`${figure.name}: ${figure.seen} of ${figure.allowed}`, ...figure.list].join('\n')
  );
}

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, list: { type: 'string' } },
});
const figures = await measure();
const answer = values.json
  ? JSON.stringify(figures, undefined, 2)
  : values.list === undefined
    ? table(figures)
    : listed(figures, values.list);
if (answer === undefined) {
  const names = figures.map(({ name }) => name).join(', ');
  process.stderr.write(`no figure is called \`${values.list}\`; there are: ${names}\n`);
  process.exit(2);
}
process.stdout.write(`${answer}\n`);
process.exitCode = values.list === undefined && figures.some(isOver) ? 1 : 0;
