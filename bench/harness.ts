// Measures the cost that the harness adds to a turn with all features, against a bare loop with the same requests and
// file reads. The model server is another process.
import { raceTurns } from './fresh.ts';
import type { BenchRow } from './row.ts';

/** Turns of a run, number of rounds, and the maximum ratio to the bare loop. */
const ROWS = [
  { turns: 50, rounds: 5, most: 2.2 },
  { turns: 400, rounds: 3, most: 1.9 },
] as const;

export async function bench(): Promise<BenchRow[]> {
  return ROWS.map(({ turns, rounds, most }) => {
    const { ours, base } = raceTurns({ turns, rounds, atOnce: 1 });
    return {
      name: `${turns} tool turns, everything on`,
      ours: ours / turns,
      base: base / turns,
      ratio: ours / base,
      unit: 'µs CPU per turn',
      target: `at most ${most}x a bare loop`,
      ok: ours <= most * base,
    };
  });
}
