// A process of its own for tests of crashes: opens a project, goes on with the thread it finds or
// starts one, and says every recorded event at once, so that a kill shows what was acknowledged.
import { appendFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRuntime } from '../../src/runtime/index.ts';
import { isEnded } from '../../src/store/index.ts';
import { probeTools } from './crash-project.ts';

const [root = '', directive = ''] = process.argv.slice(2);
const say = (text: string): void => void writeSync(1, `${text}\n`);

/** Leaves a line for every time it ran, in the middle of its work: for what, and under which key. */
const tools = probeTools(async (name, at, key) => {
  await sleep(1);
  appendFileSync(join(root, `${name}.log`), `${at} ${key}\n`);
  await sleep(2);
  return { done: at };
});

const runtime = await createRuntime({ project: root, tools });
if (!runtime.ok) throw new Error(runtime.error.detail.message);
/** `part signal 1`: dies with the first `signal` of a thread whose name begins so. */
const [who = '', what = '', which = ''] = (process.env.DIES_AT ?? '').split(' ');
let seen = 0;
const threads = await runtime.output.threads({
  onEvent(thread, { type }) {
    say(`event ${thread} ${type}`);
    if (who === '' || !thread.startsWith(who) || type !== what) return;
    seen += 1;
    if (seen === Number(which)) process.kill(process.pid, 'SIGKILL');
  },
});
if (!threads.ok) throw new Error(threads.error.detail.message);
const { store, run, resume } = threads.output;
await store.sweep();
const page = await store.query({ directive, limit: 500 });
const rows = page.ok ? page.output.rows : [];
const open = rows.find(({ status }) => !isEnded(status));
say('up');
const done = open
  ? await resume(open.id)
  : await run({ directive, inputs: { tag: `r${rows.length}` } });
say(`done ${JSON.stringify(done)}`);
await runtime.output.close();
