import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../../tests/support/soak.ts';
import { saidIn } from './said-in.ts';

test.each([
  ['write reports/a.md', 'reports/a.md'],
  ['Write reports/a.md.', 'reports/a.md'],
  ['(see https://a.example/x?y=1), then stop', 'https://a.example/x?y=1'],
  ['send it to <ann@example.org>!', 'ann@example.org'],
  ['https://en.example/wiki/A_(b)', 'https://en.example/wiki/A_(b)'],
  ['wipe `my file`', 'my file'],
  ['wipe "build"', 'build'],
  ['path="out/x"', 'out/x'],
  ['run:\n  make -j4 all\nthen stop', 'make -j4 all'],
  ['build', 'build'],
])('`%s` says `%s`', (text, value) => {
  expect(saidIn(text, true)).toContain(value);
});

test.each([
  ['write reports/a.md', 'reports/a'],
  ['write reports/a.md', 'a.md'],
  ['write reports/a.md.', 'reports/a.md.'],
  ['write reports/a.md', 'REPORTS/a.md'],
  ['to ann@example.org.evil.example', 'ann@example.org'],
  ['to ann@example.org,bob@example.org', 'ann@example.org'],
  ['https://a.example/x?ids=1,2', 'https://a.example/x?ids=1'],
  ['https://a.example/x?next=https://b.example', 'https://b.example'],
  ['https://en.example/wiki/A_(b)', 'https://en.example/wiki/A_(b'],
  ['https://a.example/(https://b.example)', 'https://b.example'],
  ['`deploy --dry-run ./prod`', './prod'],
  ['it is a test', 'a'],
  ['remove nothing', 'nothing'],
  ['the 42 files of 2026', '42'],
  ['say "a.b then" c.d "e.f"', ' c.d '],
  ['x', ''],
  ['x', ' '],
])('`%s` does not say `%s`', (text, value) => {
  expect(saidIn(text, true)).not.toContain(value);
});

test('single words are no commands', () => {
  expect(saidIn('run ./deploy --dry-run', false)).not.toContain('./deploy');
  expect(saidIn('run `./deploy`', false)).toContain('./deploy');
});

/** Written like names, so that they would count. */
const name = fc
  .array(fc.constantFrom('a', 'b', '/', '.', '@', ':', '-', '=', '?', '1', 'é', '\u200b', '%2f'), {
    minLength: 2,
    maxLength: 12,
  })
  .map((parts) => parts.join(''));
const glue = fc.constantFrom(
  ' ',
  '\n',
  '\t',
  ', ',
  '; ',
  '. ',
  ' (',
  ') ',
  ' "',
  '" ',
  ' `',
  '` ',
  " '",
  '\u00a0',
);
const text = fc
  .array(fc.tuple(name, glue), { minLength: 1, maxLength: 8 })
  .map((parts) => parts.flat().join(''));

const BEFORE = /(?:^|[\s([{<"'`“‘«])$/u;
const AFTER = /^[.,:;!?…]*(?:$|[\s)\]}>"'`”’»])/u;

/** Is there an occurrence with nothing of the same word around it? */
function standsAlone(whole: string, value: string): boolean {
  for (let at = whole.indexOf(value); at !== -1; at = whole.indexOf(value, at + 1)) {
    if (BEFORE.test(whole.slice(0, at)) && AFTER.test(whole.slice(at + value.length))) return true;
  }
  return false;
}

test('what a text says stands in it by itself, never as a piece of something longer', () => {
  fc.assert(
    fc.property(text, (whole) => {
      for (const value of saidIn(whole, true)) expect(standsAlone(whole, value)).toBe(true);
    }),
    { numRuns: runs(2000) },
  );
});

test('a word written otherwise, or cut, is another word', () => {
  fc.assert(
    fc.property(name, fc.nat(12), fc.nat(12), (word, from, length) => {
      const said = saidIn(`write x/${word}y/z now`, true);
      const others = [
        word.slice(from, from + length),
        `x/${word}`,
        `${word}y/z`,
        encodeURIComponent(`x/${word}y/z`),
        `X/${word}Y/Z`,
        Buffer.from(word).toString('base64'),
        `x/${word}y/z`.normalize('NFD'),
      ];
      for (const other of others) {
        expect(said.has(other)).toBe(other === `x/${word}y/z`);
      }
    }),
    { numRuns: runs(2000) },
  );
});
