import { expect, test } from 'vitest';
import { isBounded } from './js-bounded.ts';
import { scanJs } from './js-scan.ts';

const judge = (source: string, parameters: readonly string[] = ['x']): boolean =>
  isBounded(source, scanJs(source) ?? [], parameters);

test.each([
  'x + 1',
  'return x.trim().toUpperCase() + "!"',
  'const n = Number(x); n * 2',
  '`a ${x.length} b`',
  'x.map((n) => n * 2).filter(n => n > 1).join(", ")',
  'x.reduce((a, b) => a + b, 0)',
  'if (x > 1) { return "a" } else { return x[0] }',
  '({ k: x, l: [1, 2], m: Math.max(x, 3) })',
  'JSON.stringify(x)',
  'String(x).split("a").length',
])('%j cannot take long', (source) => {
  expect(judge(source)).toBe(true);
});

test.each([
  'for (;;);',
  'while (x) x--',
  'do { x } while (x)',
  'x()',
  'x.call(x)',
  'x["map"](1)',
  'x[x]',
  '/(a+)+$/.test(x)',
  'const f = (n) => f(n - 1) + f(n - 2); f(x)',
  'const o = { map: (n) => o.map(n) + o.map(n) }; o.map(1)',
  'const o = { map: ((n) => o.map(n)) }; o.map(1)',
  'const o = { map(n) { return o.map(n) } }; o.map(1)',
  'const o = { toString: () => x }; `${o}`',
  '((f) => f(f))((f) => f(f))',
  'x.map((a) => x.map((b) => a + b))',
  'x.map((a) => { return x.filter((b) => b === a) })',
  'x.constructor',
  'new Array(1e9)',
  'Array.from({ length: 1e9 })',
  '"a".repeat(1e9)',
  'String.raw`a`',
  'x`a`',
  'function f() {}',
  'async () => 1',
  'await x',
  'globalThis.y = 1',
  'this.y',
  'y + 1',
  '',
])('%j is not known to end soon', (source) => {
  expect(judge(source)).toBe(false);
});

test('a parameter with the name of a modifier opens no way to a getter', () => {
  const source = 'const o = { get String() { return o.String + o.String } }; o.String';
  expect(judge(source, ['get'])).toBe(false);
});
