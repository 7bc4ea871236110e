import { rmSync, writeFileSync } from 'node:fs';
import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { afterEach, expect, test } from 'vitest';

let fixture: Fixture;
afterEach(() => fixture.end());

async function open(files: Record<string, string>): Promise<Fixture> {
  fixture = createFixture(files);
  await fixture.library.refresh();
  return fixture;
}

const ids = () => fixture.library.all().map(({ kind, id }) => `${kind} ${id}`);

test('items of every root are found by id, the nearest first, and say what they shadow', async () => {
  const { library, path } = await open({
    'project/.ai/tools/shell/bash.yaml': toolText('bash', 'category: mine\n'),
    'project/AGENTS.md': '# House rules\n',
    'user/.ai/tools/shell/bash.yaml': toolText('bash'),
    'user/.ai/skills/pdf/SKILL.md': '---\nname: pdf\ndescription: Forms\n---\nText',
    'installed/knowledge/extra.md': '# Extra\n',
    'bundle/tools/shell/bash.yaml': toolText('bash'),
    'bundle/tools/llm/pricing.yaml': 'models: {}\n',
    'bundle/tools/capabilities/fs.yaml': 'capabilities: {}\n',
  });
  expect(ids()).toEqual([
    'tool shell/bash',
    'knowledge AGENTS',
    'knowledge extra',
    'knowledge skills/pdf',
  ]);
  const found = library.find('tool', 'shell/bash');
  expect(found).toMatchObject({
    ok: true,
    output: {
      source: 'project',
      category: 'mine',
      version: '1.0.0',
      signature: { state: 'unsigned' },
      shadows: [
        { source: 'user', file: path('user/.ai/tools/shell/bash.yaml') },
        { source: 'bundle', file: path('bundle/tools/shell/bash.yaml') },
      ],
    },
  });
  expect(library.find('tool', 'shell/bash', 'bundle')).toMatchObject({
    ok: true,
    output: { source: 'bundle', category: '', shadows: [] },
  });
  expect(library.find('knowledge', 'extra')).toMatchObject({ output: { package: 'some-bundle' } });
});

test('a bare name works when it is unique; otherwise the candidates are listed', async () => {
  const { library } = await open({
    'project/.ai/tools/a/run.yaml': toolText('run'),
    'project/.ai/tools/b/run.yaml': toolText('run'),
    'project/.ai/tools/b/stop.yaml': toolText('stop'),
    'bundle/tools/runtime/python.yaml': toolText('python'),
    'project/.ai/tools/other/python.yaml': toolText('python'),
  });
  expect(library.find('tool', 'stop')).toMatchObject({ ok: true, output: { id: 'b/stop' } });
  expect(library.find('tool', 'run')).toMatchObject({
    error: { code: 'ambiguous', detail: { candidates: ['a/run', 'b/run'] } },
  });
  expect(library.find('tool', 'stpo')).toMatchObject({
    error: { code: 'not_found', detail: { suggestion: 'b/stop' } },
  });
  expect(library.find('tool', 'a/stop')).toMatchObject({
    error: {
      code: 'not_found',
      detail: { message: 'tool `a/stop` not found; did you mean `b/stop`' },
    },
  });
  expect(library.find('tool', 'python')).toMatchObject({ output: { id: 'runtime/python' } });
  expect(library.find('directive', 'stop').ok).toBe(false);
});

test('prototype names are no items', async () => {
  const { library } = await open({});
  for (const name of ['constructor', '__proto__', 'toString', '']) {
    expect(library.find('tool', name).ok).toBe(false);
  }
});

test('a changed, added or removed file is seen by the next call', async () => {
  const { library, put, path } = await open({ 'project/.ai/tools/one.yaml': toolText('one') });
  expect(library.search({ text: 'one' }).total).toBe(1);
  put('project/.ai/tools/one.yaml', toolText('one').replace('The one', 'Another'));
  put('project/.ai/knowledge/note.md', '# Zebra\n');
  await library.refresh();
  expect(library.find('tool', 'one')).toMatchObject({ output: { description: 'Another tool' } });
  expect(library.search({ text: 'zebra' }).hits[0]?.item.id).toBe('note');
  expect(library.search({ text: 'another' }).total).toBe(1);
  rmSync(path('project/.ai/tools/one.yaml'));
  await library.refresh();
  expect(library.find('tool', 'one').ok).toBe(false);
  expect(library.search({ text: 'another' }).total).toBe(0);
});

