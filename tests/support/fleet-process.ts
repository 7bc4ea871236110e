// Runs a process that takes queued threads, for tests with several of them: it takes and resumes threads and requeues
// them on a signal. It prints every recorded event at once, so that a test knows what was committed before a kill.
import { appendFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '@kernmantle/core/base';
import { createRuntime } from '@kernmantle/core/runtime';
import { nameOwner } from '@kernmantle/core/store';
import { EXTENSIONS } from '../../packages/kernmantle/src/extensions.ts';
import { probeTools } from './crash-project.ts';

const [root = ''] = process.argv.slice(2);
const say = (text: string): void => void writeSync(1, `${text}\n`);
const die = (): boolean => process.kill(process.pid, 'SIGKILL');

/** Writes a line for every run of a tool, in the middle of its work: the place and the key of the call. */
const tools = probeTools(async (name, at, key) => {
  say(`tool ${name} ${at}`);
  await sleep(5);
  appendFileSync(join(root, `${name}.log`), `${at} ${key}\n`);
  await sleep(5);
  return { done: at };
});

const opened = await createRuntime({ project: root, tools, extensions: EXTENSIONS });
if (!opened.ok) throw new Error(opened.error.detail.message);
const runtime = opened.output;
/** `take`: dies with the first thread that it takes. `part signal 1`: dies with the first `signal` of that thread. */
const moment = process.env.DIES_AT ?? '';
const [who = '', what = '', which = ''] = moment.split(' ');
let seen = 0;
const threads = await runtime.threads({
  onEvent(thread, { type }) {
    say(`event ${thread} ${type}`);
    if (what === '' || !thread.startsWith(who) || type !== what) return;
    seen += 1;
    if (seen === Number(which)) die();
  },
});
if (!threads.ok) throw new Error(threads.error.detail.message);
const { store, resumeLeased, requeueAll } = threads.output;
const going = new AbortController();
async function go(): Promise<void> {
  going.abort();
  await requeueAll();
  await runtime.close();
  say('gone');
  process.exit(0);
}
process.on('SIGTERM', () => void go());
say('up');
const owner = { owner: nameOwner(), ttlMs: 30_000 };
while (!going.signal.aborted) {
  await store.sweep();
  const since = systemClock.monotonic();
  const taken = await store.take(owner, { count: 1, projects: [root], waitMs: 100 });
  for (const held of taken.ok ? taken.output : []) {
    say(`taken ${held.thread}`);
    if (moment === 'take') die();
    void resumeLeased(held, since).then((done) =>
      say(`done ${held.thread} ${done.ok ? done.output.status : JSON.stringify(done.error)}`),
    );
  }
}
