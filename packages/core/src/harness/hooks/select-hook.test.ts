import { limitsOf } from '@kernmantle/test-support/limits';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, type JsonObject } from '../../base/index.ts';
import { type ContextSchema, compileExpression } from '../../expr/index.ts';
import { EVENT_FIELDS, HOOK_CONTEXT } from '../../items/directive/hook-context.ts';
import type { Hook } from '../../items/index.ts';
import { createCostMeter } from '../limits/cost.ts';
import { contextWarning, limitEvent } from '../limits/limit.ts';
import type { CompiledHook, Thread } from '../thread/thread.ts';
import {
  afterStep,
  beforeStep,
  type CheckpointEvent,
  checkpointOf,
  onError,
} from './checkpoint.ts';
import { buildContext, compileHooks, fillInputs, select } from './select-hook.ts';

/** `fired` comes from the journal, so that a hook does not fire again after a restart. */
const createHookState = (fired: Iterable<number> = []): Set<number> => new Set(fired);

const { error } = fail('permission_denied', 'no', {
  missing: 'fs.write',
  required: ['fs.read', 'fs.write'],
});
const write = { kind: 'tool', tool: 'fs/write_file', turn: 3, arguments: { path: 'a' } } as const;

const facts = (view = () => createCostMeter(() => 0).view()): Thread =>
  ({
    place: {
      id: 't1',
      parent: undefined,
      depth: 0,
      directive: { name: 'deploy_staging', version: '1.0.0' },
      inputs: { target: 'staging' },
    },
    control: { attempt: 1 },
    budget: {
      meter: { view },
      limits: limitsOf({ turns: 10, input_tokens: 5, output_tokens: 5, context: 5 }),
    },
    rights: { own: { granted: ['fs.read', 'tool.bash'] } },
    talk: { conversation: { marks: () => ({ labels: ['untrusted'] }) } },
  }) as unknown as Thread;

const contextOf = (event: CheckpointEvent): JsonObject => buildContext(facts(), event);

test('the events have the shape conditions are written against', () => {
  expect(beforeStep(write)).toEqual({
    name: 'before_step',
    kind: 'tool',
    step: 'fs/write_file',
    turn: 3,
    tool: 'fs/write_file',
    arguments: { path: 'a' },
  });
  expect(beforeStep({ kind: 'turn', turn: 4 })).toEqual({
    name: 'before_step',
    kind: 'turn',
    step: 'turn 4',
    turn: 4,
  });
  expect(afterStep(write, { ok: true })).toEqual({
    name: 'after_step',
    kind: 'tool',
    step: 'fs/write_file',
    turn: 3,
    tool: 'fs/write_file',
    result: { ok: true },
  });
  expect(onError(error)).toEqual({
    name: 'error',
    code: 'permission_denied',
    detail: { message: 'no', missing: 'fs.write', required: ['fs.read', 'fs.write'] },
  });
});

test('every event belongs to one checkpoint', () => {
  const warning = contextWarning(0, 9, 10n, 0.8) as CheckpointEvent;
  const events = [
    beforeStep(write),
    afterStep(write, 1),
    onError(error),
    limitEvent('turns', 1n, 1n),
    warning,
  ];
  expect(events.map(checkpointOf)).toEqual([
    'before_step',
    'after_step',
    'on_error',
    'on_limit',
    'on_limit',
  ]);
});

test('the context holds exactly the names that conditions are checked against', () => {
  const names = (value: JsonObject, schema: ContextSchema): void => {
    expect(Object.keys(value).sort()).toEqual(Object.keys(schema).sort());
    for (const [name, below] of Object.entries(schema)) {
      if (typeof below === 'object' && !Array.isArray(below)) {
        names(value[name] as JsonObject, below as ContextSchema);
      }
    }
  };
  const { event: _, ...schema } = HOOK_CONTEXT;
  const { event: __, ...context } = contextOf(onError(error));
  names(context, schema);
});

test('no event has a field that conditions do not know', () => {
  const warning = contextWarning(0, 9, 10n, 0.8) as CheckpointEvent;
  for (const event of [
    beforeStep(write),
    afterStep(write, 1),
    limitEvent('turns', 1n, 1n),
    warning,
  ]) {
    for (const field of Object.keys(contextOf(event).event as JsonObject)) {
      expect(Object.keys(HOOK_CONTEXT.event as object)).toContain(field);
      expect(['name', ...EVENT_FIELDS[event.name]]).toContain(field);
    }
  }
});

