import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../base/index.ts';
import type { Hook } from '../items/index.ts';
import { type CompiledHook, compileHooks, createHookState, fillInputs, select } from './hook.ts';

const hook = (when: string, directive = 'd', inputs: JsonObject = {}): Hook => ({
  when,
  directive,
  inputs,
  line: 7,
  column: 3,
});

function compiled(...hooks: Hook[]): readonly CompiledHook[] {
  const result = compileHooks(hooks);
  if (!result.ok) throw new Error(result.error.detail.message);
  return result.output;
}

const denied = {
  event: { name: 'error', code: 'permission_denied', detail: { missing: 'fs.write' } },
  directive: { name: 'deploy_staging', inputs: { target: 'x' } },
  cost: { turns: 5 },
  limits: { turns: 10 },
};

test('the first match in document order wins', () => {
  const hooks = compiled(
    hook('event.code == "timeout"', 'a'),
    hook('event.code == "permission_denied"', 'b'),
    hook('event.name == "error"', 'c'),
  );
  expect(select(hooks, denied, createHookState()).hook?.hook.directive).toBe('b');
});

test('nothing matches when no condition holds', () => {
  const selection = select(compiled(hook('event.code == "x"')), denied, createHookState());
  expect(selection).toEqual({ errors: [] });
});

test('a condition that cannot be evaluated did not match, and is reported', () => {
  const hooks = compiled(hook('event.code > 3', 'bad'), hook('event.name == "error"', 'good'));
  const { hook: chosen, errors } = select(hooks, denied, createHookState());
  expect(chosen?.hook.directive).toBe('good');
  expect(errors).toMatchObject([{ hook: { directive: 'bad' } }]);
});

test('a condition about the event fires for every event', () => {
  const hooks = compiled(hook('event.name == "error"'));
  const state = createHookState();
  for (let times = 0; times < 3; times++) expect(select(hooks, denied, state).hook).toBeDefined();
});

test('a condition about figures fires when it becomes true, and again after it was false', () => {
  const hooks = compiled(hook('cost.turns > limits.turns * 0.9'));
  const state = createHookState();
  const fires = [5, 10, 11, 12, 3, 10, 10].map(
    (turns) => select(hooks, { cost: { turns }, limits: { turns: 10 } }, state).hook !== undefined,
  );
  expect(fires).toEqual([false, true, false, false, false, true, false]);
});

test('a hook that has fired for its edge is passed over and the next match is tried', () => {
  const hooks = compiled(hook('cost.turns > 1', 'first'), hook('event.name == "error"', 'second'));
  const state = createHookState();
  const context = { ...denied, cost: { turns: 2 } };
  expect(select(hooks, context, state).hook?.hook.directive).toBe('first');
  expect(select(hooks, context, state).hook?.hook.directive).toBe('second');
});

test('a hook that another one kept from firing still fires at the next chance', () => {
  const hooks = compiled(hook('event.name == "error"', 'first'), hook('cost.turns > 1', 'second'));
  const state = createHookState();
  const calm = { event: { name: 'before_step' }, cost: { turns: 2 } };
  expect(select(hooks, { ...denied, cost: { turns: 2 } }, state).hook?.hook.directive).toBe(
    'first',
  );
  expect(select(hooks, calm, state).hook?.hook.directive).toBe('second');
});

test('the end of an edge is seen behind a hook that matched first', () => {
  const hooks = compiled(hook('event.name == "error"', 'first'), hook('cost.turns > 1', 'second'));
  const state = createHookState();
  const at = (turns: number, name: string) =>
    select(hooks, { event: { name }, cost: { turns } }, state).hook?.hook.directive;
  expect(at(2, 'before_step')).toBe('second');
  expect(at(0, 'error')).toBe('first');
  expect(at(2, 'before_step')).toBe('second');
});

test('what fired before a restart does not fire again after it', () => {
  const hooks = compiled(hook('cost.turns > 1'));
  const before = createHookState();
  select(hooks, { cost: { turns: 2 } }, before);
  const after = createHookState(JSON.parse(JSON.stringify([...before.fired])) as number[]);
  expect(select(hooks, { cost: { turns: 2 } }, after).hook).toBeUndefined();
});

test('edges fire once per rise, for any course of the figures', () => {
  const hooks = compiled(hook('cost.turns > 5'));
  fc.assert(
    fc.property(fc.array(fc.nat(10)), (course) => {
      const state = createHookState();
      const fired = course.filter((turns) => select(hooks, { cost: { turns } }, state).hook);
      const rises = course.filter((turns, at) => turns > 5 && !((course[at - 1] ?? 0) > 5));
      expect(fired).toEqual(rises);
    }),
  );
});

test('inputs are filled from the context; what is missing stays as it was written', () => {
  const inputs = {
    original_directive: '${directive.name}',
    missing_cap: '${event.detail.missing}',
    text: 'lost ${event.detail.nothing} of ${cost.turns}',
    all: ['${directive.inputs}'],
  };
  const [only] = compiled(hook('true', 'd', inputs));
  expect(only && fillInputs(only, denied)).toEqual({
    original_directive: 'deploy_staging',
    missing_cap: 'fs.write',
    text: 'lost ${event.detail.nothing} of 5',
    all: [{ target: 'x' }],
  });
});

test('a condition that cannot be read names its hook and line', () => {
  expect(compileHooks([hook('true'), hook('a &&')])).toMatchObject({
    error: {
      code: 'invalid_item',
      detail: { line: 7, message: expect.stringContaining('hook 2') },
    },
  });
});
