// Hooks have a budget of their own: set aside at the start, used when the thread has none left.
import { runCommand } from '@kernmantle/test-support/command-line';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
import {
  answer,
  directive,
  directiveText,
  execute,
  hook,
  openStage,
  READ,
  read,
  rows,
  run,
  spawn,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { type Json, type JsonObject, plainText } from '../../src/base/index.ts';
import { formatMoney } from '../../src/llm/index.ts';

const VERDICT = '<action type="string" required="true"/><context type="object"/>';
const judge = (parts: { hooks?: string } = {}) =>
  directiveText('judge', { outputs: VERDICT, limits: '<turns>3</turns>', ...parts });
const verdict = (parameters: JsonObject) => ({
  tool_calls: [
    {
      name: 'execute',
      arguments: { item_type: 'directive', item_id: 'judge', action: 'return', parameters } as Json,
    },
  ],
});
const HALF = { '.ai/config/limits.yaml': 'hook_reserve: 0.5\n' };

test('a hook still runs when its thread has used up its tokens, within the same ceiling', async () => {
  const made = await stage(
    {
      ...HALF,
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ,
        limits: '<tokens>30000</tokens>',
        hooks: hook('event.code == "tokens_exceeded"', 'judge'),
      }),
      '.ai/directives/judge.md': judge(),
    },
    [
      { ...read('notes/a.txt'), usage: { input_tokens: 14_000, output_tokens: 900 } },
      {
        ...verdict({ action: 'fail', error: 'that is enough' }),
        usage: { input_tokens: 900, output_tokens: 50 },
      },
    ],
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({
    status: 'failed',
    reason: expect.stringContaining('enough'),
    cost: { turns: 1, tokens: 15_850, hooks: { turns: 1, tokens: 950, tool_calls: 1 } },
  });
  const budget = await budgetOf(made.threads.store, result.thread_id);
  if (!budget.ok) throw new Error(budget.error.detail.message);
  const { used, reserved, limits } = budget.output;
  expect(used.tokens).toBe(15_850n);
  expect(reserved.tokens).toBe(0n);
  expect(limits.tokens).toBe(30_000n);
  expect(formatMoney(used.spend)).toBe(plainText(result.cost.spend));
});

test('a small limit sets aside enough for one request of a hook', async () => {
  const made = await stage(
    {
      '.ai/config/limits.yaml': 'hook_reserve: 0.02\n',
      '.ai/directives/look.md': directiveText('look', {
        limits: '<tokens>12000</tokens>',
        hooks: hook('event.name == "before_step"', 'judge'),
      }),
      '.ai/directives/judge.md': judge(),
    },
    [verdict({ action: 'fail', error: 'looked at' })],
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({ status: 'failed', reason: expect.stringContaining('looked at') });
  expect(made.provider.count()).toBe(1);
});

test('five thousand tokens are enough for a thread and one request of its hook', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ,
        limits: '<tokens>5000</tokens>',
        hooks: hook('event.code == "permission_denied"', 'judge'),
      }),
      '.ai/directives/judge.md': directiveText('judge', {
        outputs: VERDICT,
        limits: '<turns>3</turns><tokens>5000</tokens>',
      }),
    },
    [read('secret/a.txt'), verdict({ action: 'fail', error: 'looked at' })],
  );
  expect(await run(made, 'look')).toMatchObject({
    status: 'failed',
    reason: expect.stringContaining('looked at'),
    cost: { hooks: { turns: 1 } },
  });
  const checked = await runCommand(['check'], made.fixture.root, made.fixture.env);
  expect(checked.output).not.toContain('hook_unaffordable');
});

