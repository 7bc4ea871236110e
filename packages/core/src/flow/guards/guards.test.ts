import { expect, test } from 'vitest';
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type {
  ApprovalAnswer,
  Effect,
  Frame,
  GuardSet,
  Input,
  Question,
  Verdict,
} from '../frame.ts';
import type { Operation } from '../operation.ts';
import { childFrame, createFrame } from '../pipeline/create-frame.ts';
import { perform } from '../pipeline/perform.ts';
import type { Body } from '../pipeline/stages.ts';
import { describe, descriptorOfFault } from '../values/labels.ts';
import { makeValue, type Value } from '../values/value.ts';
import { isCatchableDenial } from './decision.ts';
import { defineGuard } from './guard.ts';
import { compileGuards, type GuardSource } from './guard-expression.ts';
import { createGuardSet } from './guard-set.ts';

type GuardDefinition = Parameters<typeof defineGuard>[0];

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

function run(
  op: Operation,
  values: readonly Value[],
  frame: Frame,
  body = pass,
): Promise<Outcome<Value>> {
  const inputs: Input[] = values.map((value, at) => ({ name: `i${at}`, value }));
  return Promise.resolve(perform(op, inputs, body, frame));
}

const failure = (outcome: Outcome<Value>): Failure => {
  if (outcome.ok) throw new Error('should have been denied');
  return outcome;
};
const data = (outcome: Outcome<Value>) => (outcome.ok ? outcome.output.data : outcome.error.code);

