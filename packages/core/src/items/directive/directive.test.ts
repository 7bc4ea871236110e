import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { fillDirectiveText } from './directive.ts';

test.each([
  ['${inputs.a} ${a} {a}', 'x x x'],
  ['${inputs.o.k} ${o.k} {o}', '1 1 {"k":1}'],
  ['${inputs.b} ${b} {b} {} ${} { a } ${ a }', '${inputs.b} ${b} {b} {} ${} { a } ${ a }'],
  [
    '{"action": "retry"} {constructor} ${inputs.__proto__}',
    '{"action": "retry"} {constructor} ${inputs.__proto__}',
  ],
  ['${n} {n}', '${n} {n}'],
  ['{f} {z}', 'false 0'],
])('%s becomes %s', (text, expected) => {
  expect(fillDirectiveText(text, { a: 'x', o: { k: 1 }, n: null, f: false, z: 0 })).toBe(expected);
});

test('what an input holds is not filled in again', () => {
  expect(fillDirectiveText('{a}', { a: '{b} ${inputs.b} $& $1', b: 'secret' })).toBe(
    '{b} ${inputs.b} $& $1',
  );
});

test('text without placeholders stays as it is', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(fillDirectiveText(text, {})).toBe(text);
    }),
  );
});
