// What a page survives: its server is killed and comes back on the same port, and what it reviews runs
// out while somebody looks at it. The thread works in another process all the while.
import type { ScriptedReply } from '@kernmantle/core/llm';
import { movedClock } from '@kernmantle/test-support/clock';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { directive, openStage, READ, read, run } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { serveStage, spawnWeb } from './support/serve.ts';

const TURNS = 12;

/** Turns that are taken one by one, when the test says so. */
function turnstile() {
  const gates = Array.from({ length: TURNS }, () => Promise.withResolvers<void>());
  const says = gates.map((gate, turn) => async (): Promise<ScriptedReply> => {
    await gate.promise;
    return turn === TURNS - 1 ? { text: 'that was all' } : read(`notes/${turn}.txt`);
  });
  return { says, let: (from: number, to: number) => gates.slice(from, to).map((g) => g.resolve()) };
}

browserTest(
  'a server that is killed and comes back is gone on with by cursor, and nothing is missed',
  async () => {
    const turns = turnstile();
    // Each turn reads another file: the same again and again would be a loop.
    const files = Object.fromEntries(turns.says.map((_, turn) => [`notes/${turn}.txt`, 'x\n']));
    const lead = directive('lead', { permissions: READ });
    const stage = await openStage({ ...files, ...lead }, { lead: turns.says });
    const done = run(stage, 'lead');
    const first = await spawnWeb(stage.fixture, '--port', '0');
    const { page, errors, dialogs, requests } = await openPage();
    await page.goto(first.link);
    await page.getByRole('row').filter({ hasText: 'lead' }).first().click();
    await page.waitForURL(/\/t\//);
    turns.let(0, 3);
    await page.getByText('Turn 4').first().waitFor();
    await page.evaluate('globalThis.isSamePage = true');

    await first.stop('SIGKILL');
    await page.getByText('Not connected since').waitFor();
    // What the page has stays, and nothing can be asked of a server that is not there.
    expect(await page.getByText('Turn 3').first().isVisible()).toBe(true);
    expect(await page.getByRole('button', { name: /^Pause/ }).isDisabled()).toBe(true);
    turns.let(3, 8);
    const { store } = stage.threads;
    const threads = await store.query({ limit: 1 });
    const id = (threads.ok && threads.output.rows[0]?.id) || '';
    const held = async () => {
      const events = await store.read(id);
      return events.ok ? events.output : [];
    };
    await expect
      .poll(async () => (await held()).filter((e) => e.type === 'turn_start').length)
      .toBe(9);

    requests.length = 0;
    const second = await spawnWeb(stage.fixture, '--port', new URL(first.url).port);
    expect(second.url).toBe(first.url);
    await page.getByText('Turn 9').first().waitFor();
    await page.getByText('Not connected since').waitFor({ state: 'detached' });
    turns.let(8, TURNS);
    await done;
    await page.locator('.title').getByText('completed').waitFor();
    // By cursor: the journal is not read from its beginning again.
    expect(requests.filter((line) => line.includes('/api/stream?')).at(-1)).toContain('after=');
    await page.getByRole('tab', { name: /^Events/ }).click();
    const count = (await held()).length;
    await page.getByText(`${count} events`).first().waitFor();
    expect(await page.evaluate('globalThis.isSamePage')).toBe(true);
    expect({
      dialogs,
      errors: errors.filter((text) => !/ERR_|Failed to fetch/.test(text)),
    }).toEqual({
      dialogs: [],
      errors: [],
    });
  },
  timeoutMs(120_000),
);

browserTest('what runs out under an open review cannot be given', async () => {
  const clock = movedClock();
  const served = await serveStage(await openStage({}, {}, { clock }));
  const { store } = served.threads;
  const expires = clock.now() + 600_000;
  const shown = { action: 'ask', operation: 'tool fs/write_file', question: 'may it?' };
  const binding = { operation: 'tool fs/write_file', arguments: 'h' };
  await store.ask({
    id: 'ap_short',
    kind: 'call',
    binding,
    shown: { ...shown, arguments: { path: 'a.txt' } },
    expires,
  });
  const { page } = await openPage();
  await page.clock.install();
  await page.goto(served.link());
  await page.getByRole('link', { name: /^Approvals/ }).click();
  await page.locator('.picks a').first().click();
  const approve = page.getByRole('button', { name: /^Approve/ });
  await expect.poll(() => approve.isEnabled()).toBe(true);
  // Both clocks move on: that of the store and that of the page.
  clock.pass(660_000);
  await page.clock.fastForward('11:00');
  await page
    .getByText(/expired/i)
    .first()
    .waitFor();
  expect((await approve.count()) === 0 || (await approve.isDisabled())).toBe(true);
  const row = await store.approvals({});
  expect(row.ok && row.output.map(({ state }) => state)).toEqual(['expired']);
});
