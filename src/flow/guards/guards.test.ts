import { expect, test } from 'vitest';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { AskedAnswer, Effect, Frame, GuardSet, Input, Question, Verdict } from '../frame.ts';
import type { MaybePromise } from '../maybe.ts';
import type { Operation } from '../operation.ts';
import { childFrame, createFrame, withInfluence } from '../pipeline/create-frame.ts';
import { perform } from '../pipeline/perform.ts';
import type { Body } from '../pipeline/stages.ts';
import { describe, descriptorOfFault } from '../values/labels.ts';
import { makeValue, type Value } from '../values/value.ts';
import { isCatchableDenial } from './decision.ts';
import { defineGuard, type GuardDefinition } from './guard.ts';
import { compileGuards, type GuardSource } from './guard-expression.ts';
import { createGuardSet } from './guard-set.ts';

const show: Operation = { type: 'show', name: '', opLabels: ['op:show'], retryOwner: false };
const call: Operation = { type: 'exe', name: 'f', opLabels: ['op:exe'], retryOwner: true };
const labelled = (data: string, ...labels: string[]) =>
  makeValue(data, { descriptor: describe({ labels, sources: [`var:${data}`] }) });
const pass: Body = ([value]) => ok(value ?? makeValue(null));

function guards(...sources: Partial<GuardSource>[]): GuardSet {
  const compiled = compileGuards(
    sources.map((source) => ({
      on: 'secret',
      timing: 'before',
      verdict: { kind: 'deny', text: 'no' },
      ...source,
    })),
    { mayBePrivileged: true },
  );
  if (!compiled.ok) throw new Error(compiled.error.detail.message);
  return compiled.output;
}

function closures(...definitions: GuardDefinition[]): GuardSet {
  return createGuardSet(
    definitions.map((definition) => {
      const guard = defineGuard(definition);
      if (!guard.ok) throw new Error(guard.error.detail.message);
      return guard.output;
    }),
  );
}

function run(op: Operation, values: readonly Value[], frame: Frame, body = pass): Outcome<Value> {
  const inputs: Input[] = values.map((value, at) => ({ name: `i${at}`, value }));
  const outcome: MaybePromise<Outcome<Value>> = perform(op, inputs, body, frame);
  if (outcome instanceof Promise) throw new Error('nothing should have waited');
  return outcome;
}

const failure = (outcome: Outcome<Value>): Failure => {
  if (outcome.ok) throw new Error('should have been denied');
  return outcome;
};
const data = (outcome: Outcome<Value>) => (outcome.ok ? outcome.output.data : outcome.error.code);

test('a label guard is asked for inputs that carry its label, and for no others', () => {
  const frame = createFrame({
    guards: guards({
      name: 'noLeak',
      when: 'op.type == "show"',
      verdict: { kind: 'deny', text: 'secrets are not shown' },
    }),
  });
  expect(run(show, [labelled('x', 'public')], frame).ok).toBe(true);
  expect(run(call, [labelled('x', 'secret')], frame).ok).toBe(true);
  const denied = failure(run(show, [labelled('a'), labelled('k3y!', 'secret')], frame));
  expect(denied.error).toMatchObject({
    code: 'permission_denied',
    detail: {
      guard: '@noLeak',
      filter: 'secret',
      operation: 'show',
      reasons: ['secrets are not shown'],
      sources: ['var:[secret]'],
      input: 'i1',
    },
  });
  expect(isCatchableDenial(denied)).toBe(true);
  expect(descriptorOfFault(denied.error).labels).toEqual(['secret']);
});

test('operation filters follow the hierarchy and globs, in any case', () => {
  const tool = (id: string): Operation => ({ type: 'tool', name: id, opLabels: [`op:tool:${id}`] });
  const denies = (on: string, op: Operation) =>
    !run(op, [], createFrame({ guards: guards({ on }) })).ok;
  expect(denies('op:tool:http/*', tool('http/get'))).toBe(true);
  expect(denies('op:tool:http/*', tool('https/get'))).toBe(false);
  expect(denies('op:tool:http', tool('http/get'))).toBe(true);
  expect(denies('op:tool:ht', tool('http/get'))).toBe(false);
  expect(denies('op:tool', tool('fs/read'))).toBe(true);
  expect(denies('op:tool:*', tool('fs/read'))).toBe(true);
  expect(denies('op:*', show)).toBe(true);
  expect(denies('OP:Show'.toLowerCase(), show)).toBe(true);
  const git: Operation = { type: 'run', subtype: 'cmd', name: '', opLabels: ['op:cmd:git:push'] };
  expect(denies('op:cmd:git', git)).toBe(true);
  expect(denies('op:cmd:git:pull', git)).toBe(false);
  expect(denies('op:run:cmd', git)).toBe(true);
});

