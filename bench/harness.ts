// What the harness adds to a turn, everything on, against a bare loop that does the same requests and
// file reads by hand. The model server is another process.
import { bareLoop } from './bare-loop.ts';
import { type BenchRow, race } from './row.ts';
import { openStage } from './thread-stage.ts';

/** Turns of a run, how often it is measured, and what it may cost of a bare loop. */
const ROWS = [
  { turns: 50, rounds: 5, most: 2.2 },
  { turns: 400, rounds: 3, most: 1.9 },
] as const;

async function row({ turns, rounds, most }: (typeof ROWS)[number]): Promise<BenchRow> {
  const name = `turns_${turns}`;
  const stage = await openStage([name]);
  try {
    const micros = await race(
      { ours: () => stage.run(name), bare: () => bareLoop(stage.url, stage.root, name) },
      rounds,
    );
    const [ours, base] = [(micros['ours'] ?? 0) / turns, (micros['bare'] ?? 0) / turns];
    return {
      name: `${turns} tool turns, everything on`,
      ours,
      base,
      ratio: ours / base,
      unit: 'µs CPU per turn',
      target: `at most ${most}x a bare loop`,
      ok: ours <= most * base,
    };
  } finally {
    await stage.close();
  }
}

export async function bench(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const one of ROWS) rows.push(await row(one));
  return rows;
}
