// A real browser for the tests of the page: found on this machine, driven over its own protocol, and a
// page that remembers everything that happened to it.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Request,
} from 'playwright-core';
import { onTestFinished, test } from 'vitest';
import { timeoutMs } from '../../support/soak.ts';

function findBrowser(): string | undefined {
  const script = fileURLToPath(new URL('../../../scripts/browser.js', import.meta.url));
  try {
    return execFileSync(process.execPath, [script], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

export const BROWSER = findBrowser();

/** A test in a browser; where there is none its name says why it is skipped. */
export function browserTest(name: string, run: () => Promise<void>, limitMs?: number): void {
  if (BROWSER) test(name, run, limitMs);
  else test.skip(`${name} (no Chromium on this machine; KERNMANTLE_BROWSER names one)`, run);
}

/** Where pictures go; nobody commits them. */
export const LOOKS = fileURLToPath(new URL('../../../coverage/looks/', import.meta.url));

/** What the pages of a test that failed look like. */
async function keepLooks(browser: Browser, name: string): Promise<void> {
  const pages = browser.contexts().flatMap((context) => context.pages());
  for (const [index, page] of pages.entries()) {
    const path = join(LOOKS, 'failed', `${name.replace(/\W+/g, '-').slice(0, 80)}-${index}.png`);
    await page.screenshot({ path, timeout: 5000 }).catch(() => {});
  }
}

/** Closed with the test that asked for it. */
export async function launchBrowser(): Promise<Browser> {
  const isRoot = process.getuid?.() === 0;
  // It leaves files in the temporary folder that nobody removes.
  const folder = mkdtempSync(join(tmpdir(), 'km-browser-'));
  const browser = await chromium.launch({
    executablePath: BROWSER ?? '',
    args: ['--disable-dev-shm-usage', ...(isRoot ? ['--no-sandbox'] : [])],
    env: { ...process.env, TMPDIR: folder },
  });
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') await keepLooks(browser, task.name);
    await browser.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
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
}

const REPORT = 'policy refused: ';
const SAID_AGAIN = /Content Security Policy|Trusted(?:HTML|Script)|^Failed to load resource/;

/** A page in a fresh profile (or in `browser`, a fresh context of it). */
export async function openPage(
  options: BrowserContextOptions & { browser?: Browser } = {},
): Promise<WatchedPage> {
  const { browser = await launchBrowser(), ...wanted } = options;
  const context = await browser.newContext(wanted);
  return await watchPage(await context.newPage());
}

/** Also for a second tab: `watchPage(await page.context().newPage())`. */
export async function watchPage(page: Page): Promise<WatchedPage> {
  const watched = { requests: [], refused: [], reports: [], errors: [], dialogs: [] } as Omit<
    WatchedPage,
    'page'
  >;
  page.setDefaultTimeout(timeoutMs(30_000));
  await page.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
    console.warn(${JSON.stringify(REPORT)} + event.violatedDirective + ' ' + event.blockedURI));`);
  const lineOf = (request: Request): string =>
    `${request.method()} ${request.url().replace(/#.*$/, '')}`;
  page.on('request', (request) => watched.requests.push(lineOf(request)));
  page.on('requestfailed', (request) => {
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
  return { page, ...watched };
}
