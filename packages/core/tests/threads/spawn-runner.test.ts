// Who runs a thread: the loop with hooks, the loop without, or the program's own.
import { holdTimers } from '@kernmantle/test-support/hold-timers';
import { call, directive, openStage, rows, run } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, ok } from '../../src/base/index.ts';

const LEAD = directive('lead', {
  permissions:
    '<orchestration enabled="true"/><execute resource="tool" id="threads/spawn_thread"/>',
});
const spawnWith = (runner: string) =>
  call('threads/spawn_thread', {
    thread_id: 'mine',
    runner,
    directive_name: 'part',
    wait_ms: 30_000,
  });
const answering = (runner: string) => [
  { tool_calls: [spawnWith(runner)] },
  ({ results }: { results: readonly unknown[] }) => ({ text: JSON.stringify(results[0]) }),
];

test('a runner of the program runs the thread; its outputs are checked', async () => {
  const seen: string[] = [];
  const made = await openStage(
    {
      ...LEAD,
      ...directive('part', { outputs: '<count type="number" required="true"/>' }),
    },
    { lead: answering('mine') },
    {
      runners: {
        mine: async (task) => {
          seen.push(task.thread_id, task.directive);
          return ok({ count: 3 });
        },
      },
    },
  );
  const { text } = await run(made, 'lead');
  expect(JSON.parse(text)).toMatchObject({
    runner: 'mine',
    status: 'completed',
    outputs: { count: 3 },
  });
  expect(seen).toEqual(['mine', 'part']);
  expect(made.provider.requests.length).toBe(2);
});

test('a runner of the program is stopped at the deadline', async () => {
  const pass = holdTimers();
  const made = await openStage(
    { ...LEAD, ...directive('part', { limits: '<duration>1</duration>' }) },
    { lead: answering('slow') },
    {
      runners: {
        slow: ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener('abort', () => resolve(ok({})));
            pass(1000);
          }),
      },
    },
  );
  const { text } = await run(made, 'lead');
  expect(JSON.parse(text)).toMatchObject({ status: 'limit', code: 'duration_exceeded' });
});

const FORBIDS = {
  ...directive('part', {
    hooks: '<hook><when>event.name == "before_step"</when><directive>stop</directive></hook>',
  }),
  '.ai/directives/stop.md': `
<directive name="stop" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|retry|skip|fail|abort</action></outputs>
  <process><script>/return {"action": "fail"}</script></process>
</directive>`,
};

test.each([
  ['safety', 'failed'],
  ['plain', 'completed'],
])('the runner `%s`: a child with a hook that forbids ends %s', async (runner, status) => {
  const made = await openStage(
    { ...LEAD, ...FORBIDS },
    { lead: answering(runner), part: [{ text: 'said' }] },
  );
  await run(made, 'lead');
  expect((await rows(made))[1]).toMatchObject({ id: 'mine', runner, status });
});

test('an unknown runner is refused with the ones there are', async () => {
  const made = await openStage({ ...LEAD, ...directive('part') }, { lead: answering('saftey') });
  const { text } = await run(made, 'lead');
  const fault = getOwn(JSON.parse(text), 'error');
  expect(fault).toMatchObject({ code: 'not_found' });
  expect(JSON.stringify(fault)).toContain('did you mean `safety`');
  expect(await rows(made)).toHaveLength(1);
});

test.each([
  ['throws', () => Promise.reject(new Error('mine'))],
  [
    'throws at once',
    () => {
      throw new Error('mine');
    },
  ],
])('a runner that %s fails its thread and nothing else', async (_, mine) => {
  const made = await openStage(
    { ...LEAD, ...directive('part') },
    { lead: answering('mine') },
    { runners: { mine } },
  );
  expect((await run(made, 'lead')).status).toBe('completed');
  const part = (await rows(made)).find(({ id }) => id === 'mine');
  expect(part).toMatchObject({ status: 'failed' });
  const row = await made.threads.store.thread('mine');
  expect(row.ok && getOwn(row.output.result, 'reason')).toContain('mine');
});
