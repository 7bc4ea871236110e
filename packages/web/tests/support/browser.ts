// A real browser for the tests of the page, and a page that records everything that happened to it. All tests
// share the browser that `browser-server.ts` starts; each test has contexts of its own in it.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { timeoutMs } from '@kernmantle/test-support/soak';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Request,
} from 'playwright-core';
import { expect, inject, onTestFinished, test } from 'vitest';

/** A test in a browser; where there is none its name says why it is skipped. */
export function browserTest(name: string, run: () => Promise<void>, limitMs?: number): void {
  if (inject('browser') !== '') test(name, run, limitMs);
  else test.skip(`${name} (no Chromium on this machine; KERNMANTLE_BROWSER names one)`, run);
}

/** Where pictures go; nobody commits them. */
export const LOOKS = fileURLToPath(new URL('../../../../coverage/looks/', import.meta.url));

/** What the pages of a test that failed look like. */
async function keepLooks(browser: Browser, name: string): Promise<void> {
  const pages = browser.contexts().flatMap((context) => context.pages());
  for (const [index, page] of pages.entries()) {
    const path = join(LOOKS, 'failed', `${name.replace(/\W+/g, '-').slice(0, 80)}-${index}.png`);
    await page.screenshot({ path, timeout: 5000 }).catch(() => {});
  }
}

/** Connects to the browser. Its contexts are closed with the test that calls this. */
export async function connectBrowser(): Promise<Browser> {
  const answer = await fetch(inject('browser'));
  const address = await answer.text();
  if (!answer.ok) throw new Error(`the browser does not start: ${address}`);
  const browser = await chromium.connect(address);
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') await keepLooks(browser, task.name);
    await browser.close();
  });
  return browser;
}

export interface WatchedPage {
  readonly page: Page;
  /** `METHOD URL` of everything that was sent, wherever to. */
  readonly requests: string[];
  /** `STATUS URL` of what was refused or not there. */
  readonly refused: string[];
  /** What the policy of the page has refused. */
  readonly reports: string[];
  /** Errors on the console and in the page's code, without those. */
  readonly errors: string[];
  readonly dialogs: string[];
  /** Resolves when every request except the stream is answered and no part of the page is loading. */
  settled(): Promise<void>;
}

/** How many parts of the page are loading, after a frame was drawn. */
const LOADING = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
  done(document.querySelectorAll('[aria-busy="true"]').length))))`;

const REPORT = 'policy refused: ';
const SAID_AGAIN = /Content Security Policy|Trusted(?:HTML|Script)|^Failed to load resource/;

/** A page in a context of its own, which nothing else uses. */
export async function openPage(
  options: BrowserContextOptions & { browser?: Browser } = {},
): Promise<WatchedPage> {
  const { browser = await connectBrowser(), ...wanted } = options;
  // A dot that breathes is drawn anew sixty times a second, for as long as the page is open.
  const context = await browser.newContext({ reducedMotion: 'reduce', ...wanted });
  return await watchPage(await context.newPage());
}

/** Also for a second tab: `watchPage(await page.context().newPage())`. */
export async function watchPage(page: Page): Promise<WatchedPage> {
  const watched = { requests: [], refused: [], reports: [], errors: [], dialogs: [] } as Omit<
    WatchedPage,
    'page' | 'settled'
  >;
  page.setDefaultTimeout(timeoutMs(30_000));
  await page.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
    console.warn(${JSON.stringify(REPORT)} + event.violatedDirective + ' ' + event.blockedURI));`);
  const lineOf = (request: Request): string =>
    `${request.method()} ${request.url().replace(/#.*$/, '')}`;
  const open = new Set<Request>();
  page.on('request', (request) => {
    watched.requests.push(lineOf(request));
    if (!request.url().includes('/api/stream')) open.add(request);
  });
  page.on('requestfinished', (request) => open.delete(request));
  page.on('requestfailed', (request) => {
    open.delete(request);
    // What the policy stops has not left.
    const at = watched.requests.indexOf(lineOf(request));
    if (/csp|BLOCKED_BY/i.test(request.failure()?.errorText ?? '')) watched.requests.splice(at, 1);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) watched.refused.push(`${response.status()} ${response.url()}`);
  });
  page.on('console', (message) => {
    const text = message.text();
    if (text.startsWith(REPORT)) watched.reports.push(text.slice(REPORT.length));
    // What was refused, by the policy or with a status, the browser says once more in its own words.
    else if (message.type() === 'error' && !SAID_AGAIN.test(text)) {
      watched.errors.push(text);
    }
  });
  page.on('pageerror', (error) => watched.errors.push(error.message));
  page.on('dialog', (dialog) => {
    watched.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  const isSettled = async (): Promise<boolean> =>
    open.size === 0 && (await page.evaluate(LOADING)) === 0 && open.size === 0;
  return { page, ...watched, settled: () => expect.poll(isSettled).toBe(true) };
}
