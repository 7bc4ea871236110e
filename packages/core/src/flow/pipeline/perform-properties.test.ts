import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { Frame, GuardSet, GuardTiming, LabelRule, Objection, Verdict } from '../frame.ts';
import { decisionOf } from '../guards/decision.ts';
import { defineGuard } from '../guards/guard.ts';
import { createGuardSet } from '../guards/guard-set.ts';
import type { Operation } from '../operation.ts';
import { composePolicies } from '../policies/compose.ts';
import { NAMED_RULES } from '../policies/named-rules.ts';
import type { Policy } from '../policies/policy.ts';
import {
  carries,
  type Descriptor,
  describe,
  descriptorOfFault,
  EMPTY,
  mergeAll,
} from '../values/labels.ts';
import { makeContainer, makeValue, type Value } from '../values/value.ts';
import { childFrame, createFrame } from './create-frame.ts';
import { perform } from './perform.ts';

const LABELS = ['secret', 'untrusted', 'pii', 'a:b', 'a'];
const marks: fc.Arbitrary<Descriptor> = fc
  .record({
    labels: fc.subarray(LABELS),
    taint: fc.subarray(['src:file', 'src:cmd', 'dir:/x']),
    sources: fc.subarray(['file:1', 'tool:2', 'command:3']),
  })
  .map(describe);

/** A tree of operations: each node performs its children as inputs, captures some, waits or not. */
interface Node {
  marks: Descriptor;
  declared: string[];
  influence: Descriptor;
  children: Node[];
  captures: Descriptor[];
  waits: boolean;
  fails: boolean;
}

const { tree } = fc.letrec<{ tree: Node }>((tie) => ({
  tree: fc.record({
    marks,
    declared: fc.subarray(['x', 'y']),
    influence: marks,
    children: fc.oneof(
      { depthSize: 'small', maxDepth: 3 },
      fc.constant<Node[]>([]),
      fc.array(tie('tree'), { maxLength: 3 }),
    ),
    captures: fc.array(marks, { maxLength: 2 }),
    waits: fc.boolean(),
    fails: fc.integer({ max: 20, min: 0 }).map((number) => number === 0),
  }),
}));

const verdict: fc.Arbitrary<Verdict> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Verdict>({ kind: 'allow' }) },
  { weight: 4, arbitrary: fc.constant<Verdict>({ kind: 'allow_value', value: 'new' }) },
  { weight: 1, arbitrary: fc.constant<Verdict>({ kind: 'deny', text: 'd' }) },
  { weight: 1, arbitrary: fc.constant<Verdict>({ kind: 'retry', text: 'r' }) },
  { weight: 1, arbitrary: fc.constant<Verdict>({ kind: 'ask', text: 'q' }) },
);

const guardSet: fc.Arbitrary<GuardSet> = fc
  .array(
    fc.record({
      on: fc.constantFrom(...LABELS, 'src:exec', 'op:node', 'op:x', '@n'),
      timing: fc.constantFrom<GuardTiming>('before', 'after', 'always'),
      verdict,
      waits: fc.boolean(),
      throws: fc.integer({ min: 0, max: 20 }),
    }),
    { maxLength: 4 },
  )
  .map((list) =>
    createGuardSet(
      list.map(({ on, timing, verdict, waits, throws }) => {
        const made = defineGuard({
          on,
          timing,
          decide() {
            if (throws === 0) throw new Error('broken guard');
            return waits ? Promise.resolve(ok(verdict)) : ok(verdict);
          },
        });
        if (!made.ok) throw new Error(made.error.detail.message);
        return made.output;
      }),
    ),
  );

function act(node: Node, frame: Frame): Promise<Outcome<Value>> {
  const inside = childFrame(frame, { influence: node.influence });
  return Promise.resolve(
    perform(
      { type: 'exe', name: 'n', labels: node.declared, opLabels: ['op:node'], retryOwner: true },
      node.children.map((child, at) => ({ name: `${at}`, value: () => act(child, inside) })),
      (_, scope) => {
        for (const captured of node.captures) scope.capture(captured);
        const result = node.fails
          ? fail('tool_failed', 'no')
          : ok(makeValue('leaf', { descriptor: node.marks }));
        return node.waits ? Promise.resolve(result) : result;
      },
      inside,
    ),
  );
}

/** Everything that must be found on the result of a tree that went through. */
const expected = (node: Node): Descriptor =>
  mergeAll([
    node.marks,
    node.influence,
    describe({ labels: node.declared }),
    ...node.captures,
    ...node.children.map(expected),
  ]);

