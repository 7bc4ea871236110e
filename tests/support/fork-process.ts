// Forks a thread in a separate process that kills itself at one call of the store, for tests of crashes. Prints the
// result of the fork, its time and the memory that it added, if it lives so long.
import { writeSync } from 'node:fs';
import { ok } from '@kernmantle/core/base';
import { createRuntime, type RuntimeOptions } from '@kernmantle/core/runtime';
import { openSqliteStore } from '@kernmantle/core/store';
import { EXTENSIONS } from '../../packages/kernmantle/src/extensions.ts';

const [root = '', source = ''] = process.argv.slice(2);
/** `createThread 1 before`: dies before the first call of this function. */
const [what = '', which = '', when = ''] = (process.env.DIES_AT ?? '').split(' ');
let seen = 0;

const openDying: RuntimeOptions['openStore'] = async (options) => {
  const opened = await openSqliteStore(options);
  if (!opened.ok) return opened;
  const { output: own } = opened;
  const dying =
    <Values extends unknown[], Answer>(
      name: string,
      call: (...values: Values) => Promise<Answer>,
    ) =>
    async (...values: Values): Promise<Answer> => {
      if (name === what) seen += 1;
      const isLast = name === what && seen === Number(which);
      if (isLast && when === 'before') process.kill(process.pid, 'SIGKILL');
      const answer = await call(...values);
      if (isLast) process.kill(process.pid, 'SIGKILL');
      return answer;
    };
  return ok({
    ...own,
    createThread: dying('createThread', own.createThread),
    audit: dying('audit', own.audit),
  });
};

const runtime = await createRuntime({
  project: root,
  extensions: EXTENSIONS,
  openStore: openDying,
});
if (!runtime.ok) throw new Error(runtime.error.detail.message);
const threads = await runtime.output.threads();
if (!threads.ok) throw new Error(threads.error.detail.message);
const start = [performance.now(), process.resourceUsage().maxRSS, process.cpuUsage()] as const;
const forked = await threads.output.enqueueFork(source, {
  by: { who: 'ann', surface: 'cli' },
  message: 'go on',
});
const ms = performance.now() - start[0];
const { user, system } = process.cpuUsage(start[2]);
const mb = (process.resourceUsage().maxRSS - start[1]) / 1024;
writeSync(
  1,
  `${JSON.stringify({ ...forked, ms: Math.round(ms), cpu: Math.round((user + system) / 1000), mb: Math.round(mb) })}\n`,
);
await runtime.output.close();
