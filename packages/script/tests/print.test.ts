import { printScript } from '@kernmantle/test-support/print-script';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type {
  ActionExpression,
  Expression,
  Mode,
  NodeOf,
  ScriptTree,
  Statement,
} from '../src/syntax/ast.ts';
import { parseScript, parseTemplateFile } from '../src/syntax/parse.ts';

const PLACES = new Set(['at', 'end', 'bodyAt']);

/** Returns a tree without its offsets. */
function bare(node: unknown): unknown {
  if (node instanceof Map) return new Map([...node].map(([key, inner]) => [key, bare(inner)]));
  if (Array.isArray(node)) return node.map(bare);
  if (typeof node !== 'object' || node === null) return node;
  const fields = Object.entries(node).filter(([key]) => !PLACES.has(key));
  return Object.fromEntries(fields.map(([key, inner]) => [key, bare(inner)]));
}
const read = (text: string, mode: Mode) => parseScript(text, { mode, file: 'x' });

const place = { at: 0, end: 0 };
const name = fc.constantFrom('a', 'b2', 'c_d', 'e-f', 'größe', 'run', 'when');
const words = fc.constantFrom(
  'x',
  ' ',
  '.',
  ',',
  '"',
  "'",
  '`',
  '\\',
  '\n',
  '<p>',
  '@',
  '#',
  '/',
  '|',
  '>>',
  '[',
  '}',
);
const text = fc.array(words, { maxLength: 6 }).map((parts) => parts.join(''));
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
);

const { expression, reference } = fc.letrec<{ expression: Expression; reference: Expression }>(
  (tie) => {
    const inner = tie('expression');
    const step = fc.oneof(
      name.map((field) => ({ kind: 'field', name: field, ...place }) as const),
      inner.map((index) => ({ kind: 'index', index, ...place }) as const),
      fc
        .array(inner, { maxLength: 2 })
        .map((list) => ({ kind: 'call', arguments: list, ...place }) as const),
      fc.constant({ kind: 'each', ...place } as const),
      fc
        .record({
          from: fc.option(inner, { nil: undefined }),
          to: fc.option(inner, { nil: undefined }),
        })
        .map((ends) => ({ kind: 'slice', ...ends, ...place }) as const),
    );
    const plain = fc.record({ name, steps: fc.array(step, { maxLength: 2 }) }).map(
      (made): NodeOf<'reference'> => ({
        kind: 'reference',
        ...made,
        isOptional: false,
        ...place,
      }),
    );
    const insert = name.map(
      (made) =>
        ({
          kind: 'insert',
          value: { kind: 'reference', name: made, steps: [], isOptional: false, ...place },
          stages: [],
          raw: `@${made}`,
          mode: { kind: 'plain' },
          ...place,
        }) as const,
    );
    const style = fc.constantFrom('double' as const, 'backtick' as const);
    const template = fc
      .record({ style, before: text, insert: fc.option(insert), after: text })
      .map((made): Expression => {
        // A letter directly after a reference would belong to it, so another character separates them.
        const parts =
          made.insert === null
            ? [made.before + made.after]
            : [made.before, made.insert, `. ${made.after}`];
        return {
          kind: 'template',
          style: made.style,
          parts: parts.filter((part) => part !== ''),
          ...place,
        };
      });
    const literal = fc
      .oneof(
        number,
        fc.boolean(),
        fc.constant(null),
        text.map((made) => made.replaceAll('\n', '')),
      )
      .map((value): Expression => ({ kind: 'literal', value, ...place }));
    const operator = fc.constantFrom(
      '+',
      '-',
      '*',
      '/',
      '%',
      '==',
      '!=',
      '~=',
      '!~=',
      '<',
      '>',
      '<=',
      '>=',
      '&&',
      '||',
      '??',
    );
    const pattern = fc
      .tuple(plain, fc.constantFrom('a+', 'x\\/y', '[/"]', '(?<n>\\d)', ''), text)
      .map(([made, body, to]): Expression => {
        const first = { kind: 'pattern', body, flags: 'gi', ...place } as const;
        const second = { kind: 'literal', value: to.replaceAll('\n', ''), ...place } as const;
        const method = { kind: 'field', name: 'replace', ...place } as const;
        const call = { kind: 'call', arguments: [first, second], ...place } as const;
        return { ...made, steps: [...made.steps, method, call] };
      });
    const stage = plain.map((target) => ({ kind: 'call-stage', target, ...place }) as const);
    return {
      reference: plain,
      expression: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        plain,
        pattern,
        literal,
        template,
        fc.array(inner, { maxLength: 3 }).map(
          (list): Expression => ({
            kind: 'array',
            items: list.map((value) => ({ value, isOptional: false, isSpread: false })),
            ...place,
          }),
        ),
        fc.array(fc.tuple(text, inner, fc.boolean()), { maxLength: 3 }).map(
          (pairs): Expression => ({
            kind: 'object',
            entries: pairs.map(([key, value, isOptional]) => ({
              kind: 'pair',
              key,
              value,
              isOptional,
            })),
            ...place,
          }),
        ),
        fc
          .record({ operator, left: inner, right: inner })
          .map((made): Expression => ({ kind: 'binary', ...made, ...place })),
        fc
          .record({ operator: fc.constantFrom('!' as const, '-' as const), value: inner })
          .map((made): Expression => ({ kind: 'unary', ...made, ...place })),
        fc
          // oxlint-disable-next-line unicorn/no-thenable -- a branch, never awaited
          .record({ condition: inner, then: inner, else: inner })
          .map((made): Expression => ({ kind: 'ternary', ...made, ...place })),
        fc
          .record({ source: inner, stages: fc.array(stage, { minLength: 1, maxLength: 3 }) })
          .map((made): Expression => ({ kind: 'pipeline', ...made, ...place })),
        fc.record({ value: inner, option: inner }).map(
          ({ value, option }): Expression => ({
            kind: 'with',
            value,
            options: {
              kind: 'options',
              entries: new Map([['stdin', option]]),
              pipeline: undefined,
              ...place,
            },
            ...place,
          }),
        ),
        fc.record({ collection: inner, body: inner, name }).map(
          (made): Expression => ({
            kind: 'for',
            parallel: undefined,
            bind: { key: undefined, name: made.name, path: [] },
            collection: made.collection,
            filter: undefined,
            body: made.body,
            batch: undefined,
            ...place,
          }),
        ),
        fc.array(fc.tuple(inner, inner), { maxLength: 3 }).map(
          (arms): Expression => ({
            kind: 'when',
            subject: undefined,
            isSimple: false,
            items: arms.map(([value, action]) => ({
              kind: 'arm',
              condition: { kind: 'test', value },
              action,
              ...place,
            })),
            ...place,
          }),
        ),
      ),
    };
  },
);

