// The examples on the page are put where they say they belong, and checked over the shipped bundle.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fail, type JsonObject, systemClock } from '@kernmantle/core/base';
import { createLibrary, type Library, parseTool } from '@kernmantle/core/items';
import { makeFixture } from '@kernmantle/test-support/project';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { probeSandbox } from '../../../core/src/kernel/sandbox/probe.ts';

const PAGE = readFileSync(new URL('../../../../docs/tools.md', import.meta.url), 'utf8');
const BUNDLE = fileURLToPath(new URL('../../../../bundle', import.meta.url));
let base: string;
let library: Library;

const blocks = Array.from(
  PAGE.matchAll(/^<!-- example: (\S+) -->\n```\w+\n(.*?)^```$/gms),
  ([, path = '', text = '']) => ({ path, text }),
);
const examples = blocks.filter(({ path }) => path.endsWith('.yaml'));

beforeAll(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'km-docs-')));
  for (const { path, text } of [...blocks, { path: '.ai/tools/image/resize.ts', text: '' }]) {
    mkdirSync(dirname(join(base, path)), { recursive: true });
    writeFileSync(join(base, path), text);
  }
  library = createLibrary({
    roots: [
      { source: 'project', dir: join(base, '.ai') },
      { source: 'bundle', dir: BUNDLE },
    ],
    projectRoot: base,
    primitives: () => ['subprocess', 'http_client', 'function', 'script'],
    trustStore: { judge: () => fail('not_found', 'no keys') },
    clock: systemClock,
  });
  await library.refresh();
});

afterAll(() => {
  library.close();
  rmSync(base, { recursive: true, force: true });
});

test('the page begins with a complete example', () => {
  expect(examples.map(({ path }) => path)).toEqual([
    '.ai/tools/image/resize.yaml',
    '.ai/tools/mail/inbox.yaml',
    '.ai/tools/shop/orders.yaml',
    '.ai/tools/shop/pay.yaml',
    '.ai/tools/text/shout.yaml',
    '.ai/tools/text/count_lines.yaml',
  ]);
});

test.each(examples)('$path is read without a word', ({ path, text }) => {
  const { tool, diagnostics } = parseTool(text, path);
  expect(diagnostics).toEqual([]);
  expect(tool).toBeDefined();
});

test('the examples check clean among the others, and the chain is as the page says', () => {
  expect(library.check({ sources: ['project'] })).toEqual([]);
  const chain = library.chain('resize');
  expect(
    chain.ok && [...chain.output.links.map(({ id }) => id), chain.output.primitive].join(' -> '),
  ).toBe('image/resize -> runtime/node -> subprocess');
});

test('every field the page names is one, and every field is named', () => {
  const { diagnostics } = parseTool('nothing_like_it: 1\n', 'x.yaml');
  const hint = diagnostics.find(({ code }) => code === 'unknown_field')?.hint ?? '';
  const fields = hint.replace('one of: ', '').split(', ');
  expect(fields.length).toBeGreaterThan(20);
  for (const field of fields) expect(PAGE).toContain(`\`${field}\``);
});

const inText = blocks.filter(({ path }) => path.startsWith('.ai/tools/text/'));
async function call(id: string, parameters: JsonObject) {
  const fixture = makeFixture({
    'notes/a.txt': 'one\ntwo\n',
    ...Object.fromEntries(inText.map(({ path, text }) => [path, text])),
  });
  const request = { item_type: 'tool', item_id: id, parameters };
  const done = await fixture.call('execute', request, 'cli');
  fixture.remove();
  return done;
}

test('the script answers as the page says', async () => {
  expect(await call('text/count_lines', { path: 'notes/a.txt' })).toMatchObject({
    ok: true,
    output: { path: 'notes/a.txt', lines: 2 },
  });
});

const hasPython = spawnSync('python3', ['--version']).status === 0;
const sandbox = await probeSandbox();
test.runIf(hasPython && sandbox.kind !== 'none')('and so does the Python tool', async () => {
  expect(await call('text/shout', { text: 'hello', marks: 2 })).toMatchObject({
    ok: true,
    output: { text: 'HELLO!!' },
  });
});
