// A tool that may be used so often: counted in the journal with the intent, for the thread and everything
// below it, whatever becomes of the process in between.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { endLives, live } from '@kernmantle/test-support/crash-driver';
import { probeTools } from '@kernmantle/test-support/crash-project';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { isLate } from '@kernmantle/test-support/late-store';
import {
  call,
  directive,
  directiveText,
  openStage,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { afterEach, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';

afterEach(endLives);

const uses = (count: number, id = 'probe/write') =>
  `<execute resource="tool" id="${id}" uses="${count}"/>`;
const ANY =
  '<execute resource="tool" id="probe/write"/><execute resource="tool" id="probe/look"/><orchestration enabled="true"/>';
const write = (at: string): ScriptedReply => ({ tool_calls: [call('probe/write', { at })] });
const DONE: ScriptedReply = { text: 'done' };
const LIMITS = '<turns>20</turns>';

const deeds: string[] = [];
const TOOLS = probeTools((name, at) => {
  deeds.push(`${name} ${at}`);
  return { done: at };
});
const open = (files: Record<string, string>, play: Parameters<typeof openStage>[1]) => {
  deeds.length = 0;
  return openStage(files, play, { tools: TOOLS });
};
const resultsOf = async (
  { threads }: Pick<Stage, 'threads'>,
  id: string,
): Promise<JsonObject[]> => {
  const events = await threads.store.read(id);
  const all = events.ok ? events.output.filter(({ type }) => type === 'tool_result') : [];
  return all.slice(1).map(({ data }) => data);
};
const codes = async (made: Stage, id: string) =>
  (await resultsOf(made, id)).map(({ content, is_error }) =>
    is_error === true ? ((content as JsonObject).error as JsonObject).code : 'done',
  );

test('a tool is used as often as the directive says, and the refusal says so', async () => {
  const made = await open(directive('lead', { permissions: uses(2), limits: LIMITS }), {
    lead: [write('a'), write('b'), write('c'), DONE],
  });
  const { thread_id } = await run(made, 'lead');
  expect(await codes(made, thread_id)).toEqual(['done', 'done', 'permission_denied']);
  expect(deeds).toEqual(['write a', 'write b']);
  const [, , refused] = await resultsOf(made, thread_id);
  const text = JSON.stringify(refused?.content);
  expect(text).toContain('can be used 2 times');
  expect(text).toContain('permissions of directive `lead`');
  const report = await made.threads.replay(thread_id);
  expectSame(report);
});

test('two at once in one turn: one of them has the last use', async () => {
  const both = { tool_calls: [call('probe/look', { at: 'a' }), call('probe/look', { at: 'b' })] };
  const made = await open(
    directive('lead', { permissions: uses(1, 'probe/look'), limits: LIMITS }),
    { lead: [both, DONE] },
  );
  const { thread_id } = await run(made, 'lead');
  expect(new Set(await codes(made, thread_id))).toEqual(new Set(['done', 'permission_denied']));
  expect(deeds).toHaveLength(1);
});

test('what is refused before it begins uses nothing up', async () => {
  const guards =
    '<guard on="op:tool:probe/write"><when>"no" in input.text</when><deny>not this</deny></guard>';
  const made = await open(directive('lead', { permissions: uses(1), limits: LIMITS, guards }), {
    lead: [write('no'), write('a'), write('b'), DONE],
  });
  const { thread_id } = await run(made, 'lead');
  expect(await codes(made, thread_id)).toEqual(['permission_denied', 'done', 'permission_denied']);
  expect(deeds).toEqual(['write a']);
});

test('uses of children count for the thread above, whose children share them', async () => {
  const made = await open(
    {
      ...directive('lead', {
        permissions: `${uses(3)}<orchestration enabled="true"/>`,
        limits: LIMITS,
      }),
      ...directive('part', {
        permissions: '<execute resource="tool" id="probe/write"/>',
        limits: LIMITS,
      }),
    },
    {
      lead: [
        write('lead'),
        { tool_calls: [spawn('part', { wait_ms: 30_000 }), spawn('part', { wait_ms: 30_000 })] },
        write('late'),
        DONE,
      ],
      part: [write('one'), write('two'), DONE],
    },
  );
  await run(made, 'lead');
  expect(deeds).toHaveLength(3);
  const all = await rows(made);
  expect(all.length).toBe(3);
});

test('a child with uses of its own is held by both', async () => {
  const made = await open(
    {
      ...directive('lead', { permissions: ANY, limits: LIMITS }),
      ...directive('part', { permissions: uses(1), limits: LIMITS }),
    },
    {
      lead: [{ tool_calls: [spawn('part', { wait_ms: 30_000 })] }, write('lead'), DONE],
      part: [write('one'), write('two'), DONE],
    },
  );
  await run(made, 'lead');
  expect(deeds).toEqual(['write one', 'write lead']);
});

test('a hook that has a step done again takes another use', async () => {
  const hooks =
    '<hook><when>event.name == "after_step" and event.tool == "probe/look"</when><directive>again</directive></hook>';
  const made = await open(
    {
      ...directive('lead', { permissions: uses(2, 'probe/look'), limits: LIMITS, hooks }),
      '.ai/directives/again.md': `
<directive name="again" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">retry</action></outputs>
  <process><script>/return { "action": "retry" }</script></process>
</directive>`,
    },
    { lead: [{ tool_calls: [call('probe/look', { at: 'a' })] }, DONE] },
  );
  await run(made, 'lead');
  expect(deeds).toHaveLength(2);
});

test('inside another tool nobody could count it, so it is refused', async () => {
  const made = await open(
    {
      ...directive('lead', {
        permissions: `${uses(1)}<execute resource="tool" id="own/twice"/>`,
        limits: LIMITS,
      }),
      '.ai/tools/own/twice.yaml':
        'tool_id: twice\ndescription: x\nexecutor_id: script\neffect: write\nrequires: [tool.execute]\nparameters: []\nconfig: { script: "/var @a = @tool(\\"probe/write\\", { \\"at\\": \\"x\\" })" }\n',
    },
    { lead: [{ tool_calls: [call('own/twice')] }, write('a'), DONE] },
  );
  const { thread_id } = await run(made, 'lead');
  expect(await codes(made, thread_id)).toEqual(['permission_denied', 'done']);
  expect(deeds).toEqual(['write a']);
});

const linesIn = ({ fixture }: Stage, name = 'write'): string[] => {
  const file = join(fixture.root, `${name}.log`);
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
};

test.skipIf(isLate)('a process that is killed wins none back', async () => {
  const inputs = '<input name="tag" type="string" required="false"/>';
  const made = await open(directive('lead', { permissions: uses(2), limits: LIMITS, inputs }), {
    lead: [write('a'), write('b'), write('c'), write('d'), DONE],
  });
  // With the intent of the second: whether it had its effect is not known, so it counts.
  await live(made, 'lead tool_call 2').over;
  await live(made).over;
  const [row] = await rows(made);
  expect(linesIn(made).length).toBeLessThanOrEqual(2);
  const told = await codes(made, row?.id ?? '');
  expect(told.slice(2)).toEqual(['permission_denied', 'permission_denied']);
});

const check = async (permissions: string) => {
  const made = await open({ '.ai/directives/lead.md': directiveText('lead', { permissions }) }, {});
  const { output } = await runCommand(['check'], made.fixture.root, made.fixture.env);
  return output;
};

test('check refuses uses that mean nothing', async () => {
  for (const [line, why] of [
    ['<execute resource="tool" id="fs/read_file" uses="0"/>', 'must be a whole number'],
    ['<execute resource="tool" id="fs/read_file" uses="-1"/>', 'must be a whole number'],
    ['<execute resource="tool" id="fs/read_file" uses="often"/>', 'must be a whole number'],
    ['<execute resource="tool" id="fs/*" uses="2"/>', 'names many'],
    ['<execute resource="shell" uses="2"/>', 'takes no `uses`'],
    ['<read resource="filesystem" path="a/**" uses="2"/>', 'takes no `uses`'],
    [
      '<execute resource="tool" id="fs/read_file" uses="1"/><execute resource="tool" id="fs/read_file" uses="2"/>',
      'in another line',
    ],
  ] as const) {
    expect(await check(line)).toContain(why);
  }
  expect(await check('<execute resource="tool" id="fs/read_file" uses="2"/>')).toContain(
    '0 errors',
  );
});