function includes(found: Descriptor, wanted: Descriptor): void {
  for (const kind of ['labels', 'taint', 'sources'] as const) {
    expect(found[kind]).toEqual(expect.arrayContaining([...wanted[kind]]));
  }
}

test('what perform returns carries every mark that went in, whatever guards do', async () => {
  let passed = 0;
  await fc.assert(
    fc.asyncProperty(tree, guardSet, async (root, guards) => {
      const frame = createFrame({ guards, ports: { ask: () => ok({ answer: 'approved' }) } });
      const outcome = await act(root, frame);
      if (outcome.ok) {
        passed += 1;
        includes(outcome.output.meta.descriptor, expected(root));
      } else includes(descriptorOfFault(outcome.error), root.influence);
    }),
    { numRuns: runs(500, 15_000) },
  );
  expect(passed).toBeGreaterThan(runs(30, 1000));
});

test('a fault carries the marks of everything its operation was given', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(marks, { maxLength: 4 }), fc.boolean(), async (list, waits) => {
      const inputs = list.map((descriptor, at) => ({
        name: `${at}`,
        value: makeValue(at, { descriptor }),
      }));
      const failure = fail('tool_failed', 'no');
      const body = () => (waits ? Promise.resolve(failure) : failure);
      const outcome = await perform(
        { type: 'exe', name: 'n', opLabels: [] },
        inputs,
        body,
        createFrame(),
      );
      if (outcome.ok) throw new Error('should have failed');
      includes(descriptorOfFault(outcome.error), mergeAll(list));
    }),
  );
});

test('the strictest verdict decides, in whatever order the guards stand', () => {
  const kinds: Objection[] = ['deny', 'ask', 'retry'];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...kinds)), (list) => {
      const findings = list.map((kind) => ({
        kind,
        guard: '',
        filter: '',
        text: '',
        input: '',
        sources: [],
      }));
      expect(decisionOf(findings)).toBe(kinds.find((kind) => list.includes(kind)) ?? 'allow');
    }),
  );
});

const patterns = fc.subarray([
  'op:tool',
  'op:tool:a',
  'op:tool:a/b',
  'op:tool:*/b',
  'exfil',
  'op:*',
]);
const rule: fc.Arbitrary<LabelRule> = fc.record(
  { deny: patterns, ask: patterns, allow: patterns },
  { requiredKeys: [] },
);
const policy: fc.Arbitrary<Policy> = fc.record(
  {
    level: fc.constantFrom('operator' as const, 'user' as const, 'project' as const),
    labels: fc.dictionary(fc.constantFrom('secret', 'pii', '*'), rule),
    rules: fc.dictionary(
      fc.constantFrom(...NAMED_RULES.map(({ name }) => name)),
      fc.constantFrom('deny' as const, 'ask' as const, 'off' as const),
    ),
    unsigned: fc.constantFrom('allow' as const, 'restrict' as const),
    sandbox: fc.constantFrom('none' as const, 'required' as const),
    install: fc.constantFrom('allow' as const, 'ask' as const, 'deny' as const),
    hosts: fc.subarray(['localhost', '10.*', '*']),
    limits: fc.dictionary(fc.constantFrom('turns', 'spend'), fc.integer({ min: 0, max: 9 })),
    surfaces: fc.dictionary(
      fc.constant('mcp'),
      fc.record({
        effects: fc.subarray(['read' as const, 'idempotent' as const, 'write' as const]),
        directives: fc.constantFrom('none' as const, 'signed' as const, 'all' as const),
      }),
    ),
  },
  { requiredKeys: ['level'] },
);

/** How much a policy in force leaves open, as numbers that may only fall. */
function openness(policies: readonly Policy[]): number[] {
  const composed = composePolicies(policies);
  const value = makeValue('x', {
    descriptor: describe({ labels: ['secret', 'pii', 'untrusted'] }),
  });
  const ops = ['a/b', 'a/c', 'd/b'].flatMap((name): Operation[] => [
    { type: 'tool', name, opLabels: [`op:tool:${name}`] },
    { type: 'tool', name, opLabels: [`op:tool:${name}`], risk: ['exfil', 'destructive'] },
  ]);
  const judged = ops.map((op) => {
    const inputs = [{ name: 'a', role: undefined, value }];
    const decision = decisionOf(composed.judge(op, [], inputs, describe({})));
    return ['deny', 'ask', 'retry', 'allow'].indexOf(decision);
  });
  return [
    ...judged,
    Number(composed.allowsUnsigned),
    Number(composed.sandbox === 'none'),
    ['deny', 'ask', 'allow'].indexOf(composed.install),
    ['none', 'signed', 'all'].indexOf(composed.directives('mcp')),
    composed.effects('mcp').length,
    ...['localhost', '10.0.0.1', 'db'].map((host) => Number(composed.isHostAllowed(host))),
    ...['turns', 'spend'].map((name) => Number(composed.limits[name] ?? 1e9)),
  ];
}

