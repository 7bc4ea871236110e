// The pages about threads, followed word for word. Where a model would answer, a scripted provider says
// what the page shows.
import { expect, test } from 'vitest';
import { startScriptedProvider } from '../../src/llm/index.ts';
import { blocksOf, readPage, runSteps } from '../support/docs-page.ts';
import { makeFixture } from '../support/project.ts';

async function follow(page: string): Promise<void> {
  const blocks = blocksOf(readPage(page));
  const replies = blocks.find(({ file }) => file === 'replies.yaml')?.text ?? '';
  const provider = await startScriptedProvider(replies);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const { url } = provider.output;
  const fixture = makeFixture();
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'a-scripted-key' });
  try {
    for (const block of blocks) {
      if (block.file !== undefined) fixture.write(block.file, block.text);
      else if (block.kind === 'sh') await runSteps(block, fixture);
    }
    const runtime = await fixture.open();
    expect(runtime.library.check()).toEqual([]);
    await runtime.close();
  } finally {
    await provider.output.close();
    fixture.remove();
  }
}

test('threads', () => follow('docs/threads.md'));
test('hooks', () => follow('docs/hooks.md'));
test('limits and cost', () => follow('docs/limits.md'));
