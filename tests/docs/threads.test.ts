// The pages about threads, followed word for word, as a reader without a key would.
import { expect, test } from 'vitest';
import { blocksOf, readPage, runSteps } from '../support/docs-page.ts';
import { makeFixture } from '../support/project.ts';

async function follow(page: string): Promise<void> {
  const blocks = blocksOf(readPage(page));
  const fixture = makeFixture();
  try {
    for (const block of blocks) {
      if (block.file !== undefined) fixture.write(block.file, block.text);
      else if (block.kind === 'sh') await runSteps(block, fixture);
    }
    const runtime = await fixture.open();
    expect(runtime.library.check()).toEqual([]);
    await runtime.close();
  } finally {
    fixture.remove();
  }
}

test('threads', () => follow('docs/threads.md'));
test('hooks', () => follow('docs/hooks.md'));
test('limits and cost', () => follow('docs/limits.md'));
