// Every page in light and dark, on a desk and on a phone: as pictures under `coverage/looks`, and without
// anything that axe finds serious. The demo is played once, so that there is something to see. `npm test` looks at
// each page in one of the four ways, another one every day and for the next page; `npm run soak` in all four.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ofToday, timeoutMs } from '@kernmantle/test-support/soak';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { browserTest, LOOKS, openPage } from './support/browser.ts';
import { spawnDemo } from './support/serve.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };
const SEEN = [
  { name: 'light', colorScheme: 'light', viewport: DESK },
  { name: 'dark', colorScheme: 'dark', viewport: DESK },
  { name: 'phone-light', colorScheme: 'light', viewport: PHONE },
  { name: 'phone-dark', colorScheme: 'dark', viewport: PHONE },
] as const;

/** The ways in which the page number `at` of the list is looked at today. */
const seenToday = (at: number) =>
  ofToday([...SEEN.slice(at % SEEN.length), ...SEEN.slice(0, at % SEEN.length)], 1);

interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** What axe calls serious or critical, in a few words. */
async function findings(page: Page): Promise<string[]> {
  // Through the debugger: the page itself would not run it.
  await page.evaluate(axe);
  const found = await page.evaluate<Finding[]>(
    'axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)',
  );
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map(
          ({ html, failureSummary }) =>
            `${id}: ${html.slice(0, 160)} ${failureSummary.split('\n')[1]?.trim() ?? ''}`,
        ),
    );
}

/** Wider than the screen: something would have to be scrolled sideways. */
const overflow = (page: Page): Promise<number> =>
  page.evaluate<number>(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).first();

/** To the end of its limit; a second one is left waiting for a person. */
async function playDemo(page: Page, url: string): Promise<{ ended: string; waiting: string }> {
  const start = async () => {
    await page.goto(`${url}/items/directive/demo%2Frelease_note?run=1`);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.waitForURL(/\/t\//);
    const { pathname } = new URL(page.url());
    await button(page, /^Review call/).waitFor();
    return pathname;
  };
  const ended = await start();
  await button(page, /^Review call/).click();
  await button(page, /^Approve once/).click();
  const waiting = await start();
  await page.goto(url + ended);
  await page.locator('.title').getByText('limit').waitFor();
  return { ended, waiting };
}

browserTest(
  'every page is looked at in light and dark, wide and narrow',
  async () => {
    const demo = await spawnDemo();
    const [inside, outside] = [await openPage({ viewport: DESK }), await openPage()];
    const { page } = inside;
    await page.goto(demo.link);
    await page.getByText('Start the demo').waitFor();
    const { ended, waiting } = await playDemo(page, demo.url);
    await page.getByRole('row').filter({ hasText: 'collect.lantern' }).first().click();
    await page.waitForURL(/at=\d+/);
    const denied = page.url().slice(demo.url.length);

    const places: Record<string, string> = {
      login: '',
      threads: '/',
      thread: waiting,
      denied,
      conversation: `${ended}?tab=conversation`,
      rights: `${ended}?tab=rights`,
      'thread-cost': `${ended}?tab=cost`,
      events: `${ended}?tab=events`,
      approvals: '/approvals',
      cost: '/cost',
      items: '/items/directive/demo%2Frelease_note',
      run: '/items/directive/demo%2Frelease_note?run=1',
      scripts: '/scripts',
      health: '/health',
      memory: '/memory',
    };
    const met: string[] = [];
    for (const [at, [place, path]] of Object.entries(places).entries()) {
      const { page: one, settled } = place === 'login' ? outside : inside;
      for (const { name, colorScheme, viewport } of seenToday(at)) {
        await one.emulateMedia({ colorScheme });
        await one.setViewportSize(viewport);
        await one.goto(demo.url + path);
        if (place === 'approvals') await one.locator('.picks a').first().click();
        await one.locator('main').waitFor();
        await settled();
        await one.screenshot({ path: join(LOOKS, `${place}-${name}.png`) });
        for (const finding of await findings(one)) met.push(`${place} ${name}: ${finding}`);
        const wide = await overflow(one);
        if (wide > 0) met.push(`${place} ${name}: ${wide} px wider than the screen`);
      }
    }
    expect(met).toEqual([]);
  },
  timeoutMs(480_000),
);