test('a function filter is asked once per call of that function', () => {
  const frame = createFrame({ guards: guards({ on: '@f' }) });
  expect(run(call, [], frame).ok).toBe(false);
  expect(run({ ...call, name: 'g' }, [], frame).ok).toBe(true);
});

test('labels of a function hold for every operation inside it', () => {
  const frame = createFrame({ guards: guards({ on: 'op:net:w' }) });
  const inside: Body = (_, scope) => perform(show, [], pass, scope.frame);
  expect(run({ ...call, labels: ['paid'] }, [], frame, inside).ok).toBe(true);
  const net: Operation = { ...show, type: 'log', opLabels: [] };
  const nested: Body = (_, scope) => {
    const inner = perform(net, [], pass, scope.frame) as Outcome<Value>;
    return inner.ok ? inner : ok(makeValue(`inner ${inner.error.detail.guard as string}`));
  };
  const outer = createFrame({ guards: guards({ on: 'op:net:w', when: 'op.type == "log"' }) });
  expect(data(run({ ...call, labels: ['net:w'] }, [], outer, nested))).toBe(
    'inner guard on op:net:w',
  );
});

test('several inputs are judged with any, all and none', () => {
  const deniedWhen = (when: string) => {
    const frame = createFrame({ guards: guards({ on: 'op:show', when }) });
    return !run(show, [labelled('ab', 'a', 'x'), labelled('abcdefgh', 'b', 'x')], frame).ok;
  };
  expect(deniedWhen('"a" in input.any.labels')).toBe(true);
  expect(deniedWhen('"a" in input.labels')).toBe(true);
  expect(deniedWhen('"a" in input.all.taint')).toBe(false);
  expect(deniedWhen('"x" in input.all.taint')).toBe(true);
  expect(deniedWhen('"a" in input.none.labels')).toBe(false);
  expect(deniedWhen('"c" in input.none.labels')).toBe(true);
  expect(deniedWhen('input.totalTokens == 3 and input.maxTokens == 2')).toBe(true);
  expect(deniedWhen('"cdef" in input.any.text')).toBe(true);
  expect(deniedWhen('"b" in input.args.i1.labels and not ("b" in input.args.i0.labels)')).toBe(
    true,
  );
});

test('deny wins over ask, ask over retry, and every reason is kept', () => {
  const deny = { on: 'op:exe', verdict: { kind: 'deny' as const, text: 'd' } };
  const ask = { on: 'op:exe', verdict: { kind: 'ask' as const, text: 'q' } };
  const retry = { on: 'op:exe', verdict: { kind: 'retry' as const, text: 'h' } };
  const replace = { on: 'op:exe', verdict: { kind: 'allow_value' as const, value: 'new' } };
  const all = failure(
    run(
      call,
      [labelled('x')],
      createFrame({ guards: guards(replace, retry, ask, deny, { on: 'op:exe' }) }),
    ),
  );
  expect(all.error.detail).toMatchObject({ reasons: ['d', 'no'], questions: ['q'], hints: ['h'] });
  expect(all.error.detail.trace).toMatchObject([
    { decision: 'allow', replacement: expect.anything() },
    { decision: 'retry' },
    { decision: 'ask' },
    { decision: 'deny' },
    { decision: 'deny' },
  ]);
  const asked: Question[] = [];
  const ports = {
    ask: (question: Question) => (asked.push(question), ok<AskedAnswer>('approved')),
  };
  const frame = createFrame({ ports, guards: guards(retry, ask, replace) });
  expect(data(run(call, [labelled('x')], frame))).toBe('new');
  expect(asked).toMatchObject([{ questions: ['q'], reasons: ['h'], phase: 'before' }]);
});

test('a question is answered by a person, or the answer is no', () => {
  const set = guards({ on: 'op:show', verdict: { kind: 'ask', text: 'really?' } });
  const answered = (answer: () => Outcome<AskedAnswer>) =>
    failure(run(show, [], createFrame({ guards: set, ports: { ask: answer } }))).error;
  expect(answered(() => ok('denied')).code).toBe('permission_denied');
  expect(answered(() => ok('pending'))).toMatchObject({
    code: 'needs_input',
    detail: { answer: 'pending' },
  });
  expect(answered(() => ok('expired')).detail.answer).toBe('expired');
  expect(answered(() => fail('internal_error', 'queue is full')).code).toBe('permission_denied');
  const alone = failure(run(show, [], createFrame({ guards: set }))).error;
  expect(alone.detail.message).toContain('nobody can be asked');
});

