// One person, one browser, the whole way: the demo is started from the page, watched, paused, told
// something, approved, understood, raised, followed up and stopped. Nothing is reloaded unless said so.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { timeoutMs } from '@kernmantle/test-support/soak';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { browserTest, openPage, type WatchedPage, watchPage } from './support/browser.ts';
import { spawnDemo } from './support/serve.ts';

const button = (page: Page, name: string | RegExp) =>
  page.getByRole('button', typeof name === 'string' ? { name, exact: true } : { name });
const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text }).first();
const pill = (page: Page) => page.locator('h1 + .status, .title .pill').first();

/** A page that is never loaded again keeps what was put into it. */
const markPage = (page: Page) => page.evaluate('globalThis.isSamePage = true');
const isSamePage = (page: Page) => page.evaluate('globalThis.isSamePage === true');

/** Nothing went wrong, nothing was asked elsewhere, nothing popped up. */
function expectCalm(watched: WatchedPage, url: string): void {
  const { errors, refused, reports, dialogs, requests } = watched;
  const nothing = { errors: [], refused: [], reports: [], dialogs: [] };
  expect({ errors, refused, reports, dialogs }).toEqual(nothing);
  expect(requests.filter((line) => !line.split(' ')[1]?.startsWith(`${url}/`))).toEqual([]);
}

async function startDemo(page: Page): Promise<string> {
  await button(page, 'Run').click();
  await page.waitForURL(/\/t\//);
  return page.url();
}

browserTest(
  'the demo is started from the page, steered, approved, raised and asked once more',
  async () => {
    const demo = await spawnDemo();
    const watched = await openPage({ viewport: { width: 1440, height: 900 } });
    const { page } = watched;
    await page.goto(demo.link);
    await page.getByText('No thread has run yet').waitFor();
    expect(page.url()).toBe(`${demo.url}/`);
    await markPage(page);

    // Start, and watch it work.
    await page.getByText('Start the demo').click();
    const thread = await startDemo(page);
    await row(page, 'notes/*.md').waitFor();
    await button(page, /^Pause/).click();
    await pill(page).getByText('paused').waitFor();

    // Say something while it rests, and let it go on.
    await button(page, /^Send message/).click();
    await page.getByLabel('Message to the model').fill('mind the Norwegians');
    await button(page, 'Send').click();
    await page.getByLabel('Message to the model').waitFor({ state: 'detached' });
    await button(page, /^Resume/).click();
    await row(page, 'fs/read_file').waitFor();
    await row(page, 'mind the Norwegians').waitFor();

    // A write was denied; what it publishes waits for a person.
    await row(page, 'notes/todos.md').getByText('denied').waitFor();
    await page.getByText('Waits for you').first().waitFor();
    await expect
      .poll(() => page.title())
      .toMatch(/^\(1\) demo\/release_note · waits for you, 1 denied/);
    await button(page, /^Review call/).click();
    await page.waitForURL(/\/approvals\/ap_/);
    const approve = button(page, 'Approve once');
    await approve.waitFor();
    expect(await approve.isDisabled()).toBe(true);
    expect(await page.evaluate('document.activeElement?.tagName')).not.toBe('BUTTON');
    await page.getByText('customers will read this: is it right?').first().waitFor();
    await page.getByText(/^[0-9A-F]{4}-[0-9A-F]{4}$/).waitFor();
    expect(existsSync(join(demo.project, 'out/release-1.4.md'))).toBe(false);
    await expect.poll(() => approve.isEnabled()).toBe(true);
    await approve.click();
    await approve.waitFor({ state: 'detached' });
    await page.getByText('Decided').first().waitFor();

    // It goes on by itself, tries to leak, and its limit ends it.
    await page.goBack();
    await row(page, 'collect.lantern-service').getByText('denied').waitFor();
    expect(readFileSync(join(demo.project, 'out/release-1.4.md'), 'utf8')).toContain('Lantern 1.4');
    await pill(page).getByText('limit').waitFor();
    expect(page.url()).toBe(thread);

    // Why, and where it came from.
    await row(page, 'collect.lantern-service').click();
    const inspector = page.getByRole('region', { name: 'Selected step' });
    await inspector
      .getByText(/dir:private/)
      .first()
      .waitFor();
    const graph = page.locator('svg.prov-graph').first();
    await graph.waitFor();
    await expect.poll(() => page.url()).toMatch(/[?&]at=\d+/);
    for (const label of ['secret', 'untrusted']) await inspector.getByText(label).first().waitFor();

    // The limit is raised, and it ends as it should.
    await button(page, /^Resume/).click();
    const sheet = page.getByRole('dialog');
    await sheet.getByLabel('new limit of turns').fill('12');
    await sheet.getByText('--turns 12').waitFor();
    await sheet.getByRole('button', { name: 'Resume', exact: true }).click();
    await sheet.waitFor({ state: 'detached' });
    await pill(page).getByText('completed').waitFor();
    await page.getByText('2 denied').first().waitFor();

    // A follow-up.
    await button(page, /^Follow up/).click();
    await page.getByLabel('Follow-up').fill('is there anything else?');
    await page.locator('form.composer').getByRole('button', { name: 'Follow up' }).click();
    await page.getByRole('tab', { name: /^Conversation/ }).click();
    await page
      .getByText(/You say “is there anything else\?”/)
      .last()
      .waitFor();
    await pill(page).getByText('completed').waitFor();
    expect(await isSamePage(page)).toBe(true);

    // A reload keeps the place.
    const place = page.url();
    expect(place).toMatch(/tab=conversation/);
    await page.reload();
    await page.getByRole('tab', { name: /^Conversation/, selected: true }).waitFor();
    expect(page.url()).toBe(place);

    expectCalm(watched, demo.url);
    expect(await demo.stop('SIGINT')).toBe(0);
    expect(existsSync(dirname(demo.project))).toBe(false);
  },
  timeoutMs(180_000),
);

browserTest(
  'a second tab follows, filters stay, and a thread that is stopped has stopped in both',
  async () => {
    const demo = await spawnDemo();
    const watched = await openPage({ viewport: { width: 1440, height: 900 } });
    const { page } = watched;
    await page.goto(demo.link);
    await page.getByText('Start the demo').click();
    await startDemo(page);
    const second = await watchPage(await page.context().newPage());
    await second.page.goto(`${demo.url}/?status=running`);
    await row(second.page, 'release_note').waitFor();
    await second.page.goto(page.url());
    await row(second.page, 'notes/*.md').waitFor();
    await button(page, 'Stop…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('ends at its next step').waitFor();
    await dialog.getByRole('button', { name: 'Stop', exact: true }).click();
    for (const tab of [page, second.page]) await pill(tab).getByText('terminated').waitFor();
    // Again and again: the model answers every run by what it was asked.
    await page.goto(`${demo.url}/items/directive/demo%2Frelease_note?run=1`);
    await startDemo(page);
    await row(page, 'notes/*.md').waitFor();
    await page.goto(`${demo.url}/?status=terminated`);
    await row(page, 'release_note').getByText('terminated').waitFor();
    await page.reload();
    await row(page, 'release_note').getByText('terminated').waitFor();
    expect(page.url()).toBe(`${demo.url}/?status=terminated`);
    expectCalm(watched, demo.url);
    expectCalm(second, demo.url);
  },
  timeoutMs(120_000),
);
