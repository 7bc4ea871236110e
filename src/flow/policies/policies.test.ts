import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../../tests/support/soak.ts';
import { fail, ok } from '../../base/index.ts';
import { createCapabilityCatalog } from '../../trust/index.ts';
import type { Input } from '../frame.ts';
import type { InputRole, Operation } from '../operation.ts';
import { childFrame, createFrame } from '../pipeline/create-frame.ts';
import { perform } from '../pipeline/perform.ts';
import { describe, EMPTY } from '../values/labels.ts';
import { makeValue, type Value } from '../values/value.ts';
import { composePolicies } from './compose.ts';
import { lintPolicy } from './lint.ts';
import { closedPolicy, type Policy } from './policy.ts';
import { parsePolicy } from './read-policy.ts';

const marked = (...labels: string[]) => makeValue('x', { descriptor: describe({ labels }) });
const tool = (name: string, more: Partial<Operation> = {}): Operation => ({
  type: 'tool',
  name,
  opLabels: [`op:tool:${name}`],
  ...more,
});
const input = (value: Value, role?: InputRole, name = 'a'): Input => ({
  name,
  value,
  ...(role ? { role } : {}),
});

/** The name of the guard or rule that refused, or `allowed`. */
async function judged(
  policies: readonly Policy[],
  op: Operation,
  inputs: readonly Input[],
  influence = EMPTY,
): Promise<string> {
  const frame = childFrame(createFrame({ policy: composePolicies(policies) }), { influence });
  const outcome = await perform(op, inputs, () => ok(makeValue(1)), frame);
  return outcome.ok ? 'allowed' : (outcome.error.detail.guard as string);
}

const project = (parts: Partial<Policy>): Policy => ({ level: 'project', ...parts });
const user = (parts: Partial<Policy>): Policy => ({ level: 'user', ...parts });

test('built-in rules hold where no policy says anything', async () => {
  const send = tool('send', { risk: ['exfil'] });
  const remove = tool('rm', { risk: ['destructive'] });
  const sudo = tool('sudo', { risk: ['privileged'] });
  expect(await judged([], send, [input(marked('secret'), 'content')])).toBe(
    'policy:no-secret-exfil',
  );
  expect(await judged([], remove, [input(marked('untrusted'), 'path')])).toBe(
    'policy:no-untrusted-destructive',
  );
  expect(await judged([], remove, [input(marked('untrusted'))])).toBe(
    'policy:no-untrusted-destructive',
  );
  expect(await judged([], remove, [input(marked('untrusted'), 'content')])).toBe('allowed');
  expect(await judged([], sudo, [input(marked('untrusted'), 'command')])).toBe(
    'policy:no-untrusted-privileged',
  );
  expect(await judged([], send, [input(marked('untrusted'), 'destination')])).toBe(
    'policy:untrusted-destination',
  );
  expect(await judged([], send, [input(marked('untrusted'), 'content')])).toBe('allowed');
  expect(await judged([], tool('read'), [input(marked('secret', 'untrusted'))])).toBe('allowed');
});

test('the conditions an operation stands under count as an input', async () => {
  const remove = tool('rm', { risk: ['destructive'] });
  expect(await judged([], remove, [], describe({ labels: ['untrusted'] }))).toBe(
    'policy:no-untrusted-destructive',
  );
});

test('what an exfil function runs is an exfil operation', async () => {
  const frame = createFrame();
  const outcome = await perform(
    { type: 'exe', name: 'post', labels: ['exfil'], opLabels: ['op:exe'] },
    [],
    (_, scope) =>
      perform(tool('x'), [input(marked('secret'))], () => ok(makeValue(1)), scope.frame),
    frame,
  );
  expect(outcome.ok).toBe(false);
});

test('among label rules the most specific pattern wins, the stricter one at equal length', async () => {
  const cmd = (words: string): Operation => ({
    type: 'run',
    name: '',
    opLabels: [`op:cmd:${words}`],
  });
  const rules = [
    project({
      labels: {
        secret: { deny: ['exfil', 'op:cmd'], allow: ['op:cmd:git'], ask: ['op:cmd:git:push'] },
      },
    }),
  ];
  const values = [input(marked('secret'))];
  expect(await judged(rules, cmd('ls'), values)).toBe('policy:project');
  expect(await judged(rules, cmd('git:log'), values)).toBe('allowed');
  expect(await judged(rules, cmd('git:push'), values)).toBe('policy:project');
  expect(await judged(rules, cmd('ls'), [input(marked('other'))])).toBe('allowed');
  expect(await judged(rules, tool('x', { labels: ['exfil'] }), values)).toMatch(/^policy:/);
  const tie = [project({ labels: { secret: { deny: ['op:cmd:ls'], allow: ['op:cmd:ls'] } } })];
  expect(await judged(tie, cmd('ls'), values)).toBe('policy:project');
});

