import { holdsEverything, verifierOf } from '@kernmantle/test-support/processes';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { verifierOfGrants } from './grants.ts';

const NONE = { read: [], write: [], network: false };
const may = (verify: ReturnType<typeof verifierOfGrants>, capability: string, path?: string) =>
  verify({ capability, ...(path === undefined ? {} : { scope: { path } }) }).ok;

test('a program holds what it is granted and nothing else', () => {
  const verify = verifierOfGrants(
    { read: ['src/**'], write: ['out/**'], network: false },
    holdsEverything,
  );
  expect(may(verify, 'fs.read', 'src/a.ts')).toBe(true);
  expect(may(verify, 'fs.write', 'src/a.ts')).toBe(false);
  expect(may(verify, 'fs.write', 'out/a')).toBe(true);
  expect(may(verify, 'fs.read', 'out/a')).toBe(true);
  expect(may(verify, 'fs.read', 'other')).toBe(false);
  expect(may(verify, 'net.http')).toBe(false);
  expect(may(verifierOfGrants({ ...NONE, network: true }, holdsEverything), 'net.http')).toBe(true);
  expect(may(verify, 'git.write')).toBe(false);
  expect(may(verify, 'mcp.connect')).toBe(false);
});

test('what a policy refuses no grant gives', () => {
  const names = ['fs.read', 'fs.write', 'net.http', 'process.spawn', 'fs.exec', 'git.push'];
  const paths = ['a', 'src/a', 'out/b', '.ai/tools/x.yaml'];
  const globs = fc.subarray(['**', 'src/**', 'out/**']);
  const grants = fc.record({ read: globs, write: globs, network: fc.boolean() });
  fc.assert(
    fc.property(
      grants,
      fc.subarray(names),
      fc.constantFrom(...names),
      fc.constantFrom(...paths),
      (given, held, capability, path) => {
        const policy = verifierOf(...held);
        const verify = verifierOfGrants(given, policy);
        if (may(verify, capability, path)) expect(may(policy, capability, path)).toBe(true);
      },
    ),
  );
});

test('globs are known where those of the policy are', () => {
  const known = Object.assign(verifierOf('fs.read'), { globs: () => ['secret/**'] });
  const grants = { ...NONE, read: ['src/**'] };
  expect(verifierOfGrants(grants, known).globs?.()).toEqual(['src/**', 'secret/**']);
  expect(verifierOfGrants(grants, verifierOf('fs.read')).globs).toBeUndefined();
});
