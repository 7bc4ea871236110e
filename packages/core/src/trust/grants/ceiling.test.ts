import { bundleCatalog } from '@kernmantle/test-support/trust';
import { expect, test } from 'vitest';
import { type Ceiling, createCeilingVerifier } from './ceiling.ts';
import type { Need } from './grant.ts';

const catalog = bundleCatalog();
const verifier = (...ceilings: Ceiling[]) => createCeilingVerifier(ceilings, catalog);
const write = (path: string): Need => ({ capability: 'fs.write', scope: { path } });
const read = (path: string): Need => ({ capability: 'fs.read', scope: { path } });
const tool = (id: string, signed: boolean): Need => ({
  capability: 'tool.execute',
  scope: { id },
  signed,
});

test('without a list everything is left that is not system-only', () => {
  const check = verifier({});
  expect(check(write('src/a')).ok).toBe(true);
  expect(check({ capability: 'process.spawn' }).ok).toBe(true);
  expect(check({ capability: 'registry.write' }).ok).toBe(false);
  expect(check({ capability: 'nonsense' }).ok).toBe(false);
  expect(check(write('.ai/policy.yaml')).ok).toBe(false);
});

test('no policy gives a system-only right, a path outside the project among them', () => {
  const check = verifier({
    allow: [{ capability: '*' }, { capability: 'fs.absolute' }, { capability: 'approve' }],
  });
  expect(check({ capability: 'approve' }).ok).toBe(false);
  const outside = check(read('/etc/passwd'));
  expect(outside.ok).toBe(false);
  expect(
    verifier({ allow: [{ capability: 'fs.read', scope: { path: '/etc/**' } }] })(
      read('/etc/passwd'),
    ).ok,
  ).toBe(false);
  expect(check.holds('approve').ok).toBe(false);
});

test('every ceiling must allow', () => {
  const check = verifier(
    { allow: [{ capability: 'fs.write', scope: { path: 'src/**' } }] },
    { allow: [{ capability: 'fs.write', scope: { path: '**/*.ts' } }] },
  );
  expect(check(write('src/a.ts')).ok).toBe(true);
  expect(check(write('src/a.js')).ok).toBe(false);
  expect(check(write('a.ts')).ok).toBe(false);
  expect(check(read('src/a.ts')).ok).toBe(true);
});

test('an entry without a scope stands for all of it', () => {
  const check = verifier({ allow: [{ capability: 'fs.read' }, { capability: 'tool.execute' }] });
  expect(check(read('any/where')).ok).toBe(true);
  expect(check(tool('threads/spawn_thread', false)).ok).toBe(true);
  expect(check(write('any/where')).ok).toBe(false);
});

test('deny wins and matches widely', () => {
  const check = verifier({
    allow: [{ capability: '*' }],
    deny: [
      { capability: 'fs.read', scope: { path: 'secrets/**' } },
      { capability: 'tool.execute', scope: { id: 'bash' } },
      { capability: 'git.*' },
      { capability: 'net.http', scope: { host: 'evil.io' } },
    ],
  });
  expect(check(read('secrets')).ok).toBe(false);
  expect(check(read('Secrets/key')).ok).toBe(false);
  expect(check(read('src/key')).ok).toBe(true);
  expect(check(tool('shell/bash', false)).ok).toBe(false);
  expect(check(tool('shell/bash', true)).ok).toBe(false);
  expect(check({ capability: 'git.push' }).ok).toBe(false);
  expect(check.holds('git.push').ok).toBe(false);
  expect(check.holds('fs.read').ok).toBe(true);
  // Which host is not said, so it may be the denied one.
  expect(check({ capability: 'net.http' }).ok).toBe(false);
  expect(check({ capability: 'net.http', scope: { host: 'good.io' } }).ok).toBe(true);
});

test('denying writes does not deny reads', () => {
  const check = verifier({ deny: [{ capability: 'fs.write', scope: { path: '**' } }] });
  expect(check(read('a')).ok).toBe(true);
  expect(check(write('a')).ok).toBe(false);
});

test('a bare tool name caps signed tools by their last segment', () => {
  const check = verifier({ allow: [{ capability: 'tool.execute', scope: { id: 'bash' } }] });
  expect(check(tool('shell/bash', true)).ok).toBe(true);
  expect(check(tool('evil/bash', false)).ok).toBe(false);
});

test('a refusal says what is missing, what is allowed and where to change it', () => {
  const refused = verifier({ allow: [{ capability: 'fs.read', scope: { path: 'src/**' } }] })(
    read('etc/x'),
  );
  expect(refused).toEqual({
    ok: false,
    error: {
      code: 'permission_denied',
      detail: {
        message:
          'the policy does not allow `fs.read` on `etc/x`; add it to `capabilities.allow` to allow it',
        missing: 'fs.read',
        missing_all: ['fs.read'],
        attempted: 'fs.read on etc/x',
        granted: ['fs.read'],
        scope: { path: 'etc/x' },
      },
    },
  });
});
