import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  addLabels,
  carries,
  type Descriptor,
  describe,
  EMPTY,
  markReplaced,
  mergeAll,
  mergeDescriptors,
  removeLabels,
  withSources,
} from './labels.ts';

const words = (...list: string[]) => fc.subarray(list, { minLength: 0 });
const descriptor: fc.Arbitrary<Descriptor> = fc
  .record({
    labels: words('secret', 'untrusted', 'pii', 'net:w'),
    taint: words('src:file', 'src:llm', 'dir:/a', 'src:env:HOME', 'pii'),
    sources: words('file:a', 'tool:b@1', 'guard:@m'),
    capability: fc.option(fc.constantFrom('tool', 'exe', 'run'), { nil: null }),
    policyContext: words('policy:user', 'pack:x'),
    marks: words('before 1 pii', 'after 1 pii', 'before 2 src:file'),
  })
  .map(({ marks, ...parts }) =>
    marks
      .filter((entry) => describe(parts).taint.includes(entry.split(' ')[2] ?? ''))
      .reduce(markReplaced, describe(parts)),
  );

const sets = ({ labels, taint, sources, capability, policyContext, replaced }: Descriptor) => ({
  labels: labels.toSorted(),
  taint: taint.toSorted(),
  sources: sources.toSorted(),
  capability,
  policyContext: policyContext.toSorted(),
  replaced: replaced.toSorted(),
});

test('merge is associative, down to the order', () => {
  fc.assert(
    fc.property(descriptor, descriptor, descriptor, (a, b, c) => {
      const left = mergeDescriptors(mergeDescriptors(a, b), c);
      expect(left).toBe(mergeDescriptors(a, mergeDescriptors(b, c)));
    }),
    { numRuns: runs(3000) },
  );
});

test('merge is commutative up to order', () => {
  fc.assert(
    fc.property(descriptor, descriptor, (a, b) => {
      expect(sets(mergeDescriptors(a, b))).toEqual(sets(mergeDescriptors(b, a)));
    }),
    { numRuns: runs(3000) },
  );
});

test('merge is idempotent, and nothing is its neutral element', () => {
  fc.assert(
    fc.property(descriptor, (a) => {
      expect(mergeDescriptors(a, a)).toBe(a);
      expect(mergeDescriptors(a, EMPTY)).toBe(a);
      expect(mergeDescriptors(EMPTY, a)).toBe(a);
    }),
  );
});

test('merge loses no mark', () => {
  fc.assert(
    fc.property(fc.array(descriptor, { maxLength: 5 }), (list) => {
      const merged = mergeAll(list);
      for (const one of list) {
        for (const kind of ['labels', 'taint', 'sources', 'policyContext'] as const) {
          expect(merged[kind]).toEqual(expect.arrayContaining([...one[kind]]));
        }
        const kinds = merged.capability?.split('|') ?? [];
        if (one.capability !== null) expect(kinds).toContain(one.capability);
      }
    }),
  );
});

test('equal descriptors are the same frozen object', () => {
  const parts = { labels: ['secret'], taint: ['src:file'], sources: ['file:a'] };
  const made = describe(parts);
  expect(describe({ ...parts })).toBe(made);
  expect(Object.isFrozen(made) && Object.isFrozen(made.labels)).toBe(true);
  expect(describe({})).toBe(EMPTY);
});

test('identity survives more merges than any table holds', () => {
  const secret = describe({ labels: ['secret'] });
  const first = mergeDescriptors(secret, describe({ sources: ['file:0'] }));
  for (let at = 1; at < 20_000; at++) {
    mergeDescriptors(secret, describe({ sources: [`file:${at}`] }));
  }
  expect(mergeDescriptors(secret, describe({ sources: ['file:0'] }))).toBe(first);
});

test('taint lists the labels first, then the automatic ones', () => {
  const file = describe({ taint: ['src:file', 'dir:/a'] });
  expect(addLabels(file, ['secret']).taint).toEqual(['secret', 'src:file', 'dir:/a']);
});

test('untrusted drives out trusted, trusted does not drive out untrusted', () => {
  const trusted = addLabels(EMPTY, ['trusted']);
  const both = addLabels(addLabels(EMPTY, ['untrusted']), ['trusted']);
  expect(addLabels(trusted, ['untrusted']).labels).toEqual(['untrusted']);
  expect(both.labels).toEqual(['untrusted', 'trusted']);
});

test('nobody removes where data came from', () => {
  const file = describe({ labels: ['secret'], taint: ['src:file', 'dir:/a'] });
  expect(removeLabels(file, ['secret', 'src:file', 'dir:/a']).taint).toEqual([
    'src:file',
    'dir:/a',
  ]);
});

test('a filter names a mark, what is below it, and all code as `src:exec`', () => {
  const matchesLabel = (filter: string, mark: string) =>
    carries(describe({ taint: [mark] }), filter);
  expect(matchesLabel('src:env', 'src:env:HOME')).toBe(true);
  expect(matchesLabel('src:en', 'src:env:HOME')).toBe(false);
  expect(matchesLabel('src:exec', 'src:py')).toBe(true);
  expect(matchesLabel('src:exec', 'src:template')).toBe(false);
  expect(carries(withSources(EMPTY, ['secret']), 'secret')).toBe(false);
});

test('a replacement is remembered until labelled data joins that was not replaced', () => {
  const pii = describe({ labels: ['pii'] });
  const masked = markReplaced(pii, 'before 1 pii');
  const plain = describe({ labels: ['other'] });
  expect(mergeDescriptors(masked, plain).replaced).toEqual(['before 1 pii']);
  expect(mergeDescriptors(masked, masked).replaced).toEqual(['before 1 pii']);
  expect(mergeDescriptors(masked, pii).replaced).toEqual([]);
});
