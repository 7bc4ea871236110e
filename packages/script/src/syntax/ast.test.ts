import { expect, test } from 'vitest';
import { type ActionExpression, augmentedNames, mayLeave, type Statement } from './ast.ts';
import { parseScript } from './parse.ts';

function branch(text: string): ActionExpression {
  const parsed = parseScript(`exe @f(a, n) = [\n  if @a [\n${text}\n]\n]`, {
    mode: 'strict',
    file: 'a.mld',
  });
  const [statement] = parsed.partial.body as Statement[];
  const body = statement?.kind === 'exe' && statement.body.kind === 'block' ? statement.body : null;
  const [first] = body?.body ?? [];
  const found = first?.kind === 'flow' ? first.value : first;
  if (found?.kind !== 'if') throw new Error(JSON.stringify(parsed.problems));
  return found.then;
}

test('what a branch rebinds is found behind parts that are absent', () => {
  expect(augmentedNames(branch('@n += 1'))).toEqual(['n']);
  expect(augmentedNames(branch('if @a [ @n += 1 ]'))).toEqual(['n']);
  expect(augmentedNames(branch('for @x in [1] [ @n += @x ]\nloop [ done ]'))).toEqual(['n']);
  expect(augmentedNames(branch('show @n'))).toEqual([]);
});

test('a way out is found behind parts that are absent', () => {
  expect(mayLeave(branch('if @a [ => 1 ]'), false)).toBe(true);
  expect(mayLeave(branch('when [ @a => [ if @n [ => 2 ] ] ]'), false)).toBe(true);
  expect(mayLeave(branch('show @n'), true)).toBe(false);
  // The value of an arm ends a function, but not a script.
  expect(mayLeave(branch('when @a => "x"'), true)).toBe(true);
  expect(mayLeave(branch('when @a => "x"'), false)).toBe(false);
  expect(mayLeave(branch('when @a => show "x"'), true)).toBe(false);
});
