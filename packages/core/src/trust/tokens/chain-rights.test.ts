import { bundleCatalog } from '@kernmantle/test-support/trust';
import { expect, test } from 'vitest';
import type { Grant } from '../grants/grant.ts';
import { missingAtStart } from './chain-rights.ts';

const catalog = bundleCatalog();
const read = (path: string): Grant => ({ capability: 'fs.read', scope: { path } });
const tool = (id: string): Grant => ({ capability: 'tool.execute', scope: { id } });
const fit = (wanted: Grant, ...held: Grant[]) => {
  const { missing, partial } = missingAtStart([wanted], held, catalog);
  return missing.length > 0 ? 'missing' : partial.length > 0 ? 'partial' : 'held';
};

test.each<[string, Grant, Grant[], string]>([
  ['nothing of that name', read('src/**'), [{ capability: 'git.read' }], 'missing'],
  ['no scope with the same prefix', read('src/**'), [read('docs/**')], 'missing'],
  ['the same scope', read('src/**'), [read('src/**')], 'held'],
  ['a wider one', read('src/a/*.ts'), [read('docs/**'), read('src/**')], 'held'],
  ['everything', read('src/**'), [read('**')], 'held'],
  ['a narrower one', read('src/**'), [read('src/a/**')], 'partial'],
  ['one that only the call can tell', read('src/**'), [read('**/*.ts')], 'partial'],
  ['one file of it', read('src/a.ts'), [read('src/*.ts')], 'held'],
  [
    'the right that implies it',
    read('dist/a'),
    [{ capability: 'fs.write', scope: { path: 'dist/**' } }],
    'held',
  ],
  ['a wildcard', { capability: 'git.push' }, [{ capability: '*' }], 'held'],
  [
    'a wildcard for a system-only one',
    { capability: 'registry.write' },
    [{ capability: '*' }],
    'missing',
  ],
  ['the same tool', tool('shell/bash'), [tool('shell/bash')], 'held'],
  ['another tool', tool('shell/bash'), [tool('shell/zsh')], 'missing'],
  ['a glob over the folder', tool('shell/bash'), [tool('shell/*')], 'held'],
  ['a glob over last segments', tool('mcp/gh/gh_list'), [tool('gh_*')], 'partial'],
  [
    'any host for one',
    { capability: 'net.http', scope: { host: 'a.io' } },
    [{ capability: 'net.http' }],
    'held',
  ],
  [
    'one host for any',
    { capability: 'net.http' },
    [{ capability: 'net.http', scope: { host: 'a.io' } }],
    'partial',
  ],
  [
    'the own subtree for any',
    { capability: 'thread.read', scope: { subtree: 'any' } },
    [{ capability: 'thread.read', scope: { subtree: 'own' } }],
    'missing',
  ],
])('a parent that holds %s', (_, wanted, held, expected) => {
  expect(fit(wanted, ...held)).toBe(expected);
});
