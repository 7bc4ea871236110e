import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import { defineGuard } from '../guards/guard.ts';
import { createGuardSet } from '../guards/guard-set.ts';
import type { Operation } from '../operation.ts';
import { describe, EMPTY, mergeAll } from '../values/labels.ts';
import { makeValue, type Value } from '../values/value.ts';
import { createFrame } from './create-frame.ts';
import { perform } from './perform.ts';
import { createTrail } from './provenance.ts';

const operation = (name: string, line: number, more: Partial<Operation> = {}): Operation => ({
  type: 'exe',
  name,
  opLabels: [],
  location: { file: 'a.mld', line },
  ...more,
});

/** Performs an operation that joins its inputs. */
function makes(
  trail: ReturnType<typeof createTrail>,
  op: Operation,
  inputs: readonly Value[],
  guards = createGuardSet([]),
) {
  const frame = createFrame({ ports: { trail: trail.note }, guards });
  const named = inputs.map((value, at) => ({ name: `i${at}`, value }));
  const join = (values: readonly Value[]) =>
    ok(
      makeValue(values.map(({ text }) => text).join(), {
        descriptor: mergeAll(values.map(({ meta }) => meta.descriptor)),
      }),
    );
  return perform(op, named, join, frame);
}

const madeBy = async (...call: Parameters<typeof makes>): Promise<Value> => {
  const outcome = await makes(...call);
  if (!outcome.ok) throw new Error(outcome.error.detail.message);
  return outcome.output;
};

const file = (name: string): Value =>
  makeValue(name, { descriptor: describe({ taint: ['src:file'], sources: [`file:${name}`] }) });

test('a value leads back over its operations to where the data came in', async () => {
  const trail = createTrail();
  const read = await madeBy(trail, operation('read', 1), [file('a.txt')]);
  const other = await madeBy(trail, operation('other', 2), [file('b.txt')]);
  const unused = await madeBy(trail, operation('unused', 3), [other]);
  const both = await madeBy(trail, operation('both', 4, { labels: ['pii'] }), [read, other]);
  expect(unused).toBeDefined();
  const { from, nodes, labels, sources } = trail.ofMarks(both.meta.descriptor);
  expect(labels).toEqual(['pii']);
  expect(sources).toEqual([]);
  expect(
    nodes.map(({ operation, from: before, sources: outside }) => [operation, before, outside]),
  ).toEqual([
    ['exe read', [], ['file:a.txt']],
    ['exe other', [], ['file:b.txt']],
    ['exe both', [0, 1], []],
  ]);
  expect(from).toEqual([3]);
});

test('a refusal leads back the same way', async () => {
  const trail = createTrail();
  const read = await madeBy(trail, operation('read', 1), [file('a.txt')]);
  const guard = defineGuard({
    name: 'g',
    on: 'op:exe',
    timing: 'before',
    decide: () => ok({ kind: 'deny', text: 'no' }),
  });
  const guards = createGuardSet(guard.ok ? [guard.output] : []);
  const refused = await makes(trail, operation('send', 2), [read], guards);
  if (refused.ok) throw new Error('the guard was not asked');
  const { nodes, from } = trail.ofFault(refused.error);
  expect(from).toEqual([0]);
  expect(nodes.map(({ operation }) => operation)).toEqual(['exe read']);
});

test('what was made at a line is found again', async () => {
  const trail = createTrail();
  await madeBy(trail, operation('f', 7), [makeValue('x')]);
  expect(trail.atLine('a.mld', 7)).toHaveLength(1);
  expect(trail.atLine('a.mld', 8)).toEqual([]);
  expect(trail.atLine('b.mld', 7)).toEqual([]);
});

test('a trail that is full notes nothing more and marks nothing', () => {
  const trail = createTrail();
  for (let at = 0; at < 5000; at++) trail.note(operation('f', 1), EMPTY);
  expect(trail.note(operation('f', 1), EMPTY)).toBe(EMPTY);
  expect(trail.atLine('a.mld', 1)).toHaveLength(5000);
});

test('without a trail values carry no numbers', async () => {
  const outcome = await perform(operation('f', 1), [], () => ok(makeValue('x')), createFrame());
  if (!outcome.ok) throw new Error('nothing here fails');
  expect(outcome.output.meta.descriptor.sources).toEqual([]);
});
