// Threads that the policy does not want kept any longer go when others are run.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
import { directiveText, READ, run, stage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/index.ts';

const DAY = 24 * 60 * 60 * 1000;

test('before its first run a runtime removes what is too old, a failed one stays', async () => {
  let shift = -40 * DAY;
  const clock = { ...systemClock, now: () => systemClock.now() + shift };
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', { permissions: READ }),
      '.ai/directives/fall.md': directiveText('fall', {
        outputs: '<x type="string" required="true"/>',
      }),
    },
    ({ body }) =>
      JSON.stringify(body).includes('directive fall') ? { text: 'no' } : { text: 'done' },
    { clock },
  );
  const old = await run(made, 'look');
  const failed = await run(made, 'fall');
  expect([old.status, failed.status]).toEqual(['completed', 'failed']);
  shift = 0;
  // The same runtime has looked already; another process looks again.
  await run(made, 'look');
  expect((await made.threads.store.thread(old.thread_id)).ok).toBe(true);
  const other = await made.fixture.open();
  const threads = await other.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  expect((await threads.output.store.thread(old.thread_id)).ok).toBe(true);
  const young = await threads.output.run({ directive: 'look' });
  expect(young.ok && young.output.status).toBe('completed');
  const { store } = threads.output;
  expect((await store.thread(old.thread_id)).ok).toBe(false);
  expect(existsSync(join(made.fixture.root, '.ai/threads', old.thread_id))).toBe(false);
  expect((await store.thread(failed.thread_id)).ok).toBe(true);
  expect((await budgetOf(store, old.thread_id)).ok).toBe(true);
  await other.close();
});
