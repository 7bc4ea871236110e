// Half of a large evaluation in a process of its own: runs wait for nothing, so a second processor is worth
// as much as the first. The other process is this very command with a part of the work, and hands back
// its trace.
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

/** Said to the other process: it does all of its part by itself. */
const ALONE = 'KERNMANTLE_EVALUATES_ALONE';
/** Fewer are done before another process has begun. */
const MANY = 400;

/** About how long a variant takes, against the plain one. */
const WEIGHTS: Readonly<Record<Variant, number>> = {
  plain: 10,
  retries: 13,
  obfuscated: 18,
  child: 16,
  help: 13,
  items: 17,
};

/** In two halves of about the same size; one where it is not worth it. `runs`: of a mode in a variant. */
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

/** What the other process is told besides its part. */
interface Words {
  readonly data: string;
  readonly more: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Runs a part elsewhere; its lines. Ends with the signal. */
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
    let said = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const code = await new Promise<number | null>((resolve) => {
      child.once('error', () => resolve(null));
      child.once('close', resolve);
    });
    if (code !== 0 && code !== 1) {
      return fail(
        'internal_error',
        `the other half of the evaluation failed: ${said.slice(0, 500)}`,
      );
    }
    const lines = readFileSync(trace, 'utf8').split('\n').filter(Boolean);
    return ok(lines.map((line): TraceLine => JSON.parse(line)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** In the order of suites, modes and variants, whoever has run them. */
export function inOrder(lines: readonly TraceLine[], suites: readonly string[]): TraceLine[] {
  const placeOf = ({ suite, mode, variant }: TraceLine): number =>
    (suites.indexOf(suite) * MODES.length + MODES.indexOf(mode)) * VARIANTS.length +
    VARIANTS.indexOf(variant);
  return lines.toSorted((one, other) => placeOf(one) - placeOf(other));
}