const line: fc.Arbitrary<ActionExpression> = fc.oneof(
  fc
    .record({ name, value: expression })
    .map((made) => ({ kind: 'let', labels: ['l'], ...made, ...place }) as const),
  fc
    .record({ name, value: expression })
    .map((made) => ({ kind: 'augment', ...made, ...place }) as const),
  reference,
);
const statement: fc.Arbitrary<Statement> = fc.oneof(
  fc
    .record({ name, value: expression })
    .map((made): Statement => ({ kind: 'var', labels: [], ...made, ...place })),
  fc.record({ name, body: expression }).map(
    (made): Statement => ({
      kind: 'exe',
      labels: ['net:w'],
      name: made.name,
      parameters: [{ name: 'p', type: undefined }],
      body: made.body,
      options: undefined,
      ...place,
    }),
  ),
  fc.record({ condition: expression, body: fc.array(line, { maxLength: 3 }) }).map(
    (made): Statement => ({
      kind: 'flow',
      value: {
        kind: 'if',
        condition: made.condition,
        // oxlint-disable-next-line unicorn/no-thenable -- a branch, never awaited
        then: { kind: 'block', body: made.body, ...place },
        else: undefined,
        ...place,
      },
      ...place,
    }),
  ),
);

test('a printed tree reads back the same', () => {
  const script = fc.record({
    mode: fc.constantFrom('markdown' as const, 'strict' as const),
    body: fc.array(statement, { maxLength: 4 }),
  });
  fc.assert(
    fc.property(script, ({ mode, body }) => {
      const printed = printScript({ mode, text: '', frontMatter: undefined, body });
      const again = read(printed, mode);
      expect(again.problems).toEqual([]);
      expect(bare(again.script?.body)).toEqual(bare(body));
    }),
    { numRuns: runs(300) },
  );
});

