// The clock of a machine may be wrong: what it asks for and what it is told holds by the server's.
import { type Clock, systemClock } from '@kernmantle/core/base';
import type { NewThread } from '@kernmantle/core/store';
import { TRUSTING } from '@kernmantle/test-support/project';
import { must } from '@kernmantle/test-support/registry';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import { expect, inject, onTestFinished, test } from 'vitest';
import { JOURNAL_FORMATS } from '../src/postgres/schema.ts';
import { noServer, openServerStores } from './support/server-stores.ts';
import { openWorkerStage } from './support/worker-stage.ts';

const url = inject('postgres');
const onServer = test.skipIf(url === '');
const MINUTE = 60_000;
const off = (ms: number): Clock => ({ ...systemClock, now: () => Date.now() + ms });

const queued = (id: string, after: number): NewThread => ({
  id,
  directive: 'd',
  version: '1',
  runner: 'safety',
  project: 'p',
  limits: {},
  inputs: null,
  budget: {},
  events: [],
  start: { queue: { after } },
});

for (const wrong of [10 * MINUTE, -10 * MINUTE]) {
  onServer(
    `what a machine asks for that is ${wrong / MINUTE} minutes off holds by the server's time${noServer(url)}`,
    async () => {
      const stores = await openServerStores(url);
      onTestFinished(() => stores.close());
      const clock = off(wrong);
      const [here, there] = [await stores.open(clock), await stores.open()];

      must(await here.createThread(queued('due', clock.now() - 1)));
      must(await here.createThread(queued('later', clock.now() + 30 * MINUTE)));
      const wanted = { count: 5, projects: ['p'] };
      const [held] = must(await here.take({ owner: 'here', ttlMs: 5000 }, wanted));
      expect(held?.thread).toBe('due');
      const [row] = await stores.query<{ soon: boolean }>(
        `SELECT abs(queued - @@.km_now() - ${30 * MINUTE}) < ${MINUTE} AS soon FROM @@.threads WHERE id = 'later'`,
      );
      expect(row).toEqual({ soon: true });
      // Its lease is as long as it was told, for whoever looks.
      expect(must(await there.sweep())).toEqual({ interrupted: [], unreleased: [] });
      expect(await there.claim('due', { owner: 'there', ttlMs: 1000 })).toMatchObject({
        error: { code: 'lease_held' },
      });
      expect(
        must(await here.renew([{ thread: 'due', epoch: held?.epoch ?? 0 }], 5000)),
      ).toHaveLength(1);

      const ask = (id: string, expires: number) => ({
        id,
        kind: 'question' as const,
        binding: { id },
        shown: {},
        expires,
      });
      must(await here.ask(ask('open', clock.now() + 2 * MINUTE)));
      must(await here.ask(ask('over', clock.now() - 1)));
      const states = must(await there.approvals({})).map(({ id, state }) => [id, state]);
      expect(new Map(states.map(([id = '', state]) => [id, state]))).toEqual(
        new Map([
          ['open', 'pending'],
          ['over', 'expired'],
        ]),
      );
      for (const [store, own] of [
        [here, clock],
        [there, systemClock],
      ] as const) {
        const [first] = must(await store.approvals({ id: 'open' }));
        const [second] = must(await store.approvals({ id: 'open' }));
        expect(first?.expires).toBe(second?.expires);
        expect(first?.expires ?? 0).toBeGreaterThan(own.now());
        expect(first?.expires ?? 0).toBeLessThan(own.now() + 3 * MINUTE);
      }
      const given = { decision: 'approved', who: 'me', channel: 'cli', why: '' } as const;
      must(await here.decide('open', { ...given, expires: clock.now() + MINUTE }));
      expect(must(await there.use('open', { id: 'open' }))).toMatchObject({ state: 'used' });
    },
  );
}

onServer(
  `workers ten minutes off do the work, wait for people and go on${noServer(url)}`,
  { timeout: timeoutMs(180_000) },
  async () => {
    let asked = 0;
    const stage = await openWorkerStage(
      url,
      () => {
        asked += 1;
        return asked % 2 === 1 ? read('notes/a.txt') : { text: 'seen' };
      },
      {
        'notes/a.txt': 'hello\n',
        ...directive('look', { permissions: READ }),
        '../home/policy.yaml': `${TRUSTING}guards: [{ on: "op:tool:fs/read_file", ask: "read it?" }]\n`,
      },
    );
    const { store } = stage.threads;
    const patient = { timeout: timeoutMs(60_000) };
    for (const wrong of [10 * MINUTE, -10 * MINUTE]) {
      const worker = stage.workAs(JOURNAL_FORMATS, wrong);
      await worker.hears('ready');
      const { thread } = must(await stage.threads.enqueue({ directive: 'look' }));
      const pending = async () => must(await store.approvals({ thread, state: 'pending' }));
      await expect.poll(async () => (await pending()).length, patient).toBe(1);
      await expect
        .poll(async () => must(await store.thread(thread)).owner, patient)
        .toBe(undefined);
      const [approval] = await pending();
      expect(approval?.expires ?? 0).toBeGreaterThan(Date.now());
      const given = { decision: 'approved', who: 'me', channel: 'cli', why: '' } as const;
      must(await store.decide(approval?.id ?? '', given));
      await expect
        .poll(async () => must(await store.thread(thread)).status, patient)
        .toBe('completed');
      const [row] = must((await store.fleet?.workers()) ?? { ok: true, output: [] });
      expect(Math.abs((row?.clock_off ?? 0) - wrong)).toBeLessThan(MINUTE);
      worker.child.kill('SIGTERM');
      expect(await worker.ended).toBe(0);
    }
  },
);
