// What the harness adds to a turn, everything on, against a bare loop that does the same requests and
// file reads by hand.
import { bareLoop } from './bare-loop.ts';
import { type BenchRow, race } from './row.ts';
import { openStage } from './thread-stage.ts';

const TURNS = 50;
const NAME = `turns_${TURNS}`;

export async function bench(): Promise<BenchRow[]> {
  const stage = await openStage([NAME]);
  try {
    const micros = await race(
      { ours: () => stage.run(NAME), bare: () => bareLoop(stage.url, stage.root, NAME) },
      5,
    );
    const [ours, base] = [(micros['ours'] ?? 0) / TURNS, (micros['bare'] ?? 0) / TURNS];
    const ratio = ours / base;
    return [
      {
        name: `${TURNS} tool turns, everything on`,
        ours,
        base,
        ratio,
        unit: 'µs CPU per turn',
        target: 'at most 1.5x a bare loop',
        ok: ratio <= 1.5,
      },
    ];
  } finally {
    await stage.close();
  }
}
