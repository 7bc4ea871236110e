// Compiles `policy`, `profiles` and `needs`. A policy in a script only narrows: its `allow` and `deny`
// patterns become a guard that cannot be switched off, and its other rules become a level below the
// policies in force.
import { isObject, type Json, type JsonObject, ok, shellQuote } from '@kernmantle/core/base';
import {
  childFrame,
  createGuardSet,
  defineGuard,
  type Frame,
  folderLabel,
  type Guard,
  type GuardSet,
  type GuardView,
  type PolicyRules,
  RULE_NAMES,
  type RuleState,
  type Value,
  type Verdict,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import type { Environment, Patterns, RunState } from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import { closedFiles, patternProblem, refusal, refusalOf } from '../run/patterns.ts';

const KEYS =
  'allow deny danger capabilities labels operations defaults rules locked name description'.split(
    ' ',
  );

const textual = (data: Json): string => (typeof data === 'string' ? data : JSON.stringify(data));

const words = (data: Json | undefined): string[] => {
  if (data === undefined || data === null) return [];
  if (Array.isArray(data)) return data.map(textual);
  if (typeof data === 'string') return [data];
  if (!isObject(data)) return [];
  return Object.entries(data).flatMap(([key, value]) => patternsOfEntry(key, value));
};

/** Returns the patterns of an object such as `{ sh: true, cmd: ["git:*"], fs: { r: ["**"] } }`. */
function patternsOfEntry(key: string, value: Json): string[] {
  if (value === true) return [key];
  if (value === false || value === null) return [];
  return words(value).map((rest) => (rest === '*' ? key : `${key}:${rest}`));
}

function patternsOf(data: JsonObject, world: Patterns['world']): Patterns {
  const inner = isObject(data['capabilities']) ? data['capabilities'] : {};
  const allowed = data['allow'] ?? inner['allow'];
  const patterns: Patterns = {
    allow: allowed === undefined ? undefined : words(allowed),
    deny: [...words(data['deny']), ...words(inner['deny'])],
    danger: [...words(data['danger']), ...words(inner['danger'])],
    world,
  };
  const { allow = [], deny, danger } = patterns;
  for (const pattern of [...allow, ...deny, ...danger]) {
    const problem = patternProblem(pattern);
    if (problem) raise('config_invalid', `policy pattern \`${pattern}\` ${problem}`);
  }
  return patterns;
}

const rulesOf = (data: Json | undefined): Record<string, RuleState> =>
  Array.isArray(data) ? Object.fromEntries(data.map((name) => [textual(name), 'deny'])) : {};

/** Returns the rules that core's policies support. */
function rulesIn(data: JsonObject, root: string): PolicyRules {
  const defaults = isObject(data['defaults']) ? data['defaults'] : {};
  const unlabelled = words(defaults['unlabeled'] ?? defaults['unlabelled']);
  const rules = { ...rulesOf(data['rules']), ...rulesOf(defaults['rules']) };
  const packs = Object.keys(rules);
  const unknown = packs.find((name) => !RULE_NAMES.includes(name));
  if (unknown !== undefined)
    raise('config_invalid', `\`${unknown}\` is not a rule`, { hint: RULE_NAMES.join(', ') });
  const { labels, operations, locked = false } = data;
  if (typeof locked !== 'boolean') raise('config_invalid', '`locked` must be true or false');
  return {
    ...(locked && { locked }),
    ...(isObject(labels) ? { labels: labelsOf(labels, root) } : {}),
    ...(isObject(operations) ? { operations: operationsOf(operations) } : {}),
    ...(unlabelled.length > 0 ? { defaults: { unlabelled } } : {}),
    ...(packs.length > 0 ? { rules, packs } : {}),
  };
}

/** Replaces folder labels with the labels that files have. */
const labelsOf = (data: JsonObject, root: string): NonNullable<PolicyRules['labels']> =>
  Object.fromEntries(
    Object.entries(data as NonNullable<PolicyRules['labels']>).map(([label, rule]) => [
      folderLabel(root, label),
      rule,
    ]),
  );

const operationsOf = (data: JsonObject): Record<string, string[]> =>
  Object.fromEntries(Object.entries(data).map(([label, patterns]) => [label, words(patterns)]));

const verdictOf = (text: string | undefined): Verdict =>
  text === undefined ? { kind: 'allow' } : { kind: 'deny', text };

function locked(on: string, refusal: (view: GuardView) => string | undefined): Guard {
  const decide = (view: GuardView) => ok(verdictOf(refusal(view)));
  return unwrap(defineGuard({ name: 'policy', on, timing: 'before', locked: true, decide }));
}

/** Returns guards for `op:…` patterns. An allowed pattern closes the other operations with the same first word. */
function operationGuards({ allow = [], deny }: Patterns): Guard[] {
  const denied = deny.filter((pattern) => pattern.startsWith('op:'));
  const allowed = allow.filter((pattern) => pattern.startsWith('op:'));
  const open = createGuardSet(allowed.map((pattern) => locked(pattern, () => undefined)));
  const closed = new Set(allowed.map((pattern) => pattern.split(':', 2).join(':')));
  return [
    ...denied.map((pattern) => locked(pattern, () => `is denied by \`${pattern}\``)),
    ...[...closed].map((word) =>
      locked(word, ({ op, frame }) =>
        open.forOperation(op, frame.held, 'before').length > 0
          ? undefined
          : `is not allowed; the policy allows only some operations of \`${word}\``,
      ),
    ),
  ];
}

function guardOf(patterns: Patterns): GuardSet {
  // An `allow` list does not apply to modules and templates of the script itself.
  const unlisted = { ...patterns, allow: undefined };
  const decide = ({ op, inputs }: GuardView) =>
    refusalOf(op.metadata?.['own'] === true ? unlisted : patterns, op, inputs);
  return createGuardSet([
    ...['op:run', 'op:output', 'op:append', 'op:file'].map((on) => locked(on, decide)),
    { ...locked('op:tool', decide), closes: closedFiles(patterns) },
    locked('op:import', ({ op }) => refusalOf(unlisted, op)),
    ...operationGuards(patterns),
  ]);
}

interface Narrowed {
  readonly frame: Frame;
  readonly patterns: Patterns;
}

function narrowFrame(frame: Frame, { world }: RunState, { data }: Value): Narrowed {
  if (!isObject(data)) return raise('config_invalid', 'a policy must be an object');
  for (const key of Object.keys(data)) {
    if (key === 'authorizations')
      raise('config_invalid', '`authorizations` is not part of this version', {
        hint: 'use `allow`, `labels` and guards',
      });
    if (!KEYS.includes(key))
      raise('config_invalid', `\`${key}\` is not a key of a script's policy`, {
        hint: KEYS.join(', '),
      });
  }
  const patterns = patternsOf(data, world);
  const policy = frame.policy.narrowedBy(rulesIn(data, world.root));
  const isOpen = patterns.allow === undefined && patterns.deny.length === 0;
  const guards = isOpen ? {} : { guards: guardOf(patterns) };
  return { frame: childFrame(frame, { policy, ...guards }), patterns };
}

export function applyPolicy(run: RunState, value: Value): void {
  const { frame, patterns } = narrowFrame(run.ground, run, value);
  run.policies.push(patterns);
  run.ground = frame;
}

// The members of each policy that `policy @p = …` has declared.
const declared = new WeakMap<object, readonly Value[]>();

export function declarePolicy({ data }: Value, members: readonly Value[]): void {
  if (isObject(data)) declared.set(data, members);
}

const declaredIn = ({ data }: Value): readonly Value[] | undefined =>
  isObject(data) ? declared.get(data) : undefined;

/** Applies `with { policy: @p }`. INVARIANT: data from outside of the script's text never sets rules. */
export function narrowedEnv(env: Environment, value: Value): Environment {
  const members = declaredIn(value);
  const origin = value.meta.descriptor.taint.find((mark) => mark.startsWith('src:'));
  if (!members && origin !== undefined) {
    const message = `a policy from data (\`${origin}\`) cannot set rules`;
    return raise('permission_denied', message, { hint: "write it in the script's own text" });
  }
  const frame = (members ?? [value]).reduce(
    (inner, member) => narrowFrame(inner, env.run, member).frame,
    env.frame,
  );
  return { ...env, frame };
}

/** Returns the patterns of `requires: { cmd: [git], sh, network }`. */
const requirements = (data: Json | undefined): string[] =>
  words(data).map((word) => word.replace(/^cmd:([^:]+)$/, 'cmd:$1:*'));

const isGranted = (run: RunState, pattern: string): boolean =>
  run.policies.every((patterns) => refusal(patterns, [pattern.replace(/:\*$/, '')]) === undefined);

/** Returns the first profile whose requirements every policy permits, or else the last. A profile grants nothing. */
export function profileOf(run: RunState, profiles: JsonObject): Json {
  const entries = Object.entries(profiles);
  const fits = entries.find(([, profile]) => {
    const requires = isObject(profile) ? profile['requires'] : undefined;
    return requirements(requires).every((pattern) => isGranted(run, pattern));
  });
  return (fits ?? entries.at(-1))?.[0] ?? null;
}

/** Returns the needs that a policy refuses, or else those that are not installed. */
export async function missingNeeds(env: Environment, needs: JsonObject): Promise<string[]> {
  const required = requirements(needs);
  const refused = required.filter((pattern) => !isGranted(env.run, pattern));
  const programs = [...new Set(required.flatMap((pattern) => programOf(pattern)))];
  if (refused.length > 0 || programs.length === 0) return refused;
  return (await absentPrograms(programs, env)).map((name) => `cmd:${name}`);
}

const INTERPRETERS: Readonly<Record<string, string>> = { node: 'node', py: 'python3' };

function programOf(pattern: string): string[] {
  const [kind = '', name] = pattern.split(':');
  const program = kind === 'cmd' ? name : INTERPRETERS[kind];
  return program === undefined || program === '*' ? [] : [program];
}

/** Asks the shell for all programs at once and returns those that it does not find. */
async function absentPrograms(
  programs: readonly string[],
  { run, unit, frame }: Environment,
): Promise<string[]> {
  const tests = programs.map(
    (name) => `command -v ${shellQuote(name)} >/dev/null || echo ${shellQuote(name)}`,
  );
  const source = tests.join('\n');
  const plain = { env: {}, stdin: undefined, timeoutMs: undefined };
  const request = { kind: 'sh', source, folder: unit.folder, ...plain } as const;
  const { stdout } = unwrap(await run.world.process(request, frame));
  return stdout.split('\n').filter((name) => name !== '');
}