test('a label guard is asked for inputs that carry its label, and for no others', async () => {
  const frame = createFrame({
    guards: guards({
      name: 'noLeak',
      when: 'op.type == "show"',
      verdict: { kind: 'deny', text: 'secrets are not shown' },
    }),
  });
  expect((await run(show, [labelled('x', 'public')], frame)).ok).toBe(true);
  expect((await run(call, [labelled('x', 'secret')], frame)).ok).toBe(true);
  const denied = failure(await run(show, [labelled('a'), labelled('k3y!', 'secret')], frame));
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

test('operation filters follow the hierarchy and globs, in any case', async () => {
  const tool = (id: string): Operation => ({ type: 'tool', name: id, opLabels: [`op:tool:${id}`] });
  const denies = async (on: string, op: Operation) =>
    !(await run(op, [], createFrame({ guards: guards({ on }) }))).ok;
  expect(await denies('op:tool:http/*', tool('http/get'))).toBe(true);
  expect(await denies('op:tool:http/*', tool('https/get'))).toBe(false);
  expect(await denies('op:tool:http', tool('http/get'))).toBe(true);
  expect(await denies('op:tool:ht', tool('http/get'))).toBe(false);
  expect(await denies('op:tool', tool('fs/read'))).toBe(true);
  expect(await denies('op:tool:*', tool('fs/read'))).toBe(true);
  expect(await denies('op:*', show)).toBe(true);
  expect(await denies('OP:Show'.toLowerCase(), show)).toBe(true);
  const git: Operation = { type: 'run', subtype: 'cmd', name: '', opLabels: ['op:cmd:git:push'] };
  expect(await denies('op:cmd:git', git)).toBe(true);
  expect(await denies('op:cmd:git:pull', git)).toBe(false);
  expect(await denies('op:run:cmd', git)).toBe(true);
});

test('a function filter is asked once per call of that function', async () => {
  const frame = createFrame({ guards: guards({ on: '@f' }) });
  expect((await run(call, [], frame)).ok).toBe(false);
  expect((await run({ ...call, name: 'g' }, [], frame)).ok).toBe(true);
});

test('labels of a function hold for every operation inside it', async () => {
  const frame = createFrame({ guards: guards({ on: 'op:net:w' }) });
  const inside: Body = (_, scope) => perform(show, [], pass, scope.frame);
  expect((await run({ ...call, labels: ['paid'] }, [], frame, inside)).ok).toBe(true);
  const net: Operation = { ...show, type: 'log', opLabels: [] };
  const nested: Body = async (_, scope) => {
    const inner = await perform(net, [], pass, scope.frame);
    return inner.ok ? inner : ok(makeValue(`inner ${inner.error.detail.guard as string}`));
  };
  const outer = createFrame({ guards: guards({ on: 'op:net:w', when: 'op.type == "log"' }) });
  expect(data(await run({ ...call, labels: ['net:w'] }, [], outer, nested))).toBe(
    'inner guard on op:net:w',
  );
});

test('several inputs are judged with any, all and none', async () => {
  const deniedWhen = async (when: string) => {
    const frame = createFrame({ guards: guards({ on: 'op:show', when }) });
    return !(await run(show, [labelled('ab', 'a', 'x'), labelled('abcdefgh', 'b', 'x')], frame)).ok;
  };
  expect(await deniedWhen('"a" in input.any.labels')).toBe(true);
  expect(await deniedWhen('"a" in input.labels')).toBe(true);
  expect(await deniedWhen('"a" in input.all.taint')).toBe(false);
  expect(await deniedWhen('"x" in input.all.taint')).toBe(true);
  expect(await deniedWhen('"a" in input.none.labels')).toBe(false);
  expect(await deniedWhen('"c" in input.none.labels')).toBe(true);
  expect(await deniedWhen('input.totalTokens == 3 and input.maxTokens == 2')).toBe(true);
  expect(await deniedWhen('"cdef" in input.any.text')).toBe(true);
  expect(
    await deniedWhen('"b" in input.args.i1.labels and not ("b" in input.args.i0.labels)'),
  ).toBe(true);
});

test('deny wins over ask, ask over retry, and every reason is kept', async () => {
  const deny = { on: 'op:exe', verdict: { kind: 'deny' as const, text: 'd' } };
  const ask = { on: 'op:exe', verdict: { kind: 'ask' as const, text: 'q' } };
  const retry = { on: 'op:exe', verdict: { kind: 'retry' as const, text: 'h' } };
  const replace = { on: 'op:exe', verdict: { kind: 'allow_value' as const, value: 'new' } };
  const all = failure(
    await run(
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
    ask: (question: Question) => (asked.push(question), ok<ApprovalAnswer>({ answer: 'approved' })),
  };
  const frame = createFrame({ ports, guards: guards(retry, ask, replace) });
  expect(data(await run(call, [labelled('x')], frame))).toBe('new');
  expect(asked).toMatchObject([{ questions: ['q'], reasons: ['h'], phase: 'before' }]);
});

test('a question is answered by a person, or the answer is no', async () => {
  const set = guards({ on: 'op:show', verdict: { kind: 'ask', text: 'really?' } });
  const answered = async (answer: () => Outcome<ApprovalAnswer>) =>
    failure(await run(show, [], createFrame({ guards: set, ports: { ask: answer } }))).error;
  expect((await answered(() => ok({ answer: 'denied' }))).code).toBe('permission_denied');
  expect(await answered(() => ok({ answer: 'pending' }))).toMatchObject({
    code: 'needs_input',
    detail: { answer: 'pending' },
  });
  expect((await answered(() => ok({ answer: 'expired' }))).detail.answer).toBe('expired');
  expect((await answered(() => fail('internal_error', 'queue is full'))).code).toBe(
    'permission_denied',
  );
  const alone = failure(await run(show, [], createFrame({ guards: set }))).error;
  expect(alone.detail.message).toContain('no person can answer here');
});

test('an error inside a guard denies', async () => {
  const broken = createFrame({ guards: guards({ when: 'input.text < 3' }) });
  expect(failure(await run(show, [labelled('x', 'secret')], broken)).error.detail.message).toMatch(
    /could not be evaluated/,
  );
  const thrown = closures({
    on: 'secret',
    timing: 'before',
    decide: () => {
      throw new Error('boom');
    },
  });
  expect((await run(show, [labelled('x', 'secret')], createFrame({ guards: thrown }))).ok).toBe(
    false,
  );
});

test('a replacement keeps the labels of what it replaces and names its guard', async () => {
  const set = guards({ name: 'mask', verdict: { kind: 'allow_value', value: '***' } });
  const outcome = await run(show, [labelled('k', 'secret')], createFrame({ guards: set }));
  expect(outcome.ok && outcome.output).toMatchObject({
    data: '***',
    meta: { descriptor: { labels: ['secret'], sources: ['var:k', 'guard:mask'] } },
  });
});

test('replacements chain: each guard sees what the one before it made', async () => {
  const add = (name: string): GuardDefinition => ({
    name,
    on: 'secret',
    timing: 'before',
    decide: ({ input }) =>
      ok<Verdict>({ kind: 'allow_value', value: `${input?.value.text}${name}` }),
  });
  const frame = createFrame({ guards: closures(add('a'), add('b')) });
  expect(data(await run(show, [labelled('k', 'secret')], frame))).toBe('kab');
});

test('a label guard replaces the same data once, and new labelled data again', async () => {
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
  const first = await run(assign, [labelled('Ann', 'pii')], frame);
  expect(data(first)).toBe('*Ann');
  const name = (first as { output: Value }).output;
  const join: Body = (values) => ok(makeValue(values.map(({ text }) => text).join(' ')));
  const greeting = await run({ ...call, name: 'g' }, [labelled('Hi'), name], frame, join);
  expect(data(greeting)).toBe('Hi *Ann');
  expect(data(await run(show, [(greeting as { output: Value }).output], frame))).toBe('Hi *Ann');
  expect(asked).toBe(3);
  const mixed = await run({ ...call, name: 'g' }, [name, labelled('Bo', 'pii')], frame, join);
  expect(data(mixed)).toBe('*Ann *Bo');
  const fresh: Body = (values) =>
    ok(makeValue(`${values[0]?.text} Cy`, { descriptor: describe({ labels: ['pii'] }) }));
  const derived = await run({ ...call, name: 'h' }, [name], frame, fresh);
  expect(data(await run(show, [(derived as { output: Value }).output], frame))).toBe('**Ann Cy');
});

test('two guards of one name never answer for each other', async () => {
  const mask = (mark: string): GuardDefinition => ({
    name: 'mask',
    on: 'pii',
    timing: 'before',
    decide: ({ input }) =>
      ok<Verdict>({ kind: 'allow_value', value: `${mark}${input?.value.text}` }),
  });
  const frame = createFrame({ guards: closures(mask('1'), mask('2')) });
  expect(data(await run(show, [labelled('x', 'pii')], frame))).toBe('21x');
});

test('a list replaces inputs by position, any other value the first one', async () => {
  const join: Body = (values) => ok(makeValue(values.map(({ text }) => text).join()));
  const by = async (value: never) =>
    data(
      await run(
        call,
        [labelled('a', 'p'), labelled('b', 'q')],
        createFrame({ guards: guards({ on: 'op:exe', verdict: { kind: 'allow_value', value } }) }),
        join,
      ),
    );
  expect(await by(['x', 'y', 'z'] as never)).toBe('x,y');
  expect(await by(['x'] as never)).toBe('x,b');
  expect(await by('v' as never)).toBe('v,b');
});

test('retry performs the operation again, inputs anew, at most three attempts', async () => {
  let evaluated = 0;
  const set = guards({
    on: 'op:exe',
    timing: 'after',
    when: 'output.data < 3',
    verdict: { kind: 'retry', text: 'more' },
  });
  const inputs: Input[] = [{ name: 'n', value: () => ok(makeValue(++evaluated)) }];
  expect(data(await perform(call, inputs, pass, createFrame({ guards: set })))).toBe(3);
  const never = guards({ on: 'op:exe', timing: 'after', verdict: { kind: 'retry', text: 'more' } });
  let bodies = 0;
  const denied = failure(
    await run(call, [], createFrame({ guards: never }), () => (bodies++, ok(makeValue(1)))),
  );
  expect(bodies).toBe(3);
  expect(denied.error.detail.message).toContain('not satisfied after 3 attempts: more');
});

test('a guard counts attempts and reads the hints of earlier ones', async () => {
  const set = guards({
    on: 'op:exe',
    when: 'ctx.guard.try < 3',
    verdict: { kind: 'retry', text: 'again' },
  });
  expect((await run(call, [], createFrame({ guards: set }))).ok).toBe(true);
  const history = guards({
    on: 'op:exe',
    when: 'ctx.guard.hintHistory != ["h", "h"]',
    verdict: { kind: 'retry', text: 'h' },
  });
  expect((await run(call, [], createFrame({ guards: history }))).ok).toBe(true);
});

test('retry goes to the nearest owner; effects have none', async () => {
  const set = guards({
    on: 'op:log',
    when: 'ctx.guard.try < 2',
    verdict: { kind: 'retry', text: 'h' },
  });
  const frame = createFrame({ guards: set });
  const log: Operation = { type: 'log', name: '', opLabels: [] };
  let bodies = 0;
  const inside: Body = (_, scope) => (bodies++, perform(log, [], pass, scope.frame));
  expect((await run(call, [], frame, inside)).ok).toBe(true);
  expect(bodies).toBe(2);
  const effect = failure(await run({ ...log, retryOwner: false }, [], frame));
  expect(effect.error.detail.message).toContain('nothing here can be retried');
  const outside = failure(await run(log, [], frame));
  expect(outside.error.code).toBe('permission_denied');
});

test('a pipeline stage shares its own budget with the guards inside it', async () => {
  const set = guards({ on: 'op:exe', verdict: { kind: 'retry', text: 'h' } });
  const stage = childFrame(createFrame({ guards: set }), {
    retry: { attempt: 4, max: 10, hints: [] },
  });
  const { retryOwner: _, ...plain } = call;
  expect(failure(await run(plain, [], stage)).error).toMatchObject({
    code: 'retry_requested',
    detail: { hint: 'h' },
  });
});

test('effects of a body wait for the after-guards', async () => {
  const out: string[] = [];
  const ports = { effects: ({ text }: Effect) => void out.push(text ?? '') };
  const inner: Operation = { ...show };
  const body: Body = async (_, scope) => {
    const shown = await perform(
      inner,
      [],
      (__, deeper) => {
        deeper.emit({ kind: 'show', value: makeValue('x'), text: 'x' });
        return ok(makeValue('x'));
      },
      scope.frame,
    );
    return shown.ok ? ok(makeValue('bad')) : shown;
  };
  const after = (kind: 'deny' | 'allow', on = 'op:exe') =>
    createFrame({ ports, guards: guards({ on, timing: 'after', verdict: { kind, text: 'no' } }) });
  await run(call, [], after('deny'), body);
  expect(out).toEqual([]);
  await run(call, [], after('allow'), body);
  expect(out).toEqual(['x']);
  const failing: Body = (values, scope) => {
    void body(values, scope);
    return fail('tool_failed', 'x');
  };
  await run(call, [], after('deny', 'pii'), failing);
  expect(out).toEqual(['x', 'x']);
  await run(call, [labelled('p', 'pii')], after('deny', 'pii'), failing);
  expect(out).toEqual(['x', 'x']);
});

test('nothing streams while a guard judges the result', async () => {
  const frame = createFrame({ guards: guards({ on: 'op:exe', timing: 'after' }) });
  expect(data(await run({ ...call, metadata: { stream: true } }, [], frame))).toBe('invalid_input');
});

test('while a guard runs, guards are off for what it does', async () => {
  let inner = 0;
  const set = closures({
    on: 'op:exe',
    timing: 'always',
    decide: async ({ frame }) => {
      inner += 1;
      const nested = await perform({ ...call, name: 'clean' }, [], pass, frame);
      return nested.ok ? ok<Verdict>({ kind: 'allow' }) : nested;
    },
  });
  expect((await run(call, [], createFrame({ guards: set }))).ok).toBe(true);
  expect(inner).toBe(2);
});

test('guards may wait', async () => {
  const set = closures({
    on: 'secret',
    timing: 'always',
    decide: async ({ input, output }) =>
      ok<Verdict>({ kind: 'allow_value', value: `${(input?.value ?? output)?.text}!` }),
  });
  const input = { name: 'a', value: labelled('k', 'secret') };
  const frame = createFrame({ guards: set });
  expect(data(await perform(call, [input], pass, frame))).toBe('k!!');
  // An effect has no result to judge.
  expect(data(await perform(show, [input], pass, frame))).toBe('k!');
});

test('only privileged guards remove labels, and never where data came from', async () => {
  const source = makeValue('k', {
    descriptor: describe({ labels: ['secret'], taint: ['src:file'] }),
  });
  const verdict = { kind: 'allow' as const, remove_labels: ['secret'] };
  const clean = await run(
    call,
    [source],
    createFrame({ guards: guards({ privileged: true, verdict }) }),
  );
  expect(clean.ok && clean.output.meta.descriptor.taint).toEqual(['src:file']);
  const plain = closures({
    on: 'secret',
    timing: 'before',
    decide: () => ok<Verdict>({ kind: 'allow', labels: { remove: ['secret'] } }),
  });
  expect((await run(call, [source], createFrame({ guards: plain }))).ok).toBe(false);
  expect(compileGuards([{ on: 'secret', timing: 'before', verdict }]).ok).toBe(false);
  const foreign = compileGuards([{ on: 'secret', timing: 'before', privileged: true, verdict }]);
  if (!foreign.ok) throw new Error(foreign.error.detail.message);
  const refused = failure(await run(call, [source], createFrame({ guards: foreign.output })));
  expect(refused.error.detail.message).toContain('only signed items and policies with authority');
});

test('a statement can leave guards out, but no privileged ones and none of a policy', async () => {
  const both = guards({ name: 'a', on: 'op:show' });
  const frame = childFrame(createFrame({ guards: both }), { selection: { except: ['@a'] } });
  expect((await run(show, [], frame)).ok).toBe(true);
  const only = childFrame(createFrame({ guards: both }), { selection: { only: [] } });
  expect((await run(show, [], only)).ok).toBe(true);
  const hard = guards({ name: 'a', on: 'op:show', privileged: true });
  expect(
    (await run(show, [], childFrame(createFrame({ guards: hard }), { selection: { only: [] } })))
      .ok,
  ).toBe(false);
});

test('an operation is judged with the marks of the conditions it stands under', async () => {
  const influence = describe({ labels: ['secret'] });
  const frame = childFrame(createFrame({ guards: guards({}) }), { influence });
  expect((await run(show, [], frame)).ok).toBe(false);
  expect((await run(show, [labelled('x')], frame)).ok).toBe(false);
  const nested: Body = (_, scope) => perform(show, [], pass, scope.frame);
  expect(
    (
      await run(
        call,
        [],
        childFrame(createFrame({ guards: guards({ when: 'op.type == "show"' }) }), { influence }),
        nested,
      )
    ).ok,
  ).toBe(false);
});

test('reasons do not repeat secrets, in any usual form', async () => {
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
  const denied = failure(await run(show, [labelled(key, 'secret')], createFrame({ guards: set })));
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
