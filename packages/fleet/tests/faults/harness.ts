// Faults against the real harness: `km worker` processes run threads that call a tool which writes. The
// tool sends a request to a counter in this process, so an effect is counted outside of the store. After
// the faults every thread must have ended as `completed`, no write may have arrived twice, a write that
// did not arrive must be `outcome_unknown` in the journal, and replays must be the same.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { isObject, type Json, parseJson, plainText } from '@kernmantle/core/base';
import { startScriptedProvider } from '@kernmantle/core/llm';
import type { Threads } from '@kernmantle/core/runtime';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { must } from '@kernmantle/test-support/registry';
import { call, directiveText } from '@kernmantle/test-support/thread-project';
import type { DatabaseServer } from '../../../../bench/fleet/server.ts';
import { startProxy, type WireProxy } from './proxy.ts';
import { insist } from './stage.ts';

const KM = join(import.meta.dirname, '../../../../bin/km.js');
const STATUSES = ['completed', 'failed', 'limit', 'denied', 'aborted', 'terminated'] as const;

export interface HarnessRun {
  threads: number;
  /** Writes that arrived at the counter. */
  effects: number;
  /** Calls whose outcome the journal does not know. */
  unknown: number;
  replayed: number;
  faults: Record<string, number>;
  /** One line for each thing that did not hold. */
  wrong: string[];
}

interface Options {
  faults: number;
  threads: number;
  steps: number;
  chance: () => number;
  say(text: string): void;
}

