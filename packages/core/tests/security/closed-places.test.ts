// What the runtime keeps for itself is no file to anybody: not to file tools, scripts or clients, by
// whatever path.
import { hash } from 'node:crypto';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { projectYard, tokenCaller, tool } from '@kernmantle/test-support/attacks';
import { afterEach, expect, test } from 'vitest';
import { runScriptIn } from '../../../script/src/runtime/run-script.ts';
import type { Caller } from '../../src/kernel/index.ts';

const yard = projectYard();
const { project } = yard;
afterEach(() => yard.clear());

const CANARY = 'CANARY-7f3a9';
const OUTPUT = '.ai/outputs/0123456789abcdef.stdout.txt';
const KEPT = [
  '.ai/threads/t1/transcript.jsonl',
  '.ai/threads/registry.db',
  '.ai/keys/k',
  '.ai/trust/t',
  '.ai/state/s/x.json',
  '.ai/outputs/other.txt',
  '.ai/audit.jsonl',
  '.ai/labels.jsonl',
  'sub/.ai/threads/t2/transcript.jsonl',
];
const folderOf = (path: string): string => path.split('/').slice(0, -1).join('/');

const TOOLS: Readonly<Record<string, (path: string) => ReturnType<typeof tool>>> = {
  read_file: (path) => tool('fs/read_file', { path }),
  'read_file by another spelling': (path) => tool('fs/read_file', { path: `./x/../${path}` }),
  'read_file through a link': (path) => tool('fs/read_file', { path: `link/${path}` }),
  'grep in the file': (path) => tool('fs/grep', { pattern: 'CANARY', path }),
  'grep in the folder': (path) =>
    tool('fs/grep', { pattern: 'CANARY', path: folderOf(path), include_ignored: true }),
  'grep everywhere': () => tool('fs/grep', { pattern: 'CANARY', include_ignored: true }),
  glob: (path) => tool('fs/glob', { pattern: `${folderOf(path)}/*`, include_ignored: true }),
  'glob everywhere': () => tool('fs/glob', { pattern: '**', include_ignored: true }),
  list_dir: (path) => tool('fs/list_dir', { path: folderOf(path) }),
};

const SCRIPTS: Readonly<Record<string, (path: string) => string>> = {
  'a file': (path) => `show <${path}>`,
  'a file that may be missing': (path) => `show <${path}>?`,
  'a pattern': (path) => `show <${folderOf(path)}/*>`,
  'a template': (path) => `exe @t() = template "${path}"\nshow @t()`,
  'a question': (path) => `show @fileExists("${path}")`,
};

const isShown = (answer: unknown, path: string): boolean => {
  const text = JSON.stringify(answer);
  const name = path.slice(folderOf(path).length + 1);
  return text.includes(CANARY) || (text.includes(`"${name}"`) && !text.includes('"ok":false'));
};

test.each(KEPT)('`%s` is out of reach', async (kept) => {
  const fixture = project({ [kept]: CANARY });
  symlinkSync('.', join(fixture.root, 'link'));
  const runtime = await fixture.open();
  const thread = tokenCaller(runtime, {
    caps: [
      { capability: 'fs.read', scope: { path: '**' } },
      { capability: 'tool.execute', scope: { id: 'fs/*' } },
    ],
  });
  for (const [name, request] of Object.entries(TOOLS)) {
    const asked = request(kept);
    for (const surface of ['cli', 'mcp', 'library']) {
      const answer = await runtime.call('execute', asked, { surface });
      expect([name, surface, isShown(answer, kept)]).toEqual([name, surface, false]);
    }
    const answer = await runtime.kernel.execute(asked, thread);
    const shown = answer.ok ? answer.output.data : answer;
    expect([name, 'thread', isShown(shown, kept)]).toEqual([name, 'thread', false]);
  }
  for (const [name, text] of Object.entries(SCRIPTS)) {
    const done = await runScriptIn(runtime, { text: text(kept) });
    const printed = done.ok ? done.output.text : '';
    expect([name, /CANARY|true/.test(printed)]).toEqual([name, false]);
  }
  await runtime.close();
});

