// Tries to break what an exception may do: random policies of files and scripts, locked or not, random
// guards, in a thread and outside.
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ok } from '../../base/index.ts';
import type {
  Frame,
  GuardSet,
  GuardTiming,
  LabelRule,
  PolicyRules,
  RuleState,
  Verdict,
} from '../frame.ts';
import type { Operation } from '../operation.ts';
import { childFrame, createFrame } from '../pipeline/create-frame.ts';
import { perform } from '../pipeline/perform.ts';
import { composePolicies } from '../policies/compose.ts';
import { NAMED_RULES } from '../policies/named-rules.ts';
import type { Policy, PolicyLevel } from '../policies/policy.ts';
import { describe } from '../values/labels.ts';
import { makeValue } from '../values/value.ts';
import { defineGuard } from './guard.ts';
import { compileGuards, type GuardSource } from './guard-expression.ts';
import { createGuardSet } from './guard-set.ts';

const LABELS = ['secret', 'untrusted', 'sensitive', 'pii'];
const RULES = ['no-secret-exfil', 'no-untrusted-destructive', 'no-sensitive-exfil'];
const OP: Operation = {
  type: 'exe',
  name: 'f',
  opLabels: ['op:cmd'],
  labels: ['exfil', 'destructive'],
};

const labelRule: fc.Arbitrary<LabelRule> = fc.constantFrom<LabelRule>(
  { deny: ['op:exe'] },
  { ask: ['op:exe'] },
  { deny: ['exfil'], allow: ['op:cmd'] },
  { deny: ['op:show'] },
);
const rules: fc.Arbitrary<PolicyRules> = fc
  .record({
    labels: fc.dictionary(fc.constantFrom(...LABELS, '*'), labelRule, { maxKeys: 2 }),
    rules: fc.dictionary(
      fc.constantFrom(...RULES),
      fc.constantFrom<RuleState>('deny', 'ask', 'off'),
      { maxKeys: 2 },
    ),
    locked: fc.boolean(),
  })
  .map((given) => ({ ...given, rules: { ...given.rules } }));
const scriptRules = rules.filter(({ rules: said = {} }) =>
  Object.values(said).every((state) => state !== 'off'),
);
const files: fc.Arbitrary<Policy[]> = fc.array(
  fc
    .record({
      level: fc.constantFrom<PolicyLevel>('operator', 'user', 'project'),
      signed: fc.boolean(),
      rules,
    })
    .map(({ level, signed, rules: { labels = {}, rules: said = {} } }) => ({
      level,
      signed,
      labels,
      rules: said,
    })),
  { maxLength: 2 },
);

interface Case {
  on: string;
  timing: GuardTiming;
  privileged: boolean;
  mayLift: boolean;
  verdict: Verdict;
}
const guard: fc.Arbitrary<Case> = fc.record({
  on: fc.constantFrom('op:exe', '@f', 'op:exfil', 'untrusted', '@other', 'op:show'),
  timing: fc.constantFrom<GuardTiming>('before', 'after', 'always'),
  privileged: fc.boolean(),
  mayLift: fc.boolean(),
  verdict: fc.oneof(
    { weight: 4, arbitrary: fc.constant<Verdict>({ kind: 'allow', isSaid: true }) },
    { weight: 2, arbitrary: fc.constant<Verdict>({ kind: 'allow' }) },
    { weight: 1, arbitrary: fc.constant<Verdict>({ kind: 'allow_value', value: 'v' }) },
    { weight: 1, arbitrary: fc.constant<Verdict>({ kind: 'deny', text: 'no' }) },
  ),
});

const guardSet = (list: readonly Case[]) =>
  createGuardSet(
    list.flatMap(({ verdict, ...rest }) => {
      const made = defineGuard({ ...rest, decide: () => ok(verdict) });
      return made.ok ? [made.output] : [];
    }),
  );

const judgeAs = async (frame: Frame, labels: readonly string[]): Promise<string> => {
  const asked: string[] = [];
  const ask = () => {
    asked.push('yes');
    return ok({ answer: 'approved' } as const);
  };
  const value = makeValue('x', { descriptor: describe({ labels }) });
  const inside = childFrame(frame, { ports: { ask } });
  const outcome = await perform(OP, [{ name: 'a', value }], () => ok(makeValue(1)), inside);
  if (!outcome.ok) return 'denied';
  return asked.length > 0 ? 'asked' : 'allowed';
};

