import { afterEach, expect, test } from 'vitest';
import type { Json } from '../base/index.ts';
import { type CompiledExpression, compileExpression } from './expression.ts';

function compiled(source: string, maxSteps?: number): CompiledExpression {
  const outcome = compileExpression(source, maxSteps === undefined ? {} : { maxSteps });
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output;
}

function syntaxFault(source: string) {
  const outcome = compileExpression(source);
  if (outcome.ok) throw new Error(`\`${source.slice(0, 40)}\` should not compile`);
  expect(outcome.error.code).toBe('expression_error');
  expect(outcome.error.detail.kind).toBe('syntax');
  return outcome.error.detail;
}

function evaluationFault(expression: CompiledExpression, context: Json) {
  const outcomes = [expression.value(context), expression.test(context)];
  for (const outcome of outcomes) {
    if (outcome.ok) throw new Error('should not evaluate');
    expect(outcome.error.code).toBe('expression_error');
    expect(outcome.error.detail.kind).toBe('evaluation');
  }
  const [first] = outcomes;
  return first?.ok === false ? first.error.detail : undefined;
}

test('test answers with the truth of the value', () => {
  const contexts: [Json, boolean][] = [
    [null, false],
    [0, false],
    ['', false],
    [[], false],
    [{}, false],
    [false, false],
    [1, true],
    ['0', true],
    [[null], true],
    [{ a: null }, true],
  ];
  const expression = compiled('a');
  for (const [a, truth] of contexts) {
    expect(expression.test({ a })).toEqual({ ok: true, output: truth });
  }
});

test('a fault in evaluation names kinds and the place, never the values', () => {
  const detail = evaluationFault(compiled('1 + secret'), { secret: 'hunter2' });
  expect(detail).toEqual({
    kind: 'evaluation',
    column: 3,
    message: '`+` cannot combine a number with a string',
  });
});

test('paths are listed in source order, each time they are read, with their columns', () => {
  const expression = compiled('cost.turns > limits.turns * 0.9 and (not cost.turns in [a, b . c])');
  expect(expression.paths).toEqual([
    { path: ['cost', 'turns'], column: 1 },
    { path: ['limits', 'turns'], column: 14 },
    { path: ['cost', 'turns'], column: 42 },
    { path: ['a'], column: 57 },
    { path: ['b', 'c'], column: 60 },
  ]);
  expect(expression.source).toContain('limits.turns * 0.9');
});

test('columns count from the start of the source, across line ends', () => {
  expect(syntaxFault('a and\nb &&\nc').column).toBe(9);
});

test('the hundredth level of nesting is allowed, the next is not', () => {
  const wrappers: ((inner: string, depth: number) => string)[] = [
    (inner, depth) => '('.repeat(depth) + inner + ')'.repeat(depth),
    (inner, depth) => '['.repeat(depth) + inner + ']'.repeat(depth),
    (inner, depth) => 'not '.repeat(depth) + inner,
    (inner, depth) => '-'.repeat(depth) + inner,
    (inner, depth) => `${'(not '.repeat(depth / 2)}${inner}${')'.repeat(depth / 2)}`,
  ];
  for (const wrap of wrappers) {
    expect(compileExpression(wrap('a', 100)).ok).toBe(true);
    expect(compiled(wrap('a', 100)).test({ a: 1 }).ok).toBe(true);
    expect(syntaxFault(wrap('a', 102)).message).toContain('nested deeper than 100');
  }
  expect(syntaxFault(`${'('.repeat(101)}1${')'.repeat(101)}`).column).toBe(101);
});

test('siblings are not nesting', () => {
  const groups = Array.from({ length: 500 }, () => '(not [a])').join(' or ');
  expect(compiled(`${groups} or true`).test({})).toEqual({ ok: true, output: true });
});

