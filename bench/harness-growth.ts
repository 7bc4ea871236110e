// What a turn costs more for every turn that lies behind it: the slope of the CPU per turn between
// short and long conversations, against that of a bare loop. Both send the whole conversation again
// every time, so both have one; what is measured is what the harness adds to it.
import { bareLoop } from './bare-loop.ts';
import { type BenchRow, race } from './row.ts';
import { openStage } from './thread-stage.ts';

const [SHORT, LONG] = [20, 200];
const nameOf = (turns: number): string => `turns_${turns}`;

/** The mean turn of a conversation of N turns has N / 2 turns behind it. */
const slope = (short: number, long: number): number =>
  (long / LONG - short / SHORT) / ((LONG - SHORT) / 2);

export async function bench(): Promise<BenchRow[]> {
  const stage = await openStage([nameOf(SHORT), nameOf(LONG)]);
  const bare = (turns: number) => () => bareLoop(stage.url, stage.root, nameOf(turns));
  const own = (turns: number) => () => stage.run(nameOf(turns));
  try {
    const best = await race(
      { short: own(SHORT), bareShort: bare(SHORT), long: own(LONG), bareLong: bare(LONG) },
      5,
    );
    const ours = slope(best['short'] ?? 0, best['long'] ?? 0);
    const base = slope(best['bareShort'] ?? 0, best['bareLong'] ?? 0);
    return [
      {
        name: `a turn for each turn of history, ${SHORT} to ${LONG} turns`,
        ours,
        base,
        ratio: ours / base,
        unit: 'µs CPU',
        target: 'at most 1.3x the slope of a bare loop',
        ok: base > 0 && ours <= 1.3 * base,
      },
    ];
  } finally {
    await stage.close();
  }
}
