// The fleet on the page and in the terminal, over a real PostgreSQL with two real workers, one of which is
// killed: whoever looks on sees it, and sees its thread go on at the other one.
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { must } from '@kernmantle/test-support/registry';
import { timeoutMs } from '@kernmantle/test-support/soak';
import type { Page } from 'playwright-core';
import { describe, expect, inject, test } from 'vitest';
import { openWorkerStage, type WorkerStage } from '../../fleet/tests/support/worker-stage.ts';
import { browserTest, LOOKS, openPage } from './support/browser.ts';
import { openServed, serveStage } from './support/serve.ts';

const KM = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));
const LONG = timeoutMs(300_000);
const postgres = inject('postgres');

async function look(page: Page, name: string): Promise<void> {
  mkdirSync(join(LOOKS, 'fleet'), { recursive: true });
  await page.screenshot({ path: join(LOOKS, 'fleet', `${name}.png`) });
}

/** What `km threads top` sees, as text and as data. */
async function topOf({ fixture, store }: WorkerStage) {
  const run = async (...words: string[]): Promise<string> => {
    const env = { ...fixture.env, KERNMANTLE_SRC: '1', NO_COLOR: '1' };
    const command = [KM, 'threads', 'top', '--store', store, ...words];
    const { stdout } = await promisify(execFile)(process.execPath, command, {
      cwd: fixture.root,
      env,
    });
    return stdout;
  };
  return { text: await run(), data: JSON.parse(await run('--json')) };
}

describe.skipIf(postgres === '')('over a server (needs PostgreSQL)', () => {
  browserTest(
    'workers, queues and who holds what, live; a killed worker is seen',
    async () => {
      const held = Promise.withResolvers<void>();
      const stage = await openWorkerStage(postgres, async () => {
        await held.promise;
        return { text: 'done' };
      });
      const { threads } = stage;
      const served = await serveStage(stage as unknown as Parameters<typeof serveStage>[0]);
      const { page, errors, reports } = await openPage({ viewport: { width: 1440, height: 900 } });
      // The first question about the fleet fails: the page asks again.
      const refusal = { code: 'unavailable', message: 'the store does not answer; try again' };
      await page.route('**/api/fleet', (route) => route.fulfill({ status: 503, json: refusal }), {
        times: 1,
      });
      await page.goto(served.link());
      const { thread } = must(await threads.enqueue({ directive: 'talk' }));

      // Nobody is there: the list, the thread and the fleet say so, and what to do.
      const row = page.getByRole('row').filter({ hasText: 'talk' });
      await row.getByText('no worker serves it').waitFor();
      await page.goto(`${served.url}/t/${thread}`);
      await page.getByRole('region', { name: 'no worker serves it' }).waitFor();
      await page.getByText('start km worker on a machine that has this project').waitFor();
      await look(page, 'unserved');
      await page.keyboard.press('g');
      await page.keyboard.press('f');
      await page.getByRole('heading', { name: 'Fleet' }).waitFor();
      await page.getByText('No worker is running').waitFor();
      await page.getByText('none: start km worker').waitFor();
      expect((await topOf(stage)).text).toMatch(/no worker serves it/);

      const workers = [stage.work(['--slots', '3']), stage.work(['--slots', '5'])];
      await Promise.all(workers.map((worker) => worker.hears('ready')));
      const table = (name: string) => page.getByRole('region', { name });
      await page.getByText('8 slots busy').waitFor();
      await table('Leases').getByText(thread).waitFor();
      await table('Leases').getByText('s left').waitFor();
      await table('Workers').getByText('at work').waitFor();
      await table('Queues').getByText('Nothing is queued').waitFor();
      await look(page, 'workers');

      // The list and the thread name the worker.
      const row0 = must(await threads.store.thread(thread));
      const owner = row0.owner ?? '';
      const holder = workers.find(({ child }) => owner.includes(`:${child.pid}@`));
      await page.getByRole('link', { name: 'Threads' }).click();
      await row.getByText(`:${holder?.child.pid}`).waitFor();
      await look(page, 'list');
      const { text, data } = await topOf(stage);
      expect(text).toMatch(new RegExp(`talk.* on \\S+:${holder?.child.pid}`));
      expect(text).toMatch(/2 workers, 1 of 8 slots busy, 0 queued/);
      expect(data.output.fleet).toMatchObject({ held: [{ thread, worker: owner }], queues: [] });

      // One dies without a word: it is silent, then gone, and its thread is held by the other.
      holder?.child.kill('SIGKILL');
      await page.getByRole('link', { name: 'Fleet' }).click();
      await table('Workers')
        .getByText(/^(silent|gone)$/)
        .waitFor({ timeout: timeoutMs(60_000) });
      await table('Workers')
        .getByText('gone')
        .waitFor({ timeout: timeoutMs(60_000) });
      const other = workers.find((one) => one !== holder);
      await table('Leases')
        .getByText(`:${other?.child.pid}`)
        .waitFor({ timeout: timeoutMs(60_000) });
      await page.getByText('1 gone').waitFor();
      await look(page, 'killed');
      await page.emulateMedia({ colorScheme: 'dark' });
      await look(page, 'dark');
      await page.setViewportSize({ width: 390, height: 844 });
      await look(page, 'phone');
      const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect(wide).toBeLessThanOrEqual(0);

      held.resolve();
      await expect
        .poll(async () => must(await threads.store.thread(thread)).status, {
          timeout: timeoutMs(30_000),
        })
        .toBe('completed');
      await table('Leases').getByText('No thread has a lease now').waitFor();
      expect(await page.content()).not.toContain('secret-of-tests');
      expect({ errors, reports }).toEqual({ errors: [], reports: [] });
    },
    LONG,
  );

  test('however many ask, the store is looked at once', { timeout: LONG }, async () => {
    const stage = await openWorkerStage(postgres);
    const fleet = stage.threads.store.fleet;
    if (!fleet) throw new Error('no fleet');
    let looks = 0;
    const { workers } = fleet;
    Object.assign(fleet, {
      workers: () => {
        looks += 1;
        return workers();
      },
    });
    const served = await serveStage(stage as unknown as Parameters<typeof serveStage>[0]);
    const answers = await Promise.all(Array.from({ length: 50 }, () => served.get('fleet')));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(looks).toBeLessThanOrEqual(3);
  });
});

test('where the store is a file there is no fleet, and the answer says so', async () => {
  const served = await openServed();
  const { status, answer } = await served.get('fleet');
  expect(status).toBe(200);
  expect(answer.output).toMatchObject({ fleet: null });
  expect((await served.get('me')).answer.output).toMatchObject({ fleet: false });
});