function neverWider(before: readonly number[], after: readonly number[]): void {
  for (const [at, open] of after.entries()) expect(open).toBeLessThanOrEqual(before[at] as number);
}

test('a stranger project never widens what the others leave', () => {
  fc.assert(
    fc.property(fc.array(policy, { maxLength: 3 }), policy, (above, extra) => {
      neverWider(openness(above), openness([...above, { ...extra, level: 'project' }]));
    }),
    { numRuns: runs(300, 10_000) },
  );
});

test('where a level has spoken, no other level widens it', () => {
  fc.assert(
    fc.property(policy, policy, (one, other) => {
      const mcp = { effects: ['read' as const], directives: 'signed' as const };
      const full: Policy = {
        unsigned: 'restrict',
        sandbox: 'required',
        install: 'ask',
        hosts: [],
        ...one,
        level: 'operator',
        surfaces: { mcp: one.surfaces?.mcp ?? mcp },
        rules: Object.fromEntries(
          NAMED_RULES.map(({ name }) => [name, one.rules?.[name] ?? 'deny']),
        ),
      };
      neverWider(openness([full]), openness([full, other]));
    }),
    { numRuns: runs(300, 10_000) },
  );
});

test('what the bundle denies on a surface is denied until a person names exactly that', () => {
  const grant = fc.record(
    {
      capability: fc.constantFrom('fs.read', 'fs.write', 'net.http'),
      scope: fc.record({ path: fc.constantFrom('**/.env', '**/*.key') }),
    },
    { requiredKeys: ['capability'] },
  );
  const mcp = fc.record(
    {
      capabilities: fc.record(
        { allow: fc.array(grant, { maxLength: 2 }), deny: fc.array(grant, { maxLength: 3 }) },
        { requiredKeys: [] },
      ),
      open: fc.array(grant, { maxLength: 3 }),
    },
    { requiredKeys: [] },
  );
  const own = fc.record({
    level: fc.constantFrom('operator' as const, 'user' as const, 'project' as const),
    signed: fc.boolean(),
    surfaces: fc.record({ mcp }),
  });
  const keysOf = (list: readonly object[] = []) => list.map((one) => JSON.stringify(one));
  fc.assert(
    fc.property(fc.array(grant), fc.array(own, { maxLength: 4 }), (deny, levels) => {
      const bundle: Policy = { level: 'bundle', surfaces: { mcp: { capabilities: { deny } } } };
      const ceilings = composePolicies([...levels, bundle]).ceilings('mcp');
      const denied = new Set(ceilings.flatMap((one) => keysOf(one.deny)));
      const persons = levels.filter(({ level }) => level !== 'project');
      const opened = persons.flatMap(({ surfaces }) => keysOf(surfaces.mcp.open));
      const added = levels.flatMap(({ surfaces }) => keysOf(surfaces.mcp.capabilities?.deny));
      const held = keysOf(deny).filter((one) => !opened.includes(one));
      expect(denied).toEqual(new Set([...held, ...added]));
    }),
    { numRuns: runs(300, 10_000) },
  );
});

const changes = fc.record(
  {
    add: fc.subarray(['untrusted', 'trusted', 'checked']),
    remove: fc.subarray([...LABELS, 'trusted', 'src:file', 'dir:/x']),
    clear: fc.boolean(),
    ofAll: fc.boolean(),
  },
  { requiredKeys: [] },
);
const parts: fc.Arbitrary<Value> = fc.oneof(
  marks.map((descriptor) => makeValue('x', { descriptor })),
  fc.tuple(fc.array(marks, { maxLength: 3 }), marks).map(([list, own]) =>
    makeContainer(
      list.map((descriptor, at) => makeValue(at, { descriptor })),
      own,
    ),
  ),
);

