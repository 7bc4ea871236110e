import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { saidIn } from './mentioned-values.ts';

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

/** Words that are written like names, so that they count. */
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

/** True if the word occurs with no character of a longer word beside it. */
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

// The same rules as regular expressions, which are shorter and take quadratic time.
const QUOTED = new RegExp(
  ['`([^`\\n]+)`', '"([^"\\n]+)"', "'([^'\\n]+)'", '“([^”\\n]+)”', '‘([^’\\n]+)’', '«([^»\\n]+)»']
    .map((quoted) => String.raw`(?<=^|[\s([{<>,:;=])${quoted}(?=$|[\s)\]}<>.,:;!?])`)
    .join('|'),
  'gmu',
);
const PAIRS: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}', '<': '>' };

function bareByRule(written: string): string {
  for (let word = written; ; ) {
    const closing = PAIRS[word[0] ?? ''];
    const opening = Object.keys(PAIRS).find((one) => PAIRS[one] === word.at(-1));
    let next = word.replace(/[.,:;!?…]+$/u, '');
    if (closing !== undefined && word.endsWith(closing)) next = word.slice(1, -1);
    else if (closing !== undefined && !word.includes(closing)) next = word.slice(1);
    else if (opening !== undefined && !word.includes(opening)) next = word.slice(0, -1);
    if (next === word) return word;
    word = next;
  }
}

function saidByRule(text: string): Set<string> {
  const said = new Set([text, text.trim()]);
  for (const line of text.split(/\r?\n/)) said.add(line.trim());
  const rest = text.replace(QUOTED, (_, ...groups: unknown[]) => {
    const inside = groups.find((one) => typeof one === 'string' && one !== '');
    if (typeof inside === 'string' && inside.trim() === inside) said.add(inside);
    return ' ';
  });
  for (const word of rest.split(/\s+/u)) {
    const bare = bareByRule(word);
    if (/[/@:_#~\d]|.\../u.test(bare) && !/^[\d.,:/-]*$/.test(bare)) said.add(bare);
  }
  said.delete('');
  return said;
}

const SIGNS = [
  ...Array.from('`"\'“”‘’«»()[]{}<>.,:;!?…=/@_#~-'),
  ' ',
  '\n',
  '\r',
  '\t',
  '\u2028',
  '\u00a0',
];
const sign = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...SIGNS) },
  { weight: 4, arbitrary: fc.constantFrom('a', 'b', '1', 'é', '😀', '\ud83d', 'a.b', 'x/y') },
);

test('a text says what the rules say', () => {
  const texts = fc.array(sign, { maxLength: 24 }).map((signs) => signs.join(''));
  fc.assert(
    fc.property(texts, (text) => {
      expect([...saidIn(text, true)].sort()).toEqual([...saidByRule(text)].sort());
    }),
    { numRuns: runs(3000) },
  );
});

const MANY = 400_000;
const LONG: readonly [string, (count: number) => string][] = [
  ['dots', (count) => '.'.repeat(count)],
  ['dots before a letter', (count) => `${'.'.repeat(count)}a`],
  ['marks of all kinds', (count) => `x/y${'.,:;!?…'.repeat(count / 7)}z`],
  ['opening brackets', (count) => '('.repeat(count)],
  ['closing brackets', (count) => `a${')'.repeat(count)}`],
  ['pairs of brackets', (count) => `${'(['.repeat(count / 4)}a.b${'])'.repeat(count / 4)}`],
  [
    'brackets that do not match',
    (count) => `${'(<{['.repeat(count / 8)}x${')>}]'.repeat(count / 8)}`,
  ],
  ['brackets and marks in turn', (count) => `a/b${').'.repeat(count / 2)}`],
  ['quotes that open and never close', (count) => ' “a'.repeat(count / 3)],
  ['quotes of all kinds that never close', (count) => ' “‘«a'.repeat(count / 5)],
  ['quotes that close within a word', (count) => `${' “a ‘a «a'.repeat(count / 9)}”x’x»x`],
  ['quotes on many lines', (count) => '(“a\n'.repeat(count / 4)],
  ['double quotes', (count) => ' "'.repeat(count / 2)],
  ['one long word', (count) => `a${'/b'.repeat(count / 2)}`],
  ['blanks', (count) => `a.b${' '.repeat(count)}c.d`],
  ['blanks in quotes', (count) => `"${' '.repeat(count)}a" "${' '.repeat(count)}`],
];

// With quadratic work none of these would ever end.
test.each(LONG)('a text of %s is read in one pass', (_name, make) => {
  expect(saidIn(make(MANY), true).size).toBeGreaterThan(0);
});
