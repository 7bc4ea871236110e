import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Json, type Outcome, plainText } from '../../base/index.ts';
import { fitAnswer, readShape } from './answer-shape.ts';

const NOBODY = (): undefined => undefined;

function fitted(schema: Json, answer: Json, known: readonly Json[] = []): Outcome<Json> {
  const shape = readShape(schema);
  if (!shape.ok) return shape;
  return fitAnswer(shape.output, answer, (kind, written) =>
    kind === 'file' ? known.find((one) => plainText(one) === written) : undefined,
  );
}
const fits = (schema: Json, answer: Json): boolean => fitted(schema, answer).ok;
const problem = (done: Outcome<Json>): string => (done.ok ? '' : done.error.detail.message);
const object = (properties: Record<string, Json>, required: string[] = []): Json => ({
  type: 'object',
  properties,
  required,
});

describe('schemas', () => {
  test.each<[string, Json, string]>([
    ['no type', {}, '`schema.type` must be one of'],
    ['no schema', 'integer', '`schema` must be a schema'],
    ['another type', { type: 'null' }, '`schema.type`'],
    ['several types', { type: ['string', 'null'] }, '`schema.type`'],
    ['a pattern', { type: 'string', pattern: '(a+)+' }, '`pattern`'],
    ['a reference', { $ref: '#' }, '`schema.type`'],
    ['a mistyped word', { type: 'integer', minimun: 1 }, 'did you mean `minimum`'],
    ['an unknown format', { type: 'string', format: 'email' }, '`schema.format` must be one of'],
    ['an identifier of no kind', { type: 'string', format: 'identifier' }, '`schema.kind`'],
    ['no members', { enum: [] }, '`schema.enum`'],
    ['members of another type', { type: 'integer', enum: ['1'] }, '`schema.enum`'],
    ['long members', { enum: ['x'.repeat(201)] }, '`schema.enum`'],
    ['other fields', { type: 'object', additionalProperties: true }, 'name each field'],
    ['a field that is not there', object({}, ['a']), '`schema.required`'],
    ['a bound that is none', { type: 'number', minimum: 'low' }, '`schema.minimum`'],
    ['a length beyond all', { type: 'string', maxLength: 1e9 }, '`schema.maxLength`'],
  ])('%s is refused with its place', (_, schema, words) => {
    expect(problem(fitted(schema, null))).toContain(words);
  });

  test.each(['*', '$', '__proto__', 'a b', '', '1a', 'x'.repeat(65)])(
    'a field called `%s` could not be told from others, and is refused',
    (name) => {
      const properties = Object.fromEntries([[name, { type: 'string' }]]) as Record<string, Json>;
      expect(problem(fitted(object(properties), {}))).toContain('invalid name');
    },
  );

  test('a name that stands for an identifier stands for nothing else', () => {
    const id = { type: 'string', format: 'identifier', kind: 'file' };
    const twice = object({ a: object({ id }), b: object({ id: { type: 'integer' } }) });
    expect(problem(fitted(twice, {}))).toContain('`id` is an identifier in one place');
    const other = object({ a: object({ id }), b: object({ id: { ...id, kind: 'mail' } }) });
    expect(problem(fitted(other, {}))).toContain('`id` is an identifier in one place');
    expect(problem(fitted(object({ a: object({ chain: id }) }), {}))).toContain('`chain`');
    expect(fits(object({ a: object({ id }), b: object({ id }) }), { a: {}, b: {} })).toBe(true);
  });

  test('a schema nested without end is refused', () => {
    let schema: Json = { type: 'string' };
    for (let depth = 0; depth < 5000; depth++) schema = { type: 'array', items: schema };
    expect(problem(fitted(schema, null))).toContain('nested deeper than');
  });
});

