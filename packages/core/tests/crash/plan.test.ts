// A planned thread whose process is killed: the plan that was noted goes on and is never asked for again,
// what it did is not done again, and it ends as if nothing had happened. Then the same from its journal.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  endLives,
  type Life,
  live,
  openRegistry,
  rowsOf,
} from '@kernmantle/test-support/crash-driver';
import { type CrashStage, probeTools } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { ofToday } from '@kernmantle/test-support/soak';
import { directiveText } from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import { startScriptedProvider } from '../../src/llm/index.ts';

let made: CrashStage | undefined;
afterEach(async () => {
  await endLives();
  await made?.provider.close();
  made?.fixture.remove();
});

const PLAN = `
var @one = @tool("probe/put", { at: 'one' })
var @two = @tool("probe/look", { at: @one.done })
var @three = @tool("probe/write", { at: @tag })
return { text: \`@one.done @two.done @three.done\` }`;

/** The first answer does not pass its check. */
const repaired = (asked: string): string =>
  asked.includes('cannot be used') ? PLAN : 'var @x = sh {ls}';

/** The first plan fails after a step; the second goes on from what that brought. */
const replanned = (asked: string): string =>
  asked.includes('its result is @done1')
    ? 'var @three = @tool("probe/write", { at: @tag })\nreturn { text: `@done1.done @three.done` }'
    : 'var @one = @tool("probe/put", { at: \'one\' })\nvar @two = @tool("probe/look", { at: @one.none })\nreturn { text: \'no\' }';

async function open(planFor = repaired): Promise<CrashStage> {
  const provider = await startScriptedProvider(({ body }) => ({
    text: planFor(JSON.stringify(body)),
  }));
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const probes = ['look', 'put', 'write'].map(
    (name) => `<execute resource="tool" id="probe/${name}"/>`,
  );
  const text = directiveText('lead', {
    permissions: probes.join(''),
    inputs: '<input name="tag" type="string">x</input>',
    outputs: '<text type="string" required="true">x</text>',
  });
  const fixture = makeFixture({
    '../home/policy.yaml': TRUSTING,
    '.ai/directives/lead.md': text.replace('<process>', '<process mode="plan">'),
  });
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: provider.output.url, ANTHROPIC_API_KEY: 'key' });
  made = { fixture, provider: provider.output };
  return made;
}

const linesIn = ({ fixture }: CrashStage, name: string): number => {
  const file = join(fixture.root, `${name}.log`);
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').length : 0;
};

const resultOf = (life: Life) => {
  const line = life.lines.find((text) => text.startsWith('done '));
  return JSON.parse(line?.slice(5) ?? '{}') as { ok: boolean; output: Record<string, unknown> };
};

async function killedAt(stage: CrashStage, moment: string): Promise<Life> {
  await live(stage, moment).over;
  const life = live(stage);
  await life.over;
  return life;
}

async function eventsOf(stage: CrashStage) {
  const store = await openRegistry(stage);
  const [row] = await rowsOf(store);
  const events = await store.read(row?.id ?? '');
  await store.close();
  return { id: row?.id ?? '', events: events.ok ? events.output : [] };
}

async function replayOf({ fixture }: CrashStage, id: string) {
  const runtime = await fixture.open({ tools: probeTools(() => null) });
  const threads = await runtime.threads();
  const replayed = threads.ok ? await threads.output.replay(id) : threads;
  await runtime.close();
  return replayed;
}

/** Between every two events: before it was asked, with one answer, with the plan, in and between steps. */
const MOMENTS: readonly [moment: string, requests: number][] = [
  ['lead turn_start 1', 3],
  ['lead assistant_message 1', 2],
  ['lead turn_start 2', 3],
  ['lead assistant_message 2', 2],
  ['lead plan 1', 2],
  ['lead tool_call 1', 2],
  ['lead tool_result 1', 2],
];

async function goesOn(moment: string, requests: number): Promise<void> {
  const stage = await open();
  const life = await killedAt(stage, moment);
  expect(resultOf(life)).toMatchObject({
    ok: true,
    output: {
      status: 'completed',
      outputs: { text: 'one one r0' },
      cost: { turns: 2, tool_calls: 3 },
    },
  });
  expect(stage.provider.count()).toBeLessThanOrEqual(requests);
  expect([linesIn(stage, 'write'), linesIn(stage, 'put') <= 2]).toEqual([1, true]);
  const { events, id } = await eventsOf(stage);
  expect(events.filter(({ type }) => type === 'plan')).toMatchObject([
    { data: { number: 1, text: PLAN.trim() } },
  ]);
  expectSame(await replayOf(stage, id));
}

/** Moments that are about another plan. */
const REPLANS: readonly [moment: string, requests: number][] = [
  ['lead turn_start 2', 3],
  ['lead assistant_message 2', 2],
  ['lead plan 2', 2],
];

async function goesOnWithTheOther(moment: string, requests: number): Promise<void> {
  const stage = await open(replanned);
  const life = await killedAt(stage, moment);
  expect(resultOf(life)).toMatchObject({
    ok: true,
    output: {
      status: 'completed',
      outputs: { text: 'one r0' },
      cost: { turns: 2, tool_calls: 3 },
    },
  });
  expect(stage.provider.count()).toBeLessThanOrEqual(requests);
  expect([linesIn(stage, 'put'), linesIn(stage, 'look'), linesIn(stage, 'write')]).toEqual([
    1, 0, 1,
  ]);
  const { events, id } = await eventsOf(stage);
  expect(events.filter(({ type }) => type === 'plan')).toMatchObject([
    { data: { number: 1 } },
    { data: { number: 2, after: { code: 'invalid_input', tool: 'probe/look', step: 2 } } },
  ]);
  expectSame(await replayOf(stage, id));
}

async function leavesTheWriteUnknown(): Promise<void> {
  const stage = await open();
  const life = await killedAt(stage, 'lead tool_call 3');
  expect(resultOf(life)).toMatchObject({ output: { status: 'failed', code: 'outcome_unknown' } });
  expect([linesIn(stage, 'write'), stage.provider.count()]).toEqual([0, 2]);
}

const CASES: readonly (readonly [title: string, check: () => Promise<void>])[] = [
  ...MOMENTS.map(
    ([moment, requests]) =>
      [`killed at \`${moment}\` it goes on as it was`, () => goesOn(moment, requests)] as const,
  ),
  ...REPLANS.map(
    ([moment, requests]) =>
      [
        `killed at \`${moment}\`, which is about another plan, it goes on with that`,
        () => goesOnWithTheOther(moment, requests),
      ] as const,
  ),
  ['a write that was at work is unknown, and no other plan is made', leavesTheWriteUnknown],
];

for (const [title, check] of ofToday(CASES, 4)) test(title, check);
