import { runs } from '@kernmantle/test-support/soak';
import { bundleCatalog } from '@kernmantle/test-support/trust';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import { formatPermission, permissionFor } from './denial.ts';
import { type Grant, grantsAllow, isSystemGrant, type Need } from './grant.ts';
import { grantsFromPermissions, type Permissions } from './permission.ts';
import type { Permission } from './permission-map.ts';

const catalog = bundleCatalog();
const TOOLS: Record<string, string> = {
  bash: 'shell/bash',
  pytest: 'test/pytest',
  deploy: 'deploy',
};
const resolve = (bare: string) =>
  bare === 'status'
    ? fail('ambiguous', 'tool `status` is `git/status` or `ci/status`')
    : TOOLS[bare]
      ? ok(TOOLS[bare])
      : fail('not_found', `no tool \`${bare}\``);

const rights = (permissions: Partial<Permissions>, root?: string) =>
  grantsFromPermissions({ entries: [], ...permissions }, catalog, resolve, root);
/** Returns the grants of one entry, without those of every directive. */
const grantsOf = (entry: Permission, root?: string): Grant[] => {
  const { grants, problems } = rights({ entries: [entry] }, root);
  expect(problems).toEqual([]);
  return grants.filter(({ capability }) => capability !== 'knowledge.read');
};
const problemOf = (entry: Permission) => {
  const { grants, problems } = rights({ entries: [entry] });
  expect(grants).toEqual([{ capability: 'knowledge.read' }]);
  expect(problems).toHaveLength(1);
  return problems[0];
};
const execute = (resource: string, over: Partial<Permission> = {}): Permission => ({
  verb: 'execute',
  resource,
  ...over,
});

test('an empty block grants the reading of knowledge and nothing else', () => {
  expect(rights({})).toEqual({
    grants: [{ capability: 'knowledge.read' }],
    filters: {},
    uses: {},
    problems: [],
  });
});

test.each<[Permission, Grant[]]>([
  [
    { verb: 'read', resource: 'filesystem', path: './src/**' },
    [{ capability: 'fs.read', scope: { path: 'src/**' } }],
  ],
  [
    { verb: 'write', resource: 'filesystem', path: 'dist/**' },
    [{ capability: 'fs.write', scope: { path: 'dist/**' } }],
  ],
  [execute('filesystem', { path: 'bin/x' }), [{ capability: 'fs.exec', scope: { path: 'bin/x' } }]],
  [execute('tool', { id: 'bash' }), [{ capability: 'tool.execute', scope: { id: 'shell/bash' } }]],
  [execute('tool', { id: 'deploy' }), [{ capability: 'tool.execute', scope: { id: 'deploy' } }]],
  [
    execute('tool', { id: 'github_*' }),
    [{ capability: 'tool.execute', scope: { id: 'github_*' } }],
  ],
  [execute('tool', { id: 'x/y' }), [{ capability: 'tool.execute', scope: { id: 'x/y' } }]],
  [execute('tool', { action: 'modify' }), [{ capability: 'tool.modify' }]],
  [execute('directive', { action: 'modify' }), [{ capability: 'directive.modify' }]],
  [execute('shell'), [{ capability: 'process.spawn' }]],
  [execute('registry', { action: 'read' }), [{ capability: 'registry.read' }]],
  [execute('registry', { action: '*' }), [{ capability: 'registry.read' }]],
  [execute('kernmantle', { action: 'load' }), [{ capability: 'kernel.load' }]],
  [execute('kiwi-mcp', { action: 'execute' }), [{ capability: 'kernel.execute' }]],
  [execute('kiwi-mcp', { action: 'search' }), [{ capability: 'kernel.search' }]],
  [
    execute('kiwi-mcp', { action: '*' }),
    ['search', 'load', 'execute', 'help'].map((action) => ({ capability: `kernel.${action}` })),
  ],
  [execute('git', { action: 'push' }), [{ capability: 'git.push' }]],
  [{ verb: 'read', resource: 'git' }, [{ capability: 'git.read' }]],
  [execute('db', { action: 'query' }), [{ capability: 'db.query' }]],
  [execute('net', { action: 'http' }), [{ capability: 'net.http' }]],
  [
    execute('net', { action: 'http', host: 'API.x.io', method: 'get, HEAD' }),
    ['GET', 'HEAD'].map((method) => ({
      capability: 'net.http',
      scope: { host: 'api.x.io', method },
    })),
  ],
  [execute('mcp', { action: 'connect' }), [{ capability: 'mcp.connect' }]],
  [execute('mcp', { action: 'github' }), [{ capability: 'mcp.github.call' }]],
  [execute('mcp.github', { action: 'read' }), [{ capability: 'mcp.github.read' }]],
  [execute('mcp', { id: 'github', action: 'call' }), [{ capability: 'mcp.github.call' }]],
  [
    execute('mcp.github', { action: '*' }),
    [{ capability: 'mcp.github.call' }, { capability: 'mcp.github.read' }],
  ],
  [
    execute('thread', { action: 'read' }),
    [{ capability: 'thread.read', scope: { subtree: 'own' } }],
  ],
])('%j becomes grants', (entry, grants) => {
  expect(grantsOf(entry)).toEqual(grants);
});

