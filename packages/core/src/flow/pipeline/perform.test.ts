import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { type Failure, fail, type Outcome, ok, withDetail } from '../../base/index.ts';
import type { Ports } from '../frame.ts';
import { contextOf } from '../guards/context.ts';
import { defineGuard } from '../guards/guard.ts';
import { createGuardSet } from '../guards/guard-set.ts';
import type { Operation } from '../operation.ts';
import { describe, descriptorOfFault, EMPTY } from '../values/labels.ts';
import { elementOf, makeContainer, makeValue, type Value } from '../values/value.ts';
import type { ActPorts, CheckpointVerdict, RecordEntry } from './act-ports.ts';
import { childFrame, createFrame } from './create-frame.ts';
import { perform } from './perform.ts';
import type { Body } from './stages.ts';

const op: Operation = { type: 'tool', name: 'x', opLabels: ['op:tool:x'] };
const secret = makeValue('k', {
  descriptor: describe({ labels: ['secret'], sources: ['file:key'] }),
});

const failure = (outcome: Outcome<Value>): Failure => {
  if (outcome.ok) throw new Error('should have failed');
  return outcome;
};

test('the stages come in the fixed order', async () => {
  const seen: string[] = [];
  const note = <T>(name: string, answer: T): T => (seen.push(name), answer);
  const own: ActPorts = {
    gate: () => note('gate', ok(null)),
    limits: {
      reserve: () =>
        note('reserve', ok({ settle: () => note('settle', undefined), release: () => {} })),
    },
    keep: () => note('keep', undefined),
    record: () => note('record', undefined),
    checkpoint: ({ name }) => note(name, undefined),
  };
  const ports: Ports = {
    scriptHooks: {
      before: () => note('hook before', undefined),
      after: () => note('hook after', undefined),
    },
  };
  const inputs = [{ name: 'a', value: () => note('input', ok(makeValue(1))) }];
  const outcome = await perform(
    op,
    inputs,
    () => note('body', ok(makeValue(2))),
    createFrame({ ports }),
    own,
  );
  expect(outcome.ok).toBe(true);
  expect(seen).toEqual([
    'input',
    'before_step',
    'gate',
    'reserve',
    'hook before',
    'body',
    'hook after',
    'keep',
    'after_step',
    'settle',
    'record',
  ]);
});

test('the result carries inputs, declared labels, captured values, the source label and its own', async () => {
  const source: Operation = { ...op, labels: ['paid'], source: 'src:cmd', sources: ['command:ls'] };
  const outcome = await perform(
    source,
    [{ name: 'a', value: secret }],
    (_, scope) => {
      scope.capture(makeValue(1, { descriptor: describe({ labels: ['captured'] }) }));
      return ok(makeValue(2, { descriptor: describe({ labels: ['own'] }) }));
    },
    childFrame(createFrame(), { influence: describe({ labels: ['condition'] }) }),
  );
  const { descriptor } = (outcome as { output: Value }).output.meta;
  expect(descriptor.labels.toSorted()).toEqual(['captured', 'condition', 'own', 'paid', 'secret']);
  expect(descriptor.taint).toContain('src:cmd');
  expect(descriptor.sources.toSorted()).toEqual(['command:ls', 'file:key']);
  expect(descriptor.capability).toBe('tool');
});

test('an assignment keeps the exact marks of elements', async () => {
  const pair = makeContainer([secret, makeValue(1)]);
  const outcome = await perform(
    op,
    [{ name: 'v', value: pair }],
    ([v]) => ok(v as Value),
    createFrame(),
  );
  const { output } = outcome as { output: Value };
  expect(elementOf(output, 1).meta.descriptor).toBe(EMPTY);
  expect(output.meta.descriptor.labels).toEqual(['secret']);
});

