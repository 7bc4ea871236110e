import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nativeTools } from './permitted-tools.ts';

const nativeName = (tool: string): string =>
  nativeTools([{ id: tool, description: '', schema: {}, requires: [], isSigned: true }])[0]?.name ??
  '';

const segment = fc.stringMatching(/^[A-Za-z0-9_@.-]{1,40}$/);
const id = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));

test('names are what providers take, and no two tools share one', () => {
  fc.assert(
    fc.property(fc.uniqueArray(id, { maxLength: 40 }), (ids) => {
      const names = ids.map(nativeName);
      for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(new Set(names).size).toBe(ids.length);
    }),
  );
});

test.each([
  ['fs/read_file', 'fs__read_file'],
  ['shell/bash', 'shell__bash'],
  ['a-b/c', 'a-b__c'],
])('%s is %s', (tool, name) => {
  expect(nativeName(tool)).toBe(name);
});

test.each(['a__b', 'a_/b', 'a/_b', 'search', 'execute', 'x.y/z', 'n'.repeat(70)])(
  '%s, which could be taken for another, is told apart by a hash',
  (tool) => {
    expect(nativeName(tool)).toMatch(/___[0-9a-f]{16}$/);
  },
);