test('what did not fit into a result is read by the name that it told, and listed to nobody', async () => {
  const fixture = project({ [OUTPUT]: CANARY });
  const runtime = await fixture.open();
  const call = (id: string, parameters: Record<string, string>) =>
    runtime.call('execute', tool(id, parameters), { surface: 'cli' });
  expect(await call('fs/read_file', { path: OUTPUT })).toMatchObject({
    output: { content: CANARY },
  });
  expect(await call('fs/list_dir', { path: '.ai/outputs' })).toMatchObject({ ok: false });
  for (const pattern of ['.ai/outputs/*', '**/*.txt']) {
    expect(JSON.stringify(await call('fs/glob', { pattern }))).not.toContain('0123456789abcdef');
  }
  expect(await runScriptIn(runtime, { text: 'show <.ai/outputs/*>' })).toMatchObject({
    output: { text: expect.not.stringContaining(CANARY) },
  });
  await runtime.close();
});

const OWNED = (thread: string) =>
  `.ai/outputs/0123456789abcdef.${hash('sha256', thread).slice(0, 16)}.stdout.txt`;

test('what did not fit into a result of a thread is read by that thread alone', async () => {
  const fixture = project({ [OWNED('mine')]: CANARY, [OUTPUT]: CANARY });
  symlinkSync('.', join(fixture.root, 'link'));
  const runtime = await fixture.open();
  const caps = [
    { capability: 'fs.read', scope: { path: '**' } },
    { capability: 'tool.execute', scope: { id: '**' } },
    { capability: 'process.spawn' },
  ];
  const [mine, other] = ['mine', 'other'].map((thread) => tokenCaller(runtime, { caps, thread }));
  const read = async (path: string, caller = other) => {
    const answer = await runtime.kernel.execute(tool('fs/read_file', { path }), caller as Caller);
    return answer.ok && JSON.stringify(answer.output.data).includes(CANARY);
  };
  expect(await read(OWNED('mine'), mine)).toBe(true);
  expect(await read(OUTPUT, mine)).toBe(false);
  for (const path of [OWNED('mine'), `./x/../${OWNED('mine')}`, `link/${OWNED('mine')}`, OUTPUT]) {
    expect([path, await read(path)]).toEqual([path, false]);
  }
  for (const [name, request] of Object.entries(TOOLS)) {
    const answer = await runtime.kernel.execute(request(OWNED('mine')), other as Caller);
    expect([name, JSON.stringify(answer).includes(CANARY)]).toEqual([name, false]);
    for (const surface of ['cli', 'mcp', 'library']) {
      const said = await runtime.call('execute', request(OWNED('mine')), { surface });
      expect([name, surface, JSON.stringify(said).includes(CANARY)]).toEqual([
        name,
        surface,
        false,
      ]);
    }
  }
  for (const [name, text] of Object.entries(SCRIPTS)) {
    const done = await runScriptIn(runtime, { text: text(OWNED('mine')) });
    expect([name, /CANARY|true/.test(done.ok ? done.output.text : '')]).toEqual([name, false]);
  }
  const shell = tool('shell/bash', { command: `cat ${OWNED('mine')} ${OUTPUT}` });
  const said = await runtime.kernel.execute(shell, mine as Caller);
  expect(JSON.stringify(said)).not.toContain(CANARY);
  await runtime.close();
});

test('items of a kind that lists leave some of are no files to that thread', async () => {
  const fixture = project({
    '.ai/knowledge/secret/k.md': `---\ntitle: k\ncategory: secret\n---\n${CANARY}\n`,
    '.ai/directives/d.md': `${CANARY}\n`,
  });
  const runtime = await fixture.open();
  const caps = [
    { capability: 'fs.read', scope: { path: '**' } },
    { capability: 'tool.execute', scope: { id: 'fs/*' } },
  ];
  const read = async (path: string, filters: object) => {
    const caller = tokenCaller(runtime, { caps, filters });
    return (await runtime.kernel.execute(tool('fs/read_file', { path }), caller)).ok;
  };
  const knowledge = { knowledge: { deny_categories: ['secret'] } };
  const directives = { directives: { allow_categories: ['open'] } };
  expect(await read('.ai/knowledge/secret/k.md', {})).toBe(true);
  expect(await read('.ai/knowledge/secret/k.md', knowledge)).toBe(false);
  expect(await read('.ai/directives/d.md', knowledge)).toBe(true);
  expect(await read('.ai/directives/d.md', directives)).toBe(false);
  await runtime.close();
});
