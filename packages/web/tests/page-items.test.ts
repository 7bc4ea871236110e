// Items, cost and scripts in a real browser: what an item may do, a run started from its form, what it
// cost, and a script that is refused.
import { directive, READ, read, rows } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { bearerOf, openServed } from './support/serve.ts';

const INPUTS =
  '<input name="file" type="string" required="true">which one</input>' +
  '<input name="level" type="integer" required="false">how deep</input>';
const LEAD = {
  ...directive('lead', { permissions: READ, inputs: INPUTS, limits: '<turns>6</turns>' }),
  '../home/policy.yaml': 'unsigned: allow\nsurfaces: { web: { directives: all } }\n',
};
const PLAY = { lead: [read('notes/a.txt'), { text: 'done' }] };

browserTest('an item says what it may do and is run from its form', async () => {
  const served = await openServed(LEAD, PLAY);
  const { page, errors, reports } = await openPage();
  await page.goto(served.link());
  await page.getByRole('link', { name: 'Items', exact: true }).click();
  await page.getByLabel('Find an item').fill('lead');
  await expect.poll(() => page.url()).toContain('q=lead');
  await page.getByRole('link', { name: /^not signed lead/ }).click();
  await page.getByText('fs.read notes/**').first().waitFor();
  await page.getByRole('button', { name: 'Run…' }).click();
  const run = page.getByRole('button', { name: 'Run', exact: true });
  // What is missing stands at its field, and nothing is sent.
  await run.click();
  await page.locator('.run-field').getByText('is required').waitFor();
  await page.getByLabel(/^file/).fill('notes/a.txt');
  await page.getByLabel(/^level/).fill('deep');
  await page.getByText('Model and limits').click();
  await page
    .getByText(/^at most [\d.]+ k \(built in\)$/)
    .first()
    .waitFor();
  await page.getByLabel('turns', { exact: true }).fill('99');
  await run.click();
  await page.getByText('must be a whole number').waitFor();
  await page.getByText('a run can only lower it').waitFor();
  await page.getByLabel(/^level/).fill('2');
  await page.getByLabel('turns', { exact: true }).fill('3');
  expect(await page.locator('.run-acts code').textContent()).toBe(
    'km run lead file=notes/a.txt level=2 --turns 3',
  );
  await run.click();
  await expect.poll(() => page.url()).toContain('/t/lead');
  await page.goBack();
  await page.getByText('which one', { exact: true }).waitFor();
  // What it cost is there when it has ended.
  const ended = async () => (await rows(served)).map(({ status }) => status).join();
  await expect.poll(ended).toBe('completed');
  await page.getByRole('link', { name: 'Cost', exact: true }).click();
  await page.getByRole('link', { name: 'lead', exact: true }).waitFor();
  await page.getByText('Show as a table').click();
  await page.getByLabel('Range').selectOption('7d');
  await expect.poll(() => page.url()).toContain('since=7d');
  expect({ errors, reports }).toEqual({ errors: [], reports: [] });
});

browserTest(
  'items of the project come before shipped ones, and a run is about its message',
  async () => {
    const served = await openServed(LEAD, PLAY);
    const { page } = await openPage();
    await page.goto(served.link());
    await page
      .getByRole('link', { name: /^Threads/ })
      .first()
      .waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${served.url}/items?kind=directive`);
    await expect.poll(() => page.locator('.picks a').first().textContent()).toContain('lead');
    await page.goto(`${served.url}/items/directive/lead`);
    await page.getByRole('button', { name: 'Run…' }).click();
    // The message stands before limits, and the button is in sight without scrolling.
    await page.getByLabel(/^file/).fill('notes/a.txt');
    await page.getByLabel('message').fill('quarterly figures of Anna');
    const run = page.getByRole('button', { name: 'Run', exact: true });
    await run.scrollIntoViewIfNeeded();
    await run.click();
    await expect.poll(() => page.url()).toContain('/t/lead');
    await page.locator('.head .about').getByText('quarterly figures of Anna').waitFor();
  },
);

browserTest('a script shows what left it, where it was stopped and why', async () => {
  const script =
    '/var secret @key = "hunter2"\n/show `hello`\n/guard before secret = when [ * => deny "secrets stay here" ]\n/show @key\n';
  const served = await openServed({ ...LEAD, 'careful.mld': script }, PLAY);
  const { page, errors, reports } = await openPage();
  await page.goto(served.link());
  await page.getByRole('link', { name: 'Scripts', exact: true }).click();
  expect(await page.locator('.picks a').first().innerText()).toMatch(/^careful\.mld\s+\d+ B$/);
  await page.locator('.picks a').first().click();
  await page.locator('.document').getByText('/show `hello`').waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('.effects').waitFor();
  const shown = await page.locator('.effects').innerText();
  for (const words of ['denied', 'exit 4', 'hello', 'line 2', 'at 4:2', 'secrets stay here']) {
    expect(shown).toContain(words);
  }
  await page.locator('.effects .prov-graph').getByText('var key', { exact: true }).waitFor();
  expect(await page.locator('.document li.is-bad').innerText()).toContain('/show @key');
  expect({ errors, reports }).toEqual({ errors: [], reports: [] });
});

browserTest('who may only look cannot run anything here', async () => {
  const served = await openServed(LEAD, PLAY);
  const { page } = await openPage();
  await page.goto(`${served.url}/login`);
  const { authorization = '' } = bearerOf(served.fixture, 'view');
  await page
    .locator('input[type=password], input[name=token]')
    .first()
    .fill(authorization.slice(7));
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('nav').first().waitFor();
  await page.goto(`${served.url}/items/directive/lead?run=1`);
  await page
    .getByText('Your session has the role `view`; role `steer` is required.')
    .first()
    .waitFor();
  expect(await page.getByRole('button', { name: 'Run', exact: true }).isDisabled()).toBe(true);
});
