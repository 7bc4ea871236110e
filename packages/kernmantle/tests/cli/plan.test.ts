// Tests `km run --plan`, which shows the plan before it runs, and `--check`, which only shows it.
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { TEXT } from '@kernmantle/test-support/script-project';
import { directiveText, READ } from '@kernmantle/test-support/thread-project';
import { afterEach, beforeEach, expect, test } from 'vitest';

const PLAN = `var @file = @tool("fs/read_file", { path: 'notes/a.txt' })
return { text: @file.content }`;

let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture({
    'notes/a.txt': 'hello\n',
    '../home/policy.yaml': TRUSTING,
    '.ai/directives/job.md': directiveText('job', { permissions: READ, outputs: TEXT }),
    'replies.json': JSON.stringify([{ text: `\`\`\`\n${PLAN}\n\`\`\`` }]),
  });
});
afterEach(() => fixture.remove());

const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
const RUN = ['run', 'job', '--replies', 'replies.json', '--plan'];

test('--check shows the plan and what it needs', async () => {
  const { code, output } = await km(...RUN, '--check');
  expect(code).toBe(0);
  expect(output).toContain(`${PLAN}\n\n>> tools: fs/read_file\n>> rights: fs.read`);
  expect(output).not.toContain('hello');
});

test('without it the plan is shown and done, and `threads show` and replay know it', async () => {
  const { code, output } = await km(...RUN);
  expect([code, output]).toEqual([0, expect.stringContaining('"text": "hello\\n"')]);
  expect(output.indexOf('≡ plan 1:\n    var @file')).toBeGreaterThan(0);
  expect(output.indexOf('≡ plan 1')).toBeLessThan(output.indexOf('→ fs/read_file'));
  const shown = await km('threads', 'show', 'last');
  for (const line of PLAN.split('\n')) expect(shown.output).toContain(`    ${line}\n`);
  expect(await km('replay', 'last')).toMatchObject({ code: 0 });
});

test('every event is a line with --json', async () => {
  const { output } = await km(...RUN, '--json');
  const lines = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string });
  expect(lines.find(({ type }) => type === 'plan')).toMatchObject({
    data: { number: 1, text: PLAN },
  });
});

test('--check alone makes no sense', async () => {
  expect(await km('run', 'job', '--check')).toMatchObject({ code: 2 });
});
