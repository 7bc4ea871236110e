// `provenance --thread` over the journal of a real thread.
import { expect, test } from 'vitest';
import { runCommand } from '../support/command-line.ts';
import { directiveText, execute, READ, run, stage } from '../support/thread-project.ts';

test('a refusal in a thread leads back to what the model had read', async () => {
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', { permissions: READ }),
      'notes/a.txt': 'a note',
    },
    [
      { tool_calls: [execute('fs/read_file', { path: 'notes/a.txt' })] },
      { tool_calls: [execute('fs/write_file', { path: 'notes/b.txt', content: 'x' })] },
      { text: 'done' },
    ],
  );
  const { thread_id } = await run(made, 'look');
  const ask = (...words: string[]) =>
    runCommand(['provenance', ...words], made.fixture.root, made.fixture.env);
  const shown = await ask('--thread', thread_id);
  expect(shown.output).toMatch(/^tool fs\/write_file: .*write_file/);
  expect(shown.output).toContain('tool fs/read_file');
  expect(shown.output).toMatch(/file:.*notes\/a\.txt|tool:fs\/read_file/);
  const { output } = JSON.parse((await ask('--thread', 'last', '--json')).output);
  expect(output.refusal.code).toBe('permission_denied');
  expect(output.nodes.map(({ operation }: { operation: string }) => operation)).toContain(
    'tool fs/read_file',
  );
});

test('a thread in which nothing was refused has nothing to explain', async () => {
  const made = await stage({ '.ai/directives/look.md': directiveText('look') }, [{ text: 'done' }]);
  const { thread_id } = await run(made, 'look');
  const { code, output } = await runCommand(
    ['provenance', '--thread', thread_id],
    made.fixture.root,
    made.fixture.env,
  );
  expect(code).not.toBe(0);
  expect(output).toContain('nothing was refused');
});
