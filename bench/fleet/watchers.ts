// Measures fifty people who each watch the same 200 threads, while these threads write 400 events a second.
import { setTimeout as sleep } from 'node:timers/promises';
import { must, openAt } from './holder.ts';
import { prepare } from './prepare.ts';
import { start } from './processes.ts';
import { atMost, type FleetRow, type FleetRun, told } from './row.ts';
import { benchThread } from './work.ts';

const [WATCHERS, THREADS, EVENTS_A_SECOND] = [50, 200, 400];
/** Interval between two steps of a thread. A step writes three events. */
const STEP_MS = (THREADS * 3 * 1000) / EVENTS_A_SECOND;
const MEASURE_MS = 15_000;

export async function run({ url, say }: FleetRun): Promise<FleetRow[]> {
  const address = await prepare(url, 'b_watchers');
  const store = await openAt(address);
  for (let index = 0; index < THREADS; index++) {
    must(await store.createThread(benchThread(`v${index}`, { steps: 1_000_000 })));
  }
  const args = [address, String(Math.ceil(THREADS / 3) + 5), String(STEP_MS)];
  const workers = [1, 2, 3].map(() => start('./loop-worker.ts', args));
  for (const worker of workers) await worker.said('up');
  const watching = start('./watch-process.ts', [address, String(WATCHERS), String(THREADS)]);
  await watching.said('up');
  say(`  ${WATCHERS} watchers of ${THREADS} threads, ${MEASURE_MS / 1000} s …`);
  await sleep(4_000);
  watching.child.kill('SIGUSR2');
  await sleep(MEASURE_MS);
  watching.child.kill('SIGTERM');
  const said = await watching.said('watched');
  for (const worker of workers) worker.child.kill('SIGKILL');
  await store.close();
  const figures = JSON.parse(said.slice('watched '.length)) as Record<string, number>;
  const { p50 = Number.NaN, p95 = Number.NaN, gaps = -1, cores = 0 } = figures;
  return [
    told('events shown a second', figures['a_second'] ?? 0, 'a second', `${WATCHERS} watchers`),
    told('event to watcher, p50', p50, 'ms'),
    atMost('event to watcher, p95', p95, 150, 'ms'),
    { name: 'gaps', value: gaps, unit: 'events', target: '0', ok: gaps === 0 },
    told('CPU of the process with the watchers', cores, 'cores'),
  ];
}
