import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import type { ThreadReader } from './read-threads.ts';
import { updateStatus } from './registry-tools.ts';

const asker = (status: string, holds = true): ThreadReader =>
  ({
    ports: { store: { thread: async () => ok({ id: 'a', status, chain: ['a'] }) } },
    thread: undefined,
    surface: 'cli',
    verify: () => (holds ? ok(null) : fail('permission_denied', 'no')),
  }) as unknown as ThreadReader;

test('`running` is asked for as a resume, which only what rests can be', async () => {
  const wanted = { thread_id: 'a', status: 'running' };
  expect(await updateStatus(asker('completed'), wanted)).toMatchObject({
    error: { detail: { message: expect.stringContaining('can be resumed') } },
  });
  expect(await updateStatus(asker('paused', false), wanted)).toMatchObject({
    error: { code: 'permission_denied' },
  });
  expect(await updateStatus(asker('paused'), { ...wanted, status: 'completed' })).toMatchObject({
    error: { detail: { message: expect.stringContaining('running, paused') } },
  });
});
