import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock, systemRandom } from '../base/index.ts';
import { giveProjectId } from '../items/index.ts';
import { identify, servedItems } from './project-identity.ts';

let project: string;
beforeEach(() => {
  project = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-identity-')));
  mkdirSync(join(project, '.ai', 'config'), { recursive: true });
});
afterEach(() => rmSync(project, { recursive: true, force: true }));

const openOf = (tenant?: string) => ({
  project,
  home: join(project, 'home'),
  clock: systemClock,
  own: tenant === undefined ? {} : { tenant },
});
const file = () => join(project, '.ai', 'config', 'project.yaml');

test('an id is made once, and is the same from then on', () => {
  const [first, again] = [1, 2].map(() => giveProjectId(join(project, '.ai'), systemRandom));
  expect(first).toMatchObject({ ok: true, output: { isNew: true } });
  expect(again).toMatchObject({ ok: true, output: { isNew: false } });
  const id = first?.ok ? first.output.id : '';
  expect(id).toMatch(/^prj_[a-z0-9]{24}$/);
  expect(again).toMatchObject({ output: { id } });
  expect(readFileSync(file(), 'utf8')).toContain(`id: ${id}\n`);
  const known = identify(openOf());
  expect(known).toEqual({
    ok: true,
    output: { project: id, items: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
  });
  expect(identify(openOf('acme'))).toMatchObject({ output: { project: id, tenant: 'acme' } });
  expect(identify(openOf(''))).toEqual(known);
});

test('a project without an id is told where it is made', () => {
  expect(identify(openOf())).toMatchObject({
    ok: false,
    error: {
      code: 'project_unnamed',
      detail: { file: file(), message: expect.stringContaining('`init --id`') },
    },
  });
});

test.each([
  ['id: prj_SHORT', 'line 1'],
  ['name: x', '`name`'],
  ['{}', '`id`'],
  ['# nothing here', ''],
  ['id: [a', 'line 1'],
  ['id: prj_0123456789abcdef\nmore: 1', '`more`'],
])('what is broken is refused and not written over: %s', (text, said) => {
  writeFileSync(file(), text);
  expect(identify(openOf())).toMatchObject({
    ok: false,
    error: { code: 'config_invalid', detail: { message: expect.stringContaining(said) } },
  });
  expect(giveProjectId(join(project, '.ai'), systemRandom).ok).toBe(false);
  expect(readFileSync(file(), 'utf8')).toBe(text);
});

test('changes of items show in what is said next', () => {
  giveProjectId(join(project, '.ai'), systemRandom);
  const open = openOf();
  const before = identify(open);
  expect(identify(open)).toEqual(before);
  mkdirSync(join(project, '.ai', 'directives'));
  writeFileSync(join(project, '.ai', 'directives', 'a.md'), '# a');
  expect(identify(open)).not.toEqual(before);
});

test('a project may say that its threads go on where they began', () => {
  const id = 'prj_0123456789abcdef';
  for (const [more, isSticky] of [
    ['', false],
    ['placement: any', false],
    ['placement: sticky', true],
  ] as const) {
    writeFileSync(file(), `id: ${id}\n${more}\n`);
    expect(servedItems(openOf())).toMatchObject({ output: { project: id, isSticky } });
  }
  writeFileSync(file(), `id: ${id}\nplacement: here\n`);
  expect(servedItems(openOf())).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
});
