// Runs watchers in their own process: ADDRESS WATCHERS THREADS. Each watcher follows all threads. When the input ends,
// the process prints the delay of the events and whether one is missing.
import { openAt } from './holder.ts';
import { percentile } from './processes.ts';
import { nowMicros } from './work.ts';

const [address = '', watchers = '50', threads = '200'] = process.argv.slice(2);
const store = await openAt(address);
const ends: AbortController[] = [];
const late: number[] = [];
let [events, gaps, isCounting] = [0, 0, false];

async function follow(thread: string, signal: AbortSignal): Promise<void> {
  let last = 0;
  for await (const { seq, data } of store.watch({ thread, seq: 0 }, signal)) {
    if (seq !== last + 1) gaps += 1;
    last = seq;
    if (!isCounting) continue;
    events += 1;
    // A sample is enough and keeps the list small.
    if (events % 7 === 0 && 'at' in data) late.push((nowMicros() - Number(data['at'])) / 1000);
  }
}

const following: Promise<void>[] = [];
for (let watcher = 0; watcher < Number(watchers); watcher++) {
  const end = new AbortController();
  ends.push(end);
  for (let thread = 0; thread < Number(threads); thread++) {
    following.push(follow(`v${thread}`, end.signal));
  }
}
process.stdout.write('up\n');
let cpu = process.cpuUsage();
let began = performance.now();
process.on('SIGUSR2', () => {
  isCounting = true;
  cpu = process.cpuUsage();
  began = performance.now();
});
process.on('SIGTERM', () => {
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - began) / 1000;
  for (const end of ends) end.abort();
  const figures = {
    events,
    gaps,
    p50: percentile(late, 0.5),
    p95: percentile(late, 0.95),
    a_second: events / seconds,
    cores: (user + system) / 1e6 / seconds,
  };
  process.stdout.write(`watched ${JSON.stringify(figures)}\n`, () => process.exit(0));
});