test('nothing thrown anywhere gets out', async () => {
  const boom = () => {
    throw new Error('boom\nsecond line');
  };
  const reject = () => Promise.reject(new Error('boom'));
  const body = () => ok(makeValue(1));
  const own: ActPorts[] = [
    { gate: boom },
    { gate: reject },
    { limits: { reserve: boom } },
    { record: boom },
    { record: reject },
    { checkpoint: boom },
    { limits: { reserve: () => ok({ settle: boom, release: boom }) } },
  ];
  for (const port of own) {
    const outcome = await perform(op, [], body, createFrame(), port);
    expect(failure(outcome).error.code).toBe('internal_error');
  }
  const ports: Ports[] = [{ scriptHooks: { before: boom } }, { scriptHooks: { after: reject } }];
  for (const port of ports) {
    const outcome = await perform(op, [], body, createFrame({ ports: port }));
    expect(failure(outcome).error.code).toBe('internal_error');
  }
  for (const broken of [boom, reject]) {
    const outcome = await perform(op, [{ name: 'a', value: secret }], broken, createFrame());
    const { error } = failure(outcome);
    expect(error.detail.message).toBe('tool x failed: boom');
    expect(descriptorOfFault(error).labels).toEqual(['secret']);
  }
  const input = await perform(op, [{ name: 'a', value: reject }], body, createFrame());
  expect(failure(input).error.code).toBe('internal_error');
});

test('a promise of another realm is waited for', async () => {
  const foreign = runInNewContext('(value) => Promise.resolve(value)') as (
    value: Outcome<Value>,
  ) => Promise<Outcome<Value>>;
  const answer = foreign(ok(makeValue(3)));
  expect(answer).not.toBeInstanceOf(Promise);
  const outcome = await perform(op, [], () => answer, createFrame());
  expect(outcome.ok && outcome.output.data).toBe(3);
});

test('what is done inside an act is not asked, counted or recorded as the act', async () => {
  const seen: string[] = [];
  const note = (name: string): undefined => void seen.push(name);
  const own: ActPorts = {
    gate: (asked) => (note(`gate ${asked.name}`), ok(null)),
    limits: {
      reserve: (asked) => (note(`reserve ${asked.name}`), ok({ settle() {}, release() {} })),
    },
    checkpoint: (_event, asked) => note(`checkpoint ${asked.name}`),
    record: (entry) => note(`record ${entry.op.name}`),
  };
  const inner: Operation = { ...op, name: 'inner' };
  const body: Body = (_, scope) => perform(inner, [], () => ok(makeValue(1)), scope.frame);
  expect((await perform(op, [], body, createFrame(), own)).ok).toBe(true);
  expect(new Set(seen)).toEqual(new Set(['checkpoint x', 'gate x', 'reserve x', 'record x']));
});

test('a refused gate ends before anything is reserved, and cannot be caught', async () => {
  const own: ActPorts = {
    gate: () => fail('permission_denied', 'no', { missing: 'fs.write' }),
    limits: { reserve: () => fail('internal_error', 'never asked') },
  };
  const { error } = failure(await perform(op, [], () => ok(secret), createFrame(), own));
  expect(error.detail).toMatchObject({ missing: 'fs.write' });
  expect(error.detail.guard).toBeUndefined();
});

test('a reservation is settled when the body ran and released when it did not', async () => {
  const calls: string[] = [];
  const own: ActPorts = {
    limits: {
      reserve: () =>
        ok({
          settle: (outcome) => void calls.push(`settle ${outcome.ok}`),
          release: () => void calls.push('release'),
        }),
    },
  };
  const frame = createFrame();
  await perform(op, [], () => ok(makeValue(1)), frame, own);
  await perform(op, [], () => fail('tool_failed', 'x'), frame, own);
  const exfil: Operation = { ...op, risk: ['exfil'] };
  await perform(exfil, [{ name: 'a', value: secret }], () => ok(makeValue(1)), frame, own);
  expect(calls).toEqual(['settle true', 'settle false', 'release']);
});

