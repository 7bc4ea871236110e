// Before the first turn, and when a model asks for help: refusals, questions, answers.
import {
  answer,
  directiveText,
  hook,
  READ,
  read,
  run,
  type Stage,
  stage,
  types,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { Json } from '../../src/base/index.ts';

const WRITE = '<write resource="filesystem" path="out/**"/>';
const CEILING = { '.ai/policy.yaml': 'capabilities:\n  deny: [fs.write]\n' };

test('a directive that asks for more than the policy allows is denied before it costs anything', async () => {
  const made = await stage(
    { ...CEILING, '.ai/directives/look.md': directiveText('look', { permissions: READ + WRITE }) },
    [],
  );
  const result = await run(made, 'look');
  expect(result).toMatchObject({ status: 'denied', code: 'permission_denied' });
  expect(result.reason).toContain('fs.write');
  expect(made.provider.count()).toBe(0);
});

test('a hook may let it run with what is granted', async () => {
  const made = await stage(
    {
      ...CEILING,
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ + WRITE,
        hooks: hook(
          'event.code == "permission_denied" and event.detail.missing == "fs.write"',
          'judge',
        ),
      }),
      '.ai/directives/judge.md': answer('judge', { action: 'continue' }),
    },
    [read('notes/a.txt'), { text: 'read only' }],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'completed', text: 'read only' });
});

test('a hook that keeps asking for another start is bounded', async () => {
  const made = await stage(
    {
      ...CEILING,
      '.ai/directives/look.md': directiveText('look', {
        permissions: READ + WRITE,
        hooks: hook('event.code == "permission_denied"', 'judge'),
      }),
      '.ai/directives/judge.md': answer('judge', { action: 'retry' }),
    },
    [],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'denied' });
});

const help = (action: string, reason: string) => ({
  tool_calls: [{ name: 'help', arguments: { action, reason } as Json, id: `help_${action}` }],
});
const LOOK = { '.ai/directives/look.md': directiveText('look', { permissions: READ }) };

async function decide({ threads: { store } }: Stage, words: string): Promise<void> {
  const open = await store.approvals({ state: 'pending' });
  const [first] = open.ok ? open.output : [];
  const done = await store.decide(first?.id ?? '', {
    decision: 'approved',
    who: 'ann',
    channel: 'cli',
    why: 'asked nicely',
    answer: words,
  });
  if (!done.ok) throw new Error(done.error.detail.message);
}

test.each([
  ['escalate', 'waiting'],
  ['stuck', 'needs_input'],
])(
  'help(%s) asks a person, the thread is %s, and the answer is the result',
  async (action, status) => {
    const made = await stage(LOOK, [help(action, 'which one?'), { text: 'the blue one' }]);
    const asked = await run(made, 'look');
    expect(asked).toMatchObject({ status, reason: expect.stringContaining('which one?') });
    const row = await made.threads.store.thread(asked.thread_id);
    expect(row.ok && row.output.status).toBe(status);
    expect(row.ok && row.output.lease_until).toBeUndefined();
    const early = await made.threads.resume(asked.thread_id);
    expect(early.ok && early.output.status).toBe(status);
    await decide(made, 'take the blue one');
    const done = await made.threads.resume(asked.thread_id);
    expect(done.ok && done.output).toMatchObject({ status: 'completed', text: 'the blue one' });
    expect(JSON.stringify(made.provider.requests[1]?.body)).toContain('take the blue one');
    const open = await made.threads.store.approvals({});
    expect(open.ok && open.output).toHaveLength(1);
  },
);

test('a hook may answer a model that is stuck', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', {
        hooks: hook('event.code == "stuck"', 'judge'),
      }),
      '.ai/directives/judge.md': answer('judge', {
        action: 'continue',
        context: { hint: 'look left' },
      }),
    },
    [help('stuck', 'where?'), { text: 'found' }],
  );
  expect(await run(made, 'look')).toMatchObject({ status: 'completed', text: 'found' });
  expect(JSON.stringify(made.provider.requests[1]?.body)).toContain('look left');
});

test('help(checkpoint) leaves a snapshot', async () => {
  const made = await stage(LOOK, [help('checkpoint', 'half way'), { text: 'done' }]);
  const result = await run(made, 'look');
  expect(result.status).toBe('completed');
  expect(await types(made, result.thread_id)).toContain('snapshot');
});
