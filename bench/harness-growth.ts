// Measures how much more a turn costs for every earlier turn, against a bare loop. Both send the whole conversation
// every time, so both have a slope. The figure is the slope that the harness adds. Each turn is measured separately, so
// costs per run do not count.
import { bareLoop } from './bare-loop.ts';
import type { BenchRow } from './row.ts';
import { openStage } from './thread-stage.ts';

const [FIRST, TURNS, ROUNDS] = [20, 200, 6];
const NAME = `turns_${TURNS}`;

/** Records the CPU of each turn. The best of all rounds counts, because noise only adds time. */
function createTurnMeter() {
  const best: number[] = [];
  let [at, before] = [0, process.cpuUsage()];
  return {
    begin(): void {
      [at, before] = [0, process.cpuUsage()];
    },
    turn(): void {
      const { user, system } = process.cpuUsage(before);
      best[at] = Math.min(best[at] ?? Number.POSITIVE_INFINITY, user + system);
      at += 1;
      before = process.cpuUsage();
    },
    /** Returns the slope of the line through all turns from `FIRST` on, by least squares. */
    slope(): number {
      const points = best.slice(FIRST, TURNS);
      const [middle, mean] = [
        (points.length - 1) / 2,
        points.reduce((a, b) => a + b, 0) / points.length,
      ];
      const above = points.reduce((sum, y, x) => sum + (x - middle) * (y - mean), 0);
      return above / points.reduce((sum, _, x) => sum + (x - middle) ** 2, 0);
    },
  };
}

export async function bench(): Promise<BenchRow[]> {
  const [own, bare] = [createTurnMeter(), createTurnMeter()];
  const onEvent = (_thread: string, { type }: { type: string }): void => {
    if (type === 'assistant_message') own.turn();
  };
  const stage = await openStage([NAME], { live: { onEvent } });
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      own.begin();
      await stage.run(NAME);
      bare.begin();
      await bareLoop(stage.url, stage.root, NAME, bare.turn);
    }
    const [ours, base] = [own.slope(), bare.slope()];
    return [
      {
        name: `a turn for each turn of history, ${FIRST} to ${TURNS} turns`,
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