test('a kind of operation with exceptions is closed for everything else of that kind', async () => {
  const rules = [project({ labels: { secret: { allow: ['op:tool:vault/*'] } } })];
  expect(await judged(rules, tool('vault/put'), [input(marked('secret'))])).toBe('allowed');
  expect(await judged(rules, tool('http/get'), [input(marked('secret'))])).toBe('policy:project');
  expect(
    await judged(rules, { type: 'show', name: '', opLabels: [] }, [input(marked('secret'))]),
  ).toBe('allowed');
});

test('`*` rules hold for every operation, labelled or not', async () => {
  const rules = [user({ labels: { '*': { deny: ['op:tool:net'] } } })];
  expect(await judged(rules, tool('net/get'), [])).toBe('policy:user');
  expect(
    await judged([closedPolicy('project', 'p.yaml')], { type: 'show', name: '', opLabels: [] }, []),
  ).toBe('policy:project');
});

test('a policy gives operations risks, also for guards', async () => {
  const curl: Operation = { type: 'run', name: '', opLabels: ['op:cmd:curl'] };
  const rules = [project({ operations: { exfil: ['op:cmd:curl'] } })];
  expect(await judged(rules, curl, [input(marked('secret'))])).toBe('policy:no-secret-exfil');
  const guard = {
    on: 'op:exfil',
    timing: 'before',
    verdict: { kind: 'deny', text: 'no' },
  } as const;
  expect(
    await judged([project({ operations: { exfil: ['op:cmd:curl'] }, guards: [guard] })], curl, []),
  ).toBe('guard on op:exfil');
});

test('named packs are off until a policy names them', async () => {
  const send = tool('mail', { labels: ['exfil:send'] });
  const to = input(marked('x'), undefined, 'to');
  expect(await judged([], send, [to])).toBe('allowed');
  const pack = [
    project({
      packs: ['no-send-to-unknown', 'no-sensitive-exfil', 'untrusted-llms-get-influenced'],
    }),
  ];
  expect(await judged(pack, send, [to])).toBe('policy:no-send-to-unknown');
  expect(
    await judged(pack, send, [
      input(marked('known'), undefined, 'to'),
      input(marked('y'), undefined, 'body'),
    ]),
  ).toBe('allowed');
  expect(await judged(pack, send, [input(marked('known', 'sensitive'), undefined, 'to')])).toBe(
    'policy:no-sensitive-exfil',
  );
  const frame = createFrame({ policy: composePolicies(pack) });
  const llm = tool('ask', { labels: ['llm'] });
  const answer = await perform(llm, [input(marked('untrusted'))], () => ok(makeValue('hi')), frame);
  expect(answer.ok && answer.output.meta.descriptor.labels).toContain('influenced');
  expect(answer.ok && answer.output.meta.descriptor.policyContext).toContain(
    'pack:no-send-to-unknown',
  );
});

test.each([
  ['no-send-to-external', { labels: ['exfil:send'] }, 'to', 'known', 'known:internal'],
  ['no-send-to-external', { risk: ['exfil'] }, 'url', 'known', 'known:internal'],
  ['no-destroy-unknown', { labels: ['destructive:targeted'] }, 'fileId', 'x', 'known'],
  ['no-destroy-unknown', { labels: ['destructive:targeted'] }, 'target', 'x', 'known:internal'],
  ['no-destroy-unknown', { risk: ['destructive'] }, 'path', 'x', 'known'],
  ['no-influenced-advice', { labels: ['advice'] }, 'text', 'influenced', 'x'],
  ['no-influenced-advice', { labels: ['advice:medical'] }, 'text', 'influenced', 'x'],
] as const)('%s: of %o, by the marks of `%s`', async (rule, kind, name, bad, good) => {
  const op = tool('one', kind);
  const role = name === 'url' ? 'destination' : name === 'path' ? 'path' : undefined;
  const given = (mark: string) => [
    input(marked('known'), 'content', 'body'),
    input(marked(mark), role, name),
  ];
  const pack = [project({ packs: [rule] })];
  expect(await judged([], op, given(bad))).toBe('allowed');
  expect(await judged(pack, op, given(bad))).toBe(`policy:${rule}`);
  expect(await judged(pack, op, given(good))).toBe('allowed');
});

