import { runs } from '@kernmantle/test-support/soak';
import { bundleCatalog } from '@kernmantle/test-support/trust';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type Grant,
  grantDenies,
  grantName,
  grantProblem,
  grantsAllow,
  type Need,
} from './grant.ts';

const catalog = bundleCatalog();
const grant = (capability: string, scope?: Grant['scope']): Grant =>
  scope ? { capability, scope } : { capability };
const allows = (held: Grant, need: Need) => grantsAllow([held], need, catalog);
const path = (capability: string, path: string) => ({ capability, scope: { path } });
const tool = (id: string, signed = true): Need => ({
  capability: 'tool.execute',
  scope: { id },
  signed,
});

test('a path is matched by the glob and by nothing near it', () => {
  const held = path('fs.read', 'src/**');
  expect(allows(held, path('fs.read', 'src/a/b.ts'))).toBe(true);
  expect(allows(held, path('fs.read', 'src'))).toBe(true);
  expect(allows(held, path('fs.read', 'srcs/a.ts'))).toBe(false);
  expect(allows(held, path('fs.write', 'src/a.ts'))).toBe(false);
});

test.each(['src/../etc', '../src/a', 'src//a', 'src/./a', 'src/', '', 'src/a\0', 'src/a\nb'])(
  'a path that is not in its normal form is refused: %j',
  (odd) => {
    expect(allows(path('fs.read', '**'), path('fs.read', odd))).toBe(false);
    expect(allows(grant('*'), path('fs.read', odd))).toBe(false);
  },
);

test('fs.write implies fs.read on the same scope, and nothing is implied the other way', () => {
  const held = path('fs.write', 'dist/**');
  expect(allows(held, path('fs.read', 'dist/a.js'))).toBe(true);
  expect(allows(held, path('fs.read', 'src/a.ts'))).toBe(false);
  expect(allows(held, path('fs.exec', 'dist/a.js'))).toBe(false);
  expect(allows(path('fs.read', '**'), path('fs.write', 'a'))).toBe(false);
});

test.each([
  '.ai',
  '.ai/policy.yaml',
  '.AI/directives/x.md',
  '.ai./x',
  '.ai /x',
  '.a\u200ci/x',
  '.ai::$INDEX_ALLOCATION/x',
  'AI~1/x',
  'packages/a/.ai/tools/x.yaml',
])('fs.write never reaches %j', (place) => {
  for (const glob of ['**', '.ai/**', '**/*', '.ai', '*/**', place.replace(/[:$ ]/g, '?')]) {
    expect(allows(path('fs.write', glob), path('fs.write', place))).toBe(false);
    // The right that writing implies goes no further than writing itself.
    expect(allows(path('fs.write', glob), path('fs.read', place))).toBe(false);
  }
  expect(allows(grant('*'), path('fs.write', place))).toBe(false);
});

test('.ai can be read when a glob says so, and names that only begin alike can be written', () => {
  expect(allows(path('fs.read', '.ai/directives/**'), path('fs.read', '.ai/directives/a.md'))).toBe(
    true,
  );
  expect(allows(path('fs.write', '**'), path('fs.write', '.aider/x'))).toBe(true);
  expect(allows(path('fs.write', '**'), path('fs.write', 'ai/x'))).toBe(true);
});

test('the root of the project is covered by what covers every depth', () => {
  expect(allows(path('fs.read', '**'), path('fs.read', '.'))).toBe(true);
  expect(allows(path('fs.read', '**/*'), path('fs.read', '.'))).toBe(true);
  expect(allows(path('fs.read', '.'), path('fs.read', '.'))).toBe(true);
  expect(allows(path('fs.read', '*'), path('fs.read', '.'))).toBe(false);
  expect(allows(path('fs.read', '?'), path('fs.read', '.'))).toBe(false);
  expect(allows(path('fs.read', 'src/**'), path('fs.read', '.'))).toBe(false);
});

test('a relative glob never reaches an absolute path', () => {
  for (const place of ['/etc/passwd', 'C:/x', '~/.ssh/id', '\\\\host\\x']) {
    expect(allows(path('fs.read', '**'), path('fs.read', place))).toBe(false);
  }
  expect(allows(path('fs.read', '**'), path('fs.read', '~draft.txt'))).toBe(true);
});

test('where a capability says where, leaving it out grants nothing', () => {
  expect(allows(grant('fs.read'), path('fs.read', 'a'))).toBe(false);
  expect(allows(grant('fs.read', {}), path('fs.read', 'a'))).toBe(false);
  expect(allows(grant('tool.execute'), tool('shell/bash'))).toBe(false);
  expect(allows(path('fs.read', '**'), { capability: 'fs.read' })).toBe(false);
  expect(grantProblem(grant('fs.read'), catalog)).toContain('needs a `path`');
});

test('a grant narrowed by a field its capability does not have grants nothing', () => {
  const held = grant('process.spawn', { path: 'src/**' });
  expect(allows(held, { capability: 'process.spawn' })).toBe(false);
  expect(grantProblem(held, catalog)).toContain('no scope field `path`');
});

test('an unknown capability or field of a need is refused', () => {
  expect(allows(grant('*'), { capability: 'fs.delete' })).toBe(false);
  expect(allows(grant('fs.delete'), { capability: 'fs.delete' })).toBe(false);
  const odd = { capability: 'fs.read', scope: { path: 'a', drive: 'c' } } as Need;
  expect(allows(path('fs.read', '**'), odd)).toBe(false);
});