test('changes within one tick of the file system are seen too', async () => {
  const { library, path } = await open({ 'project/.ai/knowledge/note.md': '# A0000\n' });
  for (let round = 1; round < 300; round++) {
    const text = `# A${String(round).padStart(4, '0')}\n`;
    writeFileSync(path('project/.ai/knowledge/note.md'), text);
    await library.refresh();
    expect(library.find('knowledge', 'note')).toMatchObject({ output: { body: text } });
  }
});

test('two libraries over one folder see the same', async () => {
  const { library, put } = await open({ 'project/.ai/tools/one.yaml': toolText('one') });
  const other = createFixture({}, { roots: library.roots(), watchAbove: 0 });
  await other.library.refresh();
  expect(other.library.find('tool', 'one').ok).toBe(true);
  put('project/.ai/tools/two.yaml', toolText('two'));
  await Promise.all([library.refresh(), other.library.refresh(), other.library.refresh()]);
  expect(library.find('tool', 'two').ok).toBe(true);
  expect(other.library.find('tool', 'two').ok).toBe(true);
  other.end();
});

test('roots may come and go', async () => {
  const here = createFixture({ 'installed/tools/extra.yaml': toolText('extra') });
  let isInstalled = false;
  fixture = createFixture(
    {},
    {
      roots: () =>
        isInstalled ? [{ source: 'installed', dir: here.path('installed'), name: 'x' }] : [],
    },
  );
  await fixture.library.refresh();
  expect(fixture.library.find('tool', 'extra').ok).toBe(false);
  isInstalled = true;
  await fixture.library.refresh();
  expect(fixture.library.find('tool', 'extra')).toMatchObject({
    ok: true,
    output: { package: 'x' },
  });
  isInstalled = false;
  await fixture.library.refresh();
  expect(fixture.library.find('tool', 'extra').ok).toBe(false);
  here.end();
});

test('an item that cannot be read or parsed is listed with the reason', async () => {
  const { library } = await open({
    'project/.ai/tools/bad.yaml': 'tool_id: bad\nexecuter_id: x\ndescription: Still found\n',
    'project/.ai/tools/nul.yaml': 'tool_id: nul\0\n',
    'project/.ai/tools/huge.yaml': `# ${'x'.repeat(300_000)}\n`,
    'project/.ai/directives/none.md': 'no directive in here\n',
  });
  const codes = (kind: 'tool' | 'directive', id: string) => {
    const found = library.find(kind, id);
    return found.ok ? found.output.diagnostics.map(({ code }) => code) : found.error.code;
  };
  expect(codes('tool', 'bad')).toContain('unknown_field');
  expect(library.find('tool', 'bad')).toMatchObject({ output: { description: 'Still found' } });
  expect(codes('tool', 'nul')).toEqual(['nul_byte']);
  expect(codes('tool', 'huge')).toEqual(['too_large']);
  expect(codes('directive', 'none')).toEqual(['directive_missing']);
  const found = library.find('tool', 'nul');
  expect(found.ok && found.output.tool).toBeUndefined();
});

test('a change of others counts after 20 ms, one of our own at once', async () => {
  let time = 0;
  fixture = createFixture({}, { clock: { now: () => Date.now(), monotonic: () => time } });
  const { library, put } = fixture;
  const isThere = async (id: string) => {
    await library.refresh();
    return library.find('tool', id).ok;
  };
  expect(await isThere('late')).toBe(false);
  put('project/.ai/tools/late.yaml', toolText('late'));
  time = 19;
  expect(await isThere('late')).toBe(false);
  time = 20;
  expect(await isThere('late')).toBe(true);
  expect(library.write('tool', 'own', toolText('own'))).toMatchObject({ ok: true });
  expect(await isThere('own')).toBe(true);
  put('project/.ai/tools/copied.yaml', toolText('copied'));
  expect(await isThere('copied')).toBe(false);
  library.noteChange();
  expect(await isThere('copied')).toBe(true);
});