test('tiers that need approval are asked about', async () => {
  const asked: string[] = [];
  const frame = createFrame({
    policy: composePolicies([user({ approve: ['elevated'] })]),
    ports: {
      ask: ({ questions }) => (asked.push(...questions), fail('timeout', 'nobody is there')),
    },
  });
  const op = tool('deploy', { tier: 'elevated' });
  expect((await perform(op, [], () => ok(makeValue(1)), frame)).ok).toBe(false);
  expect(asked).toEqual(['operations of tier `elevated` need approval']);
});

test('data from outside that carries no label gets the default ones', async () => {
  const policy = composePolicies([project({ defaults: { unlabelled: ['untrusted'] } })]);
  const read = async (label?: string) =>
    (await perform(
      tool('read', { source: 'src:file' }),
      [],
      () => ok(makeValue('x', label ? { descriptor: describe({ labels: [label] }) } : {})),
      createFrame({ policy }),
    )) as { output: Value };
  expect((await read()).output.meta.descriptor.labels).toEqual(['untrusted']);
  expect((await read('public')).output.meta.descriptor.labels).toEqual(['public']);
});

test('a rule is turned off by the user or a signed project, never by a stranger', async () => {
  const send = tool('send', { risk: ['exfil'] });
  const off = { rules: { 'no-secret-exfil': 'off' } } as const;
  const refused = async (...policies: Policy[]) =>
    (await judged(policies, send, [input(marked('secret'))])) !== 'allowed';
  expect(await refused(project(off))).toBe(true);
  expect(await refused(project({ ...off, signed: true }))).toBe(false);
  expect(await refused(user(off))).toBe(false);
  expect(
    await refused(user(off), { level: 'operator', rules: { 'no-secret-exfil': 'deny' } }),
  ).toBe(true);
  expect(await refused(user(off), project({ rules: { 'no-secret-exfil': 'ask' } }))).toBe(true);
});

test('settings that open something need authority; anyone may close', () => {
  const compose = (...policies: Policy[]) => composePolicies(policies);
  expect(compose().allowsUnsigned).toBe(false);
  expect(compose(project({ unsigned: 'allow' })).allowsUnsigned).toBe(false);
  expect(compose(project({ unsigned: 'allow', signed: true })).allowsUnsigned).toBe(true);
  expect(
    compose(user({ unsigned: 'allow' }), project({ unsigned: 'restrict' })).allowsUnsigned,
  ).toBe(false);
  expect(compose(project({ sandbox: 'none' })).sandbox).toBe('required');
  expect(compose(user({ sandbox: 'none' })).sandbox).toBe('none');
  expect(compose(project({ install: 'allow' })).install).toBe('ask');
  expect(compose(project({ install: 'deny' }), user({ install: 'allow' })).install).toBe('deny');
  expect(compose(project({ anneal: 'auto' })).anneal).toBe('ask');
  const asks = project({ prices: 'project', signed: true });
  expect(compose(asks).allowsLowerPrices).toBe(false);
  expect(compose(user({ prices: 'project' })).allowsLowerPrices).toBe(false);
  expect(compose(user({ prices: 'project' }), project({})).allowsLowerPrices).toBe(false);
  expect(compose(user({ prices: 'project' }), asks).allowsLowerPrices).toBe(true);
  expect(compose(user({ prices: 'project' }), asks, project({})).allowsLowerPrices).toBe(false);
  expect(
    compose(user({ prices: 'project' }), asks, { level: 'operator', prices: 'user' })
      .allowsLowerPrices,
  ).toBe(false);
  expect(compose(project({ notify: { command: 'rm -rf /' } })).notify).toBeUndefined();
  expect(compose(project({ hosts: ['localhost'] })).isHostAllowed('localhost')).toBe(false);
  const hosts = compose(user({ hosts: ['localhost', '10.*'] }), project({ hosts: ['localhost'] }));
  expect([hosts.isHostAllowed('LOCALHOST'), hosts.isHostAllowed('10.0.0.1')]).toEqual([
    true,
    false,
  ]);
});

