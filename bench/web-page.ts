// Measures the page with a thousand threads and ten thousand events in a real browser: the longest task of its main
// thread during scrolling, filtering and selecting, as processor time from the trace of the browser. The best of three
// rounds counts. Without Chromium the benchmark has no row.
import type { NewEvent, Store } from '@kernmantle/core/store';
import { aThread, must, owner, writerOf } from '@kernmantle/test-support/store-suite/stage';
import { startWeb } from '@kernmantle/web';
import { type Browser, chromium, type Page } from 'playwright-core';
import { findBrowser } from '../packages/web/tests/support/browser-server.ts';
import buildPage from '../packages/web/tests/support/build-page.ts';
import type { BenchRow } from './row.ts';
import { openStage } from './thread-stage.ts';

const THREADS = 1000;
const EVENTS = 10_000;
const NAME = 'turns_3';
const MOST_MS = 100;
const ROUNDS = 3;
const STATUSES = ['completed', 'failed', 'limit', 'terminated', 'killed'] as const;

async function createThread(store: Store, id: string, directive: string) {
  const start = { lease: { ...owner(), ttlMs: 600_000 } };
  return writerOf(store, must(await store.createThread(aThread(id, { start, directive }))));
}

async function writeThreads(store: Store): Promise<void> {
  for (let at = 0; at < THREADS; at++) {
    const thread = await createThread(
      store,
      `many_${String(at).padStart(4, '0')}`,
      `job_${at % 17}`,
    );
    const status = STATUSES[at % STATUSES.length] ?? 'completed';
    const end: NewEvent = { type: 'thread_end', data: { status, reason: `reason ${at}` } };
    await thread.must({ events: [end], status, release: true });
  }
}

/** Repeats the events of the first turn of the one thread that really ran. */
async function writeLong(store: Store): Promise<void> {
  const [ran] = must(await store.query({ limit: 1 })).rows;
  const real = must(await store.read(ran?.id ?? ''));
  const turn = real.filter((event) => event.turn === 1 && event.type !== 'status');
  const thread = await createThread(store, 'long', NAME);
  const [start] = real.filter(({ type }) => type === 'thread_start');
  if (start) await thread.must({ events: [{ type: start.type, data: start.data }] });
  let [number, ts] = [0, Date.now() - EVENTS * 1000];
  while (thread.seq < EVENTS) {
    const events: NewEvent[] = [];
    while (events.length < 500) {
      number += 1;
      for (const { type, data } of turn) {
        ts += 300;
        const call = 'call_id' in data ? { call_id: `${number}` } : {};
        events.push({ type, turn: number, ts, data: { ...data, ...call } });
      }
    }
    const [first, ...rest] = events.slice(0, EVENTS - thread.seq);
    if (first) await thread.must({ events: [first, ...rest] });
  }
}

/** Scrolls from the top to the end and back, one step per frame. */
const SCROLL = `(async (selector) => {
  const box = document.querySelector(selector);
  const frame = () => new Promise(requestAnimationFrame);
  for (const part of [...Array(60).keys(), ...[...Array(20).keys()].map((at) => 57 - at * 3)]) {
    box.scrollTop = (box.scrollHeight * part) / 60;
    await frame();
  }
})`;

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  /** Processor time in microseconds. */
  readonly tdur?: number;
  readonly args: { readonly name?: string };
}

/** Returns the longest task of the page's main thread during `work`, in milliseconds. */
async function longestTask(
  browser: Browser,
  page: Page,
  work: () => Promise<unknown>,
): Promise<number> {
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  await work();
  const trace = (await browser.stopTracing()).toString('utf8');
  const { traceEvents = [] } = JSON.parse(trace) as { traceEvents?: TraceEvent[] };
  const mains = traceEvents.filter(
    ({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain',
  );
  const isMain = new Set(mains.map(({ pid, tid }) => `${pid} ${tid}`));
  const tasks = traceEvents.filter(
    ({ name, ph, pid, tid }) =>
      ph === 'X' && name.endsWith('RunTask') && isMain.has(`${pid} ${tid}`),
  );
  if (tasks.length < 10) throw new Error('the trace of the browser has no tasks of the page');
  return Math.max(...tasks.map(({ tdur = 0 }) => tdur / 1000));
}

function row(name: string, ours: number): BenchRow {
  return {
    name: `the longest task of the page, ${name}`,
    ours,
    base: MOST_MS,
    ratio: ours / MOST_MS,
    unit: 'ms CPU',
    target: `at most ${MOST_MS} ms`,
    ok: ours <= MOST_MS,
  };
}

async function keys(page: Page, key: string, times: number): Promise<void> {
  for (let at = 0; at < times; at++) await page.keyboard.press(key);
}

async function measure(browser: Browser, url: string, link: string): Promise<BenchRow[]> {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  await page.goto(link);
  const rows = page.getByRole('grid', { name: 'Threads' }).getByRole('row');
  const shown = (text: string) => rows.filter({ hasText: text }).first().waitFor();
  await shown('job_');
  const found: BenchRow[] = [];
  const task = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    let best = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS; round++) {
      best = Math.min(best, await longestTask(browser, page, work));
    }
    found.push(row(name, best));
  };

  await task('list: scroll', () => page.evaluate(`${SCROLL}('.threads .scroller')`));
  await task('list: select', () => keys(page, 'j', 40));
  await task('list: find', async () => {
    const find = page.getByPlaceholder('find in this list');
    await find.pressSequentially('job_11');
    await shown('job_11');
    await find.fill('');
    await shown('job_');
  });
  await task('list: status', async () => {
    await page.goto(`${url}/?status=failed`);
    await shown('failed');
  });
  await task('thread: open', async () => {
    await page.goto(`${url}/t/long`);
    const count = page.getByText(/10,000 events/);
    await count.first().waitFor();
  });
  await task('thread: scroll', () => page.evaluate(`${SCROLL}('.scroller')`));
  await task('thread: select', () => keys(page, 'j', 40));
  await task('thread: events', async () => {
    await page.getByRole('tab', { name: /^Events/ }).click();
    await page.getByRole('row').nth(3).waitFor();
    await page.evaluate(`${SCROLL}('.scroller')`);
    await page.getByRole('tab', { name: /^Timeline/ }).click();
    await page.getByRole('row').nth(3).waitFor();
  });
  if (errors.length > 0) throw new Error(errors.join('\n'));
  return found;
}

export async function bench(): Promise<BenchRow[]> {
  const executablePath = findBrowser();
  if (executablePath === undefined) return [];
  buildPage();
  const stage = await openStage([NAME]);
  await stage.run(NAME);
  const { store } = must(await stage.runtime.threads({}));
  await writeLong(store);
  await writeThreads(store);
  const served = must(await startWeb(stage.runtime, { port: 0, version: 'bench' }));
  const args = ['--disable-dev-shm-usage', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])];
  const browser = await chromium.launch({ executablePath, args });
  try {
    return await measure(browser, served.url, must(served.link()));
  } finally {
    await browser.close();
    await served.close();
    await stage.close();
  }
}