test('an error inside a guard denies', () => {
  const broken = createFrame({ guards: guards({ when: 'input.text < 3' }) });
  expect(failure(run(show, [labelled('x', 'secret')], broken)).error.detail.message).toMatch(
    /could not be evaluated/,
  );
  const thrown = closures({
    on: 'secret',
    timing: 'before',
    decide: () => {
      throw new Error('boom');
    },
  });
  expect(run(show, [labelled('x', 'secret')], createFrame({ guards: thrown })).ok).toBe(false);
});

test('a replacement keeps the labels of what it replaces and names its guard', () => {
  const set = guards({ name: 'mask', verdict: { kind: 'allow_value', value: '***' } });
  const outcome = run(show, [labelled('k', 'secret')], createFrame({ guards: set }));
  expect(outcome.ok && outcome.output).toMatchObject({
    data: '***',
    meta: { descriptor: { labels: ['secret'], sources: ['var:k', 'guard:@mask'] } },
  });
});

test('replacements chain: each guard sees what the one before it made', () => {
  const add = (name: string): GuardDefinition => ({
    name,
    on: 'secret',
    timing: 'before',
    decide: ({ input }) =>
      ok<Verdict>({ kind: 'allow_value', value: `${input?.value.text}${name}` }),
  });
  const frame = createFrame({ guards: closures(add('a'), add('b')) });
  expect(data(run(show, [labelled('k', 'secret')], frame))).toBe('kab');
});

test('a label guard replaces the same data once, and new labelled data again', () => {
  let asked = 0;
  const stars: GuardDefinition = {
    name: 'stars',
    on: 'pii',
    timing: 'before',
    decide: ({ input }) => (
      asked++, ok<Verdict>({ kind: 'allow_value', value: `*${input?.value.text}` })
    ),
  };
  const frame = createFrame({ guards: closures(stars) });
  const assign: Operation = { ...call, type: 'var', labels: ['pii'] };
  const first = run(assign, [labelled('Ann', 'pii')], frame);
  expect(data(first)).toBe('*Ann');
  const name = (first as { output: Value }).output;
  const join: Body = (values) => ok(makeValue(values.map(({ text }) => text).join(' ')));
  const greeting = run({ ...call, name: 'g' }, [labelled('Hi'), name], frame, join);
  expect(data(greeting)).toBe('Hi *Ann');
  expect(data(run(show, [(greeting as { output: Value }).output], frame))).toBe('Hi *Ann');
  expect(asked).toBe(3);
  const mixed = run({ ...call, name: 'g' }, [name, labelled('Bo', 'pii')], frame, join);
  expect(data(mixed)).toBe('*Ann *Bo');
  const fresh: Body = (values) =>
    ok(makeValue(`${values[0]?.text} Cy`, { descriptor: describe({ labels: ['pii'] }) }));
  const derived = run({ ...call, name: 'h' }, [name], frame, fresh);
  expect(data(run(show, [(derived as { output: Value }).output], frame))).toBe('**Ann Cy');
});

test('two guards of one name never answer for each other', () => {
  const mask = (mark: string): GuardDefinition => ({
    name: 'mask',
    on: 'pii',
    timing: 'before',
    decide: ({ input }) =>
      ok<Verdict>({ kind: 'allow_value', value: `${mark}${input?.value.text}` }),
  });
  const frame = createFrame({ guards: closures(mask('1'), mask('2')) });
  expect(data(run(show, [labelled('x', 'pii')], frame))).toBe('21x');
});

test('a list replaces inputs by position, any other value the first one', () => {
  const join: Body = (values) => ok(makeValue(values.map(({ text }) => text).join()));
  const by = (value: never) =>
    data(
      run(
        call,
        [labelled('a', 'p'), labelled('b', 'q')],
        createFrame({ guards: guards({ on: 'op:exe', verdict: { kind: 'allow_value', value } }) }),
        join,
      ),
    );
  expect(by(['x', 'y', 'z'] as never)).toBe('x,y');
  expect(by(['x'] as never)).toBe('x,b');
  expect(by('v' as never)).toBe('v,b');
});

