// Opens a project in a separate process for tests of crashes. It resumes the existing thread or starts one, and prints
// every recorded event at once, so that a test knows what was committed before a kill.
import { appendFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ok } from '@kernmantle/core/base';
import { createRuntime, type RuntimeOptions } from '@kernmantle/core/runtime';
import { isEnded, openSqliteStore } from '@kernmantle/core/store';
import { EXTENSIONS } from '../../packages/kernmantle/src/extensions.ts';
import { probeTools } from './crash-project.ts';

const [root = '', directive = ''] = process.argv.slice(2);
const say = (text: string): void => void writeSync(1, `${text}\n`);

/** Writes a line for every run of a tool, in the middle of its work: the place and the key of the call. */
const tools = probeTools(async (name, at, key) => {
  await sleep(1);
  appendFileSync(join(root, `${name}.log`), `${at} ${key}\n`);
  await sleep(2);
  return { done: at };
});

/**
 * `part signal 1`: dies with the first `signal` of a thread whose name begins with `part`. `part signal 1 committed`:
 * dies as soon as the signal is in the registry, before any process is notified. The event `any` is every commit, and
 * `artifact` is every stored artifact.
 */
const [who = '', what = '', which = '', when = ''] = (process.env.DIES_AT ?? '').split(' ');
let seen = 0;
const die = (): void => void process.kill(process.pid, 'SIGKILL');

const openDying: RuntimeOptions['openStore'] = async (options) => {
  const opened = await openSqliteStore(options);
  if (!opened.ok) return opened;
  const { output: own } = opened;
  return ok({
    ...own,
    async commit(thread, commit) {
      const done = await own.commit(thread, commit);
      const isIn = what === 'any' || commit.events.some(({ type }) => type === what);
      if (thread.startsWith(who) && isIn && done.ok && ++seen === Number(which)) die();
      return done;
    },
    async putArtifact(thread, ...rest) {
      const done = await own.putArtifact(thread, ...rest);
      if (thread.startsWith(who) && what === 'artifact' && ++seen === Number(which)) die();
      return done;
    },
  });
};
const openStore = when === 'committed' ? { openStore: openDying } : {};
const runtime = await createRuntime({
  project: root,
  tools,
  extensions: EXTENSIONS,
  ...openStore,
});
if (!runtime.ok) throw new Error(runtime.error.detail.message);
const threads = await runtime.output.threads({
  onEvent(thread, { type }) {
    say(`event ${thread} ${type}`);
    if (when !== '' || who === '' || !thread.startsWith(who) || type !== what) return;
    seen += 1;
    if (seen === Number(which)) die();
  },
});
if (!threads.ok) throw new Error(threads.error.detail.message);
const { store, run, resume } = threads.output;
/** Files for a new thread, from the variable `ATTACH`. */
const attach = (process.env.ATTACH ?? '').split(',').filter((path) => path !== '');
await store.sweep();
const page = await store.query({ directive, limit: 500 });
const rows = page.ok ? page.output.rows : [];
const open = rows.find(({ status }) => !isEnded(status));
say('up');
const done = open
  ? await resume(open.id)
  : await run({
      directive,
      inputs: { tag: `r${rows.length}` },
      attach: attach.map((path) => ({ path })),
    });
say(`done ${JSON.stringify(done)}`);
await runtime.output.close();