test('no label goes but by a privileged guard, and where data came from stays whoever asks', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(parts, { maxLength: 3 }),
      fc.array(
        fc.record({
          on: fc.constantFrom(...LABELS, 'op:exe', '@n', 'net'),
          timing: fc.constantFrom<GuardTiming>('before', 'after', 'always'),
          labels: changes,
          value: fc.option(fc.constantFrom('new', ['one', 'two']), { nil: undefined }),
        }),
        { maxLength: 3 },
      ),
      fc.boolean(),
      async (given, list, privileged) => {
        const made = list.map(({ on, timing, labels, value }) =>
          defineGuard({
            on,
            timing,
            privileged,
            decide: () =>
              ok(
                value === undefined
                  ? { kind: 'allow', labels }
                  : { kind: 'allow_value', value, labels },
              ),
          }),
        );
        const guards = createGuardSet(made.flatMap((one) => (one.ok ? [one.output] : [])));
        const inputs = given.map((value, at) => ({ name: `${at}`, value }));
        const op = {
          type: 'exe' as const,
          name: 'n',
          labels: ['net:w'],
          opLabels: [],
          source: 'src:js',
        };
        let passed: readonly Value[] = [];
        const body = (values: readonly Value[]) => {
          passed = values;
          return ok(makeValue('result'));
        };
        const outcome = await perform(op, inputs, body, createFrame({ guards }));
        if (!outcome.ok) {
          expect(outcome.error.detail.message).toContain('only a privileged guard may remove');
          expect(privileged).toBe(false);
          return;
        }
        const fixed = ({ taint }: Descriptor) => taint.filter((mark) => /^(src|dir):/.test(mark));
        const kept = ({ labels, taint }: Descriptor) =>
          privileged ? fixed({ ...EMPTY, taint }) : [...labels, ...taint];
        const all = mergeAll(given.map(({ meta }) => meta.descriptor));
        const { descriptor } = outcome.output.meta;
        expect(descriptor.taint).toEqual(expect.arrayContaining(['src:js', ...kept(all)]));
        if (!privileged) expect(descriptor.labels).toContain('net:w');
        for (const [at, value] of passed.entries()) {
          const before = given[at]?.meta.descriptor ?? EMPTY;
          expect(value.meta.descriptor.taint).toEqual(expect.arrayContaining(kept(before)));
        }
      },
    ),
    { numRuns: runs(200, 6000) },
  );
});

test('a filter sees an operation with its label and inputs, once, before it is performed', async () => {
  const label = fc.constantFrom('net', 'net:w', 'net:w:x', 'exfil', 'a');
  await fc.assert(
    fc.asyncProperty(
      fc.array(label, { maxLength: 2 }),
      fc.array(label, { maxLength: 2 }),
      fc.subarray(['exfil', 'destructive'] as const),
      fc.array(marks, { maxLength: 3 }),
      label,
      fc.boolean(),
      async (declared, given, risk, list, filter, isHeld) => {
        const seen: string[] = [];
        const guard = defineGuard({
          on: filter,
          timing: 'before',
          decide({ input, inputs }) {
            seen.push(input ? 'one' : `all ${inputs.length}`);
            return ok<Verdict>({ kind: 'allow' });
          },
        });
        if (!guard.ok) throw new Error(guard.error.detail.message);
        const policy = composePolicies([]).narrowedBy({
          operations: Object.fromEntries(given.map((one) => [one, ['op:step']])),
        });
        const frame = createFrame({ policy, guards: createGuardSet([guard.output]) });
        const op = { type: 'step' as const, name: 'n', labels: declared, risk, opLabels: [] };
        const inputs = list.map((descriptor, at) => ({
          name: `${at}`,
          value: makeValue(at, { descriptor }),
        }));
        const inside = isHeld ? { ...frame, held: ['net:w:x', 'a'] } : frame;
        await perform(op, inputs, () => (seen.push('body'), ok(makeValue(1))), inside);
        const carrying = list.filter((one) => carries(one, filter)).length;
        const isOwn = carries(describe({ labels: [...declared, ...given, ...risk] }), filter);
        const expected = carrying > 0 ? Array.from({ length: carrying }, () => 'one') : [];
        if (isOwn && carrying === 0 && list.length > 0) expected.push(`all ${list.length}`);
        // A rule of the product may refuse what is risky; it was judged all the same.
        expect(seen.filter((one) => one !== 'body')).toEqual(expected);
        expect(seen.indexOf('body') === -1 || seen.at(-1) === 'body').toBe(true);
      },
    ),
    { numRuns: runs(200, 6000) },
  );
});
