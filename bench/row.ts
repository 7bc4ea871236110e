// Measures CPU time of this process. Each figure is compared with a hand-written lower bound that is measured in the
// same run, alternately. The best round of each counts, because noise only adds time.

export interface BenchRow {
  name: string;
  ours: number;
  base: number;
  ratio: number;
  unit: string;
  /** Target of the ratio or the figure, as text. */
  target: string;
  ok: boolean;
}

/** Returns the CPU microseconds of one call of `work`. */
export async function cpuMicros(work: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const used = process.cpuUsage(start);
  return used.user + used.system;
}

/** Returns the best of `rounds` for each subject. The subjects alternate, so that both get the same conditions. */
export async function race(
  subjects: Readonly<Record<string, () => unknown>>,
  rounds = 7,
): Promise<Record<string, number>> {
  const best: Record<string, number> = {};
  for (let round = 0; round <= rounds; round++) {
    for (const [name, work] of Object.entries(subjects)) {
      const micros = await cpuMicros(work);
      // The first round only warms up.
      if (round > 0) best[name] = Math.min(best[name] ?? Number.POSITIVE_INFINITY, micros);
    }
  }
  return best;
}