test('whoever wants strangers’ text behind references is heard, and nobody takes it back', () => {
  const mode = fc.constantFrom('show' as const, 'reference' as const, undefined);
  const level = fc.constantFrom('operator', 'user', 'project', 'bundle') as fc.Arbitrary<
    Policy['level']
  >;
  const policy = fc
    .record({ level, untrusted: mode, signed: fc.boolean() })
    .map(({ untrusted, ...rest }): Policy => ({ ...rest, ...(untrusted && { untrusted }) }));
  fc.assert(
    fc.property(fc.array(policy, { maxLength: 5 }), policy, (list, more) => {
      const { untrusted } = composePolicies(list);
      const isWanted = list.some((one) => one.untrusted === 'reference');
      expect(untrusted).toBe(isWanted ? 'reference' : 'show');
      if (isWanted) expect(composePolicies([...list, more]).untrusted).toBe('reference');
    }),
  );
  expect(parsePolicy('untrusted: reference', 'p', 'project').policy).toMatchObject({
    untrusted: 'reference',
  });
  expect(parsePolicy('untrusted: hide', 'p', 'project').policy).toBeUndefined();
});

test('surfaces: a client may look, a person may act, and a policy decides otherwise', () => {
  const none = composePolicies([]);
  expect([none.effects('mcp'), none.directives('mcp')]).toEqual([['read'], 'signed']);
  expect([none.effects('cli'), none.directives('cli')]).toEqual([
    ['read', 'idempotent', 'write'],
    'all',
  ]);
  const wide = user({ surfaces: { mcp: { effects: ['read', 'write'], directives: 'all' } } });
  expect(composePolicies([wide]).effects('mcp')).toEqual(['read', 'write']);
  expect(
    composePolicies([wide, project({ surfaces: { mcp: { effects: ['read'] } } })]).effects('mcp'),
  ).toEqual(['read']);
  expect(composePolicies([{ ...wide, level: 'project' }]).effects('mcp')).toEqual(['read']);
});

test('ceilings and limits of all levels hold at once', () => {
  const policy = composePolicies([
    project({
      capabilities: { allow: [{ capability: 'fs.read' }] },
      limits: { spend: '10.00', turns: 5 },
    }),
    user({
      capabilities: { deny: [{ capability: 'net.http' }] },
      limits: { spend: '9.999999999', turns: 50 },
    }),
    user({ surfaces: { mcp: { capabilities: { allow: [] } } } }),
  ]);
  expect(policy.ceilings()).toHaveLength(2);
  expect(policy.ceilings('mcp')).toHaveLength(3);
  expect(policy.limits).toEqual({ spend: '9.999999999', turns: 5 });
});

test('a script adds its policy on top and can only narrow', () => {
  const base = composePolicies([user({})]);
  const narrowed = base.narrowedBy({
    rules: { 'no-secret-exfil': 'off' },
    labels: { pii: { deny: ['op:show'] } },
  });
  expect(narrowed.rules.get('no-secret-exfil')).toBe('deny');
  expect(narrowed.levels).toHaveLength(2);
});

test('guards of a policy that cannot be compiled refuse everything', async () => {
  const broken = project({ guards: [{ on: '', timing: 'before', verdict: { kind: 'allow' } }] });
  expect(await judged([broken], tool('x'), [])).toBe('policy:project');
});

const FULL = `
labels:
  secret: { deny: [exfil, "op:cmd"], allow: ["op:cmd:git"] }
operations:
  exfil: ["op:cmd:curl"]
capabilities:
  allow: [fs.read, { capability: fs.write, path: "out/**" }]
  deny: [kiwi-mcp.load]
approve: [elevated]
limits: { spend: "5.00", turns: 40 }
defaults: { unlabelled: untrusted }
rules: { no-secret-exfil: true, untrusted-destination: ask }
packs: [no-send-to-unknown]
guards:
  - { name: calm, on: op:tool:http/*, when: '"secret" in input.labels', deny: secrets do not leave }
unsigned: restrict
sandbox: required
install: ask
hosts: [localhost]
surfaces: { mcp: { effects: [read], directives: signed, capabilities: { allow: [fs.read] } } }
retention: { days: 30, keep_failed: true }
anneal: ask
notify: { webhook: "https://example.org/hook" }
`;

