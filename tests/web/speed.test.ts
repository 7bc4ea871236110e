// A thousand threads and ten thousand events: the page scrolls, filters and selects without a task of
// over 100 ms, and what it loads first is small. A task counts as what it had of the processor (the
// trace of the browser tells), because others use this machine too; and the best of three times counts.
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { NewEvent, Store } from '../../src/store/index.ts';
import { must } from '../support/registry.ts';
import { timeoutMs } from '../support/soak.ts';
import { aThread, owner, writerOf } from '../support/store-suite/stage.ts';
import { directive, READ, read, run } from '../support/thread-project.ts';
import { browserTest, openPage } from './support/browser.ts';
import { openServed, type ServedStage } from './support/serve.ts';

const THREADS = 1000;
const EVENTS = 10_000;
const MOST_MS = 100;
const FIRST_LOAD = 110 * 1024;
const STATUSES = ['completed', 'failed', 'limit', 'terminated', 'killed'] as const;

const FILES_AND_PLAY = [
  directive('lead', { permissions: READ }),
  { lead: [read('notes/a.txt'), read('notes/b.txt'), { text: 'done' }] },
] as const;

async function held(store: Store, id: string, name: string) {
  const start = { lease: { ...owner(), ttlMs: 600_000 } };
  return writerOf(store, must(await store.createThread(aThread(id, { start, directive: name }))));
}

async function writeThreads(store: Store): Promise<void> {
  for (let at = 0; at < THREADS; at++) {
    const thread = await held(store, `many_${String(at).padStart(4, '0')}`, `job_${at % 17}`);
    const status = STATUSES[at % STATUSES.length] ?? 'completed';
    const end: NewEvent = { type: 'thread_end', data: { status, reason: `reason ${at}` } };
    await thread.must({ events: [end], status, release: true });
  }
}

/** A real thread's turn, again and again, as if it had gone on for so long. */
async function writeLong(served: ServedStage): Promise<void> {
  const { store } = served.threads;
  const { thread_id } = await run(served, 'lead');
  const real = must(await store.read(thread_id));
  const turn = real.filter((event) => event.turn === 1 && event.type !== 'status');
  const thread = await held(store, 'long', 'lead');
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

/** From the top to the end and back, as fast as frames come. */
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
  /** Time on the processor, in microseconds. */
  readonly tdur?: number;
  readonly args: { readonly name?: string };
}

/** The tasks of the page's main thread that were longer than 50 ms. */
async function tasksOf(page: Page, work: () => Promise<void>): Promise<number[]> {
  const browser = page.context().browser();
  await browser?.startTracing(page, { categories: ['toplevel', '__metadata'] });
  await work();
  const trace = (await browser?.stopTracing())?.toString('utf8') ?? '{}';
  const { traceEvents = [] } = JSON.parse(trace) as { traceEvents?: TraceEvent[] };
  const mains = traceEvents.filter(
    ({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain',
  );
  const isMain = new Set(mains.map(({ pid, tid }) => `${pid} ${tid}`));
  const tasks = traceEvents.filter(
    ({ name, ph, pid, tid }) =>
      ph === 'X' && name.endsWith('RunTask') && isMain.has(`${pid} ${tid}`),
  );
  expect(tasks.length).toBeGreaterThan(10);
  return tasks.map(({ tdur = 0 }) => Math.round(tdur / 1000)).filter((ms) => ms > 50);
}

/** Does it up to three times, until no task of it is too long. */
async function quick(page: Page, name: string, work: () => Promise<void>): Promise<void> {
  const tries: number[][] = [];
  for (let at = 0; at < 3; at++) {
    const met = await tasksOf(page, work);
    tries.push(met);
    if (Math.max(0, ...met) <= MOST_MS) break;
  }
  const best = Math.min(...tries.map((met) => Math.max(0, ...met)));
  expect(best, `${name}: ${JSON.stringify(tries)}`).toBeLessThanOrEqual(MOST_MS);
}

async function keys(page: Page, key: string, times: number): Promise<void> {
  for (let at = 0; at < times; at++) await page.keyboard.press(key);
}

browserTest(
  'a thousand threads and ten thousand events are scrolled, filtered and selected without a wait',
  async () => {
    const served = await openServed(
      { ...FILES_AND_PLAY[0], 'notes/b.txt': 'b' },
      FILES_AND_PLAY[1],
    );
    await writeThreads(served.threads.store);
    await writeLong(served);
    const { page, errors } = await openPage({ viewport: { width: 1440, height: 900 } });
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
    await page.goto(served.link());
    const rows = page.getByRole('grid', { name: 'Threads' }).getByRole('row');
    await rows.filter({ hasText: 'job_' }).first().waitFor();
    expect(loaded).toBeGreaterThan(10_000);
    expect(loaded).toBeLessThan(FIRST_LOAD);

    const list = JSON.stringify('.threads .scroller');
    await quick(page, 'list: scroll', async () => {
      await page.evaluate(`${SCROLL}(${list})`);
    });
    await quick(page, 'list: select', () => keys(page, 'j', 40));
    await quick(page, 'list: find', async () => {
      const find = page.getByPlaceholder('find in this list');
      await find.pressSequentially('job_11');
      await rows.filter({ hasText: 'job_11' }).first().waitFor();
      await find.fill('');
      await rows.filter({ hasText: 'job_' }).first().waitFor();
    });
    await quick(page, 'list: status', async () => {
      await page.goto(`${served.url}/?status=failed`);
      await rows.filter({ hasText: 'failed' }).first().waitFor();
    });

    await quick(page, 'thread: open', async () => {
      await page.goto(`${served.url}/t/long`);
      await page
        .getByText(/10,000 events/)
        .first()
        .waitFor();
    });
    const timeline = JSON.stringify('.scroller');
    await quick(page, 'thread: scroll', async () => {
      await page.evaluate(`${SCROLL}(${timeline})`);
    });
    await quick(page, 'thread: select', () => keys(page, 'j', 40));
    await quick(page, 'thread: events', async () => {
      await page.getByRole('tab', { name: /^Events/ }).click();
      await page.getByRole('row').nth(3).waitFor();
      await page.evaluate(`${SCROLL}(${timeline})`);
      await page.getByRole('tab', { name: /^Timeline/ }).click();
      await page.getByRole('row').nth(3).waitFor();
    });
    expect(errors).toEqual([]);
  },
  timeoutMs(180_000),
);
