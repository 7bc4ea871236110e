// Measures the delay from the call that queues a thread to its first step, and from the call that signals a parked
// thread to its next step.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../../packages/core/src/store/port.ts';
import { must, openAt } from './holder.ts';
import { prepare } from './prepare.ts';
import { percentile, start } from './processes.ts';
import { atMost, type FleetRow, type FleetRun, told } from './row.ts';
import { benchThread, nowMicros } from './work.ts';

const THREADS = 200;
const MOST_MS = 50;

const atOf = (data: Readonly<Record<string, unknown>>): number => Number(data['at']);

async function untilStatus(store: Store, thread: string, status: string): Promise<void> {
  for (;;) {
    const row = must(await store.thread(thread));
    if (row.status === status) return;
    // The times are in the journal. More frequent reads would only load the server.
    await sleep(20);
  }
}

async function one(store: Store, id: string): Promise<{ first: number; signalled: number }> {
  const asked = nowMicros();
  must(await store.createThread(benchThread(id, { steps: 2, park: 1 })));
  await untilStatus(store, id, 'waiting');
  await sleep(Math.random() * 30);
  const said = nowMicros();
  must(await store.signal({ thread: id, kind: 'message', payload: {}, key: 'k', by: 'bench' }));
  await untilStatus(store, id, 'completed');
  const events = must(await store.read(id));
  const at = (type: string): number => {
    const event = events.find((found) => found.type === type);
    return event ? atOf(event.data) : Number.NaN;
  };
  return { first: (at('turn_start') - asked) / 1000, signalled: (at('signal') - said) / 1000 };
}

export async function run({ url }: FleetRun): Promise<FleetRow[]> {
  const address = await prepare(url, 'b_latency');
  const workers = [1, 2, 3].map(() => start('./loop-worker.ts', [address, '20', '5']));
  for (const worker of workers) await worker.said('up');
  const store = await openAt(address);
  // The first threads create connections and plans, so they do not count.
  for (let index = 0; index < 10; index++) await one(store, `warm${index}`);
  const all: { first: number; signalled: number }[] = [];
  const lanes = [0, 1, 2, 3].map(async (lane) => {
    for (let index = 0; index < THREADS / 4; index++) {
      all.push(await one(store, `l${lane}-${index}`));
      await sleep(Math.random() * 40);
    }
  });
  await Promise.all(lanes);
  for (const worker of workers) await worker.end();
  await store.close();
  const first = all.map((times) => times.first);
  const signalled = all.map((times) => times.signalled);
  return [
    told('enqueue to first step, p50', percentile(first, 0.5), 'ms'),
    atMost('enqueue to first step, p95', percentile(first, 0.95), MOST_MS, 'ms'),
    told('signal to step, p50', percentile(signalled, 0.5), 'ms'),
    atMost('signal to step, p95', percentile(signalled, 0.95), MOST_MS, 'ms'),
  ];
}
