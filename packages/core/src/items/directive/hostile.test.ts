// Files from strangers: they may be wrong in every way, but reading them ends soon and never throws.
import { isSoak, runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { hasErrors } from '../../base/index.ts';
import { parseDirective } from './parse.ts';

const MIB = 1024 * 1024;
/** `npm run soak` reads ten times as much. */
const LONG = isSoak ? 5 * MIB : MIB / 2;
const long = (text: string) => text.repeat(LONG / text.length);
const front = (yaml: string) => `---\nname: x\nversion: 1.0.0\n${yaml}\n---\n`;
const bomb = [
  'a: &a [x,x,x,x,x,x,x,x,x]',
  ...'bcdefghij'.split('').map((name, i) => {
    const below = 'abcdefghij'[i] as string;
    return `${name}: &${name} [${Array.from({ length: 9 }, () => `*${below}`).join(',')}]`;
  }),
].join('\n');

test.each([
  [
    'nesting 10,000 deep',
    `<directive name="x" version="1.0.0"><context>${'<a>'.repeat(10_000)}${'</a>'.repeat(10_000)}</context></directive>`,
  ],
  ['NUL bytes', `<directive name="x" version="1.0.0">${long('\0')}</directive>`],
  ['long prose without a directive', long('# text\n')],
  ['a long line', `<directive name="${long('x')}"/>`],
  ['many fences', long('```xml\n<!--\n```\n')],
  ['many blanks in a fence line', `\`\`\`xml${long(' ')}\n<directive name="x"`],
  ['many mistakes', `<directive>${long('<turn x=1>\n')}`],
  ['more than is ever read', 'x'.repeat(9 * MIB)],
  ['an alias bomb', front(bomb)],
  ['a circle of aliases', front('context: &a\n  b: *a')],
  ['deep YAML', front(`context: ${'['.repeat(10_000)}${']'.repeat(10_000)}`)],
  [
    'deep YAML by indentation',
    front(
      `context:\n${Array.from({ length: 500 }, (_, i) => `${' '.repeat(i + 1)}a:`).join('\n')}`,
    ),
  ],
  [
    'a hundred thousand keys',
    front(Array.from({ length: 100_000 }, (_, i) => `k${i}: 1`).join('\n')),
  ],
  ['fifty thousand hooks', front(`hooks:\n${'  - when: a\n'.repeat(50_000)}`)],
  ['tags that make objects', front('context: !!js/function "x"\nexpose: !!binary aGk=')],
])('%s', (_, text) => {
  expect(hasErrors(parseDirective(text, 'x.md').diagnostics)).toBe(true);
});

test('names from the prototype are ordinary names', () => {
  const tags = '<__proto__><a>1</a></__proto__><constructor>c</constructor>';
  const text = `<directive name="x" version="1.0.0"><context>${tags}</context><inputs><constructor/><hasOwnProperty/></inputs></directive>`;
  const { directive, diagnostics } = parseDirective(text, 'x.md');
  expect(diagnostics).toEqual([]);
  expect(Object.keys(directive?.context ?? {})).toEqual(['__proto__', 'constructor']);
  expect(({} as { a?: string }).a).toBeUndefined();
  const yaml = front(
    '__proto__: { polluted: 1 }\nconstructor: 2\nlimits: { toString: 3, __proto__: { turns: 1 } }',
  );
  const codes = parseDirective(yaml, 'x.md').diagnostics.map(({ code }) => code);
  expect(new Set(codes)).toEqual(new Set(['tag_unknown']));
});

const bits = [
  '<',
  '>',
  '/',
  '"',
  "'",
  '=',
  '&',
  ';',
  ' ',
  '\n',
  '\0',
  'a',
  '-',
  '---\n',
  '```xml\n',
  '```\n',

  '<directive name="x" version="1.0.0">',
  '</directive>',
  '<metadata>',
  '</metadata>',
  '<limits>',
  '<turns>',
  '-1',
  '</turns>',
  '<permissions>',
  '<read resource="filesystem" path="',
  '/>',

  '<hooks>',
  '<hook>',
  '<when>',
  'cost.turns < 1',
  '</when>',
  '</hook>',
  '<inputs>',
  '<input name="',

  '<process>',
  '<step name="s">',
  '<script>',
  '<template>',
  '<![CDATA[',
  ']]>',
  '<!--',
  '-->',
  '&lt;',

  'name: x\n',
  'version: 1.0.0\n',
  'hooks:\n',
  '  - when: ',
  'limits: {',
  '}',
  '[',
  ']',
  '*a',
  '&a ',

  '<cost>',
  '<max_turns>',
  '<outputs>',
  '<action>',
  'retry|fail',
  '${inputs.',
  '{',
  '\uFEFF',
  '\u{1F600}',
];

test('no text makes it throw, and every diagnostic has a place in the file', () => {
  const piece = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...bits) }, fc.string());
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 80 }), fc.boolean(), (pieces, isOpened) => {
      const text = `${isOpened ? '<directive name="x" version="1.0.0">' : ''}${pieces.join('')}`;
      const lines = text.split('\n');
      for (const { line, column, message } of parseDirective(text, 'x.md').diagnostics) {
        expect(column).toBeGreaterThan(0);
        expect(line).toBeLessThanOrEqual(lines.length);
        expect(message).not.toMatch(/\n|\.$/);
      }
    }),
    { numRuns: runs(2000, 50_000) },
  );
});
