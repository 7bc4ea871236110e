// `node scripts/capacity.ts [--bench FILE] [--turns 10] [--peak 3] [--load 0.5] [--days 30] [--json]`: prints the
// machines and the load of the database for 1 and 100 million threads a day, from the measured costs of one turn. It
// prints every assumption with the table. FILE is the output of `npm run bench:fleet -- --json`.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { capacityFigures } from './capacity-figures.ts';

type Given = NonNullable<Parameters<typeof capacityFigures>[0]>;

function capacityTable({ titles, rows, notes }: ReturnType<typeof capacityFigures>): string {
  return [
    `| | ${titles.join(' | ')} |`,
    `|---|${titles.map(() => '---:').join('|')}|`,
    ...rows.map(({ name, values }) => `| ${name} | ${values.join(' | ')} |`),
    '',
    ...notes,
  ].join('\n');
}

/** Returns the figures of a run of the benchmark, as far as the file contains them. */
function costsFrom(file: string): NonNullable<Given['costs']> {
  const { costs } = JSON.parse(readFileSync(file, 'utf8')) as Pick<Given, 'costs'>;
  return { ...costs, source: costs?.source ?? file };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      bench: { type: 'string' },
      turns: { type: 'string' },
      peak: { type: 'string' },
      load: { type: 'string' },
      days: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  });
  const given = { turns: values.turns, peak: values.peak, load: values.load, days: values.days };
  const figures = Object.entries(given).filter(([, text]) => text !== undefined);
  const made = capacityFigures({
    ...(values.bench === undefined ? {} : { costs: costsFrom(values.bench) }),
    assumed: Object.fromEntries(figures.map(([name, text]) => [name, Number(text)])),
  });
  if (Object.values(made.assumed).some((value) => !(value > 0))) {
    process.stderr.write('every figure has to be a number above 0\n');
    process.exit(2);
  }
  const { costs, assumed, needs } = made;
  const shown = values.json ? JSON.stringify({ costs, assumed, needs }) : capacityTable(made);
  process.stdout.write(`${shown}\n`);
}