test('retry performs the operation again, inputs anew, at most three attempts', () => {
  let evaluated = 0;
  const set = guards({
    on: 'op:exe',
    timing: 'after',
    when: 'output.data < 3',
    verdict: { kind: 'retry', text: 'more' },
  });
  const inputs: Input[] = [{ name: 'n', value: () => ok(makeValue(++evaluated)) }];
  expect(data(perform(call, inputs, pass, createFrame({ guards: set })) as Outcome<Value>)).toBe(3);
  const never = guards({ on: 'op:exe', timing: 'after', verdict: { kind: 'retry', text: 'more' } });
  let bodies = 0;
  const denied = failure(
    run(call, [], createFrame({ guards: never }), () => (bodies++, ok(makeValue(1)))),
  );
  expect(bodies).toBe(3);
  expect(denied.error.detail.message).toContain('not satisfied after 3 attempts: more');
});

test('a guard counts attempts and reads the hints of earlier ones', () => {
  const set = guards({
    on: 'op:exe',
    when: 'ctx.guard.try < 3',
    verdict: { kind: 'retry', text: 'again' },
  });
  expect(run(call, [], createFrame({ guards: set })).ok).toBe(true);
  const history = guards({
    on: 'op:exe',
    when: 'ctx.guard.hintHistory != ["h", "h"]',
    verdict: { kind: 'retry', text: 'h' },
  });
  expect(run(call, [], createFrame({ guards: history })).ok).toBe(true);
});

test('retry goes to the nearest owner; effects have none', () => {
  const set = guards({
    on: 'op:log',
    when: 'ctx.guard.try < 2',
    verdict: { kind: 'retry', text: 'h' },
  });
  const frame = createFrame({ guards: set });
  const log: Operation = { type: 'log', name: '', opLabels: [] };
  let bodies = 0;
  const inside: Body = (_, scope) => (bodies++, perform(log, [], pass, scope.frame));
  expect(run(call, [], frame, inside).ok).toBe(true);
  expect(bodies).toBe(2);
  const effect = failure(run({ ...log, retryOwner: false }, [], frame));
  expect(effect.error.detail.message).toContain('nothing here can be retried');
  const outside = failure(run(log, [], frame));
  expect(outside.error.code).toBe('permission_denied');
});

test('a pipeline stage shares its own budget with the guards inside it', () => {
  const set = guards({ on: 'op:exe', verdict: { kind: 'retry', text: 'h' } });
  const stage = childFrame(createFrame({ guards: set }), {
    retry: { attempt: 4, max: 10, hints: [] },
  });
  const { retryOwner: _, ...plain } = call;
  expect(failure(run(plain, [], stage)).error).toMatchObject({
    code: 'retry_requested',
    detail: { hint: 'h' },
  });
});

test('effects of a body wait for the after-guards', () => {
  const out: string[] = [];
  const ports = { effects: ({ text }: Effect) => void out.push(text ?? '') };
  const inner: Operation = { ...show };
  const body: Body = (_, scope) => {
    const shown = perform(
      inner,
      [],
      (__, deeper) => {
        deeper.emit({ kind: 'show', value: makeValue('x'), text: 'x' });
        return ok(makeValue('x'));
      },
      scope.frame,
    ) as Outcome<Value>;
    return shown.ok ? ok(makeValue('bad')) : shown;
  };
  const after = (kind: 'deny' | 'allow', on = 'op:exe') =>
    createFrame({ ports, guards: guards({ on, timing: 'after', verdict: { kind, text: 'no' } }) });
  run(call, [], after('deny'), body);
  expect(out).toEqual([]);
  run(call, [], after('allow'), body);
  expect(out).toEqual(['x']);
  const failing: Body = (values, scope) => {
    void body(values, scope);
    return fail('tool_failed', 'x');
  };
  run(call, [], after('deny', 'pii'), failing);
  expect(out).toEqual(['x', 'x']);
  run(call, [labelled('p', 'pii')], after('deny', 'pii'), failing);
  expect(out).toEqual(['x', 'x']);
});

test('nothing streams while a guard judges the result', () => {
  const frame = createFrame({ guards: guards({ on: 'op:exe', timing: 'after' }) });
  expect(data(run({ ...call, metadata: { stream: true } }, [], frame))).toBe('invalid_input');
});

test('while a guard runs, guards are off for what it does', () => {
  let inner = 0;
  const set = closures({
    on: 'op:exe',
    timing: 'always',
    decide: ({ frame }) => {
      inner += 1;
      const nested = perform({ ...call, name: 'clean' }, [], pass, frame) as Outcome<Value>;
      return nested.ok ? ok<Verdict>({ kind: 'allow' }) : nested;
    },
  });
  expect(run(call, [], createFrame({ guards: set })).ok).toBe(true);
  expect(inner).toBe(2);
});

