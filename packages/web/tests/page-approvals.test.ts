// What waits for a person, decided in a real browser: nothing can be approved that was not read, nothing
// that changed, and no text of a model can pass for the page.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decideApproval } from '@kernmantle/core/runtime';
import { call, directive, type Play } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { ELSEWHERE, HOSTILE, hostileText, hugeLine } from './support/hostile.ts';
import { bearerOf, openServed, type ServedStage } from './support/serve.ts';

const WRITE =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const ASK = '<guard name="look-first" on="op:tool:fs/write_file"><ask>may it?</ask></guard>';
const LONG = `${'a line of the report\n'.repeat(60)}the end`;

const writing = (content: string, text = 'I write the report.'): Play => ({
  lead: [
    { text, tool_calls: [call('fs/write_file', { path: 'out/a.txt', content })] },
    { text: 'ok' },
  ],
});

/** A thread that waits for an approval, and a browser that has the list of them open. */
async function waiting(play: Play) {
  const served = await openServed(directive('lead', { permissions: WRITE, guards: ASK }), play);
  const begun = await served.post('threads', { directive: 'lead', inputs: {} });
  expect(begun.answer.ok).toBe(true);
  const watched = await openPage();
  await watched.page.goto(served.link());
  await watched.page.getByRole('link', { name: /^Approvals/ }).click();
  const row = watched.page.locator('.picks a').first();
  await row.waitFor();
  return {
    served,
    ...watched,
    row,
    approve: watched.page.getByRole('button', { name: /^Approve/ }),
  };
}

const pendingIn = async ({ threads }: ServedStage) => {
  const open = await threads.store.approvals({ state: 'pending' });
  return open.ok ? open.output : [];
};

browserTest('a call is read and then approved, with a reason', async () => {
  const { served, page, row, approve, errors, reports, dialogs } = await waiting(writing(LONG));
  await row.click();
  await approve.waitFor();
  // A role that only repeats the name is left out; the digest has its name.
  expect(await page.locator('.args-t th').allInnerTexts()).toEqual([
    'path',
    'content',
    'overwrite',
  ]);
  expect(await page.locator('.decide-says').innerText()).toMatch(/^digest [0-9A-F]{4}-[0-9A-F]{4}/);
  // It never has the focus by itself, and is off as long as something is folded.
  expect(await approve.isDisabled()).toBe(true);
  expect(await page.evaluate('document.activeElement?.closest("button")')).toBeNull();
  await page.waitForFunction(`document.querySelector('.blockers')?.textContent !== ''`);
  await page.getByRole('button', { name: /^Open the whole argument/ }).click();
  await page.getByText('the end', { exact: false }).first().waitFor();
  await expect.poll(() => approve.isEnabled()).toBe(true);
  await page.getByLabel('reason (optional)').fill('it is the nightly report');
  // No key of a field sends anything.
  await page.getByLabel('reason (optional)').press('Enter');
  expect(await pendingIn(served)).toHaveLength(1);
  const id = (await pendingIn(served))[0]?.id ?? '';
  expect(await page.locator('.decide-hand code').textContent()).toBe(
    `km approvals approve ${id} --why 'it is the nightly report'`,
  );
  await approve.click();
  await page.locator('.decided').getByText('it is the nightly report').waitFor();
  const file = join(served.fixture.root, 'out', 'a.txt');
  await expect.poll(() => existsSync(file) && readFileSync(file, 'utf8')).toBe(LONG);
  await expect
    .poll(() => page.locator('.decided').innerText())
    .toMatch(/^approved by ann \(web\).* used, no uses left/);
  expect({ errors, reports, dialogs }).toEqual({ errors: [], reports: [], dialogs: [] });
});

