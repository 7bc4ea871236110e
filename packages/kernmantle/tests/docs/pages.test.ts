// The pages of the documentation, followed word for word: their files are written to a throw-away
// project, their commands typed, their programs run.
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parsePolicy } from '@kernmantle/core/flow';
import { parseScript } from '@kernmantle/script';
import { runCommand, splitWords } from '@kernmantle/test-support/command-line';
import {
  blocksOf,
  followPage,
  matches,
  readPage,
  runModule,
  stepsOf,
} from '@kernmantle/test-support/docs-page';
import { makeFixture } from '@kernmantle/test-support/project';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, test } from 'vitest';
import { probeSandbox } from '../../../core/src/kernel/sandbox/probe.ts';
import { createParser } from '../../src/cli/table.ts';
import { createOutput } from '../../src/cli/terminal/output.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
const LAUNCHER = join(ROOT, 'bin/km.js');
const sandbox = await probeSandbox();

/** What a page leaves behind is a project without mistakes. */
async function follow(page: string, change?: (text: string) => string): Promise<void> {
  const fixture = await followPage(page, change);
  try {
    const runtime = await fixture.open();
    expect(runtime.library.check()).toEqual([]);
    await runtime.close();
  } finally {
    fixture.remove();
  }
}

test('the command line', () => follow('docs/command-line.md'));
test('signatures and trust', () => follow('docs/signatures-and-trust.md'));
test('attachments', () => follow('docs/attachments.md'));
test('goal runs', () => follow('docs/goal-runs.md'));
test('long conversations', () => follow('docs/compaction.md'));
test('forks', () => follow('docs/fork.md'));
test('memory', () => follow('docs/memory.md'));
test('schedules', () => follow('docs/schedules.md'));
test('the chat', () => follow('docs/chat.md'));
test('editors', () => follow('docs/acp.md'));
test('errors', () => follow('docs/errors.md'));
test('whoever answers for it', () => follow('docs/answering.md'));
test('untrusted data', () => follow('docs/untrusted-data.md'));

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

describe.skipIf(sandbox.kind === 'none')('with child processes (needs a sandbox)', () => {
  test('the sandbox', () => follow('docs/sandbox.md'));
  test('scripts', () => follow('docs/scripts.md'));
  test('differences of the script language', () => follow('docs/script-differences.md'));

  test('connectors', async () => {
    const installs = join(ROOT, 'tests/support/install-package.ts');
    const node = process.execPath;
    await follow('docs/connectors.md', (page) =>
      page
        .replace('npm install', `node ${installs}`)
        .replace('--command node ', `--command ${node} `)
        .replace('\nnotes node ', `\nnotes ${node} `),
    );
  });

  test('streams and sinks', async () => {
    const port = String(await freePort());
    await follow('docs/streams-and-sinks.md', (page) => page.replaceAll('8787', port));
  });
});

/** Programs of a page, each with what it prints, in a project with the other files of the page. */
test.each([
  ['docs/library.md', 4],
  ['docs/threads-from-your-program.md', 3],
  ['docs/telemetry.md', 1],
])('the programs of %s', (page, count) => {
  const blocks = blocksOf(readPage(page));
  const fixture = makeFixture();
  try {
    for (const { file, kind, text } of blocks) {
      if (file !== undefined && kind !== 'ts') fixture.write(file, text);
    }
    const programs = blocks.flatMap(({ kind, text }, at) =>
      kind === 'ts' ? [{ text, printed: blocks[at + 1]?.text ?? '' }] : [],
    );
    expect(programs).toHaveLength(count);
    for (const { text, printed } of programs) {
      const output = runModule(text, fixture);
      expect(matches(printed, output), output).toBe(true);
    }
  } finally {
    fixture.remove();
  }
});

describe('MCP', () => {
  const page = blocksOf(readPage('docs/mcp.md'));
  const textOf = (kind: string): string => page.find((block) => block.kind === kind)?.text ?? '';

  test('a client that is set up as shown sees the four tools and gets these answers', async () => {
    const fixture = makeFixture({ 'hello.txt': 'hello there\n' });
    const { mcpServers } = JSON.parse(textOf('json')) as {
      mcpServers: Record<string, { command: string; args: string[] }>;
    };
    const { command, args } = mcpServers.kernmantle ?? { command: '', args: [] };
    expect(command).toBe('km');
    const client = new Client({ name: 'test', version: '1.0.0' });
    try {
      await client.connect(
        new StdioClientTransport({
          command: process.execPath,
          args: [LAUNCHER, ...args.map((arg) => arg.replace('/path/to/project', fixture.root))],
          env: { ...(fixture.env as Record<string, string>), KERNMANTLE_SRC: '1' },
          stderr: 'ignore',
        }),
      );
      const calls = [...textOf('call').matchAll(/^(\w+) (\{.*\})\n=> (\{.*\})$/gm)];
      expect(new Set(calls.map(([, name]) => name)).size).toBe(3);
      for (const [, name = '', given = '', shown = ''] of calls) {
        const result = await client.callTool({ name, arguments: JSON.parse(given) });
        expect(result.structuredContent).toMatchObject(JSON.parse(shown) as object);
      }
    } finally {
      await client.close();
      fixture.remove();
    }
  });
});

test('every policy on the pages can be read', () => {
  for (const page of ['docs/mcp.md', 'docs/sandbox.md', 'docs/streams-and-sinks.md']) {
    for (const { kind, text } of blocksOf(readPage(page))) {
      if (kind !== 'yaml' || text.includes('tool_id')) continue;
      expect(parsePolicy(text, page, 'user').diagnostics).toEqual([]);
    }
  }
});