test('a policy file with every setting is read', () => {
  const { policy, diagnostics } = parsePolicy(FULL, 'policy.yaml', 'user');
  expect(diagnostics).toEqual([]);
  expect(policy).toMatchObject({
    level: 'user',
    capabilities: {
      allow: [{ capability: 'fs.read' }, { capability: 'fs.write', scope: { path: 'out/**' } }],
      deny: [{ capability: 'kernel.load' }],
    },
    rules: { 'no-secret-exfil': 'deny', 'untrusted-destination': 'ask' },
    guards: [{ name: 'calm', timing: 'before', line: 15, verdict: { kind: 'deny' } }],
    defaults: { unlabelled: ['untrusted'] },
  });
});

test('every mistake in a policy file is reported with its place, and no policy comes of it', () => {
  const text = [
    'lables: {}',
    'labels: { secret: { dney: [exfil], deny: ["op:{a}"] } }',
    'rules: { no-secret-exfill: true, no-secret-exfil: maybe }',
    'approve: [high]',
    'limits: { spend: lots }',
    'sandbox: off',
    'guards:',
    '  - { on: secret, when: "a &&", deny: x }',
    '  - { on: secret, deny: x, ask: y }',
    '  - { on: secret, timing: later, deny: x }',
    'capabilities: { allow: [{ path: x }], permit: [] }',
    'surfaces: { mcp: { effects: [all] } }',
  ].join('\n');
  const { policy, diagnostics } = parsePolicy(text, 'p.yaml', 'project');
  expect(policy).toBeUndefined();
  const shown = diagnostics.map(({ line, message, hint }) => `${line} ${message} ${hint ?? ''}`);
  for (const part of [
    /^1 unknown field `lables` did you mean `labels`/,
    /^2 unknown field `dney` did you mean `deny`/,
    /^2 pattern `op:\{a\}`/,
    /^3 unknown field `no-secret-exfill` did you mean `no-secret-exfil`/,
    /^3 `rules.no-secret-exfil` must be true, false or ask, not `"maybe"`/,
    /^4 `approve.0` must be one of read, write, elevated, system/,
    /^5 `limits.spend` must be a number/,
    /^6 .*one of none, required/,
    /^8 /,
    /^9 a guard has exactly one verdict/,
    /^10 `guards.2.timing` must be one of before, after, always/,
    /^11 `capabilities.allow.0` has no `capability`/,
    /^11 unknown field `permit`/,
    /^12 `surfaces.mcp.effects.0` must be one of read, idempotent, write/,
  ]) {
    expect(shown).toContainEqual(expect.stringMatching(part));
  }
});

const CATALOG = createCapabilityCatalog([
  { name: 'fs.read', meaning: 'r', scope: ['path'], tier: 'read', implies: [] },
  { name: 'net.http', meaning: 'n', scope: ['host', 'method'], tier: 'write', implies: [] },
  { name: 'mcp.<server>.call', meaning: 'm', scope: [], tier: 'write', implies: [] },
]);
const catalog = CATALOG.ok ? CATALOG.output : undefined;
const parsed = (text: string) => parsePolicy(text, 'p.yaml', 'user', catalog);

test.each([
  'capabilities: { deny: [fs.raed] }',
  'capabilities: { allow: ["f.*"] }',
  'capabilities: { deny: ["mcp.git.cal"] }',
  'capabilities: { deny: [{ capability: fs.read, method: GET }] }',
  'capabilities: { deny: [{ capability: net.http, method: PSOT }] }',
  'surfaces: { cli: { capabilities: { deny: [net.htpp] } } }',
  'surfaces: { mcp: { open: [fs.reed] } }',
  'surfaces: { mpc: { effects: [read] } }',
  'limits: { trns: 1 }',
  'limits: { spend_currency: 1 }',
  'guards: [{ on: "op:tol:fs/write_file", deny: x }]',
  'guards: [{ on: "op:for:iterations", deny: x }]',
  'guards: [{ on: "op:to?:x", deny: x }]',
  'guards: [{ on: secret, when: \'op.type == "tol"\', deny: x }]',
  'guards: [{ on: secret, when: \'"exfl" in op.risk\', deny: x }]',
  'guards: [{ on: secret, when: \'input.role in ["content", "paht"]\', deny: x }]',
  'labels: { secret: { deny: ["op:cnd:curl"] } }',
  'operations: { exfil: ["op:toll:x"] }',
  'hosts: ["127.0.0.1/8"]',
  'hosts: ["::::"]',
  'hosts: ["localhost:80"]',
  'hosts: ["http://localhost"]',
  'hosts: ["1270.0.1"]',
  'notify: { on: [aproval] }',
  'notify: { command: 3 }',
])('a name outside of a closed set is an error, and no policy comes of it: %s', (text) => {
  const { policy, diagnostics } = parsed(text);
  expect(policy).toBeUndefined();
  expect(diagnostics).toMatchObject([{ severity: 'error', line: 1 }]);
});

