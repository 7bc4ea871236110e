// The pages about threads, followed word for word, as a reader without a key would.
import { createServer } from 'node:http';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { blocksOf, readPage, runSteps } from '@kernmantle/test-support/docs-page';
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, test } from 'vitest';

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

/** A server that answers like the page's, and what it was sent. */
async function workshop() {
  const seen: { url: string; key: string | undefined; model: string }[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => void (text += piece.toString()));
    request.on('end', () => {
      const { url = '', headers } = request;
      seen.push({ url, key: headers.authorization, model: JSON.parse(text).model });
      const delta = { role: 'assistant', content: 'hello from the workshop' };
      const usage = { prompt_tokens: 40, completion_tokens: 4, total_tokens: 44 };
      const chunks = [
        { model: 'bench-7b', choices: [{ index: 0, delta }] },
        { model: 'bench-7b', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
        { model: 'bench-7b', choices: [], usage },
      ];
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(
        [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
          .map((data) => `data: ${data}\n\n`)
          .join(''),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const close = () => new Promise((resolve) => server.close(resolve));
  return { seen, close, place: `127.0.0.1:${port}` };
}

test.each([
  ['with its key', (text: string) => text, 'Bearer workshop-key'],
  ['without a key', (text: string) => text.replace('    key: WORKSHOP_KEY\n', ''), undefined],
])('models and providers: the lines of the page add a server, %s', async (_, change, key) => {
  const { seen, close, place } = await workshop();
  const fixture = makeFixture();
  // Those of the bundle's providers are for the bundle's providers.
  Object.assign(fixture.env, {
    WORKSHOP_KEY: 'workshop-key',
    OPENAI_API_KEY: 'another-key',
    OPENAI_BASE_URL: 'http://127.0.0.1:9',
  });
  try {
    const page = change(readPage('docs/models-and-providers.md'));
    for (const block of blocksOf(page.replaceAll('127.0.0.1:11434', place))) {
      const { file, kind, text } = block;
      const isOwn = file?.startsWith('config/');
      if (file !== undefined) fixture.write(isOwn ? join(fixture.home, file) : file, text);
      else if (kind === 'sh') await runSteps(block, fixture);
    }
    expect(seen).toEqual([{ url: '/v1/chat/completions', key, model: 'bench-7b' }]);
    // A project does not say where a key of the user goes.
    fixture.write(
      '.ai/config/models.yaml',
      'providers: { workshop: { base_url: "http://127.0.0.1:9", key: OPENAI_API_KEY } }\n',
    );
    const ran = await runCommand(['run', 'greet'], fixture.root, fixture.env);
    expect(ran.output).toContain('hello from the workshop');
    expect(seen.map((one) => one.key)).toEqual([key, key]);
  } finally {
    await close();
    fixture.remove();
  }
});
