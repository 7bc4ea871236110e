// The programs of `docs/agents.md`, each in a folder without a project.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startScriptedProvider } from '@kernmantle/core/llm';
import { blocksOf, matches, readPage, writeModule } from '@kernmantle/test-support/docs-page';
import { afterEach, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'km-agents-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const blocks = blocksOf(readPage('docs/agents.md'));
const programs = blocks.flatMap(({ kind, text }, at) =>
  kind === 'ts' ? [{ text, printed: blocks[at + 1]?.text ?? '' }] : [],
);

test('the programs print what the page shows, end by themselves and leave no file', async () => {
  const provider = await startScriptedProvider([
    { tool_calls: [{ name: 'weather', arguments: { town: 'Oslo' } }] },
    { tool_calls: [{ name: 'return_output', arguments: { sentence: 'It snows in Oslo.' } }] },
  ]);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const home = join(folder, 'home');
  mkdirSync(home);
  const { url, requests } = provider.output;
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: 'k',
  };
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  try {
    expect(programs).toHaveLength(2);
    for (const { text, printed } of programs) {
      const args = [writeModule(text, { write })];
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder, env });
      expect(matches(printed, stdout), stdout).toBe(true);
    }
  } finally {
    await provider.output.close();
  }
  expect(requests.map(({ body }) => body.system)).toHaveLength(2);
  expect(readdirSync(folder).toSorted()).toEqual(['example.ts', 'home']);
  expect(readdirSync(home)).toEqual([]);
  const [first = ''] = programs.map(({ text }) => text.trim());
  const statements = first.split('\n').filter((line) => !line.startsWith('import'));
  expect(statements.length + 2).toBe(13);
});
