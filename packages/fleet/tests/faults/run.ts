// The two halves of the suite: faults under load, and signals that cross a park.
import { setTimeout as sleep } from 'node:timers/promises';
import { must } from '../../../../bench/fleet/holder.ts';
import { percentile } from '../../../../bench/fleet/processes.ts';
import type { Store } from '../../../core/src/store/port.ts';
import {
  type CrossingFindings,
  checkCrossings,
  checkFaults,
  type Findings,
  recoveries,
} from './checks.ts';
import { crossingThread, faultThread } from './fault-work.ts';
import { allEnded, type FaultStage, insist } from './stage.ts';

export interface FaultRun {
  findings: Findings;
  faults: Record<string, number>;
  /** Milliseconds until somebody else had a thread whose worker was struck. */
  recovery: { count: number; p50: number; p95: number; max: number; kinds: Record<string, number> };
  /** The longest of those, in words. */
  slowest: string[];
}

interface FaultOptions {
  faults: number;
  chance: () => number;
  /** That run at the same time. */
  threads: number;
  steps: number;
  say(text: string): void;
  /** How long the last ones may take when all is well again. */
  settleMs?: number;
}

/** Keeps so many at work as long as there are faults. */
async function feed(
  store: Store,
  { threads, steps }: FaultOptions,
  ids: string[],
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const page = await store.query({ directive: 'faults', status: 'completed', limit: 500 });
    const ended = page.ok ? page.output.rows.length : ids.length;
    const isFull = ids.length - ended >= threads || ids.length >= 480;
    if (isFull) {
      await sleep(100);
      continue;
    }
    const id = `f${ids.length}`;
    const made = await insist(
      () => store.createThread(faultThread(id, { steps, pauseMs: 60 })),
      (done) => done.ok || done.error.code === 'thread_exists',
    );
    if (made.ok || made.error.code === 'thread_exists') ids.push(id);
  }
}

export async function runFaults(stage: FaultStage, options: FaultOptions): Promise<FaultRun> {
  const { faults, chance, say, settleMs = 90_000 } = options;
  const ids: string[] = [];
  const stop = new AbortController();
  const feeding = feed(stage.store, options, ids, stop.signal);
  await sleep(1_500);
  const count: Record<string, number> = {};
  for (let fault = 1; fault <= faults; fault++) {
    const what = await stage.strike(chance);
    const kind = what.split(' w-')[0] ?? what;
    count[kind] = (count[kind] ?? 0) + 1;
    say(`fault ${fault}: ${what}`);
    await sleep(500 + chance() * 2_000);
  }
  stop.abort();
  await feeding;
  await stage.calm();
  await allEnded(stage.store, 'faults', ids.length, settleMs);
  const findings = await checkFaults(stage.store, stage.folder, ids);
  const found = recoveries(stage.folder, stage.hits).sort((a, b) => b.ms - a.ms);
  const times = found.map(({ ms }) => ms);
  const kinds = Object.entries(Object.groupBy(found, ({ kind }) => kind)).map(
    ([kind, of = []]) =>
      [
        kind,
        percentile(
          of.map(({ ms }) => ms),
          0.95,
        ),
      ] as const,
  );
  return {
    findings,
    faults: count,
    recovery: {
      count: times.length,
      p50: percentile(times, 0.5),
      p95: percentile(times, 0.95),
      max: Math.max(0, ...times),
      kinds: Object.fromEntries(kinds),
    },
    slowest: found.slice(0, 100).map(({ kind, ms, who }) => `${kind} ${ms.toFixed(0)} ms: ${who}`),
  };
}

/** So many signals, each sent at a moment of its own, to threads that park again and again. */
export async function runCrossings(
  stage: FaultStage,
  { signals, chance, threads }: { signals: number; chance: () => number; threads: number },
): Promise<CrossingFindings> {
  const { store } = stage;
  const each = Math.ceil(signals / threads);
  const ids = Array.from({ length: threads }, (_, index) => `x${index}`);
  for (const id of ids) must(await store.createThread(crossingThread(id, each)));
  await Promise.all(
    ids.map(async (id) => {
      for (let number = 1; number <= each; number++) {
        await sleep(chance() * 40);
        const key = `k${number}`;
        must(await store.signal({ thread: id, kind: 'message', payload: {}, key, by: 'driver' }));
      }
    }),
  );
  await allEnded(store, 'crossings', threads, 30_000);
  return await checkCrossings(store, stage.folder, ids, each);
}
