// A worker of the fault suite in a process of its own: ADDRESS FOLDER SLOTS fenced|unfenced.
import { setTimeout as sleep } from 'node:timers/promises';
import { openAt, serve } from '../../../../bench/fleet/holder.ts';
import type { Store } from '../../../core/src/store/port.ts';
import { crossingWork, faultWork, openTraces, PROJECT } from './fault-work.ts';

const [address = '', folder = '', slots = '20', fence = 'fenced'] = process.argv.slice(2);
const owner = `w-${process.pid}`;
const end = new AbortController();
process.on('SIGTERM', () => end.abort());
// Nobody is left to end it.
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
const tracer = openTraces(folder, owner);
/** Whoever starts while the database is away waits for it, as a service does that is started again. */
async function open(): Promise<Store> {
  for (let tries = 0; ; tries++) {
    try {
      return await openAt(address);
    } catch (error) {
      if (tries === 60) throw error;
      await sleep(500);
    }
  }
}
const store = await open();
process.stdout.write('up\n');
await serve({
  store,
  owner,
  project: PROJECT,
  slots: Number(slots),
  signal: end.signal,
  work: (grip) =>
    grip.held.row.directive === 'crossings'
      ? crossingWork(store, grip, tracer)
      : faultWork(store, grip, tracer, fence === 'fenced'),
  onLeave: ({ thread, epoch }) => tracer.note('leave', thread, 0, epoch),
});
await store.close();
process.exit(0);
