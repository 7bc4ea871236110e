// Trees of threads: what they may use together, and how they end together.
import { expectSame } from '@kernmantle/test-support/expect-same';
import { holdTimers } from '@kernmantle/test-support/hold-timers';
import { untilEvent } from '@kernmantle/test-support/registry-reads';
import {
  call,
  directive,
  openStage,
  READ,
  read,
  rows,
  run,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, plainText } from '../../src/base/index.ts';
import type { StoredEvent } from '../../src/store/index.ts';

const ORCHESTRATES = '<orchestration enabled="true"/>';
const PART = directive('part', {
  inputs: '<input name="n" type="number" required="false">n</input>',
});

test('two of two spawns can be used, the third does not start', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES, limits: '<spawns>2</spawns>' }),
      ...PART,
    },
    {
      lead: [
        { tool_calls: [1, 2, 3].map((n) => spawn('part', { inputs: { n } })) },
        { text: 'never' },
      ],
      part: [{ text: 'done' }],
    },
  );
  expect(await run(made, 'lead')).toMatchObject({
    status: 'limit',
    code: 'spawns_exceeded',
    cost: { spawns: 2 },
  });
  expect(await rows(made)).toHaveLength(3);
});

test('zero spawns means none', async () => {
  const made = await openStage(
    { ...directive('lead', { permissions: ORCHESTRATES, limits: '<spawns>0</spawns>' }), ...PART },
    { lead: [{ tool_calls: [spawn('part')] }], part: [{ text: 'never' }] },
  );
  expect(await run(made, 'lead')).toMatchObject({ status: 'limit', code: 'spawns_exceeded' });
  expect(await rows(made)).toHaveLength(1);
});

test('spawns of a child count for its parent too', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES, limits: '<spawns>2</spawns>' }),
      ...directive('middle', { permissions: ORCHESTRATES }),
      ...PART,
    },
    {
      lead: [{ tool_calls: [spawn('middle', { wait_ms: 30_000 })] }, { text: 'ok' }],
      middle: [
        { tool_calls: [1, 2].map((n) => spawn('part', { inputs: { n } })) },
        { text: 'never' },
      ],
      part: [{ text: 'done' }],
    },
  );
  const result = await run(made, 'lead');
  expect(result).toMatchObject({ status: 'completed', cost: { spawns: 2 } });
  expect((await rows(made)).find(({ directive: name }) => name === 'middle')?.status).toBe('limit');
  expect(await rows(made)).toHaveLength(3);
});

test('a thread below the depth limit does not start', async () => {
  const again = {
    tool_calls: [spawn('nest', { wait_ms: 30_000 })],
  };
  const made = await openStage(
    directive('nest', { permissions: ORCHESTRATES, limits: '<depth>2</depth>' }),
    { nest: [again, { text: 'back' }] },
  );
  const result = await run(made, 'nest');
  expect(result.status).toBe('completed');
  expect((await rows(made)).map(({ depth }) => depth)).toEqual([0, 1, 2]);
  expect((await rows(made)).map(({ status }) => status)).toEqual([
    'completed',
    'completed',
    'limit',
  ]);
});

test('a child has what its parents have left when it asks, and no more time than they', async () => {
  const usage = { input_tokens: 2000, output_tokens: 500 };
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: `${READ}${ORCHESTRATES}`,
        limits: '<tokens>10000</tokens><duration>60</duration><spend currency="USD">0.5</spend>',
      }),
      ...directive('part', {
        permissions: READ,
        limits: '<tokens>900000</tokens><duration>900</duration>',
      }),
    },
    {
      lead: [{ tool_calls: [spawn('part', { wait_ms: 30_000 })], usage }, { text: 'never' }],
      part: ['a', 'b', 'c'].map((name) => ({ ...read(`notes/${name}.txt`), usage })),
    },
  );
  await run(made, 'lead');
  const [lead, part] = await rows(made);
  const row = await made.threads.store.thread(part?.id ?? '');
  const limits = row.ok ? row.output.limits : {};
  expect(limits).toMatchObject({
    tokens: { value: 900_000, from: 'directive' },
    duration: { from: 'parent' },
  });
  expect(Number(getOwn(getOwn(limits, 'duration'), 'value'))).toBeLessThanOrEqual(60);
  const events = await made.threads.store.read(part?.id ?? '');
  const all = events.ok ? events.output : [];
  const asked = all.filter(({ type }) => type === 'turn_start').map(({ data }) => data.max_tokens);
  expect(asked.map(Number)).toEqual(asked.map(Number).toSorted((a, b) => b - a));
  const last = all.find(({ type }) => type === 'limit')?.data ?? {};
  expect(last).toMatchObject({ limit: 'tokens', max: 10_000, thread: lead?.id });
  expect(Number(last.current) + Number(last.needed)).toBeGreaterThan(10_000);
  expect(part).toMatchObject({ status: 'limit', cost: { tokens: Number(last.current) - 2500 } });
  const again = await made.threads.replay(part?.id ?? '');
  expectSame(again);
});