test('a wildcard never gives a system-only capability', () => {
  for (const name of ['registry.write', 'fs.absolute', 'items.sign', 'approve']) {
    for (const held of ['*', '**', `${name.slice(0, 4)}*`, '*.write', 'app*']) {
      expect(allows(grant(held), { capability: name })).toBe(false);
    }
    expect(allows(grant(name), { capability: name })).toBe(true);
  }
  expect(allows(grant('registry.*'), { capability: 'registry.read' })).toBe(true);
});

test('hosts are matched without case, brackets and the final dot', () => {
  const http = (host: string, method = 'GET'): Need => ({
    capability: 'net.http',
    scope: { host, method },
  });
  const held = grant('net.http', { host: '*.Example.com', method: 'GET' });
  expect(allows(held, http('api.EXAMPLE.com'))).toBe(true);
  expect(allows(held, http('api.example.com.'))).toBe(true);
  expect(allows(held, http('example.com'))).toBe(false);
  expect(allows(held, http('api.example.com.evil.io'))).toBe(false);
  expect(allows(held, http('api.example.com', 'get'))).toBe(true);
  expect(allows(held, http('api.example.com', 'POST'))).toBe(false);
  expect(allows(held, { capability: 'net.http', scope: { host: 'api.example.com' } })).toBe(false);
  expect(allows(held, http('evil.io/x.example.com'))).toBe(false);
  expect(allows(held, http('user@api.example.com'))).toBe(false);
  expect(allows(grant('net.http', { host: '::1' }), http('[::1]'))).toBe(true);
  expect(allows(grant('net.http'), http('anything.example'))).toBe(true);
});

test('a full id names one tool; a glob with a slash is about full ids', () => {
  const held = (id: string) => grant('tool.execute', { id });
  expect(allows(held('shell/bash'), tool('shell/bash', false))).toBe(true);
  expect(allows(held('shell/bash'), tool('evil/shell/bash'))).toBe(false);
  expect(allows(held('bash'), tool('shell/bash'))).toBe(false);
  expect(allows(held('github/*'), tool('github/issues', false))).toBe(true);
  expect(allows(held('github/*'), tool('mcp/github/issues'))).toBe(false);
});

test('a glob without a slash is about the last segments of signed tools', () => {
  const held = grant('tool.execute', { id: 'github_*' });
  expect(allows(held, tool('mcp/github/github_issues'))).toBe(true);
  expect(allows(held, tool('mcp/github/github_issues', false))).toBe(false);
  expect(allows(held, { capability: 'tool.execute', scope: { id: 'github_x' } })).toBe(false);
});

test('tools below the harness must be named', () => {
  for (const id of ['threads/safety_harness', 'threads/spawn_thread']) {
    for (const glob of ['*', '**', 'threads/*', '**/*', 's*']) {
      expect(allows(grant('tool.execute', { id: glob }), tool(id))).toBe(false);
    }
    expect(allows(grant('tool.execute', { id }), tool(id))).toBe(true);
  }
});

test('any thread is granted only by a grant that says so', () => {
  const any: Need = { capability: 'thread.control', scope: { subtree: 'any' } };
  const own: Need = { capability: 'thread.control', scope: { subtree: 'own' } };
  expect(allows(grant('thread.control', { subtree: 'own' }), own)).toBe(true);
  expect(allows(grant('thread.control', { subtree: 'own' }), any)).toBe(false);
  expect(allows(grant('*'), own)).toBe(true);
  expect(allows(grant('*'), any)).toBe(false);
  expect(allows(grant('thread.control', { subtree: 'any' }), own)).toBe(true);
});

test('conditions see the name of the tool', () => {
  expect(grantName(grant('tool.execute', { id: 'shell/bash' }))).toBe('tool.bash');
  expect(grantName(grant('tool.execute', { id: 'github/*' }))).toBe('tool.github/*');
  expect(grantName(path('fs.write', 'a'))).toBe('fs.write');
});

const word = fc.constantFrom('a', 'b', '.ai', 'A', 'x.ts', '*', '**', '?', '.', '..', 'a*');
const glob = fc.array(word, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
const names = ['*', 'fs.*', 'fs.read', 'fs.write', 'tool.execute', 'registry.write', 'net.http'];
const anyGrant: fc.Arbitrary<Grant> = fc.record({
  capability: fc.constantFrom(...names),
  scope: fc.record({ path: glob, id: glob, host: glob }, { requiredKeys: [] }),
});
const anyNeed: fc.Arbitrary<Need> = fc.record({
  capability: fc.constantFrom(...names.filter((name) => !name.includes('*'))),
  scope: fc.record({ path: glob, id: glob, host: glob }, { requiredKeys: [] }),
  signed: fc.boolean(),
});

test('what a list denies is never less than what the same entry would allow', () => {
  fc.assert(
    fc.property(anyGrant, anyNeed, (entry, need) => {
      const exact = {
        ...need,
        capability: entry.capability.includes('*') ? need.capability : entry.capability,
      };
      if (grantsAllow([entry], exact, catalog))
        expect(grantDenies(entry, exact, catalog)).toBe(true);
    }),
    { numRuns: runs(10_000) },
  );
});

test('no glob allows a write below .ai, an unclean path or a bare wildcard on a system right', () => {
  fc.assert(
    fc.property(anyGrant, anyNeed, (held, need) => {
      if (!grantsAllow([held], need, catalog)) return;
      const parts = (need.scope?.path ?? 'x').split('/');
      expect(parts).not.toContain('..');
      if (need.capability === 'fs.write') expect(parts).not.toContain('.ai');
      if (need.capability === 'registry.write') expect(held.capability).toBe('registry.write');
    }),
    { numRuns: runs(10_000) },
  );
});
