import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../base/index.ts';
import { fillBody } from './index.ts';

const NONE: ReadonlySet<string> = new Set();

test('filling leaves body and parameters as they were', () => {
  const body = { a: ['{x}', '{gone}'], b: 'n={x}' };
  const parameters = { x: { y: [1] } };
  const before = JSON.stringify([body, parameters]);
  expect(fillBody(body, parameters, NONE)).toEqual({
    ok: true,
    output: { a: [{ y: [1] }], b: 'n={"y":[1]}' },
  });
  expect(JSON.stringify([body, parameters])).toBe(before);
});

test('a parameter is never read as a template, whatever it holds', () => {
  const poison = fc.oneof(
    fc.constantFrom('{b}', '{', 'b}', '${SECRET}', '{a}', '{{b}}', '$'),
    fc.string(),
  );
  fc.assert(
    fc.property(poison, poison, (a, b) => {
      const filled = fillBody({ text: '<{a}{b}>', only: '{a}' }, { a, b }, NONE);
      expect(filled).toEqual({ ok: true, output: { text: `<${a}${b}>`, only: a } });
    }),
  );
});

test('every type survives a body that is exactly the placeholder', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom('{v}', ' {v}', '{v}\n'), (value, text) => {
      const filled = fillBody([text], { v: value as Json }, NONE);
      expect(filled).toEqual({ ok: true, output: [value] });
    }),
  );
});

test('text without a bare name comes back unchanged', () => {
  const garbage = fc
    .array(fc.constantFrom('{', '}', '$', ' ', '.', '1', '-', '"', '{ a }', '{a.b}', '${a}'), {
      maxLength: 30,
    })
    .map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(garbage, (text) => {
      expect(fillBody(text, { a: 'never' }, NONE)).toEqual({ ok: true, output: text });
    }),
  );
});

test('a body that would grow beyond bounds is refused', () => {
  const big = 'x'.repeat(9 * 1024 * 1024);
  const filled = fillBody(['-{big}', '-{big}'], { big }, NONE);
  expect(filled).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
});

test('bodies and parameters nested too deeply are refused', () => {
  let deep: Json = 1;
  for (let level = 0; level < 100_000; level++) deep = [deep];
  expect(fillBody(deep, {}, NONE)).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  expect(fillBody('x{deep}', { deep }, NONE)).toMatchObject({ ok: false });
});

test('long hostile texts are scanned once', () => {
  for (const unit of ['{', '{a', '{a}', '{}', '${a}']) {
    expect(fillBody(unit.repeat(200_000), { a: 'a' }, NONE).ok).toBe(true);
  }
});