test('a parent that has said its last word waits for its children', async () => {
  let finishPart = (): void => {};
  const gate = new Promise<void>((resolve) => {
    finishPart = resolve;
  });
  const made = await openStage(
    { ...directive('lead', { permissions: ORCHESTRATES }), ...PART },
    {
      lead: [{ tool_calls: [spawn('part')] }, { text: 'my last word' }],
      part: [
        async () => {
          await gate;
          return { text: 'done' };
        },
      ],
    },
  );
  const over = new AbortController();
  const heard = (async () => {
    const isLast = ({ data }: StoredEvent) => JSON.stringify(data).includes('my last word');
    await untilEvent(made.threads.store, isLast, over.signal);
    const [lead] = await rows(made);
    finishPart();
    return lead?.status;
  })();
  const result = await run(made, 'lead');
  over.abort();
  expect(await heard).toBe('running');
  expect(result).toMatchObject({ status: 'completed', text: 'my last word' });
  expect((await rows(made)).map(({ status }) => status)).toEqual(['completed', 'completed']);
});

const forever = () => new Promise<never>(() => {});

test.each([
  ['a limit', { limits: '<turns>1</turns>' }, 'limit', 'terminated'],
  [
    'an abort',
    {
      hooks:
        '<hook><when>event.name == "before_step" and event.step == "turn 2"</when><directive>stop_all</directive></hook>',
    },
    'aborted',
    'aborted',
  ],
])('%s of the parent stops its children first', async (_, parts, status, childStatus) => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES, ...parts }),
      ...PART,
      '.ai/directives/stop_all.md': `
<directive name="stop_all" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|retry|skip|fail|abort</action></outputs>
  <process><script>/return {"action": "abort"}</script></process>
</directive>`,
    },
    {
      lead: [
        { tool_calls: [1, 2].map((n) => spawn('part', { inputs: { n } })) },
        { text: 'never' },
      ],
      part: [forever],
    },
  );
  expect(await run(made, 'lead')).toMatchObject({ status });
  const children = (await rows(made)).filter(({ directive: name }) => name === 'part');
  expect(children.map((child) => child.status)).toEqual([childStatus, childStatus]);
  const [lead] = await rows(made);
  for (const { ended = 0 } of children) expect(ended).toBeLessThanOrEqual(lead?.ended ?? 0);
});

test('an abort in a child ends the whole tree', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES }),
      ...directive('bad', {
        hooks:
          '<hook><when>event.name == "before_step"</when><directive>stop_all</directive></hook>',
      }),
      ...PART,
      '.ai/directives/stop_all.md': `
<directive name="stop_all" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|retry|skip|fail|abort</action></outputs>
  <process><script>/return {"action": "abort", "error": "enough"}</script></process>
</directive>`,
    },
    {
      lead: [{ tool_calls: [spawn('part'), spawn('bad')] }, forever],
      part: [forever],
      bad: [{ text: 'never' }],
    },
  );
  const result = await run(made, 'lead');
  expect(result).toMatchObject({ status: 'aborted', reason: expect.stringContaining('enough') });
  expect((await rows(made)).map(({ status }) => status)).toEqual(['aborted', 'aborted', 'aborted']);
});

test('a parent does not wait for a paused child beyond its own deadline', async () => {
  const pass = holdTimers();
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES, limits: '<duration>60</duration>' }),
      ...PART,
    },
    {
      lead: [
        { tool_calls: [spawn('part')] },
        ({ results }) => ({
          tool_calls: [
            call('threads/pause_thread', {
              thread_id: plainText(getOwn(results[0] ?? null, 'thread_id')),
            }),
          ],
        }),
        { text: 'my last word' },
      ],
      part: [forever],
    },
  );
  const running = run(made, 'lead');
  let isOver = false;
  void running.finally(() => {
    isOver = true;
  });
  await untilEvent(made.threads.store, ({ data }) => JSON.stringify(data).includes('my last word'));
  // The lead begins to wait after its last word.
  await expect.poll(() => (pass(60_000), isOver)).toBe(true);
  const result = await running;
  expect(result).toMatchObject({
    status: 'limit',
    code: 'duration_exceeded',
    text: 'my last word',
  });
});

test('hooks see a spawn as a step of its own kind', async () => {
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: ORCHESTRATES,
        hooks:
          '<hook><when>event.name == "before_step" and event.kind == "spawn" and event.arguments.parameters.directive_name == "part"</when><directive>no_part</directive></hook>',
      }),
      ...PART,
      '.ai/directives/no_part.md': `
<directive name="no_part" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|retry|skip|fail|abort</action></outputs>
  <process><script>/return {"action": "skip"}</script></process>
</directive>`,
    },
    { lead: [{ tool_calls: [spawn('part')] }, { text: 'ok' }], part: [{ text: 'never' }] },
  );
  expect(await run(made, 'lead')).toMatchObject({ status: 'completed', cost: { spawns: 0 } });
  expect(await rows(made)).toHaveLength(1);
});

test('a hook may raise the number of spawns', async () => {
  const made = await openStage(
    {
      ...directive('lead', {
        permissions: ORCHESTRATES,
        limits: '<spawns>1</spawns>',
        hooks:
          '<hook><when>event.code == "spawns_exceeded"</when><directive>one_more</directive></hook>',
      }),
      ...PART,
      '.ai/directives/one_more.md': `
<directive name="one_more" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|retry|skip|fail|abort</action><context type="object"/></outputs>
  <process><script>/return {"action": "continue", "context": {"limits": {"spawns": 2}}}</script></process>
</directive>`,
    },
    {
      lead: [{ tool_calls: [1, 2].map((n) => spawn('part', { inputs: { n } })) }, { text: 'ok' }],
      part: [{ text: 'done' }],
    },
  );
  expect(await run(made, 'lead')).toMatchObject({ status: 'completed', cost: { spawns: 2 } });
});
