import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import type { Recorded } from '../../journal/index.ts';
import { applyDiff } from './apply-diff.ts';
import { applyApproved } from './improve-directive.ts';

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
  ['prose', '@@ -1 +1 @@\nplease change it', 'is not part of a unified diff'],
])('%s refuse the whole', (_, diff, why) => {
  const done = applyDiff('a\nb\na', diff);
  expect(done.ok || done.error.detail.message).toContain(why);
});

test('nothing to change changes nothing', () => {
  expect(applyDiff('a\nb', '--- a\n+++ a\n')).toEqual({ ok: true, output: 'a\nb' });
});

/** A library with one directive, and what was done to it. */
function oneDirective(body: string, state: 'signed' | 'unsigned') {
  const done: string[] = [];
  const item = { body, signature: { state } };
  const library = {
    find: () => ok(item),
    write(_kind: string, _id: string, text: string) {
      done.push(`written ${text}`);
      return ok({ file: '' });
    },
    noteChange: () => undefined,
  };
  const ports = {
    library,
    store: { approvals: () => Promise.resolve(ok([{ state: 'approved' }])) },
    changeDirective(_id: string, text: string) {
      done.push(`signed ${text}`);
      return ok(null);
    },
  } as unknown as Parameters<typeof applyApproved>[0];
  return { ports, done };
}

const hash = (text: string) => createHash('sha256').update(text).digest('hex');
const proposed = (more: Record<string, unknown>): Recorded[] =>
  [
    {
      type: 'approval',
      data: { kind: 'call', action: 'anneal', directive: 'look', text: 'new', ...more },
    },
  ] as unknown as Recorded[];

test.each([
  ['is written by whoever resumes', 'old', 'signed', 'auto', true, ['signed new']],
  ['is not written twice', 'new', 'signed', 'auto', true, []],
  ['gets the signature that it lacks', 'new', 'unsigned', 'auto', true, ['signed new']],
  ['stays unsigned where nobody looked', 'old', 'unsigned', 'auto', false, ['written new']],
  ['that stays unsigned is not written twice', 'new', 'unsigned', 'auto', false, []],
  ['is signed where somebody looked', 'old', 'unsigned', 'pending', false, ['signed new']],
] as const)('after a kill a change %s', async (_what, body, state, kind, signed, expected) => {
  const { ports, done } = oneDirective(body, state);
  const history = proposed({ state: kind, before: hash('old'), ...(signed && { signed: true }) });
  expect(await applyApproved(ports, history)).toEqual(ok(null));
  expect(done).toEqual(expected);
});

test('what was changed by somebody else in between is left alone', async () => {
  const { ports, done } = oneDirective('other', 'signed');
  const history = proposed({ state: 'auto', before: hash('old'), signed: true });
  expect(await applyApproved(ports, history)).toMatchObject({ error: { code: 'conflict' } });
  expect(done).toEqual([]);
});
