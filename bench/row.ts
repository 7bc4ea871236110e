// Every figure is CPU time of this process, ours against a hand-written lower bound measured in the
// same run, interleaved; the best round of each counts, because noise only ever adds.

export interface BenchRow {
  name: string;
  ours: number;
  base: number;
  ratio: number;
  unit: string;
  /** What the ratio (or the figure) is meant to reach, in words. */
  target: string;
  ok: boolean;
}

/** CPU microseconds that one call of `work` takes. */
export async function cpuMicros(work: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const used = process.cpuUsage(start);
  return used.user + used.system;
}

/** Best of `rounds` for each subject, taken in turns so that both meet the same machine. */
export async function race(
  subjects: Readonly<Record<string, () => unknown>>,
  rounds = 7,
): Promise<Record<string, number>> {
  const best: Record<string, number> = {};
  for (let round = 0; round <= rounds; round++) {
    for (const [name, work] of Object.entries(subjects)) {
      const micros = await cpuMicros(work);
      // The first round warms up and does not count.
      if (round > 0) best[name] = Math.min(best[name] ?? Number.POSITIVE_INFINITY, micros);
    }
  }
  return best;
}