test('another project is named by its path, from the root of this one', () => {
  const entry = execute('project', { action: 'use', path: '../other/*' });
  expect(grantsOf(entry, '/srv/main')).toEqual([
    { capability: 'project.use', scope: { path: '/srv/other/*' } },
  ]);
  expect(problemOf(entry)?.message).toContain('leads out of the project');
  expect(problemOf(execute('project', { action: 'use', path: 'sub' }))?.code).toBe(
    'permission_invalid',
  );
  const wild = rights({ entries: [entry] }, '/work*/main');
  expect(wild.problems).toHaveLength(1);
});

test.each<[string, Permission, string]>([
  [
    'a filesystem permission without a path',
    { verb: 'read', resource: 'filesystem' },
    'needs a `path`',
  ],
  ['an empty path', { verb: 'read', resource: 'filesystem', path: '' }, 'needs a `path`'],
  [
    'a path with a final slash',
    { verb: 'read', resource: 'filesystem', path: 'src/' },
    'ends in `/`',
  ],
  ['braces', { verb: 'read', resource: 'filesystem', path: 'src/{a,b}' }, 'may not use `{`'],
  ['a path that climbs', { verb: 'read', resource: 'filesystem', path: '../x' }, '`..`'],
  ['backslashes', { verb: 'read', resource: 'filesystem', path: 'src\\**' }, 'must use `/`'],
  [
    'an id on a filesystem permission',
    { verb: 'read', resource: 'filesystem', path: 'a', id: 'b' },
    'takes no `id`',
  ],
  ['a path on a shell permission', execute('shell', { path: 'src/**' }), 'takes no `path`'],
  ['a tool without an id', execute('tool'), 'needs `execute` and an `id`'],
  ['a tool that may be two', execute('tool', { id: 'status' }), 'git/status'],
  ['a tool that does not exist', execute('tool', { id: 'nope' }), 'nope'],
  ['an unknown action', execute('git', { action: 'pusch' }), 'did you mean `git.push`'],
  ['no action', execute('git'), 'needs an `action`'],
  ['an unknown resource', execute('constructor', { action: 'call' }), 'not a capability'],
  ['a host with a path', execute('net', { action: 'http', host: 'x.io/a' }), 'host'],
  [
    'a spawn of something else',
    execute('spawn', { action: 'process' }),
    'only the action `thread`',
  ],
  ['all actions of nothing', execute('nothing', { action: '*' }), 'not found'],
])('%s grants nothing and says why', (_, entry, text) => {
  expect(problemOf(entry)?.message).toContain(text);
});

test('a problem keeps the code of the look-up that failed', () => {
  expect(problemOf(execute('tool', { id: 'status' }))?.code).toBe('ambiguous');
  expect(problemOf(execute('tool', { id: 'nope' }))?.code).toBe('not_found');
  expect(problemOf(execute('git', { action: 'x' }))?.code).toBe('capability_unknown');
});

test('one bad entry does not take the good ones away', () => {
  const { grants, problems } = rights({
    entries: [
      execute('shell'),
      execute('git'),
      { verb: 'read', resource: 'filesystem', path: 'a' },
    ],
  });
  expect(grants.map(({ capability }) => capability)).toEqual([
    'knowledge.read',
    'process.spawn',
    'fs.read',
  ]);
  expect(problems).toHaveLength(1);
});

