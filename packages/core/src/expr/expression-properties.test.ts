// The compiler against a second reading of the specification: random trees are printed, compiled and
// evaluated, and must agree with an evaluator that is slow, obvious and shares no code with ours.
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json, JsonObject } from '../base/index.ts';
import { compileExpression } from './expression.ts';

type Tree =
  | { is: 'literal'; value: Json }
  | { is: 'path'; names: string[] }
  | { is: 'list'; items: Tree[] }
  | { is: 'unary'; op: 'not' | '-'; of: Tree }
  | { is: 'binary'; op: string; left: Tree; right: Tree };

// How tightly an operator binds, from the grammar.
const LEVELS: Readonly<Record<string, number>> = {
  or: 1,
  and: 2,
  '==': 4,
  '!=': 4,
  '<': 4,
  '>': 4,
  '<=': 4,
  '>=': 4,
  in: 4,
  'not in': 4,
  '+': 5,
  '-': 5,
  '*': 6,
  '/': 6,
};

function levelOf(tree: Tree): number {
  if (tree.is === 'binary') return LEVELS[tree.op] as number;
  if (tree.is === 'unary') return tree.op === 'not' ? 3 : 7;
  return 8;
}

/** Brackets only where the grammar needs them, so that precedence is really tested. */
function print(tree: Tree, blank: string): string {
  const inner = (child: Tree, least: number) =>
    levelOf(child) < least ? `(${print(child, blank)})` : print(child, blank);
  switch (tree.is) {
    case 'literal':
      return JSON.stringify(tree.value);
    case 'path':
      return tree.names.join('.');
    case 'list':
      return `[${tree.items.map((item) => print(item, blank)).join(`,${blank}`)}]`;
    case 'unary':
      return tree.op === 'not' ? `not${blank}${inner(tree.of, 3)}` : `-${inner(tree.of, 7)}`;
    case 'binary': {
      const level = levelOf(tree);
      const chains = level !== 4;
      const left = inner(tree.left, chains ? level : level + 1);
      return `${left}${blank}${tree.op.replace(' ', blank)}${blank}${inner(tree.right, level + 1)}`;
    }
  }
}

const FAULT = Symbol('evaluation error');

function naive(tree: Tree, context: Json): Json {
  switch (tree.is) {
    case 'literal':
      return tree.value;
    case 'path':
      return tree.names.reduce<Json>(
        (at, name) =>
          typeof at === 'object' && at !== null && !Array.isArray(at)
            ? (Object.entries(at).find(([key]) => key === name)?.[1] ?? null)
            : null,
        context,
      );
    case 'list':
      return tree.items.map((item) => naive(item, context));
    case 'unary': {
      const value = naive(tree.of, context);
      return tree.op === 'not' ? !truth(value) : zero(-asNumber(value));
    }
    case 'binary':
      return binary(tree, context);
  }
}

function binary({ op, left, right }: Tree & { is: 'binary' }, context: Json): Json {
  const a = naive(left, context);
  if (op === 'and') return truth(a) && truth(naive(right, context));
  if (op === 'or') return truth(a) || truth(naive(right, context));
  const b = naive(right, context);
  switch (op) {
    case '==':
      return same(a, b);
    case '!=':
      return !same(a, b);
    case 'in':
      return contains(a, b);
    case 'not in':
      return !contains(a, b);
    case '<':
    case '>':
    case '<=':
    case '>=':
      return ordered(op, a, b);
    default:
      return arithmetic(op, a, b);
  }
}

const truth = (value: Json): boolean =>
  !['null', 'false', '0', '""', '[]', '{}'].includes(JSON.stringify(value));

const sorted = (value: Json): Json =>
  Array.isArray(value)
    ? value.map(sorted)
    : typeof value === 'object' && value !== null
      ? Object.entries(value)
          .map(([key, item]): Json => [key, sorted(item)])
          .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
          .concat([{}])
      : value;

const same = (a: Json, b: Json): boolean => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

