import fc from 'fast-check';
import { expect, test } from 'vitest';
import { applyDiff } from './improve-directive.ts';

const line = fc.string({ maxLength: 12 }).map((text) => text.replace(/[\r\n]/g, ' '));

test('what a diff says is what comes out, wherever it says that it stands', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(line, { minLength: 3, maxLength: 12 }),
      fc.array(line, { maxLength: 4 }),
      fc.nat(),
      fc.nat(),
      (lines, added, from, count) => {
        const at = from % lines.length;
        const gone = lines.slice(at, at + 1 + (count % 3));
        const context = lines.slice(Math.max(0, at - 1), at);
        const diff = [
          '--- a.md',
          '+++ a.md',
          '@@ -99,9 +99,9 @@',
          ...context.map((text) => ` ${text}`),
          ...gone.map((text) => `-${text}`),
          ...added.map((text) => `+${text}`),
        ].join('\n');
        const changed = [...lines.slice(0, at), ...added, ...lines.slice(at + gone.length)];
        expect(applyDiff(lines.join('\n'), diff)).toEqual({ ok: true, output: changed.join('\n') });
      },
    ),
  );
});

test.each([
  ['lines that are not there', '@@ -1 +1 @@\n-x\n+y', 'does not fit anywhere'],
  ['lines that stand twice', '@@ -1 +1 @@\n-a\n+y', 'fits in more than one place'],
  ['a hunk without old lines', '@@ -0,0 +1 @@\n+y', 'fits in more than one place'],
  ['prose', '@@ -1 +1 @@\nplease change it', 'is no line of a diff'],
])('%s refuse the whole', (_, diff, why) => {
  const done = applyDiff('a\nb\na', diff);
  expect(done.ok || done.error.detail.message).toContain(why);
});

test('nothing to change changes nothing', () => {
  expect(applyDiff('a\nb', '--- a\n+++ a\n')).toEqual({ ok: true, output: 'a\nb' });
});