describe('README', () => {
  const blocks = blocksOf(readPage('README.md'));

  test('the first commands do what is said beside them', async () => {
    const fixture = makeFixture({ 'README.md': '# A project\n' });
    const commands = blocks.filter(({ kind }) => kind === 'sh').flatMap(stepsOf);
    try {
      const codes: number[] = [];
      for (const { command } of commands) {
        const words = splitWords(command.replace(/\s+#.*$/, '').slice(3));
        codes.push((await runCommand(words, fixture.root, fixture.env)).code);
      }
      expect(codes).toEqual([0, 0, 0, 0, 4, 0]);
    } finally {
      fixture.remove();
    }
  });

  test('directives and tools are sound, and a dry run masks the secret', async () => {
    const files = blocks.flatMap(({ file, text }) => (file ? [[file, text] as const] : []));
    expect(files.map(([file]) => file.split('.').at(-1))).toEqual(['md', 'md', 'yaml', 'mld']);
    const fixture = makeFixture(Object.fromEntries(files));
    const runtime = await fixture.open({ env: { ...fixture.env, WEATHER_KEY: 'rain-and-wind' } });
    try {
      expect(runtime.library.check()).toEqual([]);
      const request = { item_type: 'tool', item_id: 'weather', parameters: { city: 'Oslo' } };
      const plan = await runtime.call('execute', { ...request, dry_run: true });
      expect(plan).toMatchObject({ ok: true });
      expect(JSON.stringify(plan)).not.toContain('rain-and-wind');
    } finally {
      await runtime.close();
      fixture.remove();
    }
  });

  test('the script prints, and is refused what its guard forbids', async () => {
    const text = blocks.find(({ kind }) => kind === 'mlld')?.text ?? '';
    const fixture = makeFixture({ 'careful.mld': text });
    try {
      const ran = await runCommand(['script', 'careful.mld'], fixture.root, fixture.env);
      expect(ran.code).toBe(4);
      expect(ran.output).toMatch(/^HELLO ANN\ncareful.mld:8:1: error: .*secrets are not shown/);
    } finally {
      fixture.remove();
    }
  });

  test('the program runs', () => {
    const fixture = makeFixture();
    try {
      const text = blocks.find(({ kind }) => kind === 'ts')?.text ?? '';
      expect(runModule(text, fixture)).toBe('It is 3. 1\n');
    } finally {
      fixture.remove();
    }
  });
});

describe('errors', () => {
  const page = readPage('docs/errors.md');
  const documented = [...page.matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, code = '']) => code);

  test('every known code is on the page, and no other', () => {
    const source = readFileSync(join(ROOT, 'packages/core/src/base/outcome.ts'), 'utf8');
    const [, list = ''] = /const KNOWN_CODES = \[([\s\S]*?)\n\];/.exec(source) ?? [];
    const known = [...list.matchAll(/'([a-z_]+)'/g)].map(([, code = '']) => code);
    expect(known.length).toBeGreaterThan(20);
    expect(documented.toSorted()).toEqual(known.toSorted());
  });

  test('every code that is answered somewhere is on the page', () => {
    const used = globSync('packages/*/src/**/*.ts', { cwd: ROOT })
      .filter((file) => !file.includes('.test.'))
      .flatMap((file) => {
        const text = readFileSync(join(ROOT, file), 'utf8');
        return [...text.matchAll(/\bfail\(\s*'([a-z_]+)'/g)].map(([, code = '']) => code);
      });
    const missing = new Set(used.filter((code) => !page.includes(`\`${code}\``)));
    expect([...missing]).toEqual([]);
  });
});

const pagesOf = (folder: string): string[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((page) => `${folder}/${page}`);

test('every script on the pages can be read', () => {
  const pages = pagesOf('docs');
  const scripts = [...pages, 'README.md'].flatMap((page) =>
    blocksOf(readPage(page)).filter(({ kind, file }) => kind === 'mlld' && file !== 'slip.mld'),
  );
  expect(scripts.length).toBeGreaterThan(5);
  for (const { text, file = 'a.mld' } of scripts) {
    const mode = file.endsWith('.mld') ? 'strict' : 'markdown';
    expect(parseScript(text, { mode, file }).problems).toEqual([]);
  }
});

test('every command is on its page', () => {
  const output = createOutput(process.stdout, process.stderr, () => {});
  const page = readPage('docs/command-line.md');
  const names = createParser(output).commands.flatMap((command) =>
    command.commands.length > 0
      ? command.commands.map((below) => `${command.name()} ${below.name()}`)
      : [command.name()],
  );
  expect(names.filter((name) => !page.includes(`km ${name}`))).toEqual([]);
});

test('links between the pages, and to pictures, lead somewhere', () => {
  const pages = pagesOf('docs');
  const index = readPage('docs/README.md');
  const broken = [...pages, 'README.md'].flatMap((page) =>
    [...readPage(page).matchAll(/\]\(([^)#:]+\.md)(?:#[a-z-]+)?\)/g)]
      .map(([, link = '']) => join(dirname(page), link))
      .filter((target) => !pages.includes(target))
      .filter((target) => !readdirSync(ROOT).includes(target))
      .map((target) => `${page} -> ${target}`),
  );
  expect(broken).toEqual([]);
  const shown = [...readPage('README.md').matchAll(/\]\(([^)]+\.png)\)/g)].map(
    ([, link = '']) => link,
  );
  const pictures = readdirSync(join(ROOT, 'docs/pictures')).map((name) => `docs/pictures/${name}`);
  expect(new Set(shown)).toEqual(new Set(pictures));
  const listed = pages.filter((page) => page !== 'docs/README.md');
  expect(listed.filter((page) => !index.includes(`(${page.slice(5)})`))).toEqual([]);
});
