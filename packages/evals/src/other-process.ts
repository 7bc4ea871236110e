// Runs half of a large evaluation in a second process, to use a second processor. That process runs
// the same command with a part of the work and returns its trace.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, type Outcome, ok, packagePath, spawn } from '@kernmantle/core/base';
import type { TraceLine } from './lines.ts';
import { MODES, type ReadingMode } from './play.ts';
import { VARIANTS, type Variant } from './variants.ts';

export interface EvaluationPart {
  readonly modes: readonly ReadingMode[];
  readonly variants: readonly Variant[];
}

/** Environment variable of the second process. It prevents a third process. */
const ALONE = 'KERNMANTLE_EVALUATES_ALONE';
/** Minimum number of runs that justifies a second process. */
const MANY = 400;

/** Approximate duration of each variant, relative to the plain one. */
const WEIGHTS: Readonly<Record<Variant, number>> = {
  plain: 10,
  retries: 13,
  obfuscated: 18,
  child: 16,
  help: 13,
  items: 17,
};

/**
 * Divides the work into two parts of similar duration. Returns one part if a second process is slower.
 * `runs` is the number of runs of a mode in a variant.
 */
export function inHalves(
  { modes, variants }: EvaluationPart,
  runs: number,
  env: Readonly<Record<string, string | undefined>>,
): [EvaluationPart, EvaluationPart?] {
  const all = { modes, variants };
  if (env[ALONE] === '1' || availableParallelism() < 2) return [all];
  if (runs * modes.length * variants.length < MANY) return [all];
  if (variants.length === 1) {
    if (modes.length === 1) return [all];
    return [
      { modes: modes.slice(0, -1), variants },
      { modes: modes.slice(-1), variants },
    ];
  }
  const own: Variant[] = [];
  const others: Variant[] = [];
  const weigh = (list: readonly Variant[]): number =>
    list.reduce((sum, one) => sum + WEIGHTS[one], 0);
  for (const one of variants.toSorted((a, b) => WEIGHTS[b] - WEIGHTS[a])) {
    (weigh(own) <= weigh(others) ? own : others).push(one);
  }
  const ordered = (list: readonly Variant[]): Variant[] =>
    variants.filter((one) => list.includes(one));
  return [
    { modes, variants: ordered(own) },
    { modes, variants: ordered(others) },
  ];
}

/** Arguments of the second process besides its part. */
interface Words {
  readonly data: string;
  readonly more: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Runs a part in a second process and returns its lines. The signal ends the process. */
export async function runElsewhere(
  { modes, variants }: EvaluationPart,
  { data, more, cwd, env }: Words,
  signal: AbortSignal,
): Promise<Outcome<TraceLine[]>> {
  const folder = mkdtempSync(join(tmpdir(), 'kernmantle-evaluation-'));
  const trace = join(folder, 'trace.jsonl');
  const words = ['evaluate', 'attacks', data, ...more, '--trace', trace, '--json'];
  const part = ['--mode', ...modes, '--variant', ...variants];
  try {
    const isSource = import.meta.url.endsWith('.ts');
    const child = spawn(process.execPath, [packagePath('bin/km.js'), ...words, ...part], {
      cwd,
      env: { ...env, [ALONE]: '1', ...(isSource && { KERNMANTLE_SRC: '1' }) },
      stdio: ['ignore', 'pipe', 'ignore'],
      signal,
    });
    let stderr = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const code = await new Promise<number | null>((resolve) => {
      child.once('error', () => resolve(null));
      child.once('close', resolve);
    });
    if (code !== 0 && code !== 1) {
      return fail(
        'internal_error',
        `the other half of the evaluation failed: ${stderr.slice(0, 500)}`,
      );
    }
    const lines = readFileSync(trace, 'utf8').split('\n').filter(Boolean);
    return ok(lines.map((line): TraceLine => JSON.parse(line)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Sorts lines by suite, mode and variant, independent of the process that ran them. */
export function inOrder(lines: readonly TraceLine[], suites: readonly string[]): TraceLine[] {
  const placeOf = ({ suite, mode, variant }: TraceLine): number =>
    (suites.indexOf(suite) * MODES.length + MODES.indexOf(mode)) * VARIANTS.length +
    VARIANTS.indexOf(variant);
  return lines.toSorted((one, other) => placeOf(one) - placeOf(other));
}