describe('answers', () => {
  test('what is optional may be missing, and is null; what is required may not', () => {
    const schema = object({ a: { type: 'string' }, b: { type: 'integer' } }, ['a']);
    expect(fitted(schema, { a: 'x' })).toEqual({ ok: true, output: { a: 'x', b: null } });
    expect(fitted(schema, { b: null, a: 'x' })).toEqual({ ok: true, output: { a: 'x', b: null } });
    expect(problem(fitted(schema, { b: 1 }))).toBe('`answer.a` is missing');
  });

  test('what is not asked for is refused, and its name is not repeated', () => {
    const done = fitted(object({ a: { type: 'string' } }), { 'SEND IT TO MALLORY': 1 });
    expect(problem(done)).toBe('`answer` has a field that the schema lacks; allowed: a');
  });

  test.each([
    ['2026-02-28', true],
    ['2024-02-29', true],
    ['2026-02-29', false],
    ['2026-13-01', false],
    ['2026-00-10', false],
    ['0000-01-01', true],
    ['2026-2-3', false],
    ['2026-02-28 ', false],
    ['2026-02-28\n', false],
    ['２０２６-02-28', false],
    ['28.02.2026', false],
  ])('the date %j: %s', (text, isOne) => {
    expect(fits({ type: 'string', format: 'date' }, text)).toBe(isOne);
  });

  test.each([
    ['2026-02-28T23:59:59Z', true],
    ['2026-02-28T23:59:59.123+02:00', true],
    ['2026-02-28T24:00:00Z', false],
    ['2026-02-28T23:59Z', false],
    ['2026-02-28 23:59:59Z', false],
    ['2026-02-30T00:00:00Z', false],
    ['2026-02-28T00:00:00', false],
    ['2026-02-28T00:00:00Zx', false],
  ])('the time %j: %s', (text, isOne) => {
    expect(fits({ type: 'string', format: 'date-time' }, text)).toBe(isOne);
  });

  test('numbers are numbers, within bounds', () => {
    expect(fits({ type: 'integer' }, 3)).toBe(true);
    for (const odd of [3.5, '3', true, 2 ** 53, Number.POSITIVE_INFINITY]) {
      expect(fits({ type: 'integer' }, odd)).toBe(false);
    }
    expect(fits({ type: 'number', minimum: 1, maximum: 2 }, 1.5)).toBe(true);
    expect(problem(fitted({ type: 'integer', minimum: 1, maximum: 5 }, 6))).toBe(
      '`answer` must be a whole number from 1 up to 5',
    );
  });

  test('an identifier is one that is known, as it was told', () => {
    const schema = { type: 'string', format: 'identifier', kind: 'file' };
    expect(fitted(schema, '12', [12])).toEqual({ ok: true, output: 12 });
    expect(fitted(schema, 12, ['12'])).toEqual({ ok: true, output: '12' });
    expect(problem(fitted(schema, 'mallory', ['12']))).toBe(
      '`answer` must be a known identifier of the kind `file`',
    );
    expect(problem(fitted({ ...schema, kind: 'mail' }, '12', ['12']))).toContain('`mail`');
  });

  test('texts and lists have bounds', () => {
    expect(fits({ type: 'string' }, 'x'.repeat(50_001))).toBe(false);
    expect(fits({ type: 'string', maxLength: 3 }, 'xxxx')).toBe(false);
    expect(fits({ type: 'array', items: { type: 'boolean' } }, Array(501).fill(true))).toBe(false);
    expect(fits({ type: 'array', items: { type: 'boolean' }, minItems: 1 }, [])).toBe(false);
  });
});

test('nothing throws, and no fault repeats what was answered', () => {
  const word = fc.constantFrom('QQQQQQQQ', 'a', 'date', '2026-01-01');
  const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
  const schema = fc.oneof(
    json,
    fc.record({
      type: fc.constantFrom('string', 'integer', 'array', 'object', 'boolean', 'number'),
      properties: fc.option(fc.dictionary(fc.constantFrom('a', 'b'), json), { nil: undefined }),
    }) as unknown as fc.Arbitrary<Json>,
    fc.constant(object({ a: { type: 'string', format: 'date' }, b: { enum: ['x', 'y'] } })),
  );
  const answer = fc.oneof(json, word, fc.dictionary(word, fc.oneof(json, word)));
  fc.assert(
    fc.property(schema, answer, (wanted, said) => {
      const shape = readShape(JSON.parse(JSON.stringify(wanted)) as Json);
      if (!shape.ok) return;
      const done = fitAnswer(shape.output, said, NOBODY);
      if (!done.ok) expect(done.error.detail.message).not.toContain('QQQQ');
    }),
    { numRuns: runs(300) },
  );
});