const matches = ({ on }: Case, labels: readonly string[]): boolean =>
  ['op:exe', '@f', 'op:exfil'].includes(on) || labels.includes(on);

/** The model repeats the rule of the reference and not the code. */
const isException = (one: Case): boolean =>
  one.privileged &&
  one.mayLift &&
  one.timing === 'before' &&
  ['op:exe', '@f', 'op:exfil'].includes(one.on) &&
  one.verdict.kind === 'allow' &&
  one.verdict.isSaid === true;

const narrowed = (levels: readonly Policy[], more: readonly PolicyRules[]) =>
  more.reduce((policy, one) => policy.narrowedBy(one), composePolicies(levels));

/**
 * The operator switches off every rule that only scripts and the built-in policy state. For a rule that
 * another level sets to `ask`, the question remains.
 */
const silenced = (levels: readonly Policy[], locked: readonly PolicyRules[]): Policy => {
  const said = (name: string) => [...levels, ...locked].map((one) => one.rules?.[name]);
  const left = (name: string): [string, 'ask' | 'off'][] => {
    const states = said(name);
    return states.includes('deny') ? [] : [[name, states.includes('ask') ? 'ask' : 'off']];
  };
  const rules = Object.fromEntries(NAMED_RULES.flatMap(({ name }) => left(name)));
  return { level: 'operator', rules };
};

test('an exception lifts what scripts and the product say, and nothing else', async () => {
  await fc.assert(
    fc.asyncProperty(
      files,
      fc.array(scriptRules, { maxLength: 2 }),
      fc.array(guard, { maxLength: 3 }),
      fc.subarray(LABELS),
      async (levels, scripts, guards, labels) => {
        const locked = scripts.filter((one) => one.locked);
        const isLifted = guards.some(isException);
        const policy = isLifted
          ? narrowed([...levels, silenced(levels, locked)], locked)
          : narrowed(levels, scripts);
        const denied = guards.some(
          (one) => one.verdict.kind === 'deny' && matches(one, labels) && one.timing !== 'after',
        );
        const model = denied ? 'denied' : await judgeAs(createFrame({ policy }), labels);
        const quiet = guards.filter(
          ({ timing, verdict }) => timing !== 'after' || verdict.kind !== 'deny',
        );
        const replaces = quiet.some(
          (one) => one.verdict.kind === 'allow_value' && one.timing !== 'after',
        );
        const frame = createFrame({ policy: narrowed(levels, scripts), guards: guardSet(quiet) });
        const found = await judgeAs(frame, labels);
        const full = await judgeAs(createFrame({ policy: narrowed(levels, scripts) }), labels);
        // A replaced value may be one that no guard has judged.
        if (replaces && isLifted) expect([model, full, 'denied']).toContain(found);
        else expect(found).toBe(model);
      },
    ),
    { numRuns: runs(400) },
  );
});

const allow: Case = {
  on: '@f',
  timing: 'before',
  privileged: true,
  mayLift: true,
  verdict: { kind: 'allow', isSaid: true },
};

test('what a later guard puts in the place of what was looked at is no exception', async () => {
  const policy = composePolicies([]);
  const swap: Case = { ...allow, privileged: false, verdict: { kind: 'allow_value', value: 'y' } };
  const before = guardSet([swap, allow]);
  const after = guardSet([allow, swap]);
  expect(await judgeAs(createFrame({ policy, guards: before }), ['secret'])).toBe('allowed');
  expect(await judgeAs(createFrame({ policy, guards: after }), ['secret'])).toBe('denied');
});

test('an exception is not handed down to what is done inside', async () => {
  const frame = createFrame({ guards: guardSet([allow]) });
  const value = makeValue('k', { descriptor: describe({ labels: ['secret'] }) });
  const inner: Operation = { type: 'run', name: '', opLabels: ['op:cmd'] };
  const within = async (isPart: boolean) => {
    const outcome = await perform(
      { ...OP, labels: ['exfil'] },
      [{ name: 'a', value }],
      async ([passed], scope) => {
        const inside = isPart ? childFrame(scope.frame, { isPart: true }) : scope.frame;
        const given = passed ? [{ name: 'value1', value: passed }] : [];
        return await perform(inner, given, () => ok(makeValue('done')), inside);
      },
      frame,
    );
    return outcome.ok ? outcome.output.data : outcome.error.detail.guard;
  };
  expect(await within(false)).toBe('policy:no-secret-exfil');
  expect(await within(true)).toBe('done');
});

