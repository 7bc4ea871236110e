import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { carries, describe } from './labels.ts';
import { isFromPerson, judgeMemory } from './remembered.ts';

const words = (...list: string[]) => fc.subarray(list, { minLength: 0 });
const marks = fc
  .record({
    labels: words('untrusted', 'pii', 'trusted'),
    taint: words('src:user', 'src:llm', 'src:network', 'dir:/a'),
    sources: words('tool:a', 'file:b'),
  })
  .map((parts) => describe(parts));
const word = fc.constantFrom('endorsed', 'said', undefined);

test('a row vouches only if a person endorsed or said it, and it is not untrusted', () => {
  const check = fc.property(marks, word, (before, how) => {
    const { standing, marks: after } = judgeMemory(before, how);
    const isEndorsed = how === 'endorsed';
    const isUntrusted = carries(before, 'untrusted');
    if (standing === 'confirmed') {
      expect(how).toBeDefined();
      expect(carries(after, 'untrusted')).toBe(false);
      if (!isEndorsed) expect([isUntrusted, carries(before, 'src:user')]).toEqual([false, true]);
    }
    expect(standing === 'stranger').toBe(isUntrusted && !isEndorsed);
    expect(carries(after, 'untrusted')).toBe(standing === 'stranger');
    // Nothing but `untrusted` is ever missing, and only after an endorsement.
    const lost = before.taint.filter((mark) => !after.taint.includes(mark));
    expect(lost).toEqual(isEndorsed && isUntrusted ? ['untrusted'] : []);
    expect(after.sources).toEqual(before.sources);
  });
  fc.assert(check, { numRuns: runs(500, 20_000) });
});

test('what only a model wrote vouches for nothing, whatever it claims', () => {
  const own = describe({ taint: ['src:llm'] });
  expect(judgeMemory(own, 'said').standing).toBe('note');
  expect(judgeMemory(own, undefined).standing).toBe('note');
});

test('only a text without any other source is a person’s', () => {
  const check = fc.property(marks, (one) => {
    expect(isFromPerson(one)).toBe(one.taint.join() === 'src:user');
  });
  fc.assert(check, { numRuns: runs(200, 5000) });
  expect(isFromPerson(describe({ taint: ['src:user'] }))).toBe(true);
  expect(isFromPerson(describe({ taint: ['src:user', 'src:llm'] }))).toBe(false);
});