test('checkpoints: error, limit, and what their verdicts do', async () => {
  const events: string[] = [];
  let left = 0;
  let bodies = 0;
  const verdicts: Record<string, CheckpointVerdict | undefined> = {};
  const own: ActPorts = {
    limits: {
      reserve: () =>
        left-- > 0
          ? ok({ settle: () => {}, release: () => {} })
          : fail('turns_exceeded', 'no turn is left'),
    },
    checkpoint(event) {
      events.push(event.name);
      if (event.name === 'limit') left = 1;
      return verdicts[event.name];
    },
  };
  const frame = createFrame();
  const body = () => (bodies++ === 0 ? fail('tool_failed', 'once') : ok(makeValue('done')));
  verdicts.limit = { action: 'retry' };
  verdicts.error = { action: 'retry' };
  const outcome = await perform(op, [{ name: 'a', value: secret }], body, frame, own);
  expect(outcome.ok && outcome.output.data).toBe('done');
  expect(events).toEqual(['before_step', 'limit', 'error', 'before_step', 'limit', 'after_step']);
  verdicts.before_step = { action: 'end', outcome: ok(makeValue('skipped')) };
  const skipped = await perform(op, [{ name: 'a', value: secret }], body, frame, own);
  expect(skipped.ok && [skipped.output.data, skipped.output.meta.descriptor.labels]).toEqual([
    'skipped',
    ['secret'],
  ]);
});

test('a checkpoint that always repeats is stopped, and every reservation is settled', async () => {
  let [open, recorded] = [0, 0];
  const own: ActPorts = {
    checkpoint: () => ({ action: 'retry' }),
    limits: { reserve: () => (open++, ok({ settle: () => void open--, release: () => {} })) },
    record: () => void recorded++,
  };
  const outcome = await perform(op, [], () => ok(makeValue(1)), createFrame(), own);
  expect(outcome.ok).toBe(false);
  expect([open, recorded]).toEqual([0, 21]);
});

test('a guard repeats the same act, a checkpoint begins another', async () => {
  const counted = { before_step: 0, intent: 0, reserve: 0, settle: 0, run: 0, body: 0, audit: 0 };
  let asksAgain = true;
  const guard = defineGuard({
    on: 'op:tool',
    timing: 'after',
    decide: () => ok(counted.body < 3 ? { kind: 'retry', text: 'more' } : { kind: 'allow' }),
  });
  const own: ActPorts = {
    intent: () => (counted.intent++, ok(null)),
    limits: {
      reserve: () => (
        counted.reserve++, ok({ settle: () => void counted.settle++, release: () => {} })
      ),
    },
    run: async (body) => (counted.run++, await body()),
    audit: () => void counted.audit++,
    checkpoint({ name }) {
      if (name === 'before_step') counted.before_step++;
      if (name !== 'after_step' || !asksAgain) return undefined;
      asksAgain = false;
      return { action: 'retry' };
    },
  };
  const done = await perform(
    { ...op, retryOwner: true },
    [],
    () => (counted.body++, ok(makeValue(counted.body))),
    createFrame({ guards: createGuardSet(guard.ok ? [guard.output] : []) }),
    own,
  );
  expect(done.ok && done.output.data).toBe(4);
  // Three bodies of the first act, for the guard; one of the second, for the checkpoint.
  expect(counted).toEqual({
    before_step: 2,
    intent: 2,
    reserve: 2,
    settle: 2,
    run: 4,
    body: 4,
    audit: 4,
  });
});

test('an act is counted before the gate refuses it, and told of after it was noted', async () => {
  const seen: string[] = [];
  const own: ActPorts = {
    intent: () => (seen.push('intent'), ok(null)),
    gate: () => (seen.push('gate'), fail('permission_denied', 'no')),
    limits: { reserve: () => fail('turns_exceeded', 'never asked') },
    audit: () => void seen.push('audit'),
    checkpoint: ({ name }) => void seen.push(name),
    explain: (given) => withDetail(given, { where: 'here' }),
  };
  const refused = failure(await perform(op, [], () => ok(secret), createFrame(), own));
  expect(refused.error).toMatchObject({ code: 'permission_denied', detail: { where: 'here' } });
  expect(seen).toEqual(['before_step', 'intent', 'gate', 'audit', 'error']);
});

