// Measures many threads in one process: the cost of 200 threads against 200 bare loops, and whether 1,000 threads
// complete. The 1,000 threads run in their own process, so that its memory is theirs.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { raceTurns } from './fresh.ts';
import type { BenchRow } from './row.ts';
import { openStage } from './thread-stage.ts';

const TURNS = 5;
const NAME = `turns_${TURNS}`;
const SOME = 200;
const MANY = 1000;
const isCrowd = process.argv[2] === 'crowd' && process.argv[1] === fileURLToPath(import.meta.url);

const times = async (count: number, work: () => Promise<unknown>): Promise<void> => {
  await Promise.all(Array.from({ length: count }, work));
};

function some(): BenchRow {
  const { ours, base } = raceTurns({ turns: TURNS, atOnce: SOME, rounds: 2 });
  return {
    name: `${SOME} concurrent runs of ${TURNS} turns`,
    ours: ours / 1000,
    base: base / 1000,
    ratio: ours / base,
    unit: 'ms CPU',
    target: 'at most 3x as many bare loops',
    ok: ours <= 3 * base,
  };
}

interface Crowd {
  completed: number;
  /** Reason of the first thread that did not complete. */
  reason: string;
  seconds: number;
  peakMegabytes: number;
}

async function runCrowd(): Promise<Crowd> {
  const stage = await openStage([NAME]);
  const crowd: Crowd = { completed: 0, reason: '', seconds: 0, peakMegabytes: 0 };
  const start = performance.now();
  await times(MANY, async () => {
    try {
      await stage.run(NAME);
      crowd.completed += 1;
    } catch (error) {
      crowd.reason ||= (error as Error).message.slice(0, 300);
    }
  });
  crowd.seconds = (performance.now() - start) / 1000;
  crowd.peakMegabytes = process.resourceUsage().maxRSS / 1024;
  await stage.close();
  return crowd;
}

async function many(): Promise<BenchRow> {
  const child = fork(fileURLToPath(import.meta.url), ['crowd'], { execArgv: [] });
  const [crowd] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => [
      { completed: 0, reason: `exit ${String(code)}`, seconds: 0, peakMegabytes: 0 },
    ]),
  ])) as [Crowd];
  const { completed, reason, seconds, peakMegabytes } = crowd;
  return {
    name: `${MANY} concurrent runs of ${TURNS} turns, ${seconds.toFixed(1)} s, peak ${peakMegabytes.toFixed(0)} MB${reason && `, ${reason}`}`,
    ours: completed,
    base: MANY,
    ratio: completed / MANY,
    unit: 'runs completed',
    target: 'all complete, under 450 MB',
    ok: completed === MANY && peakMegabytes < 450,
  };
}

export async function bench(): Promise<BenchRow[]> {
  return [some(), await many()];
}

if (isCrowd) {
  process.send?.(await runCrowd());
  process.disconnect();
}