const SCRIPT = `---
title: x
---
# Text @fm.title

/import { @a, b as @c } from "./m.mld"
/var secret,pii @k = <key.txt # "A", B; !# C>
/exe net:w @post(url, body: string) = cmd {curl -d "@body" '@url' @url | head} with { description: "d", timeout: 3 }
/exe recursive @f(n) = [
  let @s = 0
  for @x in @n [ @s += @x ]  >> adds
  if @s > 3 [ => trusted @s ] else if @s [ bail "no" ]
  => @s
]
/exe js = { f, post }
>> a comment
/var @t = ::
Hi @name?, @user.name|@upper!
/for @x in @xs
- @x\\.txt <a.md>
/end
::
/var @m = :::{{ a.b[0] }} and @c:::
/var @r = for parallel(3, 100ms) @k, @v in @o when @v.ok => @g(@v) | @h => | @flat
/guard after @g for op:exe = when [ @output == "" => retry "empty"   * => allow @clean(@output) ]
/show @src() | @a || @b | show "got @input" | while(3) @step | js { return 1 }
/output @r to "out/@name\\.json" as json
/loop(3) until @input > 2 [ when @x: [ 1 => done; > 2 => continue @x; none => skip ] ]
\`\`\`mlld-run
show "inside"
\`\`\`
/profiles { full: { requires: { cmd: [git], sh } } }
/=> [[not an array]]
`;

describe('scripts', () => {
  test('a script with everything in it reads, and its print reads back the same', () => {
    const { script, problems } = read(SCRIPT, 'markdown');
    expect(problems).toEqual([]);
    const printed = printScript(script as ScriptTree);
    const again = read(printed, 'markdown').script;
    expect(bare(again?.body)).toEqual(bare(script?.body));
    expect(again?.frontMatter).toBe(script?.frontMatter);
    expect(printScript(again as ScriptTree)).toBe(printed);
  });

  test('no cut of it breaks the parser', () => {
    for (let at = 0; at < SCRIPT.length; at += 1) {
      for (const mode of ['markdown', 'strict'] as const) {
        const { script, problems } = read(SCRIPT.slice(0, at), mode);
        expect(script === undefined).toBe(problems.length > 0);
      }
    }
  });

  test('no input breaks the parser, and every problem lies in the text', () => {
    const pieces = SCRIPT.split(/(\s+|\b)/).concat([
      '[[',
      ']]',
      '::',
      ':::',
      '@f(',
      '`',
      '<',
      '\\',
      '\0',
      '\r\n',
      '🙂',
    ]);
    const input = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string()), { maxLength: 40 });
    fc.assert(
      fc.property(input, fc.constantFrom('markdown' as const, 'strict' as const), (parts, mode) => {
        const garbage = parts.join('');
        for (const { at, end } of read(garbage, mode).problems) {
          expect(at).toBeGreaterThanOrEqual(0);
          expect(at).toBeLessThanOrEqual(garbage.length);
          expect(end).toBeGreaterThan(at);
        }
        parseTemplateFile(garbage, 'att');
      }),
      { numRuns: runs(500) },
    );
  });

  test('texts nested in texts have a bound as well', () => {
    for (const unit of ['@x?"a', '@x?`a', '@x??"', '@f(`', '<@']) {
      for (const quote of ['"', '`', '::']) {
        const { problems } = read(`/show ${quote}${unit.repeat(3000)}`, 'markdown');
        expect(problems.length).toBeGreaterThan(0);
      }
    }
  });

  test('repetitions that never end are read as the text they are', () => {
    const { parts } = parseTemplateFile('/for @x in @y\n'.repeat(20_000), 'att');
    expect(parts[0]).toBe('/for ');
    expect(parts.every((part) => typeof part === 'string' || part.kind === 'insert')).toBe(true);
  });

  test('a large text of openings that never close comes to an end', () => {
    for (const unit of [
      '/show [\n',
      '`@f(',
      '/var @x = [[\n',
      '/exe @f() = js { /* }\n',
      '/run {echo "}\n',
      '@x?"',
    ]) {
      const { script } = read(`/show \`a\`\n${unit.repeat(40_000)}`, 'markdown');
      expect(script === undefined || script.body.length > 0).toBe(true);
    }
  });
});