/** Counts writes by thread and step. */
async function startCounter() {
  const arrived = new Map<string, number>();
  const server = createServer((request, response) => {
    const key = decodeURIComponent((request.url ?? '').slice(1));
    arrived.set(key, (arrived.get(key) ?? 0) + 1);
    response.setHeader('content-type', 'application/json').end('{"done":true}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { arrived, port, close: () => void server.close() };
}

const markTool = (port: number): string => `tool_id: mark
description: counts one step
executor_id: http_client
effect: write
parameters:
  - { name: name, type: string, required: true }
  - { name: step, type: integer, required: true }
config: { method: POST, url: "http://127.0.0.1:${port}/{name}-{step}" }
requires: [net.http]
`;

const PERMISSIONS =
  '<execute resource="tool" id="own/mark"/><execute resource="net" action="http" host="127.0.0.1"/>';

/** The model calls the tool once a turn. The name of the run stands in its message. */
async function startModel(steps: number) {
  return must(
    await startScriptedProvider(({ body, assistant_messages: turn }) => {
      const name = /run-(\d+)-name/.exec(JSON.stringify(body))?.[0] ?? 'none';
      // The opening counts as the first message of the model.
      return turn > steps
        ? { text: 'done' }
        : { tool_calls: [call('own/mark', { name, step: turn })] };
    }),
  );
}

interface WorkerPlace {
  readonly proxy: WireProxy;
  child: ChildProcess;
  struck?: Promise<void>;
}

async function startWorkerAt(fixture: Fixture, address: string): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    ['--no-warnings', KM, 'worker', '--json', '--store', address],
    {
      cwd: fixture.root,
      env: { ...fixture.env, KERNMANTLE_SRC: '1', NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    const said = parseJson(line);
    if (said.ok && isObject(said.output) && said.output.kind === 'ready') break;
  }
  child.stdout.resume();
  return child;
}

/** Strikes one worker, never the last one that works. Returns the kind of the fault. */
async function strike(
  places: WorkerPlace[],
  begin: (proxy: WireProxy) => Promise<ChildProcess>,
  server: DatabaseServer,
  chance: () => number,
): Promise<string> {
  const roll = chance();
  if (roll < 0.1) {
    await server.restart(chance() < 0.5 ? 'fast' : 'crash');
    return 'restart';
  }
  for (;;) {
    const well = places.filter(({ struck }) => struck === undefined);
    const place = well[Math.floor(chance() * well.length)];
    if (!place || well.length < 2) {
      await Promise.race(places.flatMap(({ struck }) => (struck ? [struck] : [])));
      continue;
    }
    const during = (act: () => Promise<void>): void => {
      place.struck = act()
        .then(() => delete place.struck)
        .then(() => undefined);
    };
    if (roll < 0.5) {
      place.child.kill('SIGKILL');
      during(async () => {
        place.child = await begin(place.proxy);
      });
      return 'kill';
    }
    const ms = 11_000 + chance() * 2_500;
    if (roll < 0.75) {
      place.child.kill('SIGSTOP');
      during(async () => {
        await sleep(ms);
        place.child.kill('SIGCONT');
      });
      return 'stop';
    }
    place.proxy.freeze();
    during(async () => {
      await sleep(ms);
      place.proxy.thaw(chance() < 0.5 ? 'cut' : undefined);
    });
    return 'freeze';
  }
}

/** Calls of the tool in a journal whose result is `outcome_unknown`, by step. */
async function unknownSteps(threads: Threads, id: string): Promise<Set<string>> {
  const events = must(await threads.store.read(id));
  const steps = new Map<string, string>();
  for (const { type, data } of events) {
    if (type !== 'tool_call') continue;
    const given: Json = isObject(data.arguments) ? data.arguments : {};
    const text = JSON.stringify(given);
    steps.set(plainText(data.call_id ?? data.id), /"step":(\d+)/.exec(text)?.[1] ?? '');
  }
  const unknown = events.filter(
    ({ type, data }) => type === 'tool_result' && JSON.stringify(data).includes('outcome_unknown'),
  );
  return new Set(unknown.map(({ data }) => steps.get(plainText(data.call_id)) ?? ''));
}

async function waitForEnds(threads: Threads, ids: readonly string[], withinMs: number) {
  const until = performance.now() + withinMs;
  const ended = new Map<string, string>();
  while (performance.now() < until && ended.size < ids.length) {
    for (const id of ids) {
      if (ended.has(id)) continue;
      const row = await threads.store.thread(id);
      const status = row.ok ? row.output.status : 'spawning';
      if (STATUSES.some((one) => one === status)) ended.set(id, status);
    }
    await sleep(200);
  }
  return ended;
}

export async function runHarnessFaults(
  server: DatabaseServer,
  { faults, threads: most, steps, chance, say }: Options,
): Promise<HarnessRun> {
  const counter = await startCounter();
  const provider = await startModel(steps);
  const address = new URL(server.url);
  address.searchParams.set('schema', 'harness');
  const fixture = makeFixture({
    '../home/policy.yaml':
      'unsigned: allow\nhosts: ["127.0.0.1"]\ntrusted: { tools: [own/mark] }\n',
    '.ai/config/project.yaml': 'id: prj_0123456789abcdef\n',
    '.ai/tools/own/mark.yaml': markTool(counter.port),
    '.ai/directives/work.md': directiveText('work', {
      permissions: PERMISSIONS,
      limits: '<turns>200</turns><tool_calls>400</tool_calls>',
    }),
  });
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: provider.url, ANTHROPIC_API_KEY: 'key' });
  const runtime = await fixture.open({ store: address.href });
  must(await runtime.registry.migrate());
  const threads = must(await runtime.threads());
  const begin = (proxy: WireProxy): Promise<ChildProcess> => {
    const through = new URL(address);
    through.port = String(proxy.port);
    return startWorkerAt(fixture, through.href);
  };
  const places: WorkerPlace[] = [];
  try {
    for (let index = 0; index < 3; index++) {
      const proxy = await startProxy(server.port);
      places.push({ proxy, child: await begin(proxy) });
    }
    const names = new Map<string, string>();
    for (let index = 0; index < most; index++) {
      const name = `run-${index}-name`;
      const made = await insist(
        () => threads.enqueue({ directive: 'work', message: name }),
        ({ ok }) => ok,
      );
      names.set(must(made).thread, name);
    }
    const count: Record<string, number> = {};
    for (let fault = 1; fault <= faults; fault++) {
      const kind = await strike(places, begin, server, chance);
      count[kind] = (count[kind] ?? 0) + 1;
      say(`harness fault ${fault}: ${kind}`);
      await sleep(500 + chance() * 2_000);
    }
    await Promise.all(places.flatMap(({ struck }) => (struck ? [struck] : [])));
    const ended = await waitForEnds(threads, [...names.keys()], 240_000);
    return await check(threads, { names, ended, arrived: counter.arrived, steps, faults: count });
  } finally {
    for (const { child, proxy } of places) {
      child.kill('SIGKILL');
      await proxy.close();
    }
    await runtime.close();
    await provider.close();
    counter.close();
    fixture.remove();
  }
}

async function check(
  threads: Threads,
  {
    names,
    ended,
    arrived,
    steps,
    faults,
  }: {
    names: ReadonlyMap<string, string>;
    ended: ReadonlyMap<string, string>;
    arrived: ReadonlyMap<string, number>;
    steps: number;
    faults: Record<string, number>;
  },
): Promise<HarnessRun> {
  const wrong: string[] = [];
  let [unknown, replayed] = [0, 0];
  for (const [id, name] of names) {
    const status = ended.get(id);
    if (status !== 'completed') wrong.push(`${id} is ${status ?? 'stuck'}`);
    const notKnown = await unknownSteps(threads, id);
    unknown += notKnown.size;
    for (let step = 1; step <= steps; step++) {
      const times = arrived.get(`${name}-${step}`) ?? 0;
      if (times > 1) wrong.push(`${id} wrote step ${step} ${times} times`);
      if (times === 0 && !notKnown.has(String(step))) wrong.push(`${id} lost step ${step}`);
    }
    const events = must(await threads.store.read(id));
    if (events.some(({ seq }, at) => seq !== at + 1)) wrong.push(`${id} has a gap`);
    const again = await threads.replay(id);
    replayed += 1;
    if (!again.ok) wrong.push(`${id} cannot be replayed: ${again.error.detail.message}`);
    else if (!again.output.isSame) {
      wrong.push(`${id} replays differently: ${JSON.stringify(again.output.difference)}`);
    }
  }
  const effects = [...arrived.values()].reduce((sum, times) => sum + times, 0);
  return { threads: names.size, effects, unknown, replayed, faults, wrong };
}
