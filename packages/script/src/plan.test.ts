// Tests of plans: legal constructs, steps and sources. For any tool results, the calls of a run are one of
// the sequences that the text allows.
import { type Json, ok } from '@kernmantle/core/base';
import { makeValue, describe as marksOf } from '@kernmantle/core/flow';
import { createWorldFixture, play } from '@kernmantle/test-support/script-world';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readPlan } from './plan.ts';

const problems = (text: string, given: readonly string[] = []): string[] =>
  readPlan(text, given).problems.map(({ line, message }) => `${line} ${message}`);

describe('what a plan may hold', () => {
  test.each([
    'var @a = @tool("x/y", { to: \'ann@example.com\', n: -1 })',
    'var @a = @tool("x/y")\nreturn { text: `@a.name says @a.list[0]`, n: @a.list.length }',
    'for @one in @list => @tool("x/y", { id: @one.id })',
    'for @one in @list when @one.open [\n  let @made = @tool("x/y", { id: @one.id })\n  @tool("x/z", { of: @made })\n]',
    'when [ @list.length > 0 => @tool("x/y")  * => @tool("x/z") ]',
    'if @list.length > 0 [ @tool("x/y") ] else [ @tool("x/z") ]',
    'var @a = @list[0] ?? "none"\nvar @b = @a == "x" ? 1 : 2\nvar @c = @list && @tool("x/y")',
    'var @names = @list[*].name\nreturn { text: @names.join(", ") }',
    'when @list.length == 0 => return { text: "nothing" }\nreturn { text: "some" }',
    'var @all = []\nvar @more = [...@list, @now, @input.list]\nreturn { all: @all, more: @more }',
  ])('%s', (text) => {
    expect(problems(text, ['list'])).toEqual([]);
  });

  test.each([
    ['run cmd {rm -rf x}', '`run`'],
    ['var @x = cmd {ls}', 'a command'],
    ['var @x = sh {ls}', 'a block of code'],
    ['var @x = js { return 1 }', 'a block of code'],
    ['var @x = <secret.txt>', 'a file'],
    ['var @x = `<secret.txt>`', 'may contain only names'],
    ['show "x"', 'writing or printing'],
    ['output "x" to "out.txt"', 'writing or printing'],
    ['append "x" to "out.txt"', 'writing or printing'],
    ['exe @f(x) = `@x`', 'a function definition'],
    ['import "./other.mld"', 'an import'],
    ['policy @p = { deny: ["sh"] }', 'a policy'],
    ['guard before secret = when [ * => allow ]', 'a guard'],
    ['hook before op:tool = [ => @input ]', 'a hook'],
    ['var @x = "a" | @upper', 'a pipeline'],
    ['var @x = `@list|@upper`', 'a pipeline'],
    ['var @x = @tool("x/y") with { guards: false }', '`with`'],
    ['var @x = @upper("a")', '`@upper`'],
    ['var @x = @help("escalate", "now")', '`@help`'],
    ['var @x = @mx', '`@mx`'],
    ['var @x = `@mx.op`', '`@mx`'],
    ['var @x = @list.mx.labels', '`.mx`'],
    ['var @x = @payload', '`@payload`'],
    ['var trusted @x = 1', 'labels'],
    ['var @tool = 1', 'is built in'],
    ['var @t = @tool', 'must name its tool in quotes'],
    ['var @x = @tool(@list[0])', 'must name its tool in quotes'],
    ['var @x = @tool("x/@list")', 'must name its tool in quotes'],
    ['var @x = @tool("x/y", @list)', 'must be an object'],
    ['var @x = @tool("x/y", { ...@list })', '`...` is not allowed'],
    ['for parallel(2) @x in @list => @tool("x/y")', 'one after the other'],
    ['loop(3) [ @tool("x/y") ]', '`loop`'],
    ['bail "no"', '`bail`'],
    ['var @x = @lits', '`@lits` is not defined; did you mean `@list`?'],
    ['var @a = @b\nvar @b = 1', '`@b` is not defined'],
    ['when @nobody => @tool("x/y")', '`@nobody` is not defined'],
    ['var @x = [1, ', ''],
    [`var @x = '${'a'.repeat(40_000)}'`, 'at most 32000 characters'],
    [`var @l = [${'@tool("x/y"),'.repeat(201)} 1]`, 'at most 200 steps'],
  ])('not %s', (text, part) => {
    const found = problems(text, ['list']);
    expect(found.length).toBeGreaterThan(0);
    expect(found.join('\n')).toContain(part);
  });

  test('no text makes the reader throw', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        'var @x = ',
        '@tool("a/b", { x: @x })',
        'for @y in @x [',
        ']',
        'when ',
        '=> ',
      ),
      fc.constantFrom(
        'return { a: @x }',
        '\n',
        '`@x <f.txt>`',
        '@x += 1',
        'if @x [ ',
        '? 1 : ',
        '&&',
      ),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        for (const { line } of readPlan(pieces.join(''), ['list']).problems) {
          expect(line).toBeGreaterThan(0);
        }
      }),
      { numRuns: runs(300) },
    );
  });
});

