import type { Json } from '@kernmantle/core/base';
import { expect, test } from 'vitest';
import type { ToolFacts } from './metadata.ts';
import { sourcesOf } from './sources.ts';
import { pickFor, stepsOf } from './steps.ts';

const facts = (tool: string): ToolFacts => ({
  effect: 'read',
  risk: [],
  parameters: tool === 'use' ? { it: { kind: 'order' } } : {},
  result: tool === 'orders' ? { kinds: { id: 'order' } } : {},
  directory: false,
});
const RECORDS = [
  { id: 7, count: 7, name: 'Rent of March', note: 'see www.page.example for 98.70 on 2022-03-07' },
  { id: 8, count: 3, name: 'Tea', note: 'of ann@example.org' },
];
const task = (prompt: string, it: Json) => ({
  id: 'one',
  prompt,
  answer: '',
  calls: [
    { tool: 'orders', args: {}, result: RECORDS },
    { tool: 'use', args: { it }, result: null },
  ],
});
const sourceOf = (prompt: string, it: Json) => sourcesOf(task(prompt, it), facts)[1]?.it;

test('what the user has said is written, as a whole and not as a part of something', () => {
  expect(sourceOf("Change Ann's order", 'Ann')).toMatchObject({ at: 'literal' });
  expect(sourceOf('It costs 8.00', 8)).toMatchObject({ at: 'literal' });
  expect(sourceOf('My account is CA1330187', 8)).toMatchObject({ at: 'field' });
  expect(sourceOf('Rented cars', 'Rent of March')).toMatchObject({ at: 'field' });
});

test('what nobody has said or told is made up', () => {
  expect(sourceOf('Do it', 'something else')).toEqual({ at: 'literal', value: 'something else' });
  expect(sourceOf('Do it', 22)).toMatchObject({ at: 'literal' });
  expect(sourceOf('Do it', true)).toMatchObject({ at: 'literal' });
});

test('what was told is handed on: from a field of its kind, else out of a text', () => {
  expect(sourceOf('Do it', 7)).toMatchObject({ at: 'field', path: ['result', 0, 'id'] });
  expect(sourceOf('Do it', 'www.page.example')).toMatchObject({
    at: 'text',
    path: ['result', 0, 'note'],
  });
  expect(sourceOf('Do it', 98.7)).toMatchObject({ at: 'text', path: ['result', 0, 'note'] });
  expect(sourceOf('Do it', [8, 'x'])).toMatchObject({
    at: 'list',
    items: [{ at: 'field', path: ['result', 1, 'id'] }, { at: 'literal' }],
  });
});

test('each text is read by a step before the call that needs it, as narrowly as it can be', () => {
  const read = task('Do it', { where: 'www.page.example', much: 98.7 });
  const steps = stepsOf(read, sourcesOf(read, facts));
  expect(steps.map(({ id }) => id)).toEqual(['u0', 'x1_0', 'x1_1', 'u1']);
  expect(steps[1]).toMatchObject({ schema: { type: 'string' } });
  expect(steps[2]).toMatchObject({ schema: { type: 'number' } });
});

test('a record is picked by a word that was said, where that tells it from the others', () => {
  const path = ['result', 0, 'id'];
  expect(pickFor(task('Change the Rent', 7), 0, path)).toEqual({
    list: ['result'],
    where: 'name',
    is: 'Rent',
    rest: ['id'],
  });
  expect(pickFor(task('Change it', 7), 0, path)).toBeUndefined();
});
