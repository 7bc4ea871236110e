import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import type { Authority } from '../call.ts';
import { restrictTo } from './authority.ts';

const NAMES = ['fs.read', 'fs.write', 'net.http', 'tool.execute', 'process.spawn'];
const names = fc.subarray(NAMES);

const holding = (held: readonly string[]): Authority => {
  const answer = (capability: string) =>
    held.includes(capability) ? ok(null) : fail('permission_denied', capability);
  const refuse = () => fail('permission_denied', '');
  return {
    subject: 'none',
    sees: () => false,
    allowsEffect: refuse,
    allowsDirective: refuse,
    check: ({ capability }) => answer(capability),
    holds: answer,
  };
};

test('being held to names never gives a right, and takes all others but calling tools', () => {
  fc.assert(
    fc.property(names, names, fc.constantFrom(...NAMES), (held, only, capability) => {
      const narrowed = restrictTo(holding(held), only);
      const expected =
        held.includes(capability) && (only.includes(capability) || capability === 'tool.execute');
      expect(narrowed.check({ capability }).ok).toBe(expected);
      expect(narrowed.holds(capability).ok).toBe(expected);
    }),
  );
});

test('nobody held to anything is as before', () => {
  const authority = holding(NAMES);
  expect(restrictTo(authority, undefined)).toBe(authority);
});