function contains(a: Json, b: Json): boolean {
  if (Array.isArray(b)) return b.some((item) => same(item, a));
  if (b === null) return false;
  if (typeof a === 'string' && typeof b === 'string') return b.includes(a);
  if (typeof a === 'string' && typeof b === 'object') return Object.keys(b).includes(a);
  throw FAULT;
}

function ordered(op: string, a: Json, b: Json): boolean {
  if (a === null || b === null) return false;
  let order: number;
  if (typeof a === 'number' && typeof b === 'number') order = a < b ? -1 : a > b ? 1 : 0;
  else if (typeof a === 'string' && typeof b === 'string') order = byCodePoint(a, b);
  else throw FAULT;
  return { '<': order < 0, '>': order > 0, '<=': order <= 0, '>=': order >= 0 }[op] as boolean;
}

function byCodePoint(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => Array.from(text, (char) => char.codePointAt(0) ?? 0));
  for (const [index, code] of (left ?? []).entries()) {
    const other = right?.[index];
    if (other === undefined) return 1;
    if (code !== other) return code - other;
  }
  return (left?.length ?? 0) === (right?.length ?? 0) ? 0 : -1;
}

const zero = (value: number): number => (value === 0 ? 0 : value);

function asNumber(value: Json): number {
  if (value === null) return 0;
  if (typeof value !== 'number') throw FAULT;
  return value;
}

function arithmetic(op: string, a: Json, b: Json): Json {
  if (op === '+' && typeof a === 'string' && typeof b === 'string') return `${a}${b}`;
  const [x, y] = [asNumber(a), asNumber(b)];
  const quotient = y === 0 ? 0 : x / y;
  const result = { '+': x + y, '-': x - y, '*': x * y, '/': quotient }[op] as number;
  if (!Number.isFinite(result)) throw FAULT;
  return zero(result);
}

const name = fc.constantFrom('a', 'b', 'c', 'constructor', '__proto__', 'length', 'x1');
const text = fc.oneof(
  fc.constantFrom('', 'a', 'b', 'ab', 'A', '\u{1f600}', '\uff01', '\ud83d', 'x\u{1f600}y'),
  fc.string({ maxLength: 3, unit: 'binary' }),
);
const number = fc.oneof(
  fc.constantFrom(0, 1, 2, 0.5, 3, 10),
  fc.integer({ min: 0, max: 1000 }).map((n) => n / 8),
);
const literal = fc.oneof(number, text, fc.boolean(), fc.constant(null));
const signed = fc.oneof(number, fc.constantFrom(-1, -0.5, 1e308, -1e308));

const { data } = fc.letrec<{ data: Json }>((tie) => ({
  data: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.oneof(signed, text, fc.boolean(), fc.constant(null)),
    fc.array(tie('data'), { maxLength: 3 }),
    fc.array(fc.tuple(name, tie('data')), { maxLength: 3 }).map(ownEntries),
  ),
}));

/** Also `__proto__` as an own key, which an object literal cannot make. */
function ownEntries(entries: [string, Json][]): JsonObject {
  return Object.fromEntries(entries);
}

const operator = fc.constantFrom(...Object.keys(LEVELS));
const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5, depthSize: 'medium', withCrossShrink: true },
    literal.map((value): Tree => ({ is: 'literal', value })),
    fc.array(name, { minLength: 1, maxLength: 4 }).map((names): Tree => ({ is: 'path', names })),
    fc.array(tie('tree'), { maxLength: 3 }).map((items): Tree => ({ is: 'list', items })),
    fc
      .tuple(fc.constantFrom('not' as const, '-' as const), tie('tree'))
      .map(([op, of]): Tree => ({ is: 'unary', op, of })),
    {
      weight: 4,
      arbitrary: fc
        .tuple(operator, tie('tree'), tie('tree'))
        .map(([op, left, right]): Tree => ({ is: 'binary', op, left, right })),
    },
  ),
}));

const context = fc.array(fc.tuple(name, data), { maxLength: 5 }).map(ownEntries);

