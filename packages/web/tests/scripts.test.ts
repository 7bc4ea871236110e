// `GET scripts`, `scripts/ID` and `POST scripts/ID/run`.
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, test } from 'vitest';
import { addScriptsRoutes } from '../src/server/routes/scripts.ts';
import { bareApi } from './support/bare-api.ts';

const LEAK = `var secret @key = "k-123"
guard @noLeak before secret = when [ @mx.op.type == "show" => deny "secrets stay here"  * => allow ]
show "hello"
show \`the key is @key\`
`;

async function scripts(files: Record<string, string>) {
  const fixture = makeFixture(files);
  const runtime = await fixture.open();
  return {
    fixture,
    runtime,
    api: bareApi(runtime, addScriptsRoutes, 'approve'),
    async [Symbol.asyncDispose]() {
      await runtime.close();
      fixture.remove();
    },
  };
}

test('scripts of the project are listed, and nothing that lies elsewhere or is hidden', async () => {
  await using made = await scripts({
    'a.mld': 'show "a"\n',
    'deep/er/b.mld': 'show "b"\n',
    'doc.md': '# Title\n\n/show "c"\n',
    'talk.md': '# Only words\n',
    '.hidden/c.mld': 'show "no"\n',
    'node_modules/x/d.mld': 'show "no"\n',
    'secret/e.mld': 'show "no"\n',
    '.ai/policy.yaml': 'capabilities:\n  deny:\n    - { capability: fs.read, path: "secret/**" }\n',
    '../outside.mld': 'show "no"\n',
  });
  symlinkSync(join(made.fixture.root, '..', 'outside.mld'), join(made.fixture.root, 'link.mld'));
  symlinkSync(join(made.fixture.root, '..'), join(made.fixture.root, 'up'));
  const { output } = await made.api.get('/scripts');
  const ids = (output.scripts as { id: string }[]).map(({ id }) => id);
  expect(ids).toEqual(['a.mld', 'doc.md', 'deep/er/b.mld']);
  expect((await made.api.get('/scripts/deep/er/b.mld')).output).toEqual({
    id: 'deep/er/b.mld',
    file: 'deep/er/b.mld',
    document: 'show "b"\n',
  });
  expect((await made.api.get('/scripts/deep%2Fer%2Fb.mld')).status).toBe(200);
  for (const id of [
    'none.mld',
    'link.mld',
    'up/outside.mld',
    '..%2Foutside.mld',
    '%2Fetc%2Fpasswd',
    '.hidden/c.mld',
    'node_modules/x/d.mld',
    '.ai/policy.yaml',
    'a.mld%00',
  ]) {
    expect(await made.api.get(`/scripts/${id}`), id).toMatchObject({ status: 404 });
  }
  expect(await made.api.get('/scripts/secret/e.mld')).toMatchObject({ status: 403 });
});

test('a run gives its effects, and the refusal with its place and where it came from', async () => {
  await using made = await scripts({ 'leak.mld': LEAK });
  const { status, output } = await made.api.post('/scripts/leak.mld/run', {});
  expect(status).toBe(200);
  const run = output.run as Record<string, unknown>;
  expect(run).toMatchObject({
    outcome: 'denied',
    exit_code: 4,
    effects: [{ kind: 'show', text: 'hello', line: 3 }],
    fault: { code: 'permission_denied', line: 4, message: expect.stringContaining('secrets stay') },
    provenance: { refusal: { code: 'permission_denied' }, labels: ['secret'] },
  });
  const { nodes } = run.provenance as { nodes: { operation: string }[] };
  expect(nodes.map(({ operation }) => operation)).toContain('var key');
  const rows = await made.runtime.audit.read({ limit: 10, surface: 'web' });
  expect(rows.ok && rows.output).toMatchObject([
    { caller: 'ann', operation: 'script', target: 'leak.mld', decision: 'allowed' },
  ]);
});

test('a run is handed its payload; a viewer may not start one', async () => {
  await using made = await scripts({
    'greet.mld': 'import { @name } from @payload\nshow `Hello @name`\n',
    'wrong.mld': 'show @nobody.knows(\n',
  });
  const done = await made.api.post('/scripts/greet.mld/run', { payload: { name: 'Ann' } });
  expect(done.output.run).toMatchObject({
    outcome: 'completed',
    exit_code: 0,
    effects: [{ kind: 'show', text: 'Hello Ann' }],
  });
  const wrong = await made.api.post('/scripts/wrong.mld/run', {});
  expect(wrong.output.run).toMatchObject({ outcome: 'failed', fault: { line: 1 } });
  expect(await made.api.post('/scripts/greet.mld/run', { payload: 3 })).toMatchObject({
    status: 400,
  });
  expect(await made.api.post('/scripts/none.mld/run', {})).toMatchObject({ status: 404 });
  const viewer = bareApi(made.runtime, addScriptsRoutes, 'steer');
  expect(await viewer.post('/scripts/greet.mld/run', {})).toMatchObject({ status: 403 });
});

test('what a person has to decide first waits, with the approval that it needs', async () => {
  await using made = await scripts({
    '../home/policy.yaml': 'approve: [write]\n',
    'write.mld': 'output "x" to "out.txt"\n',
  });
  const { output } = await made.api.post('/scripts/write.mld/run', {});
  expect(output.run).toMatchObject({
    outcome: 'needs_input',
    exit_code: 7,
    fault: { code: 'needs_input', approval: expect.stringMatching(/^ap_/) },
  });
});

test('what is long is cut, and says so', async () => {
  await using made = await scripts({
    'many.mld': `${'show "x"\n'.repeat(1005)}show "${'y'.repeat(70_000)}"\n`,
  });
  writeFileSync(join(made.fixture.root, 'large.mld'), 'x'.repeat(1024 * 1024 + 1));
  const { output } = await made.api.post('/scripts/many.mld/run', {});
  const run = output.run as { effects: unknown[]; has_more: boolean };
  expect([run.effects.length, run.has_more]).toEqual([1000, true]);
  expect(await made.api.get('/scripts/large.mld')).toMatchObject({ status: 404 });
});

test('a document is a script when the language finds a statement in it', async () => {
  const item = '<directive name="x" version="1.0.0">\n<metadata/>\n/show "c"\n</directive>\n';
  await using made = await scripts({
    'paths.md': '# Where things are\n\n/usr/local/bin is on the path, and /etc is not.\n',
    'words.md': 'Say it in the chat:\n\n/run the tests, please\n',
    'fenced.md': 'Write this:\n\n```\n/show "c"\n```\n',
    'directives/x.md': item,
    'one.md': '# Title\n\n/show "c"\n',
    'broken.md': '/show "c"\n/show (\n',
    'block.md': '# Title\n\n```mlld-run\nshow "c"\n```\n',
  });
  const { output } = await made.api.get('/scripts');
  const ids = (output.scripts as { id: string }[]).map(({ id }) => id);
  expect(ids).toEqual(['block.md', 'broken.md', 'one.md']);
});