test('a part of a call is excepted for what the guard has seen, not for what was captured', async () => {
  const frame = createFrame({ guards: guardSet([allow]) });
  const secret = (text: string) =>
    makeValue(text, { descriptor: describe({ labels: ['secret'] }) });
  const outcome = await perform(
    { ...OP, labels: ['exfil'] },
    [{ name: 'a', value: secret('seen') }],
    async (_, scope) =>
      await perform(
        { type: 'run', name: '', opLabels: ['op:cmd'] },
        [{ name: 'value1', value: secret('captured') }],
        () => ok(makeValue('done')),
        childFrame(scope.frame, { isPart: true }),
      ),
    frame,
  );
  expect(outcome.ok ? '' : outcome.error.detail.guard).toBe('policy:no-secret-exfil');
});

test('the trace names the guard and what it lifted', async () => {
  const traces: unknown[] = [];
  const frame = createFrame({ guards: guardSet([allow]) });
  const value = makeValue('k', { descriptor: describe({ labels: ['secret'] }) });
  await perform(
    OP,
    [{ name: 'a', value }],
    (_, { trace }) => {
      traces.push(...trace);
      return ok(makeValue(1));
    },
    frame,
  );
  expect(traces).toContainEqual({
    guardName: 'guard on @f',
    decision: 'lift',
    reason: 'policy:no-secret-exfil (no-secret-exfil): secrets do not leave',
    replacement: null,
  });
});

const TOOL: Operation = {
  type: 'tool',
  name: 'files/drop',
  opLabels: ['op:tool:files/drop'],
  risk: ['destructive'],
};
const DROP: GuardSource = {
  on: 'op:tool:files/drop',
  timing: 'before',
  when: 'input.args.id.text == "tmp"',
  privileged: true,
  verdict: { kind: 'allow' },
};

/** Judges as in a thread, where scripts and directives make no exceptions. */
async function dropped(policies: readonly Policy[], guards?: GuardSet, text = 'tmp') {
  const value = makeValue(text, { descriptor: describe({ labels: ['untrusted'] }) });
  const frame = createFrame({
    policy: composePolicies(policies),
    ...(guards && { guards }),
  });
  const outcome = await perform(TOOL, [{ name: 'id', value }], () => ok(makeValue(1)), frame);
  return outcome.ok ? 'dropped' : outcome.error.detail.guard;
}

test('guards of policy files with authority make exceptions in threads, for what matches', async () => {
  const RULE = 'policy:no-untrusted-destructive';
  expect(await dropped([])).toBe(RULE);
  expect(await dropped([{ level: 'user', guards: [DROP] }])).toBe('dropped');
  expect(await dropped([{ level: 'user', guards: [DROP] }], undefined, 'main')).toBe(RULE);
  expect(await dropped([{ level: 'project', signed: true, guards: [DROP] }])).toBe('dropped');
  expect(await dropped([{ level: 'project', guards: [DROP] }])).toBe(RULE);
  const { privileged: _, ...plain } = DROP;
  expect(await dropped([{ level: 'user', guards: [plain] }])).toBe(RULE);
});

test('guards of directives make none, signed or not', async () => {
  const own = compileGuards([DROP], { mayBePrivileged: true });
  expect(await dropped([], own.ok ? own.output : undefined)).toBe(
    'policy:no-untrusted-destructive',
  );
});

test('nor does a file against what a file says', async () => {
  const says: Policy = { level: 'project', rules: { 'no-untrusted-destructive': 'ask' } };
  expect(await dropped([{ level: 'user', guards: [DROP] }, says])).toBe(
    'policy:no-untrusted-destructive',
  );
});

test('a guard on a function makes none for code that calls it', async () => {
  const run: Operation = { type: 'run', name: '', opLabels: [], risk: ['exfil'], called: ['f'] };
  const value = makeValue('k', { descriptor: describe({ labels: ['secret'] }) });
  const frame = createFrame({ guards: guardSet([allow]) });
  const outcome = await perform(run, [{ name: 'a', value }], () => ok(makeValue(1)), frame);
  expect(outcome.ok ? '' : outcome.error.detail.guard).toBe('policy:no-secret-exfil');
});