test('a hook that cannot be paid counts as no match and is recorded; the next one answers', async () => {
  const made = await stage(
    {
      '.ai/config/limits.yaml': 'hook_reserve: 0.02\n',
      '.ai/directives/look.md': directiveText('look', {
        limits: '<tokens>3500</tokens>',
        hooks: `${hook('event.name == "before_step"', 'judge')}${hook('event.name == "before_step"', 'cheap')}`,
      }),
      '.ai/directives/judge.md': judge(),
      '.ai/directives/cheap.md': answer('cheap', {
        action: 'continue',
        context: { note: 'cheap' },
      }),
    },
    [{ text: 'done' }],
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({ status: 'completed', cost: { hooks: { tokens: 0 } } });
  expect(made.provider.count()).toBe(1);
  expect(JSON.stringify(made.provider.requests[0]?.body)).toContain('cheap');
  const events = await made.threads.store.read(result.thread_id);
  const errors = (events.ok ? events.output : []).filter(({ type }) => type === 'error');
  expect(errors.map(({ data }) => data.code)).toEqual(['hook_unaffordable']);
});

test('hooks of hooks end: nesting is bounded', async () => {
  const made = await stage(
    {
      ...HALF,
      '.ai/directives/look.md': directiveText('look', {
        hooks: hook('event.name == "before_step"', 'judge'),
      }),
      '.ai/directives/judge.md': judge({ hooks: hook('event.name == "before_step"', 'judge') }),
    },
    [],
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({ status: 'failed', code: 'hook_failed' });
  expect(result.reason).toContain('nested');
  const rows = await made.threads.store.query({ limit: 50 });
  expect(rows.ok && rows.output.rows.map(({ status, depth }) => [status, depth])).toEqual([
    ['failed', 0],
    ['failed', 0],
    ['failed', 0],
  ]);
});

test('a thread that ended and is opened again has something set aside for its hooks', async () => {
  const held: bigint[] = [];
  const made = await stage(
    {
      ...HALF,
      '.ai/directives/look.md': directiveText('look', {
        permissions: `${READ}<execute resource="tool" id="probe/books"/>`,
        limits: '<tokens>30000</tokens>',
        hooks: hook('event.code == "tokens_exceeded"', 'judge'),
      }),
      '.ai/directives/judge.md': judge(),
    },
    [
      { tool_calls: [{ name: 'help', arguments: { action: 'checkpoint', reason: 'here' } }] },
      { tool_calls: [execute('probe/books', {})] },
      { text: 'one end' },
      { tool_calls: [execute('probe/books', {})] },
      { text: 'another end' },
    ],
    {
      tools: [
        {
          id: 'probe/books',
          description: 'What is set aside while the thread runs',
          effect: 'read',
          async run() {
            const { store } = made.threads;
            const page = await store.query({ status: 'running' });
            const id = page.ok ? (page.output.rows[0]?.id ?? '') : '';
            const budget = await budgetOf(store, id);
            held.push(budget.ok ? budget.output.reserved.tokens : 0n);
            return null;
          },
        },
      ],
    },
  );
  const first = await run(made, 'look');
  const again = await made.threads.resume(first.thread_id, undefined, { from: 'last' });
  expect(again).toMatchObject({ ok: true, output: { status: 'completed', text: 'another end' } });
  expect(held).toEqual([15_000n, 15_000n]);
});

test('a root shows what it, its children and the hooks of all of them used', async () => {
  const usage = { input_tokens: 100, output_tokens: 20 };
  const hooks = hook(
    'event.name == "before_step" and event.kind == "turn" and cost.turns == 0',
    'judge',
  );
  const made = await openStage(
    {
      ...directive('lead', { permissions: '<orchestration enabled="true"/>', hooks }),
      ...directive('part', { hooks }),
      '.ai/directives/judge.md': judge(),
    },
    {
      lead: [
        { tool_calls: [spawn('part', { wait_ms: 30_000 })], usage },
        { text: 'all', usage },
      ],
      part: [{ text: 'done', usage }],
      judge: [{ ...verdict({ action: 'continue' }), usage }],
    },
  );
  const result = await run(made, 'lead');
  expect(made.provider.count()).toBe(5);
  expect(result).toMatchObject({
    status: 'completed',
    cost: { turns: 2, tokens: 600, spend: '0.001', hooks: { turns: 1, tokens: 120 } },
  });
  const budget = await budgetOf(made.threads.store, result.thread_id);
  expect(budget.ok && budget.output.used.tokens).toBe(600n);
  const part = (await rows(made)).find(({ directive: name }) => name === 'part');
  expect(part?.cost).toMatchObject({ tokens: 240, turns: 1, hooks: { turns: 1, tokens: 120 } });
});