describe('what its steps are made of', () => {
  const steps = (text: string) => readPlan(text, ['list']).steps;

  test('literals, results with the fields that were taken, and what it begins with', () => {
    const [, second] = steps(
      'var @a = @tool("x/y")\nvar @b = @a.mails[0]\n@tool("x/z", { to: @b.from, cc: [1, "x"], of: @list })',
    );
    expect(Object.fromEntries(second?.parameters ?? [])).toEqual({
      to: { from: [{ step: 1, fields: ['mails', 'from'] }] },
      cc: { literal: [1, 'x'], from: [] },
      of: { from: [{ input: 'list' }] },
    });
  });

  test.each([
    'when @a.x == 1 => @tool("x/z")',
    'when @a [ "x" => @tool("x/z") ]',
    'when [ @a.x => 1  * => @tool("x/z") ]',
    'for @one in @a => @tool("x/z")',
    'for @one in [1, 2] when @a.x => @tool("x/z")',
    'if @a.x [ let @b = 1 ] else [ @tool("x/z") ]',
    'var @b = @a.x ? @tool("x/z") : 1',
    'var @b = @a.x && @tool("x/z")',
    'var @b = @a.x || @tool("x/z")',
    'var @b = @a.x ?? @tool("x/z")',
    'when @a.x => return { done: true }\n@tool("x/z")',
    'var @b = `@a.x?`\nwhen @b => @tool("x/z")',
    'var @b = for @one in [1] [\n  when @a.x => "no"\n  => @tool("x/z")\n]',
    'var @b = [\n  if true [ when @a.x => "no" ]\n  => @tool("x/z")\n]',
    'var @b = for @one in [1] when [ @a.x => @tool("x/z") ]',
    'when 1 [ 2 || !@a.x => @tool("x/z") ]',
    'var @b = [1]\nwhen @a.x => [ @b += 1 ]\nwhen @b.length > 1 => @tool("x/z")',
  ])('%s hangs on the first step', (text) => {
    const [, second] = steps(`var @a = @tool("x/y")\n${text}`);
    expect(second?.tool).toBe('x/z');
    expect(second?.under.some((source) => 'step' in source && source.step === 1)).toBe(true);
  });
});

// Random plans, each as a text and as the pattern of its call sequence.

interface Part {
  readonly text: string;
  readonly pattern: string;
  /** True if no tool result decides about a part of the plan. */
  readonly isPlain: boolean;
}

const ids = ['a', 'b', 'c', 'd'];
let names = 0;
const value = fc.constantFrom('1', "'x'", '@in', '@in.k', '`got @in`', '[@in, 2]', '{ k: @in.k }');
const step: fc.Arbitrary<Part> = fc.tuple(fc.constantFrom(...ids), value).map(([id, given]) => ({
  text: `@tool("t/${id}", { v: ${given} })`,
  pattern: id,
  isPlain: true,
}));
const bound: fc.Arbitrary<Part> = step.map((one) => {
  names += 1;
  return { ...one, text: `var @v${names} = ${one.text}` };
});
const condition = fc.constantFrom(
  '@in',
  '@in.k',
  '@in == 1',
  '@in.k > 2',
  '!@in',
  '@in.list.length',
);
const choice: fc.Arbitrary<Part> = fc.tuple(condition, step, step).chain(([when, one, two]) =>
  fc
    .constantFrom(
      { text: `when ${when} => ${one.text}`, pattern: `(?:${one.pattern})?` },
      {
        text: `if ${when} [ ${one.text} ] else [ ${two.text} ]`,
        pattern: `(?:${one.pattern}|${two.pattern})`,
      },
      {
        text: `when [ ${when} => ${one.text}  * => ${two.text} ]`,
        pattern: `(?:${one.pattern}|${two.pattern})`,
      },
    )
    .map((part) => ({ ...part, isPlain: false })),
);
const loop: fc.Arbitrary<Part> = fc
  .tuple(step, condition)
  .chain(([one, when]) =>
    fc
      .constantFrom(
        { text: `for @i in @in.list => ${one.text}`, pattern: `(?:${one.pattern})*` },
        { text: `for @i in @in.list when ${when} => ${one.text}`, pattern: `(?:${one.pattern})*` },
      )
      .map((part) => ({ ...part, isPlain: false })),
  );
const plan = fc
  .array(fc.oneof({ arbitrary: bound, weight: 3 }, choice, loop), { minLength: 1, maxLength: 8 })
  .map((parts) => ({
    text: ['var @in = @tool("t/first", {})', ...parts.map(({ text }) => text)].join('\n'),
    pattern: new RegExp(`^${parts.map(({ pattern }) => pattern).join('')}$`),
    isPlain: parts.every(({ isPlain }) => isPlain),
    list: parts.map(({ pattern }) => pattern).join(''),
  }));
const UNTRUSTED = marksOf({ labels: ['untrusted'], taint: ['untrusted'] });

test('whatever tools give back, what is done can be read in the text', async () => {
  let [whole, plain] = [0, 0];
  const brought = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom<Json>(
      '@tool("t/evil", {})',
      { k: '@tool("t/evil")', list: ['t/evil', '`@tool("t/evil")`'] },
      { list: [1, 2, 3], k: 3 },
      '");\n@tool("t/evil", { v: "',
    ),
  );
  await fc.assert(
    fc.asyncProperty(plan, fc.infiniteStream(brought), async (made, results) => {
      expect(readPlan(made.text, []).problems).toEqual([]);
      const called: string[] = [];
      const world = createWorldFixture();
      const { fault } = await play(made.text, {
        world: {
          ...world,
          tool(id) {
            called.push(id.replace('t/', ''));
            const data = structuredClone(results.next().value ?? null) as Json;
            return ok(makeValue(data, { descriptor: UNTRUSTED }));
          },
        },
      });
      const done = called.slice(1).join('');
      if (fault === '') {
        whole += 1;
        expect(done).toMatch(made.pattern);
        if (made.isPlain) {
          plain += 1;
          expect(done).toBe(made.list);
        }
      } else if (made.isPlain) expect(made.list.startsWith(done)).toBe(true);
      expect(called.every((id) => id === 'first' || ids.includes(id))).toBe(true);
    }),
    { numRuns: runs(300) },
  );
  expect(Math.min(whole, plain)).toBeGreaterThan(10);
});
