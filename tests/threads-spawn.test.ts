// Threads that start threads: real HTTP, a real registry, real items.
import { afterEach, expect, test } from 'vitest';
import { getOwn, plainText } from '../src/base/index.ts';
import { call, closeStages, directive, openStage, rows, run, spawn } from './thread-stage.ts';

afterEach(closeStages);

const ORCHESTRATES = '<orchestration enabled="true"/>';
const handles = (results: readonly unknown[]): string[] =>
  results.map((result) => plainText(getOwn(result as never, 'thread_id')));

test('three children run at once, and their parent puts their results together', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: ORCHESTRATES }),
      ...directive('part', { inputs: '<input name="n" type="number" required="true">n</input>' }),
    },
    {
      lead: [
        { tool_calls: [1, 2, 3].map((n) => spawn('part', { inputs: { n } })) },
        ({ results }) => ({
          tool_calls: [call('threads/wait_all', { thread_ids: handles(results) })],
        }),
        ({ results }) => ({ text: `all: ${JSON.stringify(results)}` }),
      ],
      part: [({ body }) => ({ text: `part ${/"n\W*(\d)/.exec(JSON.stringify(body))?.[1]} done` })],
    },
  );
  const result = await run(made, 'lead');
  expect(result.status).toBe('completed');
  for (const n of [1, 2, 3]) expect(result.text).toContain(`part ${n} done`);
  expect(rows(made).map(({ status }) => status)).toEqual(Array(4).fill('completed'));
  expect(result.cost).toMatchObject({ spawns: 3, turns: 3 });
});