browserTest('the oldest question is open, keys choose, and the next one follows', async () => {
  const served = await openServed(directive('lead', { permissions: WRITE, guards: ASK }), {
    lead: [
      {
        text: 'I write.',
        tool_calls: [call('fs/write_file', { path: 'out/a.txt', content: 'x' })],
      },
      { text: 'ok' },
    ],
  });
  for (const message of ['the first report', 'the second report']) {
    await served.post('threads', { directive: 'lead', inputs: {}, message });
    const count = message.includes('first') ? 1 : 2;
    await expect.poll(async () => (await pendingIn(served)).length).toBe(count);
  }
  const { page, errors } = await openPage();
  await page.goto(served.link('/approvals'));
  const review = page.getByRole('region', { name: 'Review' });
  const [oldest] = (await pendingIn(served)).toSorted((one, other) => one.asked - other.asked);
  await expect.poll(() => page.url()).toContain(`/approvals/${oldest?.id}`);
  // Rows of the list say what their runs are about.
  await page.locator('.picks').getByText('the second report').waitFor();
  const approve = review.getByRole('button', { name: /^Approve/ });
  await approve.waitFor();
  await page.keyboard.press('a');
  const focused = () => page.evaluate('document.activeElement?.className');
  expect(await focused()).toContain('main');
  expect(await pendingIn(served)).toHaveLength(2);
  await expect.poll(() => approve.isEnabled()).toBe(true);
  await page.keyboard.press('Enter');
  await expect.poll(async () => (await pendingIn(served)).length).toBe(1);
  const [left] = await pendingIn(served);
  await expect.poll(() => page.url()).toContain(`/approvals/${left?.id}`);
  await expect.poll(focused).toContain('review');
  // A key of the review goes to Deny; a second Enter decides.
  await review.getByRole('button', { name: 'Deny' }).waitFor();
  await page.keyboard.press('d');
  expect(await focused()).toContain('deny');
  await page.keyboard.press('Enter');
  await expect.poll(async () => (await pendingIn(served)).length).toBe(0);
  expect(errors).toEqual([]);
});

