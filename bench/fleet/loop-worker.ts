// Runs a worker of the benchmark in its own process: ADDRESS SLOTS MODEL_MS. It prints `up`, takes threads until it is
// told to end, and then prints the number of its steps.
import { openAt, serve } from './holder.ts';
import { PROJECT, workOn } from './work.ts';

const [address = '', slots = '10', modelMs = '5'] = process.argv.slice(2);
const end = new AbortController();
process.on('SIGTERM', () => end.abort());
process.stdin.on('end', () => end.abort());
process.stdin.resume();
const store = await openAt(address);
process.stdout.write('up\n');
let steps = 0;
const onStep = (): void => {
  steps += 1;
};
await serve({
  store,
  owner: `w-${process.pid}`,
  project: PROJECT,
  slots: Number(slots),
  signal: end.signal,
  work: (grip) => workOn(store, grip, { modelMs: Number(modelMs), onStep }),
});
await store.close();
process.stdout.write(`steps ${steps}\n`);
process.exit(0);