test('the conditions of the first designs hold in it', () => {
  const context = contextOf(onError(error));
  const conditions = [
    'event.code == "permission_denied"',
    '"fs.write" in permissions.required',
    'event.detail.missing == "fs.write"',
    'not (cost.turns > limits.turns * 0.9)',
    'event.code in ["timeout", "permission_denied"]',
    'event.name == "error" and (event.code == "permission_denied" or event.code == "quota_exceeded")',
    '"fs.read" in token.capabilities',
    'cost.duration == cost.duration_seconds',
    'limits.spend_currency == "USD"',
    'thread.parent == null and thread.attempt == 1',
    '"untrusted" in labels',
  ];
  for (const source of conditions) {
    const expression = compileExpression(source);
    expect([source, expression.ok && expression.output.test(context)]).toEqual([
      source,
      { ok: true, output: true },
    ]);
  }
});

test('a part is made when it is read, once, and stays as it was then', () => {
  const meter = createCostMeter(() => 0);
  let reads = 0;
  const view = (): JsonObject => {
    reads += 1;
    return meter.view();
  };
  const context = buildContext(facts(view), onError(error));
  expect(reads).toBe(0);
  const before = context.cost as JsonObject;
  meter.countTurn();
  expect(context.cost).toBe(before);
  expect([reads, before.turns]).toEqual([1, 0]);
});

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
  const after = createHookState(JSON.parse(JSON.stringify([...before])) as number[]);
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

test('inputs are filled from the context; what is missing is left out, never passed as template text', () => {
  const inputs = {
    original_directive: '${directive.name}',
    missing_cap: '${event.detail.missing}',
    text: 'lost ${event.detail.nothing} of ${cost.turns}',
    all: ['${directive.inputs}'],
    absent: '${event.detail.nothing}',
    nested: { absent: '${event.detail.nothing}', plain: 'a } b' },
  };
  const [only] = compiled(hook('true', 'd', inputs));
  expect(only && fillInputs(only, denied)).toEqual({
    original_directive: 'deploy_staging',
    missing_cap: 'fs.write',
    text: 'lost  of 5',
    all: [{ target: 'x' }],
    nested: { plain: 'a } b' },
  });
});

test('a hook is asked only where it could match', () => {
  const events = (when: string): string[] => [...(compiled(hook(when))[0]?.events ?? [])];
  expect(events('event.code == "x" and cost.turns > limits.turns')).toEqual([
    'error',
    'limit',
    'warning',
  ]);
  expect(events('event.name == "after_step" and event.tool == "x"')).toEqual(['after_step']);
  expect(events('event.percent > 80')).toEqual(['warning']);
  expect(events('cost.turns > 1')).toHaveLength(5);
  expect(events('event != null')).toHaveLength(6);
});

test('where a hook is not asked it does not match, for any condition and event', () => {
  const paths = fc.constantFrom(
    ...['name', 'code', 'kind', 'step', 'turn', 'tool', 'limit', 'percent', 'detail.missing'].map(
      (field) => `event.${field}`,
    ),
    'event',
    'cost.turns',
    'limits.turns',
    'thread.parent',
    'labels',
    'token.capabilities',
  );
  const texts = ['error', 'before_step', 'turn', 'permission_denied'].map((text) => `"${text}"`);
  const values = fc.constantFrom('null', 'true', '3', '[]', ...texts);
  const { condition } = fc.letrec<{ condition: string }>((again) => ({
    condition: fc.oneof(
      { maxDepth: 3 },
      fc
        .tuple(paths, fc.constantFrom('==', '!=', '>', 'in', 'not in'), values)
        .map((parts) => parts.join(' ')),
      paths,
      again('condition').map((inner) => `not (${inner})`),
      fc
        .tuple(again('condition'), fc.constantFrom('and', 'or'), again('condition'))
        .map(([left, operator, right]) => `(${left}) ${operator} (${right})`),
    ),
  }));
  const warning = contextWarning(0, 9, 10n, 0.8) as CheckpointEvent;
  const happened = fc.constantFrom<CheckpointEvent>(
    beforeStep(write),
    beforeStep({ kind: 'turn', turn: 4 }),
    afterStep(write, { ok: true }),
    onError(error),
    limitEvent('turns', 1n, 1n),
    warning,
  );
  fc.assert(
    fc.property(condition, happened, (when, event) => {
      const [only] = compiled(hook(when));
      if (!only || only.events.has(event.name)) return;
      expect(only.expression.test(contextOf(event))).toEqual({ ok: true, output: false });
    }),
  );
});

test('a condition that cannot be read names its hook and line', () => {
  expect(compileHooks([hook('true'), hook('a &&')])).toMatchObject({
    error: {
      code: 'invalid_item',
      detail: { line: 7, message: expect.stringContaining('hook 2') },
    },
  });
});
