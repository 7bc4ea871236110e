// Measures the resident memory of a worker while it runs 100 threads at the pace of a model.
import { setTimeout as sleep } from 'node:timers/promises';
import { prepare } from './prepare.ts';
import { openProduct } from './product.ts';
import { atMost, type FleetRow, type FleetRun, told } from './row.ts';
import { residentMegabytes } from './server.ts';

const THREADS = 100;
const DIRECTIVE = 'talks_60';

export async function run({ url }: FleetRun): Promise<FleetRow[]> {
  const product = await openProduct(await prepare(url, 'b_memory'), [DIRECTIVE]);
  const pid = await product.startWorker(THREADS);
  await sleep(2_000);
  const empty = residentMegabytes(pid);
  for (let index = 0; index < THREADS; index++) await product.enqueue(DIRECTIVE);
  const seen: number[] = [];
  for (let second = 0; second < 30; second++) {
    await sleep(1_000);
    seen.push(residentMegabytes(pid));
  }
  await product.close();
  return [
    told('resident memory of an idle worker', empty, 'MB'),
    atMost(`resident memory with ${THREADS} active threads, most`, Math.max(...seen), 150, 'MB'),
  ];
}
