// A tree of threads that lost its process goes on in another one.
import { budgetOf, untilEvent } from '@kernmantle/test-support/registry-reads';
import { directive, openStage, rows, spawn } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';

test('a parent that is resumed takes up its children and answers for what they used', async () => {
  let isSecond = false;
  const lateOr = (reply: object) => () => (isSecond ? reply : new Promise<never>(() => {}));
  const usage = { input_tokens: 100, output_tokens: 10 };
  const made = await openStage(
    {
      ...directive('lead', { permissions: '<orchestration enabled="true"/>' }),
      ...directive('part'),
      ...directive('quick'),
    },
    {
      lead: [
        { tool_calls: [spawn('part'), spawn('quick', { wait_ms: 30_000 })], usage },
        lateOr({ text: 'both are back', usage }),
      ],
      part: [lateOr({ text: 'part is done', usage })],
      quick: [{ text: 'quick is done', usage }],
    },
  );
  const running = made.threads.run({ directive: 'lead' });
  await untilEvent(made.threads.store, ({ type, turn }) => type === 'turn_start' && turn === 2);
  await made.runtime.close();
  const first = await running;
  expect(first).toMatchObject({ ok: true, output: { status: 'interrupted' } });
  isSecond = true;

  const runtime = await made.fixture.open();
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  made.runtime = runtime;
  made.threads = threads.output;
  const result = await threads.output.resume(first.ok ? first.output.thread_id : '');
  expect(result).toMatchObject({
    ok: true,
    output: { status: 'completed', text: 'both are back', cost: { spawns: 2 } },
  });
  expect((await rows(made)).map(({ status }) => status)).toEqual(Array(3).fill('completed'));
  const [lead] = await rows(made);
  const budget = await budgetOf(threads.output.store, lead?.id ?? '');
  expect(budget.ok && budget.output.used.tokens).toBe(BigInt(Number(lead?.cost.tokens)));
  expect(budget.ok && budget.output.used.spawns).toBe(2n);
  const events = await threads.output.store.read(lead?.id ?? '');
  const ends = events.ok ? events.output.filter(({ type }) => type === 'child_end') : [];
  expect(ends.map(({ data }) => data.status)).toEqual(['completed', 'completed']);
});
