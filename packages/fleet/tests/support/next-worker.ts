// A worker of a program that is not written yet, or on a machine whose clock is wrong, in a process of its
// own: ADDRESS PROJECT ID FORMATS CLOCK_OFF_MS. Says what it does, as lines of JSON.
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ok, systemClock } from '@kernmantle/core/base';
import { createRuntime } from '@kernmantle/core/runtime';
import { probeTools } from '@kernmantle/test-support/crash-project';
import { must } from '@kernmantle/test-support/registry';
import { EXTENSIONS } from '../../../kernmantle/src/extensions.ts';
import { startWorker } from '../../src/index.ts';
import { openServerStore } from '../../src/postgres/address.ts';

const [address = '', project = '', id = '', formats = '2', off = '0'] = process.argv.slice(2);
const clock = { ...systemClock, now: () => systemClock.now() + Number(off) };
const runtime = must(
  await createRuntime({
    project,
    env: process.env,
    clock,
    store: address,
    extensions: EXTENSIONS,
    // Each of its effects is a line in the project, which no store knows of.
    tools: probeTools(async (name, at) => {
      appendFileSync(join(project, 'effects.log'), `${at}\n`);
      while (at.startsWith('held') && !existsSync(join(project, 'go'))) await sleep(10);
      return { done: name };
    }),
    openStore: ({ identity }) =>
      openServerStore(address, {
        clock,
        ...(identity && { identity }),
        formats: formats.split(',').map(Number),
      }),
  }),
);
const end = new AbortController();
process.on('SIGTERM', () => end.abort());
const say = (news: object): void => void process.stdout.write(`${JSON.stringify(news)}\n`);
const threads = must(await runtime.threads());
const ended = startWorker({
  id: `next:${process.pid}`,
  version: '99',
  store: must(await runtime.registry.open()),
  projects: [
    {
      id,
      items: async () => {
        const now = runtime.served();
        return now.ok ? ok(now.output.items) : now;
      },
      threads,
      close: () => runtime.close(),
    },
  ],
  slots: 4,
  signal: end.signal,
  clock,
  onNews: say,
});
say({ kind: 'ready' });
say({ kind: 'ended', ...must(await ended) });
await runtime.close();