test('orchestration grants spawning, the own subtree and eight tools', () => {
  const { grants, filters } = rights({
    orchestration: { enabled: true, allow_categories: ['test'], deny_directives: ['drop_*'] },
  });
  expect(filters).toEqual({ spawn: { allow_categories: ['test'], deny_directives: ['drop_*'] } });
  const ids = grants.flatMap(({ scope }) => scope?.id ?? []);
  expect(ids).toHaveLength(8);
  expect(ids).not.toContain('threads/safety_harness');
  expect(ids).not.toContain('threads/spawn_thread');
  expect(grants).toContainEqual({ capability: 'spawn.thread' });
  expect(grants).toContainEqual({ capability: 'kernel.execute' });
  expect(grants).toContainEqual({ capability: 'thread.control', scope: { subtree: 'own' } });
});

test('the spawn permission is orchestration without lists', () => {
  const plain = rights({ orchestration: { enabled: true } });
  expect(rights({ entries: [execute('spawn', { action: 'thread' })] })).toEqual(plain);
});

test('orchestration that is switched off stays off', () => {
  const { grants, problems } = rights({
    orchestration: { enabled: false },
    entries: [execute('spawn', { action: 'thread' })],
  });
  expect(grants).not.toContainEqual({ capability: 'spawn.thread' });
  expect(problems[0]?.message).toContain('which wins');
});

test('the spawn permission does not lift the lists of orchestration', () => {
  const { filters } = rights({
    orchestration: { enabled: true, deny_directives: ['drop_*'] },
    entries: [execute('spawn', { action: 'thread' })],
  });
  expect(filters.spawn).toEqual({ deny_directives: ['drop_*'] });
});

test('lists over knowledge and directives travel beside the grants', () => {
  const lists = {
    knowledge: { deny_categories: ['secrets'] },
    directives: { allow_categories: ['a'] },
  };
  expect(rights(lists).filters).toEqual(lists);
  const bad = rights({ knowledge: { deny_categories: ['{a}'] } });
  expect(bad.problems[0]?.message).toContain('`<knowledge>`');
});

test('what only core items may hold is recognised', () => {
  const system = (grant: Grant) => isSystemGrant(grant, catalog);
  expect(system({ capability: 'registry.write' })).toBe(true);
  expect(system({ capability: 'fs.write', scope: { path: '/etc/nginx/**' } })).toBe(true);
  expect(system({ capability: 'thread.read', scope: { subtree: 'any' } })).toBe(true);
  expect(system({ capability: 'project.use', scope: { path: '/srv/other' } })).toBe(false);
  expect(system({ capability: 'fs.write', scope: { path: 'etc/**' } })).toBe(false);
});

const segment = fc.stringMatching(/^[a-z0-9_ "&<[\]{}!-]{1,8}$/);
const needs: fc.Arbitrary<Need> = fc.oneof(
  fc.record({
    capability: fc.constantFrom('fs.read', 'fs.write', 'fs.exec'),
    scope: fc.record({
      path: fc.array(segment, { minLength: 1, maxLength: 4 }).map((p) => p.join('/')),
    }),
  }),
  fc
    .constantFrom(
      'process.spawn',
      'git.push',
      'kernel.load',
      'mcp.git-hub.call',
      'db.query',
      'tool.modify',
    )
    .map((capability) => ({ capability })),
  fc.record({
    capability: fc.constantFrom('net.http', 'net.websocket'),
    scope: fc.record({
      host: fc.constantFrom('a.io', '::1', 'X.example'),
      method: fc.constantFrom('GET', 'post'),
    }),
  }),
  fc.constant({ capability: 'tool.execute', scope: { id: 'a/b' }, signed: false }),
);

test('the line that a refusal proposes grants what was missing', () => {
  fc.assert(
    fc.property(needs, (need) => {
      const permission = permissionFor(need) as Permission;
      expect(grantsAllow(grantsOf(permission), need, catalog)).toBe(true);
    }),
    { numRuns: runs(2000) },
  );
});

test('a proposed line is one well-formed element', () => {
  const line = formatPermission({ verb: 'read', resource: 'filesystem', path: 'a"<&>.ts' });
  expect(line).toBe('<read resource="filesystem" path="a&quot;&lt;&amp;>.ts"/>');
});
