// Measures the CPU of a fleet of three workers without work.
import { setTimeout as sleep } from 'node:timers/promises';
import { prepare } from './prepare.ts';
import { openProduct } from './product.ts';
import { atMost, type FleetRow, type FleetRun, told } from './row.ts';
import { treeMillis } from './server.ts';

const SECONDS = 20;

export async function run({ url, databaseMillis }: FleetRun): Promise<FleetRow[]> {
  const product = await openProduct(await prepare(url, 'b_idle'), ['turns_1']);
  const workers: number[] = [];
  for (let index = 0; index < 3; index++) workers.push(await product.startWorker(20));
  // Work that the start has postponed is complete after this time.
  await sleep(5_000);
  const cpu = (): number => workers.reduce((sum, pid) => sum + treeMillis(pid), 0);
  const [ours, database] = [cpu(), databaseMillis()];
  await sleep(SECONDS * 1000);
  const perSecond = (millis: number): number => millis / 1000 / SECONDS;
  const [work, store] = [perSecond(cpu() - ours), perSecond(databaseMillis() - database)];
  await product.stopWorkers();
  await product.close();
  return [
    told('CPU of three idle workers', work, 'cores'),
    told('CPU of the database beside them', store, 'cores'),
    atMost('CPU of an idle fleet', work + store, 0.1, 'cores'),
  ];
}
