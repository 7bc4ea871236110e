// The list of threads and the frame around it, in a real browser over a real registry.
import { directive, READ, read, run } from '@kernmantle/test-support/thread-project';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { openServed } from './support/serve.ts';

const FILES = {
  ...directive('greet', { limits: '<turns>6</turns>' }),
  ...directive('stuck', { permissions: READ, limits: '<turns>2</turns>' }),
  ...directive('curious', { limits: '<turns>6</turns>' }),
  ...directive('clumsy', { permissions: READ, limits: '<turns>6</turns>' }),
  '../home/policy.yaml': 'unsigned: allow\nsurfaces: { web: { directives: all } }\n',
};
const PLAY = {
  greet: [{ text: 'hello' }],
  stuck: [read('notes/a.txt')],
  curious: [read('notes/a.txt'), { text: 'so be it' }],
  clumsy: [read('notes/none.txt'), { text: 'it is not there' }],
};

/** What the page may load before it shows its list. */
const FIRST_LOAD = 110 * 1024;

/** Counts the bytes that the page loads, answers of the API aside. */
async function countLoaded(page: Page): Promise<() => number> {
  let loaded = 0;
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  const own = new Set<string>();
  network.on('Network.responseReceived', ({ requestId, response }) => {
    if (!new URL(response.url).pathname.startsWith('/api/')) own.add(requestId);
  });
  network.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    if (own.has(requestId)) loaded += encodedDataLength;
  });
  return () => loaded;
}

browserTest('an empty project says how to begin', async () => {
  const served = await openServed(FILES, PLAY);
  const { page, errors, reports } = await openPage();
  await page.goto(served.link());
  await page.getByText('No thread has run yet').waitFor();
  await page.getByText('km run hello').waitFor();
  await page.getByRole('link', { name: 'Start the demo' }).click();
  await expect.poll(() => page.url()).toContain('/items/directive/');
  expect({ errors, reports }).toEqual({ errors: [], reports: [] });
});

browserTest('threads with what they used, what was refused and what can be done', async () => {
  const served = await openServed(FILES, PLAY);
  const names = ['greet', 'stuck', 'curious', 'clumsy'];
  for (const name of names) await run(served, name).catch(() => undefined);
  const { page, errors, reports } = await openPage();
  const loaded = await countLoaded(page);
  await page.goto(served.link());
  const rowOf = (name: string) => page.getByRole('row').filter({ hasText: name });
  await rowOf('greet').getByText('completed').waitFor();
  expect(loaded()).toBeGreaterThan(10_000);
  expect(loaded()).toBeLessThan(FIRST_LOAD);
  await rowOf('greet').getByRole('link', { name: 'Follow up… greet' }).waitFor();
  await rowOf('stuck').getByText('limit').first().waitFor();
  await rowOf('stuck').getByText('2/2 turns').waitFor();
  await rowOf('stuck').getByRole('link', { name: 'Resume… stuck' }).waitFor();
  // A green `completed` is one without a denied or a failed call.
  const tone = (name: string) => rowOf(name).locator('.status').getAttribute('class');
  await rowOf('curious').getByText('1 denied').waitFor();
  await rowOf('clumsy').getByText('1 failed').waitFor();
  expect(await Promise.all(['greet', 'curious', 'clumsy'].map(tone))).toEqual([
    'status ok',
    'status idle',
    'status idle',
  ]);
  await page.getByText('4 of 4').waitFor();
  expect(await page.title()).toMatch(/^Threads · /);
  // Filters stand in the address; back and reload keep them.
  await page.getByLabel('Directive').selectOption('stuck');
  await expect.poll(() => page.getByRole('row').count()).toBe(2);
  expect(page.url()).toContain('directive=stuck');
  await page.reload();
  await rowOf('stuck').waitFor();
  expect(await page.getByRole('row').count()).toBe(2);
  await page.goBack();
  await rowOf('greet').waitFor();
  await page.getByLabel('Find in this list').fill('curi');
  await expect.poll(() => page.getByRole('row').count()).toBe(2);
  expect({ errors, reports }).toEqual({ errors: [], reports: [] });
});

browserTest(
  'a thread that starts elsewhere appears, and nothing moves under the pointer',
  async () => {
    const served = await openServed(FILES, PLAY);
    await run(served, 'greet');
    const { page } = await openPage();
    await page.goto(served.link());
    await page.getByText('live', { exact: true }).waitFor();
    await page.getByRole('row').filter({ hasText: 'greet' }).hover();
    await run(served, 'curious').catch(() => undefined);
    await page.getByRole('button', { name: '1 new' }).waitFor();
    expect(await page.getByRole('row').filter({ hasText: 'curious' }).count()).toBe(0);
    await page.getByRole('button', { name: '1 new' }).click();
    await page.getByRole('row').filter({ hasText: 'curious' }).waitFor();
  },
);

browserTest('keys: walk, open, go, help, find, theme, and off', async () => {
  const served = await openServed(FILES, PLAY);
  await run(served, 'greet');
  await run(served, 'curious').catch(() => undefined);
  const { page, errors } = await openPage({ colorScheme: 'light' });
  await page.goto(served.link());
  await page.getByRole('row').filter({ hasText: 'greet' }).waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.locator('.row[aria-selected=true]').filter({ hasText: 'greet' }).waitFor();
  await page.keyboard.press('Enter');
  await expect.poll(() => page.url()).toContain('/t/greet');
  await page.keyboard.press('g');
  await page.keyboard.press('h');
  await page.getByRole('heading', { name: 'Health' }).waitFor();
  await page.keyboard.press('/');
  await page.getByLabel('Find a thread, a call or an item').fill('curious');
  await page
    .getByRole('dialog')
    .getByRole('link', { name: /curious/ })
    .first()
    .waitFor();
  await page.keyboard.press('Escape');
  await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
  await page.keyboard.press('t');
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
  await page.reload();
  await page.getByRole('heading', { name: 'Health' }).waitFor();
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark');
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('go to threads').waitFor();
  await page.getByRole('checkbox').uncheck();
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  expect(page.url()).toContain('/health');
  expect(errors).toEqual([]);
});
