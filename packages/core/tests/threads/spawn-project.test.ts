// A thread of another project: that project's items, both policies, one registry.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  call,
  directive,
  nameIn,
  openStage,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';

const WRITES =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const USES = '<execute resource="project" action="use" path="../other"/>';
const ORCHESTRATES = '<orchestration enabled="true"/>';
const there = (files: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).map(([path, text]) => [`../other/${path}`, text]));
const said = ({ provider }: Stage, name: string): string =>
  JSON.stringify(provider.requests.findLast((request) => nameIn(request) === name)?.body);

const play = {
  lead: [
    { tool_calls: [spawn('visit', { project_path: '../other', wait_ms: 30_000 })] },
    { text: 'ok' },
  ],
  visit: [
    { tool_calls: [call('fs/write_file', { path: 'out/x.txt', content: 'x' })] },
    { text: 'I was there' },
  ],
};

test('a child in another project uses its items, and its row is in the parent’s registry', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${USES}${WRITES}` }),
      ...there({ ...directive('visit', { permissions: WRITES }), 'AGENTS.md': 'The other house' }),
    },
    play,
  );
  expect(await run(made, 'lead')).toMatchObject({ status: 'completed', cost: { spawns: 1 } });
  expect(await rows(made)).toHaveLength(2);
  const other = join(made.fixture.root, '../other');
  expect((await rows(made))[1]).toMatchObject({
    directive: 'visit',
    status: 'completed',
    project: other,
  });
  expect(existsSync(join(other, 'out/x.txt'))).toBe(true);
  expect(existsSync(join(made.fixture.root, 'out/x.txt'))).toBe(false);
  expect(existsSync(join(other, '.ai/threads/registry.db'))).toBe(false);
});

test('without the right to use the project nothing of it is opened', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${WRITES}` }),
      ...there(directive('visit', { permissions: WRITES })),
    },
    play,
  );
  await run(made, 'lead');
  expect(await rows(made)).toHaveLength(1);
  expect(said(made, 'lead')).toContain('project.use');
});

test('the policy of the project it was started from applies there too', async () => {
  const made = await openStage(
    {
      ...directive('lead', { permissions: `${ORCHESTRATES}${USES}${WRITES}` }),
      ...there(directive('visit', { permissions: WRITES })),
      '.ai/policy.yaml': 'labels:\n  "src:llm":\n    deny: ["op:tool:fs/write_file"]\n',
    },
    play,
  );
  await run(made, 'lead');
  expect(await rows(made)).toHaveLength(2);
  expect(existsSync(join(made.fixture.root, '../other/out/x.txt'))).toBe(false);
  expect(said(made, 'visit')).toContain('src:llm');
});