test('a place for effects that throws, or an operation that is none, is a fault too', async () => {
  const ports: Ports = {
    effects() {
      throw new Error('disk full');
    },
  };
  const guard = defineGuard({
    on: 'op:tool',
    timing: 'after',
    decide: () => ok({ kind: 'allow' }),
  });
  const guards = createGuardSet(guard.ok ? [guard.output] : []);
  for (const frame of [createFrame({ ports }), createFrame({ ports, guards })]) {
    for (const wait of [false, true]) {
      const body: Body = (_, scope) => {
        scope.emit({ kind: 'show', value: secret });
        return wait ? Promise.resolve(ok(secret)) : ok(secret);
      };
      expect(failure(await perform(op, [], body, frame)).error.code).toBe('internal_error');
    }
  }
  const none = await perform({} as Operation, [], () => ok(secret), createFrame());
  expect(failure(none).error.code).toBe('internal_error');
});

test('marks of a fault survive added detail and never show in JSON', async () => {
  const body = () => fail('tool_failed', 'cannot read k');
  const outcome = failure(await perform(op, [{ name: 'a', value: secret }], body, createFrame()));
  const above = withDetail(outcome, { chain: ['x'] });
  expect(descriptorOfFault(above.error).labels).toEqual(['secret']);
  expect(JSON.stringify(above)).not.toContain('file:key');
});

test('ctx shows the operation, its arguments and the state its pipeline ended in', async () => {
  const entries: RecordEntry[] = [];
  const own: ActPorts = { record: (entry) => void entries.push(entry) };
  const inner: unknown[] = [];
  const inputs = [
    {
      name: 'v',
      value: (note: { pipe(state: never): void; frame: Parameters<typeof contextOf>[0] }) => {
        inner.push(contextOf(note.frame).op);
        note.pipe({ try: 3, stage: 2 } as never);
        return ok(makeValue('x'));
      },
    },
  ];
  const frame = createFrame({ ctx: { cost: () => ({ turns: 2 }) } });
  await perform({ ...op, type: 'var' }, inputs, ([v]) => ok(v as Value), frame, own);
  const ctx = contextOf((entries[0] as RecordEntry).frame);
  expect(ctx).toMatchObject({
    op: { type: 'var', name: 'x' },
    operation: { type: 'var' },
    pipe: { try: 3, stage: 2, hint: null },
    try: 3,
    args: { v: 'x' },
    cost: { turns: 2 },
    denied: false,
  });
  expect(inner).toMatchObject([{ type: 'var' }]);
  expect(contextOf(frame)).toMatchObject({ op: null, try: 1, tries: [], isPipeline: false });
});

test('parallel branches do not see each other', async () => {
  const frame = createFrame();
  const branch = (index: number) =>
    perform(
      op,
      [],
      async (_, scope) => {
        await Promise.resolve();
        const inner = childFrame(scope.frame, { ctx: { for: { index } } });
        await Promise.resolve();
        return ok(makeValue((contextOf(inner).for as { index: number }).index));
      },
      frame,
    );
  const outcomes = await Promise.all([0, 1, 2].map(async (index) => await branch(index)));
  expect(outcomes.map((outcome) => outcome.ok && outcome.output.data)).toEqual([0, 1, 2]);
});

test('what the body gave is kept before a checkpoint hears of it, also what a guard refused', async () => {
  const guard = defineGuard({
    on: 'op:tool',
    timing: 'after',
    decide: () => ok({ kind: 'deny', text: 'no' }),
  });
  const kept: string[] = [];
  const own: ActPorts = {
    keep: ({ outcome }) => void kept.push(outcome.ok ? 'given' : outcome.error.code),
    checkpoint: ({ name }) => (kept.push(name), undefined),
  };
  const run = (guards: Parameters<typeof createGuardSet>[0]) =>
    perform(op, [], () => ok(makeValue(1)), createFrame({ guards: createGuardSet(guards) }), own);
  await run([]);
  const refused = failure(await run(guard.ok ? [guard.output] : []));
  expect(kept).toEqual([
    'before_step',
    'given',
    'after_step',
    'before_step',
    refused.error.code,
    'error',
  ]);
});
