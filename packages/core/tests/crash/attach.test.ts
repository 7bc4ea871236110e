// Threads with files whose process is killed after any commit and any stored artifact: no event and no file is lost, no
// recorded reply is charged again, each write is made once, and every journal is replayed without a difference.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { endLives, live, openRegistry, rowsOf } from '@kernmantle/test-support/crash-driver';
import { type CrashStage, probeTools, TOKENS } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { makePng } from '@kernmantle/test-support/files';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import { call, directiveText, READ, read } from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { getOwn, plainText } from '../../src/base/index.ts';
import { type ScriptedReply, startScriptedProvider } from '../../src/llm/index.ts';
import type { Store, StoredEvent, ThreadRow } from '../../src/store/index.ts';

const KILLS = runs(12, 200);
const [ATTACHED, SHOT] = [makePng(7, 7, 3000, 1), makePng(8, 8, 3000, 2)];
const USAGE = { input_tokens: TOKENS - 10, output_tokens: 10 };

let made: CrashStage | undefined;
afterEach(async () => {
  await endLives();
  await made?.provider.close();
  made?.fixture.remove();
});

/** The replies of a run: it reads another picture, writes, and ends. */
const says = (tag: string): readonly ScriptedReply[] => [
  { tool_calls: [...read('notes/shot.png').tool_calls, call('probe/put', { at: tag })] },
  { tool_calls: [call('probe/write', { at: tag })] },
  { tool_calls: read('notes/shot.png').tool_calls },
  { text: 'all done' },
];

async function open(): Promise<CrashStage> {
  const provider = await startScriptedProvider(({ body, assistant_messages: turn }) => {
    const tag = /"parameters":\{"tag":"(r\d+)"/.exec(JSON.stringify(body))?.[1] ?? '';
    return { ...says(tag)[turn - 1], usage: USAGE };
  });
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const probes = ['put', 'write'].map((name) => `<execute resource="tool" id="probe/${name}"/>`);
  const fixture = makeFixture({
    '../home/policy.yaml': TRUSTING,
    '.ai/directives/lead.md': directiveText('lead', {
      permissions: `${READ}${probes.join('')}`,
      inputs: '<input name="tag" type="string">x</input>',
    }),
    'notes/a.txt': 'x',
  });
  writeFileSync(join(fixture.root, 'notes/shot.png'), SHOT);
  writeFileSync(join(fixture.root, 'a.png'), ATTACHED);
  Object.assign(fixture.env, {
    ANTHROPIC_BASE_URL: provider.output.url,
    ANTHROPIC_API_KEY: 'key',
    ATTACH: join(fixture.root, 'a.png'),
  });
  made = { fixture, provider: provider.output };
  return made;
}

async function eventsOf(store: Store, id: string): Promise<StoredEvent[]> {
  const events = await store.read(id);
  if (!events.ok) throw new Error(events.error.detail.message);
  return events.output;
}

/** Tokens that the journal says were charged. A reply that was read is charged once, as reported. */
function chargedIn(events: readonly StoredEvent[]): number {
  let charged = 0;
  for (const { type, data } of events) {
    if (type === 'assistant_message' && data.injected !== true) charged += TOKENS;
    if (type === 'cost_update' && data.charged_unread !== undefined) charged += Number(data.tokens);
    if (type === 'turn_end') charged += Number(getOwn(data.charged, 'tokens') ?? 0);
  }
  return charged;
}

async function check({ fixture, provider }: CrashStage, store: Store, row: ThreadRow) {
  const { id, inputs, cost } = row;
  expect(row.result, id).toMatchObject({ status: 'completed', text: 'all done' });
  const events = await eventsOf(store, id);
  expect(getOwn(cost, 'tokens'), id).toBe(chargedIn(events));
  const tag = plainText(getOwn(inputs, 'tag'));
  const file = join(fixture.root, 'write.log');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const written = lines.filter((line) => line.startsWith(`${tag} `)).length;
  const isUnknown = JSON.stringify(events).includes('outcome_unknown');
  expect(isUnknown ? written <= 1 : written === 1, `${id} wrote ${written} times`).toBe(true);
  const text = JSON.stringify(events);
  const own = provider.requests.filter(({ body }) =>
    JSON.stringify(body).includes(`"tag":"${tag}"`),
  );
  const last = JSON.stringify(own.at(-1)?.body);
  for (const bytes of [ATTACHED, SHOT]) {
    expect(text).not.toContain(bytes.toString('base64').slice(100, 200));
    expect(last.includes(bytes.toString('base64')), id).toBe(true);
  }
}

/** Chooses a commit or an artifact by the number of the kill, so that every place is reached. */
const moment = (count: number): string =>
  count % 6 === 5
    ? `lead artifact ${1 + (count % 2)} committed`
    : `lead any ${1 + (count % 23)} committed`;

test(`killed ${KILLS} times, threads with files lose nothing and go on`, {
  timeout: timeoutMs(60_000 + KILLS * 10_000),
}, async () => {
  const stage = await open();
  for (let count = 0; count < KILLS; count++) await live(stage, moment(count)).over;
  await live(stage).over;
  const store = await openRegistry(stage);
  const rows = await rowsOf(store);
  expect(rows.length).toBeGreaterThan(0);
  for (const row of rows) await check(stage, store, row);
  await store.close();
  const runtime = await stage.fixture.open({ tools: probeTools(() => null) });
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  for (const { id } of rows) expectSame(await threads.output.replay(id), {}, id);
  await runtime.close();
});