test.each([
  'capabilities: { deny: [fs.read, "fs.*", "*", "mcp.git*.call", "mcp.*", mcp.git] }',
  'capabilities: { deny: [{ capability: net.http, host: "*.org", method: "P*" }] }',
  'guards: [{ on: "op:*", deny: x }, { on: "op:t*", deny: x }, { on: "op:exfil:send", deny: x }]',
  'guards: [{ on: "op:tool:nothing/here", deny: x }, { on: "op:cmd:git:push", deny: x }]',
  'operations: { net:w: ["op:cmd:curl"] }\nguards: [{ on: "op:net", deny: x }]',
  'labels: { secret: { deny: [net:w, "OP:Show"] } }',
  'hosts: [localhost, "192.168.1.*", "::1", "fd00:*", db.internal, 10.0.0.1]',
])('what can match is read: %s', (text) => {
  expect(parsed(text).diagnostics).toEqual([]);
});

test('a model that nothing names is a warning with the nearest, and the rule stays in force', () => {
  const { policy, locate } = parsed('models: { allow: [gtp-4o, "*mini", gpt-4o] }');
  if (!policy) throw new Error('no policy');
  const known = { tools: [], labels: [], models: ['gpt-4o', 'gpt-4o-mini'] };
  expect(lintPolicy(policy, known, locate)).toMatchObject([
    { code: 'unknown_model', severity: 'warning', hint: 'did you mean `gpt-4o`?' },
  ]);
  expect(composePolicies([policy]).allowsModel('gtp-4o').ok).toBe(true);
  expect(composePolicies([policy]).allowsModel('claude').ok).toBe(false);
});

test('garbage is refused without a crash', () => {
  for (const text of [
    '[',
    '- a',
    '42',
    'a: *b',
    '\u0000',
    '__proto__: 1',
    'labels: [1]',
    'guards: [1, null, [2]]',
    'labels: { __proto__: { deny: [x] } }',
  ]) {
    expect(() => parsePolicy(text, 'p.yaml', 'project')).not.toThrow();
  }
  expect(parsePolicy('', 'p.yaml', 'project').policy).toEqual({ level: 'project', file: 'p.yaml' });
});

test('lint names what does not exist and what is not covered', () => {
  const known = {
    tools: [
      {
        id: 'http/get',
        risk: ['exfil'] as const,
        parameters: [{ name: 'url', role: 'destination' }],
      },
      {
        id: 'fs/delete',
        risk: ['destructive'] as const,
        parameters: [{ name: 'path', role: 'path' }],
      },
      { id: 'mail/send', risk: ['exfil'] as const, parameters: [{ name: 'to' }] },
    ],
    labels: ['customer'],
  };
  const policy: Policy = user({
    labels: { customr: { deny: ['op:tool:http/gte'] }, customer: { deny: ['op:tool:fs/*'] } },
    operations: { fancy: ['op:tool:http/get'] },
    rules: { 'no-untrusted-destructive': 'off', 'no-secret-exfil': 'off' },
    guards: [
      {
        on: 'op:tool:http/*',
        timing: 'before',
        when: '"x" in input.args.urll.labels',
        verdict: { kind: 'deny', text: 'x' },
      },
    ],
  });
  const found = lintPolicy(policy, known).map(
    ({ code, message, hint }) => `${code} ${message} ${hint ?? ''}`,
  );
  expect(found).toEqual([
    'unknown_tool no tool is called `http/gte` did you mean `http/get`?',
    'unknown_label nothing is ever labelled `customr` did you mean `customer`?',
    'unknown_parameter `op:tool:http/*` has no parameter `urll` did you mean `url`?',
    'uncovered_tool `mail/send` is exfil, and `no-secret-exfil` is off turn the rule on, or add a guard on `op:tool:mail/send`',
    'unused_label no rule and no guard mentions `fancy` ',
  ]);
});

