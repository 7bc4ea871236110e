// Runs an evaluation: each suite in each mode on its own stage. Suites run in parallel, because a
// run mostly waits for commits.
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Extension } from '@kernmantle/core/runtime';
import type { Cases, Suite } from './cases.ts';
import type { TraceLine } from './lines.ts';
import { factsByOf, type Metadata } from './metadata.ts';
import { playsOf, type ReadingMode } from './play.ts';
import { runCase } from './run-case.ts';
import { openStage } from './stage.ts';
import type { Variant } from './variants.ts';

interface Evaluation {
  readonly cases: Cases;
  readonly metadata: Metadata;
  readonly modes: readonly ReadingMode[];
  readonly variants: readonly Variant[];
  readonly signal: AbortSignal;
  /** Extensions of every runtime that the evaluation opens. */
  readonly extensions: readonly Extension[];
  /** Called with the number of finished runs. */
  onProgress(done: number, all: number, what: string): void;
}

/** Number of suites that run at the same time. One waits for the disk while the other computes. */
const LANES = 2;

async function evaluateSuite(
  { cases, metadata, variants, signal, extensions }: Evaluation,
  suite: Suite,
  mode: ReadingMode,
  onRun: (what: string) => void,
): Promise<Outcome<TraceLine[]>> {
  const factsBy = factsByOf(suite, metadata);
  const opened = await openStage(suite, mode, factsBy, extensions);
  if (!opened.ok) return opened;
  const stage = opened.output;
  const lines: TraceLine[] = [];
  try {
    for (const [at, variant] of variants.entries()) {
      // Without an attack all variants are equal, so these runs are made once.
      const calm = lines.filter((line) => line.variant === variants[0] && line.injection === null);
      lines.push(...calm.map((line) => ({ ...line, variant })));
      for (const play of playsOf(cases, suite, factsBy, { mode, variant }, at === 0)) {
        if (signal.aborted) return fail('cancelled', 'the evaluation was interrupted');
        const result = await runCase(stage, play, factsBy);
        if (!result.ok) return result;
        lines.push(...result.output);
        onRun(`${suite.name} ${mode} ${variant}`);
      }
    }
    return ok(lines);
  } finally {
    await stage.close();
  }
}

/** Runs the evaluation. The lines are in the order of suites, modes and variants. */
export async function evaluate(evaluation: Evaluation): Promise<Outcome<TraceLine[]>> {
  const { cases, modes, variants, onProgress } = evaluation;
  const jobs = cases.suites.flatMap((suite) => modes.map((mode) => ({ suite, mode })));
  const all = jobs.reduce(
    (sum, { suite: { tasks, pairs } }) => sum + tasks.length + pairs.length * variants.length,
    0,
  );
  let finished = 0;
  const onRun = (what: string): void => onProgress(++finished, all, what);
  const parts: Outcome<TraceLine[]>[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < jobs.length; at = next++) {
      const one = jobs[at];
      if (one) parts[at] = await evaluateSuite(evaluation, one.suite, one.mode, onRun);
    }
  };
  await Promise.all(Array.from({ length: LANES }, work));
  const lines: TraceLine[] = [];
  for (const part of parts) {
    if (!part.ok) return part;
    lines.push(...part.output);
  }
  return ok(lines);
}
