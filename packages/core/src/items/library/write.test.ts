import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { createFixture, type Fixture, toolText } from '@kernmantle/test-support/library';
import { afterEach, beforeEach, expect, test } from 'vitest';

let fixture: Fixture;
beforeEach(async () => {
  fixture = createFixture({ 'bundle/tools/shell/bash.yaml': toolText('bash') });
  await fixture.library.refresh();
});
afterEach(() => fixture.end());

test('an item is created, updated and deleted in the project', async () => {
  const { library, path } = fixture;
  const created = library.write('tool', 'my/run', toolText('run'), 'create');
  expect(created).toMatchObject({
    ok: true,
    output: { file: path('project/.ai/tools/my/run.yaml') },
  });
  await library.refresh();
  expect(library.find('tool', 'run')).toMatchObject({ ok: true, output: { id: 'my/run' } });
  expect(library.write('tool', 'my/run', toolText('run'), 'create')).toMatchObject({
    error: { code: 'invalid_input' },
  });
  expect(
    library.write(
      'tool',
      'my/run',
      toolText('run', 'executor_id: subprocess\ncategory: new\n'),
      'update',
    ).ok,
  ).toBe(true);
  expect(readFileSync(path('project/.ai/tools/my/run.yaml'), 'utf8')).toContain('category: new');
  expect(readdirSync(path('project/.ai/tools/my'))).toEqual(['run.yaml']);
  expect(library.remove('tool', 'my/run').ok).toBe(true);
  await library.refresh();
  expect(library.find('tool', 'run').ok).toBe(false);
  expect(library.remove('tool', 'my/run')).toMatchObject({ error: { code: 'not_found' } });
});

test('items of other levels are shadowed, not changed', async () => {
  const { library } = fixture;
  expect(library.write('tool', 'shell/bash', toolText('bash'), 'update')).toMatchObject({
    error: { code: 'not_found' },
  });
  expect(library.remove('tool', 'shell/bash').ok).toBe(false);
  expect(library.write('tool', 'shell/bash', toolText('bash'), 'create').ok).toBe(true);
  await library.refresh();
  expect(library.find('tool', 'bash')).toMatchObject({ output: { source: 'project' } });
});

test('content with errors is not written, warnings are handed back', () => {
  const { library, path } = fixture;
  expect(library.write('tool', 'run', toolText('other'))).toMatchObject({
    error: { code: 'invalid_item', detail: { diagnostics: [{ code: 'tool_id_mismatch' }] } },
  });
  expect(library.write('directive', 'go', 'nothing')).toMatchObject({
    error: { code: 'invalid_item' },
  });
  expect(library.write('tool', 'lost', toolText('lost', 'executor_id: nowhere\n'))).toMatchObject({
    error: { code: 'invalid_item', detail: { diagnostics: [{ code: 'chain_broken' }] } },
  });
  expect(library.write('tool', 'run', 'tool_id: run\nexecutor_id: subprocess\n')).toMatchObject({
    ok: true,
    output: { diagnostics: [{ code: 'version_missing' }, { code: 'description_missing' }] },
  });
  expect(existsSync(path('project/.ai/directives'))).toBe(false);
});

test.each([
  ['../evil', 'x'],
  ['/etc/evil', 'x'],
  ['a/../../evil', 'x'],
  ['a//b', 'x'],
  ['.hidden', 'x'],
  ['', 'x'],
  ['a\0b', 'x'],
  ['a\\b', 'x'],
  ['AGENTS', 'x'],
  ['x'.repeat(600), 'x'],
  ['ok', 'a\0b'],
  ['ok', 'x'.repeat(300_000)],
  ['ok', '\ud800'],
  ['ok', '<!-- kernmantle:signature v1 -->\ntext'],
  ['ok', 'text\n  # kernmantle:signature v1\n'],
])('the id %j or the content is refused', (id, content) => {
  expect(fixture.library.write('knowledge', id, content)).toMatchObject({
    error: { code: 'invalid_input' },
  });
  expect(existsSync(fixture.path('project/.ai/knowledge/ok.md'))).toBe(false);
});

test('the places of data files are no names for tools', () => {
  expect(fixture.library.write('tool', 'llm/pricing', toolText('pricing')).ok).toBe(false);
  expect(fixture.library.write('tool', 'capabilities/fs', toolText('fs')).ok).toBe(false);
});

test('links do not lead writing out of the project', () => {
  const { library, path } = fixture;
  mkdirSync(path('outside'));
  mkdirSync(path('project/.ai/tools'), { recursive: true });
  symlinkSync(path('outside'), path('project/.ai/tools/link'));
  symlinkSync(path('outside/new.yaml'), path('project/.ai/tools/dangling.yaml'));
  for (const id of ['link/run', 'dangling']) {
    const name = id.split('/').at(-1) as string;
    expect(library.write('tool', id, toolText(name))).toMatchObject({
      error: { code: 'permission_denied' },
    });
    expect(library.remove('tool', id).ok).toBe(false);
  }
  expect(readdirSync(path('outside'))).toEqual([]);
});

test('an update keeps the file that holds the item', async () => {
  const { library, put, path } = fixture;
  put('project/.ai/tools/old.yml', toolText('old'));
  put('project/.ai/skills/pdf/SKILL.md', 'Old');
  expect(
    library.write('tool', 'old', toolText('old', 'executor_id: subprocess\ncategory: x\n')).ok,
  ).toBe(true);
  expect(library.write('knowledge', 'skills/pdf', 'New').ok).toBe(true);
  expect(readdirSync(path('project/.ai/tools'))).toEqual(['old.yml']);
  expect(readFileSync(path('project/.ai/skills/pdf/SKILL.md'), 'utf8')).toBe('New');
});
