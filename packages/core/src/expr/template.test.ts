import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../base/index.ts';
import { fillTemplate, templatePaths } from './template.ts';

test('the paths of a text come with their offsets', () => {
  expect(templatePaths('run ${directive.name} for ${inputs.to}: ${ no } ${a')).toEqual([
    { path: ['directive', 'name'], offset: 4 },
    { path: ['inputs', 'to'], offset: 26 },
  ]);
  expect(templatePaths('')).toEqual([]);
});

test('filling leaves the input as it was', () => {
  const input = { a: ['${x}'], b: { c: '-${x}' } };
  const before = JSON.stringify(input);
  expect(fillTemplate(input, { x: 1 })).toEqual({ a: [1], b: { c: '-1' } });
  expect(JSON.stringify(input)).toBe(before);
});

test('placeholders are filled where they stand, whatever stands between them', () => {
  const filler = fc.oneof(
    fc.constantFrom('${', '}', '$', '{a}', ' ', '${ a }', '${a.}', '${gone}', 'a}'),
    fc.string({ maxLength: 4 }),
  );
  fc.assert(
    fc.property(fc.array(filler, { minLength: 2, maxLength: 6 }), (fillers) => {
      // A blank on both sides, so that no filler joins a placeholder or another filler.
      const joined = (between: string) => fillers.join(` ${between} `);
      const filled = fillTemplate(joined('${b.c}'), { b: { c: '${a}' }, a: 'never' });
      const expected = joined('${a}');
      fc.pre(!fillers.some((text) => text.includes('${a}') || text.includes('${b}')));
      expect(filled).toBe(expected);
    }),
  );
});

test('a value is never read as a template, whatever it holds', () => {
  const poison = fc.oneof(
    fc.constantFrom('${secret}', '$', '{', '${', 'secret}', '${a}', '${${secret}}', '{secret}'),
    fc.string(),
  );
  fc.assert(
    fc.property(poison, poison, fc.constantFrom('', 'x', '$', ' '), (a, b, between) => {
      const context = { a, b, secret: 'hunter2' };
      const filled = fillTemplate(`${between}\${a}${between}\${b}${between}`, context);
      expect(filled).toBe(`${between}${a}${between}${b}${between}`);
      expect(fillTemplate('${a}', context)).toBe(a);
    }),
  );
});

test('no text crashes the scan, and text without a placeholder comes back unchanged', () => {
  const garbage = fc
    .array(fc.constantFrom('$', '{', '}', 'a', '.', ' ', '\0', '\ud800', '_', '1'), {
      maxLength: 40,
    })
    .map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(garbage, (text) => {
      expect(fillTemplate(text, {})).toBe(text);
      for (const { path, offset } of templatePaths(text)) {
        expect(text.startsWith(`\${${path.join('.')}}`, offset)).toBe(true);
      }
    }),
    { numRuns: runs(2000) },
  );
});

test('long hostile texts are scanned once', () => {
  for (const unit of ['${', '${a', '${a.', '${a.a.', '$', '${}', '${a}']) {
    const text = unit.repeat(200_000);
    expect(fillTemplate(text, {})).toBe(text);
  }
});

test('what would become too long stays as written', () => {
  const big = 'x'.repeat(6 * 1024 * 1024);
  const filled = fillTemplate(['-${big}', '-${big}', '-${big}', '-${small}'], { big, small: 's' });
  expect(filled).toEqual([`-${big}`, `-${big}`, '-${big}', '-${small}']);
});

test('data too deep to be text stays as written, and deep input comes back', () => {
  let deep: Json = '${a}';
  for (let level = 0; level < 100_000; level++) deep = [deep];
  expect(fillTemplate('-${deep}', { deep })).toBe('-${deep}');
  expect(Array.isArray(fillTemplate(deep, { a: 1 }))).toBe(true);
});