test('however often is asked, files are looked at once in 20 ms and answers are kept', async () => {
  let time = 0;
  let looks = 0;
  const roots = createFixture({
    'project/.ai/tools/one.yaml': toolText('one'),
    'project/.ai/config/limits.yaml': 'max_result: 5\n',
  });
  const known = [{ source: 'project' as const, dir: roots.path('project/.ai') }];
  fixture = createFixture(
    {},
    {
      roots: () => {
        looks += 1;
        return known;
      },
      // Long after every change, so that stamps are relied on.
      clock: { now: () => Date.now() + 60_000, monotonic: () => time },
    },
  );
  const { library } = fixture;
  const answers = () => [
    library.find('tool', 'one'),
    library.chain('one'),
    library.config('limits'),
    library.capabilities(),
  ];
  // The first look finds the files, the second that they have not changed.
  for (; time < 60; time += 20) await library.refresh();
  looks = 0;
  const [before, generation] = [answers(), library.generation()];
  for (let call = 0; call < 100; call++) {
    time += 1;
    await library.refresh();
    for (const [at, answer] of answers().entries()) expect(answer).toBe(before[at]);
  }
  expect(looks).toBe(5);
  expect(library.generation()).toBe(generation);
  roots.put('project/.ai/config/limits.yaml', 'max_result: 6\n');
  time += 20;
  await library.refresh();
  expect(library.generation()).not.toBe(generation);
  expect(library.config('limits').value).toEqual({ max_result: 6 });
  roots.end();
});

test('files are listed when the first item is asked for, and never for a data file', () => {
  const files = {
    'project/.ai/tools/one.yaml': toolText('one'),
    'project/.ai/config/limits.yaml': 'max_result: 5\n',
  };
  const ways: ((library: Fixture['library']) => unknown)[] = [
    (library) => library.find('tool', 'two').ok,
    (library) => JSON.stringify(library.chain('two')).includes('nowhere'),
    (library) => library.all('tool').length === 2,
    (library) => library.search({ text: 'two' }).total === 1,
    (library) => library.check().some(({ file }) => file.endsWith('/two.yaml')),
  ];
  for (const sees of ways) {
    fixture = createFixture(files);
    const { library } = fixture;
    expect(library.config('limits').value).toEqual({ max_result: 5 });
    expect(library.roots()).toHaveLength(4);
    expect(library.generation()).toBe(0);
    // The file was added after the library was opened, and before the first look-up.
    fixture.put('project/.ai/tools/two.yaml', toolText('two', 'executor_id: nowhere\n'));
    expect(sees(library)).toBe(true);
    expect(library.generation()).toBeGreaterThan(0);
    fixture.end();
  }
});

test('a large root is seen through every look, before it is watched and after', async () => {
  const files = Object.fromEntries(
    Array.from({ length: 4 }, (_, at) => [`project/.ai/tools/f${at}/t.yaml`, toolText('t')]),
  );
  let time = 0;
  const clock = { now: () => Date.now() + 60_000, monotonic: () => time };
  fixture = createFixture(files, { watchAbove: 2, clock });
  const { library, put, path } = fixture;
  const isThere = async (id: string) => {
    time += 20;
    await library.refresh();
    return library.find('tool', id).ok;
  };
  expect(library.find('tool', 'f3/t').ok).toBe(true);
  for (const round of [1, 2, 3, 4]) {
    // A file in a folder that is known, and one in a folder that is new.
    for (const id of [`f0/new${round}`, `g${round}/new`]) {
      put(`project/.ai/tools/${id}.yaml`, toolText('new'));
      expect([round, id, await isThere(id)]).toEqual([round, id, true]);
    }
    rmSync(path(`project/.ai/tools/f0/new${round}.yaml`));
    expect(await isThere(`f0/new${round}`)).toBe(false);
  }
  library.close();
  put('project/.ai/tools/f0/late.yaml', toolText('late'));
  expect(await isThere('f0/late')).toBe(true);
});