/** Lone surrogates survive `JSON.stringify` as escapes; exponents do not exist in the language. */
const isWritable = (source: string): boolean => !/\de[+-]?\d/.test(source);

function reference(expression: Tree, given: Json): Json | typeof FAULT {
  try {
    return naive(expression, given);
  } catch (error) {
    if (error === FAULT) return FAULT;
    throw error;
  }
}

test('compiled expressions agree with the naive evaluator', () => {
  fc.assert(
    fc.property(tree, context, fc.constantFrom(' ', '\n', ' \t '), (expression, given, blank) => {
      const source = print(expression, blank);
      fc.pre(isWritable(source));
      const compiled = compileExpression(source);
      if (!compiled.ok) throw new Error(`${source}: ${compiled.error.detail.message}`);
      const expected = reference(expression, given);
      const value = compiled.output.value(given);
      const verdict = compiled.output.test(given);
      if (expected === FAULT) {
        expect(value).toMatchObject({ ok: false, error: { code: 'expression_error' } });
        expect(verdict).toMatchObject({ ok: false, error: { code: 'expression_error' } });
      } else {
        expect(value).toStrictEqual({ ok: true, output: expected });
        expect(verdict).toStrictEqual({ ok: true, output: truth(expected) });
      }
    }),
    { numRuns: runs(2000, 50_000) },
  );
});

test('evaluation never changes the context', () => {
  fc.assert(
    fc.property(tree, context, (expression, given) => {
      const before = JSON.stringify(given);
      const compiled = compileExpression(print(expression, ' '));
      if (compiled.ok) compiled.output.value(given);
      expect(JSON.stringify(given)).toBe(before);
    }),
    { numRuns: runs(500) },
  );
});

test('extra brackets and blanks change nothing', () => {
  fc.assert(
    fc.property(tree, context, (expression, given) => {
      const source = print(expression, ' ');
      const plain = compileExpression(source);
      const wrapped = compileExpression(` \n( (${source})\t) `);
      fc.pre(plain.ok && wrapped.ok);
      if (!plain.ok || !wrapped.ok) return;
      const [a, b] = [plain.output.value(given), wrapped.output.value(given)];
      if (a.ok) expect(b).toStrictEqual(a);
      else expect(b.ok).toBe(false);
    }),
    { numRuns: runs(500) },
  );
});

const PIECES = [
  'a b.c and or not in true null True is 1 0 . .. 5. "x" 1e5 0x _ # @ % ` &lt; =>'.split(' '),
  "\" ' \\ '\\u12 ( ) [ ] , + - * / = == ! != < > <= >= && || ; ? : $ { }".split(' '),
  [' ', '\n', '\t', '\0', 'é', '😀', '\ud800', '\u2028', '\ufeff'],
].flat();

test('no source crashes the compiler, and every fault has a place inside the source', () => {
  const garbage = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 30 }).map((pieces) => pieces.join('')),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 30 }).map((pieces) => pieces.join(' ')),
  );
  fc.assert(
    fc.property(garbage, context, (source, given) => {
      const compiled = compileExpression(source);
      if (compiled.ok) {
        expect(typeof compiled.output.test(given).ok).toBe('boolean');
        return;
      }
      const { message, column, kind } = compiled.error.detail;
      expect(kind).toBe('syntax');
      expect(column).toBeGreaterThanOrEqual(1);
      expect(column).toBeLessThanOrEqual(source.length + 1);
      expect(message).toMatch(/^[^A-Z\n].*[^.]$/);
    }),
    { numRuns: runs(2000, 50_000) },
  );
});

test('a cut expression is refused or means something, at every place', () => {
  fc.assert(
    fc.property(tree, fc.nat(), (expression, at) => {
      const source = print(expression, ' ');
      const outcome = compileExpression(source.slice(0, at % (source.length + 1)));
      expect(typeof outcome.ok).toBe('boolean');
    }),
    { numRuns: runs(2000) },
  );
});