browserTest('on a phone reason and buttons are on the first screen', async () => {
  const served = await openServed(
    directive('lead', { permissions: WRITE, guards: ASK }),
    writing(LONG),
  );
  await served.post('threads', { directive: 'lead', inputs: {} });
  await expect.poll(async () => (await pendingIn(served)).length).toBe(1);
  const { page } = await openPage();
  await page.goto(served.link());
  await page
    .getByRole('link', { name: /^Threads/ })
    .first()
    .waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${served.url}/approvals/${(await pendingIn(served))[0]?.id}`);
  for (const part of [
    page.getByText('Reason for the request'),
    page.getByText('may it?').first(),
    page.getByRole('button', { name: 'Deny' }),
    page.getByRole('button', { name: /^Approve/ }),
  ]) {
    await part.waitFor();
    const box = await part.boundingBox();
    expect(box && box.y >= 0 && box.y + box.height <= 844).toBe(true);
  }
});

browserTest('a thread and its question that come while the lists are read again stay', async () => {
  const files = {
    ...directive('first'),
    ...directive('lead', { permissions: WRITE, guards: ASK }),
  };
  const served = await openServed(files, { first: [{ text: 'ok' }], ...writing('short') });
  await served.post('threads', { directive: 'first', inputs: {} });
  const { page } = await openPage();
  // The server does not know these positions, so the page has to read both lists again.
  await page.route('**/api/stream*', (route) =>
    route.continue({
      url: route
        .request()
        .url()
        .replaceAll(/after=[^&]*/g, 'after=unknown.1'),
    }),
  );
  const [paths, reading] = [new Set<string>(), new Set<string>()];
  const released = Promise.withResolvers<void>();
  await page.route(/api\/(threads|approvals)\?/, async (route) => {
    const { pathname } = new URL(route.request().url());
    const isAgain = paths.has(pathname);
    paths.add(pathname);
    const response = await route.fetch();
    if (isAgain) {
      reading.add(pathname);
      await released.promise;
    }
    await route.fulfill({ response });
  });
  await page.goto(served.link());
  await expect.poll(() => [...reading].toSorted()).toEqual(['/api/approvals', '/api/threads']);
  await served.post('threads', { directive: 'lead', inputs: {} });
  const row = page.getByRole('row').filter({ hasText: 'lead' });
  const asked = page.getByRole('link', { name: 'Approvals 1' });
  await Promise.all([row.waitFor(), asked.waitFor()]);
  const answers = [...reading].map((path) => page.waitForResponse(`**${path}?*`));
  released.resolve();
  for (const answer of await Promise.all(answers)) await answer.finished();
  await page.evaluate('new Promise((done) => setTimeout(() => requestAnimationFrame(done), 50))');
  expect([await row.count(), await asked.count()]).toEqual([1, 1]);
});

browserTest('what was decided elsewhere meanwhile is shown and cannot be given', async () => {
  const { served, page, row, approve } = await waiting(writing('short'));
  await row.click();
  await expect.poll(() => approve.isEnabled()).toBe(true);
  const id = (await pendingIn(served))[0]?.id ?? '';
  const by = { who: 'bob', channel: 'cli' } as const;
  await decideApproval(served.threads.store, id, { decision: 'denied', why: 'not today', by });
  await page.locator('.decided').getByText('not today').waitFor();
  expect(await approve.count()).toBe(0);
  expect(existsSync(join(served.fixture.root, 'out', 'a.txt'))).toBe(false);
});

browserTest('a question that changed while it was open is shown as it is now', async () => {
  const { served, page, row, approve } = await waiting(writing('short'));
  await row.click();
  await expect.poll(() => approve.isEnabled()).toBe(true);
  const [asked] = await pendingIn(served);
  const { id = '', shown = {} } = asked ?? {};
  const { thread = '' } = asked ?? {};
  const restate = async (question: string, diff: string) => {
    const restated = { ...shown, question, file: { diff } };
    expect(await served.threads.store.restate({ id, thread, shown: restated })).toMatchObject({
      ok: true,
    });
  };
  await restate('Replace out/a.txt?', '-what somebody wrote meanwhile');
  const review = page.getByRole('region', { name: 'Review' });
  await review.getByText('The request has changed. Read it again.').waitFor();
  await review.getByText('Replace out/a.txt?').waitFor();
  await review.getByText('-what somebody wrote meanwhile').waitFor();
  // What changes nothing has no heading for changes.
  await restate('Replace it with the same?', '');
  await review.getByText('Replace it with the same?').waitFor();
  expect(await review.getByText('Proposed change').count()).toBe(0);
  // The answer is one to the question that is shown now.
  await expect.poll(() => approve.isEnabled()).toBe(true);
  await approve.click();
  await expect.poll(async () => (await pendingIn(served)).length).toBe(0);
});

browserTest('a decision about something else than was shown is refused, and says so', async () => {
  const { served, page, row, approve } = await waiting(writing('short'));
  await page.route('**/decision', async (route) => {
    const sent = route.request().postDataJSON() as { digest: string };
    const digest = sent.digest.replace(/^./, (sign) => (sign === '0' ? '1' : '0'));
    await route.continue({ postData: JSON.stringify({ ...sent, digest }) });
  });
  await row.click();
  await expect.poll(() => approve.isEnabled()).toBe(true);
  await approve.click();
  await page.getByText('Not decided', { exact: false }).waitFor();
  expect(await pendingIn(served)).toHaveLength(1);
  expect(existsSync(join(served.fixture.root, 'out', 'a.txt'))).toBe(false);
});

browserTest('who may only look finds the buttons off, with the reason', async () => {
  const served = await openServed(
    directive('lead', { permissions: WRITE, guards: ASK }),
    writing('short'),
  );
  await served.post('threads', { directive: 'lead', inputs: {} });
  await expect.poll(async () => (await pendingIn(served)).length).toBe(1);
  const { page } = await openPage();
  await page.goto(`${served.url}/login`);
  const { authorization = '' } = bearerOf(served.fixture, 'view');
  await page
    .locator('input[type=password], input[name=token]')
    .first()
    .fill(authorization.slice(7));
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('link', { name: /^Approvals/ }).click();
  await page.locator('.picks a').first().click();
  await page.getByText('Your session cannot decide; role `approve` is required.').first().waitFor();
  expect(await page.getByRole('button', { name: 'Deny' }).isDisabled()).toBe(true);
});

browserTest('no text of a model is more than text in a review', async () => {
  const { served, page, row, requests, errors, reports, dialogs } = await waiting(
    writing(hostileText(), Object.values(HOSTILE).join('\n')),
  );
  await row.click();
  await page.getByRole('button', { name: /^Open the whole argument/ }).click();
  await page.getByText('The model says', { exact: true }).waitFor();
  await page.getByText('Show as a list', { exact: true }).click();
  expect(await page.evaluate('document.images.length')).toBe(0);
  expect(await page.evaluate('globalThis.wasRun')).toBeUndefined();
  expect(
    await page.evaluate(
      'document.querySelectorAll("iframe, dialog, form, script:not([src])").length',
    ),
  ).toBe(0);
  const links = await page.evaluate<string[]>('[...document.links].map((link) => link.href)');
  expect(links.every((link) => link.startsWith(served.url))).toBe(true);
  expect(await page.getByRole('button', { name: /^Approve/ }).count()).toBe(1);
  const shown = await page.evaluate<string>('document.querySelector("main").textContent');
  expect(/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u{e0000}-\u{e007f}\u001b]/u.test(shown)).toBe(
    false,
  );
  expect(requests.filter((line) => line.includes(ELSEWHERE))).toEqual([]);
  expect({ errors, reports, dialogs }).toEqual({ errors: [], reports: [], dialogs: [] });
});

browserTest('a line that is too long to be shown shows its end', async () => {
  const { page, row, approve, errors } = await waiting(writing(hugeLine(300_000)));
  await row.click();
  await approve.waitFor();
  expect(await page.getByText('rm -rf / --force').count()).toBe(0);
  await page.getByRole('button', { name: /^Open the whole argument/ }).click();
  await page.getByText('rm -rf / --force').waitFor();
  await expect.poll(() => approve.isEnabled()).toBe(true);
  expect(errors).toEqual([]);
});
