import { expect, test } from 'vitest';
import { affectedTests } from '../scripts/affected.ts';

const FILES: Record<string, string> = {
  'packages/core/package.json': '{"exports":{"./base":"./src/base/index.ts"}}',
  'packages/core/src/base/index.ts': "export { a } from './a.ts';",
  'packages/core/src/base/a.ts': 'export const a = 1;',
  'packages/core/src/base/a.test.ts': "import { a } from './a.ts';",
  'packages/web/package.json': '{"exports":{".":"./src/index.ts"}}',
  'packages/web/src/index.ts': "import { a } from '@kernmantle/core/base';",
  'packages/web/src/page/page.css': '',
  'packages/web/tests/page.test.ts': '',
  'packages/kernmantle/package.json': '{"exports":{".":"./src/index.ts"}}',
  'packages/kernmantle/src/cli/main.ts': "import { COMMANDS } from './table.ts';",
  'packages/kernmantle/src/cli/table.ts': `
    web: async () => (await import('./web.ts')).run,
    'threads top': async () => (await import('./web.ts')).top,
    check: async () => (await import('./check.ts')).run,`,
  'packages/kernmantle/src/cli/web.ts': "import { page } from '@kernmantle/web';",
  'packages/kernmantle/src/cli/check.ts': "import { a } from '@kernmantle/core/base';",
  'packages/kernmantle/tests/cli.test.ts':
    "import { LAUNCHER } from '@kernmantle/test-support/run'; run('web', '--json');",
  'packages/kernmantle/tests/top.test.ts':
    "import { LAUNCHER } from '@kernmantle/test-support/run'; run(['threads', 'top']);",
  'packages/kernmantle/tests/shell.test.ts':
    "import { LAUNCHER } from '@kernmantle/test-support/run'; shell(`km web --json`);",
  'packages/kernmantle/tests/check.test.ts':
    "import { LAUNCHER } from '@kernmantle/test-support/run'; run('check'); // no web, no top",
  'packages/kernmantle/tests/docs.test.ts': "readFileSync('docs/tools.md')",
  'packages/core/tests/program.test.ts': "new URL('../src/base/a.ts', import.meta.url)",
  'tests/support/run.ts': "export const LAUNCHER = new URL('../../bin/km.js', import.meta.url);",
  'docs/tools.md': '',
};
const affected = (...changed: string[]): string[] =>
  affectedTests(changed, { files: Object.keys(FILES), read: (path) => FILES[path] }).sort();

test('a change in web affects its own tests and those that name a command which loads it', () => {
  const expected = ['cli', 'docs', 'shell', 'top'].map(
    (name) => `packages/kernmantle/tests/${name}.test.ts`,
  );
  expect(affected('packages/web/src/index.ts')).toEqual([
    ...expected,
    'packages/web/tests/page.test.ts',
  ]);
});

test('a change in core affects every test that reaches it through doors', () => {
  expect(affected('packages/core/src/base/a.ts')).toEqual(
    Object.keys(FILES)
      .filter((path) => path.endsWith('.test.ts'))
      .sort(),
  );
});

test('a change of a helper affects the tests that use it', () => {
  expect(affected('tests/support/run.ts')).toEqual(
    ['check', 'cli', 'shell', 'top'].map((name) => `packages/kernmantle/tests/${name}.test.ts`),
  );
});

test('a change of a document affects the tests that read documents', () => {
  expect(affected('docs/tools.md')).toEqual(['packages/kernmantle/tests/docs.test.ts']);
});

test('a change of data affects the tests of its package', () => {
  expect(affected('packages/web/src/page/page.css')).toEqual(['packages/web/tests/page.test.ts']);
});

test('a change of the build, the bundle or a manifest affects every test', () => {
  for (const path of [
    'scripts/bundle.js',
    'bundle/policy.yaml',
    'packages/web/package.json',
    'package-lock.json',
  ])
    expect(affected(path), path).toHaveLength(8);
});

test('no change affects no test', () => {
  expect(affected()).toEqual([]);
});
