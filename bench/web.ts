// What it costs the threads of a process that somebody looks on: 200 of them run in the process that
// serves the page, with and without 50 tabs, each of which listens to the list, to approvals and to a
// thread of its own. The tabs are a process of their own, as browsers are.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type ClientRequest, request } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createParser } from 'eventsource-parser';
import { openTokens, startWeb } from '../src/web/index.ts';
import type { StreamFrame } from '../src/web/model/api.ts';
import { raceFresh, type Subject, serveSubject } from './fresh.ts';
import type { BenchRow } from './row.ts';
import { openStage } from './thread-stage.ts';

const SELF = fileURLToPath(import.meta.url);
const TABS = 50;
const THREADS = 200;
const TURNS = 15;
const NAME = `turns_${TURNS}`;

interface Watched {
  bytes: number;
  events: number;
  /** How many tabs found a thread to look at, over all rounds. */
  opened: number;
}

async function openServed(name: 'ours' | 'base'): Promise<Subject> {
  const stage = await openStage([NAME]);
  const page = join(stage.root, 'page');
  mkdirSync(page);
  writeFileSync(join(page, 'index.html'), '<!doctype html>');
  const served = await startWeb(stage.runtime, { port: 0, version: 'bench', page });
  if (!served.ok) throw new Error(served.error.detail.message);
  const made = openTokens(stage.runtime).add({ name: 'bench', role: 'view', days: 1 });
  if (!made.ok) throw new Error(made.error.detail.message);
  const args = ['tabs', served.output.url, made.output.token];
  const tabs = name === 'ours' ? fork(SELF, args, { execArgv: [] }) : undefined;
  if (tabs) await once(tabs, 'message');
  return {
    run: () => Promise.all(Array.from({ length: THREADS }, () => stage.run(NAME))),
    async close() {
      if (tabs) {
        tabs.send('end');
        const [watched] = (await once(tabs, 'message')) as [Watched];
        if (watched.events === 0) throw new Error('the tabs saw no event');
        process.stderr.write(`${JSON.stringify(watched)}\n`);
        await once(tabs, 'exit');
      }
      await served.output.close();
      await stage.close();
    },
  };
}

/** One tab: its stream is opened anew when it turns to another thread, from where it was. */
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

/** The first tab finds threads that run; every other one turns to one of them. */
async function lookOn(url: string, token: string): Promise<void> {
  const watched: Watched = { bytes: 0, events: 0, opened: 0 };
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

export async function bench(): Promise<BenchRow[]> {
  const { ours, base } = await Promise.resolve(raceFresh(SELF, { rounds: 1 }));
  const turns = THREADS * (TURNS + 1);
  return [
    {
      name: `a turn among ${THREADS} threads with ${TABS} tabs open, against none`,
      ours: ours / turns,
      base: base / turns,
      ratio: ours / base,
      unit: 'µs CPU',
      target: 'at most 1.10x',
      ok: ours <= 1.1 * base,
    },
  ];
}

if (process.argv[2] === 'tabs' && process.argv[1] === SELF) {
  await lookOn(process.argv[3] ?? '', process.argv[4] ?? '');
}
await serveSubject(SELF, openServed);