test('a source of 64 KiB is allowed, one byte more is not', () => {
  const text = (bytes: number) => `'${'x'.repeat(bytes - 2)}'`;
  expect(compileExpression(text(65_536)).ok).toBe(true);
  expect(syntaxFault(text(65_537)).message).toBe('the expression is longer than 65536 bytes');
  expect(syntaxFault(text(65_537)).column).toBe(65_537);
});

test('the size of a source is counted in bytes', () => {
  expect(compileExpression(`'${'é'.repeat(32_767)}'`).ok).toBe(true);
  expect(syntaxFault(`'${'é'.repeat(32_768)}'`).column).toBe(32_769);
});

test('hostile sources of full length neither overflow the stack nor hang', () => {
  const full = (unit: string, end = '') =>
    unit.repeat(Math.floor((65_536 - end.length) / unit.length)) + end;
  const sources = [
    full('('),
    full('['),
    full('not '),
    full('-'),
    full('a.'),
    full('a.', 'b'),
    full('1+', '1'),
    full('1*', '1'),
    full('a and ', 'a'),
    full('a or ', 'a'),
    full('not a or ', 'a'),
    full('a==a and ', 'a'),
    full('[],'),
    `[${full('1,', '1]').slice(1)}`,
    `x in [${full("'a',", '1]').slice(6)}`,
    full('(a)'),
    full('"'),
    full("'\\u0041"),
    full('\\'),
    full('0'),
    full('9'),
    full('1.'),
    full('&'),
    full('\u00a0'),
    full('\ud800'),
    full('a '),
    full(' '),
    full('\n'),
  ];
  for (const source of sources) {
    const outcome = compileExpression(source);
    if (!outcome.ok) expect(outcome.error.detail.column).toBeGreaterThan(0);
    else expect([true, false]).toContain(outcome.output.test({ a: { a: 1 } }).ok);
  }
});

test('a long chain keeps its order', () => {
  expect(compiled(`${'1+'.repeat(20_000)}1`).value({})).toEqual({ ok: true, output: 20_001 });
  expect(compiled(`a${'-1'.repeat(20_000)}`).value({ a: 5 })).toEqual({
    ok: true,
    output: -19_995,
  });
  expect(compiled(`${'a and '.repeat(10_000)}b`).test({ a: 1, b: 0 })).toEqual({
    ok: true,
    output: false,
  });
});

test('an expression larger than its budget is refused, whatever it would short-circuit', () => {
  const source = 'true or a or b or c';
  expect(evaluationFault(compiled(source, 3), {})?.message).toContain('step budget');
  expect(compiled(source, 5).test({})).toEqual({ ok: true, output: true });
});

test('work on data is paid for from the budget', () => {
  const list = Array.from({ length: 2000 }, (_, index) => index);
  const keyed = Object.fromEntries(list.map((index) => [`k${index}`, index]));
  const text = 'x'.repeat(40_000);
  const expensive: [string, Json][] = [
    ['-1 in a', { a: list }],
    ['a == b', { a: list, b: [...list] }],
    ['a == b', { a: keyed, b: { ...keyed } }],
    ['not a', { a: keyed }],
    ['a == b', { a: text, b: `${text.slice(1)}x` }],
    ['a < b', { a: text, b: text }],
    ['a in b', { a: 'y', b: text }],
    ['a + a', { a: text }],
    ['a in b', { a: text, b: {} }],
  ];
  for (const [source, context] of expensive) {
    const detail = evaluationFault(compiled(source, 1000), context);
    expect(detail?.message).toBe('the evaluation takes too many steps');
    expect(compiled(source).value(context).ok).toBe(true);
  }
});

test('the budget is full again for every evaluation', () => {
  const expression = compiled('5 in a', 20);
  const context = { a: [1, 2, 3, 4, 5] };
  for (let round = 0; round < 100; round++) {
    expect(expression.test(context)).toEqual({ ok: true, output: true });
  }
});

