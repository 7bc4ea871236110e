import { expect, test } from 'vitest';
import { fail, type JsonObject } from '../base/index.ts';
import { type ContextSchema, compileExpression } from '../expr/index.ts';
import { HOOK_CONTEXT } from '../items/index.ts';
import {
  afterStep,
  beforeStep,
  type CheckpointEvent,
  checkpointOf,
  onError,
} from './checkpoint.ts';
import { createCostMeter } from './cost.ts';
import { buildContext } from './hook-context.ts';
import { contextWarning, limitEvent, limitsView } from './limit.ts';
import { limitsOf } from './limit-fixture.ts';

const { error } = fail('permission_denied', 'no', { missing: 'fs.write' });
const write = { kind: 'tool', tool: 'fs/write_file', turn: 3, arguments: { path: 'a' } } as const;

const contextOf = (event: CheckpointEvent): JsonObject =>
  buildContext({
    event,
    directive: { name: 'deploy_staging', version: '1.0.0' },
    inputs: { target: 'staging' },
    cost: () => createCostMeter(() => 0).view(),
    limits: () =>
      limitsView(limitsOf({ turns: 10, input_tokens: 5, output_tokens: 5, context: 5 })),
    permissions: () => ({
      granted: ['fs.read', 'tool.bash'],
      required: ['fs.read', 'fs.write'],
    }),
    thread: { id: 't1', depth: 0, attempt: 1 },
    labels: () => ['untrusted'],
  });

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
    detail: { message: 'no', missing: 'fs.write' },
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
      if (typeof below === 'object') names(value[name] as JsonObject, below);
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
  const context = buildContext({
    event: onError(error),
    directive: { name: 'a', version: '1.0.0' },
    inputs: {},
    cost() {
      reads += 1;
      return meter.view();
    },
    limits: () => ({}),
    permissions: () => ({ granted: [], required: [] }),
    thread: { id: 't1', depth: 0, attempt: 1 },
    labels: () => [],
  });
  expect(reads).toBe(0);
  const before = context.cost as JsonObject;
  meter.countTurn();
  expect(context.cost).toBe(before);
  expect([reads, before.turns]).toEqual([1, 0]);
});
