import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DataObject } from '../../model/api.ts';
import { ownReach, readExplained } from './explained.ts';

test('grants, ceilings and guards keep who says so', () => {
  const about = readExplained({
    permissions: {
      granted: [
        { name: 'fs.read', capability: 'fs.read', scope: { path: 'notes/**' } },
        { name: 'git.push origin', capped: [{ verdict: 'ask', from: 'project', file: 'p.yaml' }] },
      ],
      problems: [],
    },
    guards: [{ name: 'g', on: 'op:x', timing: 'before', verdict: 'deny', from: 'operator' }],
    hooks: [{ when: 'true', directive: 'tell' }],
  });
  expect(about.grants.map(({ name }) => name)).toEqual(['fs.read notes/**', 'git.push origin']);
  expect(about.ceilings).toEqual([
    { name: 'git.push origin', detail: 'verdict ask', from: 'project · p.yaml' },
  ]);
  expect(about.guards).toEqual([{ name: 'g', detail: 'deny · before op:x', from: 'operator' }]);
  expect(about.hooks).toEqual([{ name: 'true', detail: '→ tell', from: '' }]);
});

test('any data can be read', () => {
  const noise = fc.dictionary(
    fc.constantFrom('permissions', 'limits', 'hooks', 'guards', 'rules', 'tools', 'model', 'chain'),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(noise, (data) => {
      const about = readExplained(data as DataObject);
      const lines = [...about.grants, ...about.guards, ...about.hooks, ...about.limits];
      expect(lines.every(({ name }) => typeof name === 'string')).toBe(true);
      expect(ownReach(data as DataObject).hosts.every((host) => typeof host === 'string')).toBe(
        true,
      );
    }),
  );
});