test('guards may wait', async () => {
  const set = closures({
    on: 'secret',
    timing: 'always',
    decide: async ({ input, output }) =>
      ok<Verdict>({ kind: 'allow_value', value: `${(input?.value ?? output)?.text}!` }),
  });
  const outcome = await perform(
    show,
    [{ name: 'a', value: labelled('k', 'secret') }],
    pass,
    createFrame({ guards: set }),
  );
  expect(data(outcome)).toBe('k!!');
});

test('only privileged guards remove labels, and never where data came from', () => {
  const source = makeValue('k', {
    descriptor: describe({ labels: ['secret'], taint: ['src:file'] }),
  });
  const verdict = { kind: 'allow' as const, remove_labels: ['secret'] };
  const clean = run(call, [source], createFrame({ guards: guards({ privileged: true, verdict }) }));
  expect(clean.ok && clean.output.meta.descriptor.taint).toEqual(['src:file']);
  const plain = closures({
    on: 'secret',
    timing: 'before',
    decide: () => ok<Verdict>({ kind: 'allow', labels: { remove: ['secret'] } }),
  });
  expect(run(call, [source], createFrame({ guards: plain })).ok).toBe(false);
  expect(compileGuards([{ on: 'secret', timing: 'before', verdict }]).ok).toBe(false);
  const foreign = compileGuards([{ on: 'secret', timing: 'before', privileged: true, verdict }]);
  if (!foreign.ok) throw new Error(foreign.error.detail.message);
  const refused = failure(run(call, [source], createFrame({ guards: foreign.output })));
  expect(refused.error.detail.message).toContain('only signed items and policies with authority');
});

test('a statement can leave guards out, but no privileged ones and none of a policy', () => {
  const both = guards({ name: 'a', on: 'op:show' });
  const frame = childFrame(createFrame({ guards: both }), { selection: { except: ['@a'] } });
  expect(run(show, [], frame).ok).toBe(true);
  const only = childFrame(createFrame({ guards: both }), { selection: { only: [] } });
  expect(run(show, [], only).ok).toBe(true);
  const hard = guards({ name: 'a', on: 'op:show', privileged: true });
  expect(
    run(show, [], childFrame(createFrame({ guards: hard }), { selection: { only: [] } })).ok,
  ).toBe(false);
});

test('an operation is judged with the marks of the conditions it stands under', () => {
  const frame = withInfluence(
    createFrame({ guards: guards({}) }),
    describe({ labels: ['secret'] }),
  );
  expect(run(show, [], frame).ok).toBe(false);
  expect(run(show, [labelled('x')], frame).ok).toBe(false);
  const nested: Body = (_, scope) => perform(show, [], pass, scope.frame);
  expect(
    run(
      call,
      [],
      withInfluence(
        createFrame({ guards: guards({ when: 'op.type == "show"' }) }),
        describe({ labels: ['secret'] }),
      ),
      nested,
    ).ok,
  ).toBe(false);
});

test('reasons do not repeat secrets, in any usual form', () => {
  const key = 'hunter2-äß"';
  const forms = [
    key,
    Buffer.from(key).toString('base64'),
    encodeURIComponent(key),
    JSON.stringify(key),
  ];
  const set = closures({
    on: 'secret',
    timing: 'before',
    decide: () => ok<Verdict>({ kind: 'deny', text: `saw ${forms.join(' and ')}` }),
  });
  const denied = failure(run(show, [labelled(key, 'secret')], createFrame({ guards: set })));
  const shown = JSON.stringify({ ...denied.error.detail, sources: [] });
  for (const form of forms) expect(shown).not.toContain(form.replaceAll('"', ''));
  expect(denied.error.detail.message).toContain('[secret]');
});

test('a mistake in a guard is named, with the place and the likely word', () => {
  const refused = compileGuards([
    {
      on: 'secret',
      timing: 'before',
      when: 'inptu.labels',
      verdict: { kind: 'deny', text: 'x' },
      file: 'p.yaml',
      line: 3,
    },
  ]);
  expect(failure(refused as never).error.detail.message).toMatch(/p\.yaml:3: .*inptu/);
  for (const on of ['', 'op:', '@', 'a b', 'op:tool:{a,b}']) {
    expect(compileGuards([{ on, timing: 'before', verdict: { kind: 'deny', text: 'x' } }]).ok).toBe(
      false,
    );
  }
});
