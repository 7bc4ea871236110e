// Counts the transactions of the registry in a turn and, if `strace` is installed, the system calls of the whole
// process, against a bare loop. The counts do not depend on the load of the machine. This file is also the counted program.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { bareLoop } from './bare-loop.ts';
import type { BenchRow } from './row.ts';
import { openStage } from './thread-stage.ts';

const [TURNS, WARM, RUNS] = [50, 2, 3];
const NAME = `turns_${TURNS}`;
const SELF = fileURLToPath(import.meta.url);
/** Texts that are written at the start of each part, so that the trace contains them. */
const MARKS = { ours: 'km-bench ours', bare: 'km-bench bare', end: 'km-bench end' } as const;

interface Counted {
  /** Number of transactions of all measured turns. */
  transactions: number;
  /** The ids of the threads of the counted process. */
  tasks: string[];
}

/** Counts every COMMIT after this call. Returns a function that returns the count. */
function countCommits(): () => number {
  let count = 0;
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function (...args) {
    const statement = prepare.apply(this, args);
    if (args[0] !== 'COMMIT') return statement;
    const run = statement.run.bind(statement);
    return Object.assign(statement, {
      run: () => {
        count += 1;
        return run();
      },
    });
  };
  return () => count;
}

/** Runs as the counted process. */
async function count(): Promise<void> {
  const commits = countCommits();
  const stage = await openStage([NAME]);
  const ours = () => stage.run(NAME);
  const bare = () => bareLoop(stage.url, stage.root, NAME);
  const times = async (runs: number, work: () => Promise<unknown>): Promise<void> => {
    for (let run = 0; run < runs; run++) await work();
  };
  await times(WARM, ours);
  await times(WARM, bare);
  const before = commits();
  process.stderr.write(`${MARKS.ours}\n`);
  await times(RUNS, ours);
  process.stderr.write(`${MARKS.bare}\n`);
  const transactions = commits() - before;
  await times(RUNS, bare);
  process.stderr.write(`${MARKS.end}\n`);
  const tasks = process.platform === 'linux' ? readdirSync('/proc/self/task') : [];
  await stage.close();
  process.stdout.write(JSON.stringify({ transactions, tasks } satisfies Counted));
}

function countedBy(program: string, args: readonly string[]): Counted | undefined {
  const done = spawnSync(program, [...args, '--no-warnings', SELF, 'count'], { encoding: 'utf8' });
  return done.status === 0 ? (JSON.parse(done.stdout) as Counted) : undefined;
}

/** Returns the system calls of these tasks in both parts, per turn. */
function readTrace(file: string, tasks: ReadonlySet<string>): { ours: number; bare: number } {
  const counts = { ours: 0, bare: 0 };
  let part: keyof typeof counts | undefined;
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    if (line.includes(MARKS.ours)) part = 'ours';
    else if (line.includes(MARKS.bare)) part = 'bare';
    else if (line.includes(MARKS.end)) part = undefined;
    // The trace contains a call twice if another call interrupted it.
    else if (part && tasks.has(line.split(' ', 1)[0] ?? '') && !line.includes(' resumed>'))
      counts[part] += 1;
  }
  return { ours: counts.ours / (RUNS * TURNS), bare: counts.bare / (RUNS * TURNS) };
}

function rowsOf(counted: Counted, calls?: { ours: number; bare: number }): BenchRow[] {
  const transactions = counted.transactions / (RUNS * TURNS);
  const row = (what: string, ours: number, base: number, most: number): BenchRow => ({
    name: `${what} of a turn, everything on`,
    ours,
    base,
    ratio: ours / base,
    unit: what,
    target: `at most ${most} per turn`,
    ok: ours <= most,
  });
  // A turn commits before the request and before the call. The start and the end of a run are spread over its turns.
  const rows = [row('transactions', transactions, 2, 2.2)];
  return calls ? [...rows, row('system calls', calls.ours, calls.bare, 70)] : rows;
}

export async function bench(): Promise<BenchRow[]> {
  const dir = mkdtempSync(join(tmpdir(), 'km-bench-calls-'));
  const file = join(dir, 'trace');
  try {
    const traced = countedBy('strace', ['-f', '-qq', '-o', file, process.execPath]);
    if (traced) return rowsOf(traced, readTrace(file, new Set(traced.tasks)));
    process.stderr.write('system calls are not counted: `strace` is not there, or may not trace\n');
    const counted = countedBy(process.execPath, []);
    if (!counted) throw new Error('the counted process failed');
    return rowsOf(counted);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

if (process.argv[1] === SELF && process.argv[2] === 'count') await count();
