// Measures the cost of viewers for the threads of a process: 200 threads are started at the page and run in the process
// that serves it, at the pace of a model, with and without 50 tabs. Each tab follows the list, approvals and one
// thread. The tabs are another process, like browsers. Also measures the cost of a page without a viewer.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type ClientRequest, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ThreadStatus } from '@kernmantle/core/store';
import { openTokens, startWeb } from '@kernmantle/web';
import { createParser } from 'eventsource-parser';
import type { StreamFrame } from '../packages/web/src/model/api.ts';
import { raceFresh, type Subject, serveSubject } from './fresh.ts';
import type { BenchRow } from './row.ts';
import { openStage, type Stage } from './thread-stage.ts';

const SELF = fileURLToPath(import.meta.url);
const TABS = 50;
const THREADS = 200;
const TURNS = 10;
const NAME = `talks_${TURNS}`;
const ROUNDS = 1;
/** Policy that allows to start every directive at the page. */
const POLICY = {
  'home/policy.yaml': 'unsigned: allow\nsurfaces: { web: { directives: all } }\n',
};
/** Statuses that no run may end with. */
const OTHERS: ThreadStatus[] = ['failed', 'limit', 'denied', 'aborted', 'killed', 'interrupted'];

/** Threads of the page with tabs or with no viewer, or threads beside a page, or threads without a page. */
type Scene = 'tabs' | 'nobody' | 'beside' | 'plain';
type Scenes = Readonly<Record<'ours' | 'base', Scene>>;

interface Watched {
  bytes: number;
  events: number;
  /** Number of received pieces of replies. */
  texts: number;
  /** Number of tabs that found a running thread, over all rounds. */
  opened: number;
}

async function serve({ root, runtime }: Stage) {
  const page = join(root, 'page');
  mkdirSync(page);
  writeFileSync(join(page, 'index.html'), '<!doctype html>');
  const served = await startWeb(runtime, { port: 0, version: 'bench', page });
  if (!served.ok) throw new Error(served.error.detail.message);
  const made = openTokens(runtime).add({ name: 'bench', role: 'steer', days: 1 });
  if (!made.ok) throw new Error(made.error.detail.message);
  return { ...served.output, token: made.output.token };
}

/** Starts one thread like the page. Resolves when the thread runs. */
async function start(url: string, token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ directive: NAME, inputs: {} });
  const answer = await fetch(`${url}/api/threads`, { method: 'POST', headers, body });
  if (!answer.ok) throw new Error(await answer.text());
  await answer.arrayBuffer();
}

async function openTabs(url: string, token: string) {
  const tabs = fork(SELF, ['tabs', url, token], { execArgv: [] });
  await once(tabs, 'message');
  return {
    async close() {
      tabs.send('end');
      const [watched] = (await once(tabs, 'message')) as [Watched];
      process.stderr.write(`${JSON.stringify(watched)}\n`);
      if (watched.events === 0 || watched.texts === 0) throw new Error('the tabs saw nothing');
      await once(tabs, 'exit');
    },
  };
}

async function openScene(name: keyof Scenes, scenes: Scenes): Promise<Subject> {
  const scene = scenes[name];
  const stage = await openStage([NAME], { files: POLICY });
  const threads = await stage.runtime.threads({});
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const { atWork, store } = threads.output;
  const served = scene === 'plain' ? undefined : await serve(stage);
  const isStartedThere = scene === 'tabs' || scene === 'nobody';
  const tabs = served && scene === 'tabs' ? await openTabs(served.url, served.token) : undefined;
  const begin = () =>
    served && isStartedThere ? start(served.url, served.token) : stage.run(NAME);
  return {
    async run() {
      await Promise.all(Array.from({ length: THREADS }, begin));
      while (atWork().length > 0) await sleep(50);
    },
    async close() {
      const others = await store.query({ status: OTHERS, limit: 1 });
      if (!others.ok || others.output.rows.length > 0) throw new Error(JSON.stringify(others));
      await tabs?.close();
      await served?.close();
      await stage.close();
    },
  };
}

/** Opens one tab. Its stream is opened again at the same position when the tab changes to another thread. */
function openTab(
  url: string,
  token: string,
  watched: Watched,
  onFrame: (frame: StreamFrame) => void,
) {
  let [sent, position] = [undefined as ClientRequest | undefined, ''];
  return (...threads: readonly string[]): Promise<unknown> => {
    sent?.destroy();
    const topics = ['threads', 'approvals', ...threads.map((id) => `thread:${id}`)].join(',');
    const query = new URLSearchParams({ topics, after: position });
    const headers = { authorization: `Bearer ${token}` };
    const own = request(`${url}/api/stream?${query.toString()}`, { headers, agent: false });
    sent = own;
    const parser = createParser({
      onEvent({ id = '', data }) {
        position = id || position;
        watched.bytes += data.length;
        if (data.includes('"events":[')) watched.events += 1;
        if (data.startsWith('{"kind":"text"')) watched.texts += 1;
        if (own === sent && data.includes('"threads":[')) onFrame(JSON.parse(data) as StreamFrame);
      },
    });
    own.on('response', (response) => {
      response.setEncoding('utf8').on('data', (text: string) => parser.feed(text));
      response.on('error', () => {});
    });
    own.on('error', () => {});
    own.end();
    return once(own, 'response').catch(() => {});
  };
}

/** Opens all tabs. The first finds running threads, and every second tab opens one of them. */
async function lookOn(url: string, token: string): Promise<void> {
  const watched: Watched = { bytes: 0, events: 0, texts: 0, opened: 0 };
  const seen = new Set<string>();
  const free: number[] = [];
  const watching = new Map<string, number>();
  const tabs = Array.from({ length: TABS }, (_, index) =>
    openTab(url, token, watched, index === 0 ? find : () => {}),
  );
  function find(frame: StreamFrame): void {
    for (const { id, status, ended } of (frame.kind === 'batch' && frame.threads) || []) {
      const tab = watching.get(id);
      if (ended !== undefined && tab !== undefined) {
        watching.delete(id);
        free.push(tab);
      }
      if (status !== 'running' || seen.has(id)) continue;
      seen.add(id);
      const next = free.shift();
      if (next === undefined) continue;
      watching.set(id, next);
      watched.opened += 1;
      void tabs[next]?.(id);
    }
  }
  await Promise.all(tabs.map((open) => open()));
  free.push(...tabs.keys());
  free.shift();
  process.send?.('ready');
  await once(process, 'message');
  process.send?.(watched, () => process.exit());
}

function row(name: string, scenes: Scenes, most: number): BenchRow {
  const { ours, base } = raceFresh(SELF, { rounds: ROUNDS, ...scenes });
  const turns = THREADS * (TURNS + 1);
  return {
    name,
    ours: ours / turns,
    base: base / turns,
    ratio: ours / base,
    unit: 'µs CPU',
    target: `at most ${most.toFixed(2)}x`,
    ok: ours <= most * base,
  };
}

export async function bench(): Promise<BenchRow[]> {
  const turn = `a turn among ${THREADS} threads`;
  return await Promise.resolve([
    row(`${turn} with ${TABS} tabs open, against none`, { ours: 'tabs', base: 'nobody' }, 1.1),
    row(`${turn} beside a page nobody looks at`, { ours: 'beside', base: 'plain' }, 1.03),
  ]);
}

if (process.argv[2] === 'tabs' && process.argv[1] === SELF) {
  await lookOn(process.argv[3] ?? '', process.argv[4] ?? '');
}
await serveSubject(SELF, openScene);
