import { matchGlob } from '@kernmantle/core/base';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { closedFiles } from './patterns.ts';

const ROOT = '/home/a/b';
const name = fc.constantFrom('a', 'b', 'c', 'work');
const path = fc.array(name, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
const segment = fc.oneof(name, fc.constantFrom('*', '**', 'a*', '?'));
const glob = fc.array(segment, { minLength: 1, maxLength: 6 }).map((parts) => parts.join('/'));
const closed = (...deny: string[]) =>
  closedFiles({ allow: undefined, deny, danger: [], world: { root: ROOT, home: '/home' } });
const isShut = (pattern: string, file: string, isProcess: boolean): boolean =>
  closed(pattern).refusal('r', file, isProcess) !== undefined;

test('an absolute glob closes to a process exactly what it names, and what is in that', () => {
  fc.assert(
    fc.property(glob, path, (wanted, file) => {
      const place = `${ROOT}/${file}`.split('/');
      const named = place.some((_, at) => {
        const isLast = at === place.length - 1;
        const isLiteral = !/[*?]/.test(wanted.split('/').at(-1) ?? '');
        return (isLast || isLiteral) && matchGlob(`/${wanted}`, place.slice(0, at + 1).join('/'));
      });
      expect(isShut(`fs:r:/${wanted}`, file, true)).toBe(named);
    }),
    { numRuns: 3000 },
  );
});

test('whatever is closed to a process is closed to tools, and globs tell a process where', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('', '/', '~/', './', `${ROOT}/`),
      glob,
      path,
      (begin, end, file) => {
        const pattern = `fs:r:${begin}${end}`;
        if (isShut(pattern, file, true)) expect(isShut(pattern, file, false)).toBe(true);
        const isTold = closed(pattern).globs.some((one) => matchGlob(one, file));
        expect(isTold).toBe(isShut(pattern, file, true));
        expect(closed(pattern).refusal('w', file, true)).toBeUndefined();
      },
    ),
    { numRuns: 3000 },
  );
});

test('many `**` are one', () => {
  const pattern = `fs:r:/${'**/'.repeat(300)}a`;
  expect(closed(pattern).globs.length).toBeLessThan(10);
  expect(isShut(pattern, 'c/a', true)).toBe(true);
});