test('labels of operations are no mistakes where a guard names them', () => {
  const guard = (on: string) => ({
    on,
    timing: 'before' as const,
    verdict: { kind: 'deny' as const, text: 'x' },
  });
  const policy: Policy = user({
    operations: { 'loud:very': ['op:cmd:curl'] },
    guards: ['loud', 'exfil', 'net', 'nett'].map(guard),
  });
  const found = lintPolicy(policy, { tools: [], labels: ['net:w'] });
  expect(found.map(({ code, message }) => `${code} ${message}`)).toEqual([
    'unknown_label nothing is ever labelled `nett`',
  ]);
});

test('what lint finds stands where it was written', () => {
  const text = 'rules: {}\nlabels:\n  secret:\n    deny: [exfil, "op:tool:nope"]\n';
  const { policy, locate } = parsePolicy(text, 'p.yaml', 'user');
  const found = lintPolicy(policy as Policy, { tools: [], labels: [] }, locate);
  expect(found).toMatchObject([{ file: 'p.yaml', line: 4, column: 19, code: 'unknown_tool' }]);
});

test('what would take back a denial and does not is told', () => {
  const deny = [
    { capability: 'fs.write' },
    { capability: 'fs.read', scope: { path: '**/.env/**' } },
  ];
  const known = { tools: [], labels: [], shipped: { mcp: { capabilities: { deny } } } };
  const open =
    'surfaces: { mcp: { open: [fs.write, { capability: fs.read, path: "**/.env" }] } }\n';
  const found = (level: 'user' | 'project') => {
    const { policy, locate } = parsePolicy(open, 'p.yaml', level);
    return lintPolicy(policy as Policy, known, locate).map(({ code, column }) => [code, column]);
  };
  expect(found('user')).toEqual([['opens_nothing', 37]]);
  expect(found('project')).toEqual([
    ['opens_nothing', 27],
    ['opens_nothing', 37],
  ]);
});

test('what look-ups let pass is what judging it in full would let pass', () => {
  const labels = ['secret', 'untrusted', 'sensitive', 'known', 'pii', 'src:file', 'pii:eu'];
  const value = fc
    .subarray(labels)
    .map((list) => makeValue('x', { descriptor: describe({ labels: list }) }));
  const role = fc.constantFrom<InputRole | undefined>('content', 'destination', undefined);
  const inputs = fc.array(fc.record({ name: fc.constantFrom('to', 'a'), role, value }), {
    maxLength: 3,
  });
  const op: fc.Arbitrary<Operation> = fc.record(
    {
      type: fc.constantFrom('tool', 'model'),
      name: fc.constant('x'),
      opLabels: fc.subarray(['op:tool:x', 'op:exfil:send', 'op:llm']),
      risk: fc.subarray<'exfil' | 'destructive' | 'privileged'>([
        'exfil',
        'destructive',
        'privileged',
      ]),
      labels: fc.subarray(['privileged', 'net']),
      tier: fc.constantFrom('read', 'write'),
    },
    { requiredKeys: ['type', 'name', 'opLabels'] },
  );
  const policy: fc.Arbitrary<Policy> = fc.record({
    level: fc.constantFrom('user' as const, 'project' as const),
    labels: fc.dictionary(
      fc.constantFrom('pii', 'src:file', 'secret'),
      fc.record({ deny: fc.subarray(['op:tool', 'exfil', 'op:model']) }),
    ),
    packs: fc.subarray(['no-sensitive-exfil', 'no-send-to-unknown']),
    rules: fc.dictionary(fc.constantFrom('no-secret-exfil'), fc.constantFrom('ask', 'off')),
    approve: fc.subarray(['write' as const]),
  });
  // A rule over everything, which never matches: with it every operation is judged in full.
  const full: Policy = { level: 'operator', labels: { '*': { deny: ['op:nowhere'] } } };
  const held = fc.subarray(['destructive', 'x']);
  fc.assert(
    fc.property(policy, op, held, inputs, value, (one, what, inside, given, condition) => {
      const influence = condition.meta.descriptor;
      const [quick, slow] = [[one], [full, one]].map((levels) =>
        composePolicies(levels).judge(what, inside, given, influence),
      );
      expect(quick).toEqual(slow);
    }),
    { numRuns: runs(2000) },
  );
});
