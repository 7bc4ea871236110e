// Property: no function on values loses a mark or changes its input.
import type { Json } from '@kernmantle/core/base';
import { describe, EMPTY, makeContainer, makeValue, type Value } from '@kernmantle/core/flow';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withOrigin, withText } from '../../../core/src/flow/values/value.ts';
import { ScriptFault } from '../fault.ts';
import { fieldOf, indexOf, sliceOf } from './access.ts';
import { itemsOf, parseJsonText, stageInput } from './data.ts';
import { absent, keepOf, ownMarks } from './kinds.ts';
import { mxOf } from './metadata.ts';
import { callMethod, LIST_METHODS, TEXT_METHODS } from './methods.ts';
import { augment, equals, minus, negate, operatorFunction } from './operators.ts';
import { TRANSFORMERS } from './transforms.ts';

const MARKS = ['secret', 'pii', 'untrusted', 'src:file', 'net:w'];
const descriptor = fc
  .uniqueArray(fc.constantFrom(...MARKS), { maxLength: 2 })
  .map((labels) => describe({ labels }));

const plain: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(
    '',
    'a',
    'b\na',
    '[1, 2]',
    '{"a": 1}',
    '# A\nx',
    '|a|\n|-|\n|1|',
    '-1',
    null,
  ),
  fc.integer({ min: -3, max: 5 }),
  fc.boolean(),
  fc.string({ maxLength: 5 }),
);

const { value } = fc.letrec<{ value: Value; leaf: Value; list: Value; object: Value }>((tie) => ({
  leaf: fc.tuple(plain, descriptor).map(([data, marks]) => makeValue(data, { descriptor: marks })),
  list: fc
    .tuple(fc.array(tie('value'), { maxLength: 4 }), descriptor)
    .map(([parts, own]) => makeContainer(parts, own)),
  object: fc
    .tuple(fc.dictionary(fc.constantFrom('a', 'b', 'mx', '0'), tie('value')), descriptor)
    .map(([parts, own]) => makeContainer(new Map(Object.entries(parts)), own)),
  value: fc.oneof(
    { depthSize: 'small' },
    tie('leaf'),
    tie('list'),
    tie('object'),
    descriptor.map((marks) => absent(marks)),
    fc
      .tuple(fc.jsonValue({ maxDepth: 1 }), descriptor)
      .map(([data, marks]) => makeValue(data as Json, { descriptor: marks, text: ' own ' })),
  ),
}));

const taintOf = ({ meta }: Value): readonly string[] => meta.descriptor.taint;

/** Returns the result of the function; `undefined` if it fails. */
function attempt(work: () => Value): Value | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof ScriptFault) return undefined;
    throw error;
  }
}

/** Returns the same result or fault after a possible wait. */
async function answered(work: () => Value | Promise<Value>): Promise<() => Value> {
  try {
    const value = await work();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function expectMarks(work: () => Value, inputs: readonly Value[]): void {
  const before = JSON.stringify(inputs.map(({ data, text }) => [data, text]));
  const result = attempt(work);
  expect(JSON.stringify(inputs.map(({ data, text }) => [data, text]))).toBe(before);
  if (!result) return;
  const kept = new Set(taintOf(result));
  expect(inputs.flatMap(taintOf).filter((mark) => !kept.has(mark))).toEqual([]);
}

const settings = { numRuns: runs(100, 3000) };

test('operators carry the marks of both sides', () => {
  fc.assert(
    fc.property(value, value, (left, right) => {
      for (const operator of ['+', '-', '*', '/', '%'] as const) {
        expectMarks(() => operatorFunction(operator)(left, right), [left, right]);
      }
      for (const operator of ['<', '>', '<=', '>='] as const) {
        expectMarks(() => operatorFunction(operator)(left, right), [left, right]);
      }
      expectMarks(() => equals(left, right), [left, right]);
      expectMarks(() => negate(left), [left]);
      expectMarks(() => minus(left), [left]);
    }),
    settings,
  );
});

test('adding to a value loses only what an object replaces', () => {
  fc.assert(
    fc.property(value, value, (left, right) => {
      const isMerge = typeof left.data === 'object' && !Array.isArray(left.data);
      expectMarks(() => augment(left, right), isMerge ? [right] : [left, right]);
    }),
    settings,
  );
});

test('transformers and the ways from text to data carry the marks of what they are given', async () => {
  const port = { exists: () => ({ found: true, descriptor: EMPTY }) };
  await fc.assert(
    fc.asyncProperty(value, async (input) => {
      for (const transformer of TRANSFORMERS.values()) {
        const all = [transformer, ...(transformer.variants?.values() ?? [])];
        for (const { call } of all) expectMarks(await answered(() => call([input], port)), [input]);
      }
      for (const same of [parseJsonText, stageInput, keepOf, mxOf]) {
        expectMarks(() => same(input), [input]);
      }
      expectMarks(() => withOrigin(withText(input, 't'), { a: 1 }), [input]);
    }),
    settings,
  );
});

// Functions that select elements: the result has their marks and those of the whole list.
const PICKING = new Set(['slice', 'at']);

test('methods carry the marks of receiver and arguments, elements exactly their own', () => {
  const names = fc.constantFrom(
    ...new Set([...TEXT_METHODS.keys(), ...LIST_METHODS.keys()]),
    'isNull',
  );
  fc.assert(
    fc.property(value, names, fc.array(value, { maxLength: 2 }), (receiver, name, args) => {
      const isExact = Array.isArray(receiver.data) && PICKING.has(name);
      // An argument that a list method ignores does not mark the result.
      const used = name === 'length' || name === 'reverse' || name === 'sort' ? [] : args;
      const whole = isExact ? [makeValue(null, { descriptor: ownMarks(receiver) })] : [receiver];
      expectMarks(() => callMethod(receiver, name, args), [...whole, ...used]);
    }),
    { numRuns: runs(1000, 30_000) },
  );
});

test('what is taken out has the marks of the whole and of the index', () => {
  const name = fc.constantFrom('a', 'b', '0', '-1', 'mx', 'text', 'length', 'keep', 'missing');
  const mode = fc.constantFrom('strict' as const, 'lenient' as const);
  fc.assert(
    fc.property(value, name, value, mode, (subject, field, index, how) => {
      const whole = makeValue(null, { descriptor: ownMarks(subject) });
      expectMarks(() => fieldOf(subject, field, how), [whole]);
      expectMarks(() => fieldOf(mxOf(subject), field, how), [whole]);
      expectMarks(() => indexOf(subject, index, how), [whole, index]);
      expectMarks(() => sliceOf(subject, index, undefined), [whole, index]);
    }),
    settings,
  );
});

test('items of a loop have the marks of the whole, together those of everything', () => {
  fc.assert(
    fc.property(value, (collection) => {
      attempt(() => {
        const items = itemsOf(collection).map((item) => item.value);
        for (const item of items)
          expect(taintOf(item)).toEqual(expect.arrayContaining([...ownMarks(collection).taint]));
        expect(new Set(items.flatMap(taintOf)).size).toBe(
          items.length === 0 ? 0 : new Set(taintOf(collection)).size,
        );
        return collection;
      });
    }),
    settings,
  );
});