test('joining a text to itself cannot fill the memory', () => {
  const detail = evaluationFault(compiled(`a${' + a'.repeat(10_000)}`), { a: 'x'.repeat(100_000) });
  expect(detail?.message).toBe('the evaluation takes too many steps');
});

test('values too deep to compare are a fault, not a crash', () => {
  const deep = (levels: number): Json => {
    let value: Json = [];
    for (let level = 0; level < levels; level++) value = [value];
    return value;
  };
  expect(compiled('a == b').test({ a: deep(500), b: deep(500) })).toEqual({
    ok: true,
    output: true,
  });
  const detail = evaluationFault(compiled('a == b'), { a: deep(50_000), b: deep(50_000) });
  expect(detail?.message).toContain('nested deeper than');
});

test('a context that is no JSON is a fault at worst', () => {
  const trap = new Proxy(
    {},
    {
      getOwnPropertyDescriptor() {
        throw new Error('boo');
      },
      get() {
        throw new Error('boo');
      },
    },
  ) as Json;
  const cycle: { self?: Json } = {};
  cycle.self = cycle as Json;
  const other: { self?: Json } = {};
  other.self = other as Json;
  expect(evaluationFault(compiled('a'), trap)?.message).toBe('the context cannot be read');
  expect(evaluationFault(compiled('a.b'), trap)?.message).toBe('the context cannot be read');
  evaluationFault(compiled('a == b'), { a: cycle as Json, b: other as Json });
  expect(compiled('a.b').value({ a: { b: undefined as unknown as Json } })).toEqual({
    ok: true,
    output: null,
  });
});

test('members of a prototype are not read, at any length of path', () => {
  const parent = { a: 1, b: { c: { d: 1 } } };
  const heir = Object.create(parent) as Json;
  for (const source of ['a', 'b.c', 'b.c.d']) {
    expect(compiled(source).value(heir)).toEqual({ ok: true, output: null });
  }
  const inside = { x: Object.create({ y: 1 }) as Json, n: Object.create(null) as Json };
  expect(compiled('x.y').value(inside)).toEqual({ ok: true, output: null });
  expect(compiled('n.toString').value(inside)).toEqual({ ok: true, output: null });
  const bare = Object.assign(Object.create(null) as { [key: string]: Json }, { y: 2 });
  expect(compiled('x.y').value({ x: bare })).toEqual({ ok: true, output: 2 });
});

afterEach(() => {
  Reflect.deleteProperty(Object.prototype, 'polluted');
});

test('a polluted Object.prototype changes nothing, even after compilation', () => {
  const expression = compiled('a.polluted');
  const context = { a: { b: 1 } };
  for (let round = 0; round < 20_000; round++) expression.value(context);
  Reflect.defineProperty(Object.prototype, 'polluted', { value: 'evil', configurable: true });
  expect(expression.value(context)).toEqual({ ok: true, output: null });
  expect(compiled('polluted').value({})).toEqual({ ok: true, output: null });
  expect(expression.value({ a: { polluted: 'own' } })).toEqual({ ok: true, output: 'own' });
});

test('a list is new for every evaluation', () => {
  const expression = compiled('[1, [2]]');
  const first = expression.value({});
  if (first.ok && Array.isArray(first.output)) first.output.push(3);
  expect(expression.value({})).toEqual({ ok: true, output: [1, [2]] });
});

test('messages stay on one line and short, whatever the source', () => {
  const long = 'x'.repeat(60_000);
  const sources = [
    `a ${long}`,
    `1${long}`,
    `'\n\\\n'`,
    'a \n\n ;\u2028',
    `f ${long}()`,
    `a.${long}(`,
  ];
  for (const source of sources) {
    const { message, hint } = syntaxFault(source);
    const shown = `${message}${typeof hint === 'string' ? hint : ''}`;
    expect(shown).not.toMatch(/[\n\r\u2028]/);
    expect(shown.length).toBeLessThan(300);
  }
});
