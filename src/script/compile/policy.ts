// Patterns of a script's policy: `cmd:git:push`, `cmd:git:*`, `sh`, `js`, `network`, `fs:w:GLOB`, `op:…`.
// A deny pattern covers everything that begins like it; an allow pattern must cover all of it.
import { relative } from 'node:path';
import { isObject, type Json, type JsonObject, matchGlob, ok } from '../../base/index.ts';
import {
  childFrame,
  createGuardSet,
  defineGuard,
  folderLabel,
  type Guard,
  type GuardSet,
  type GuardView,
  type Operation,
  type PolicyRules,
  RULE_NAMES,
  type RuleState,
  type Value,
  type Verdict,
} from '../../flow/index.ts';
import { raise } from '../fault.ts';
import type { Environment, Patterns, RunState } from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import { carriedBy, quoteWord, splitPipes, substituted } from './command-line.ts';

const KINDS = new Set(['cmd', 'sh', 'bash', 'js', 'node', 'py', 'python', 'network', 'fs', 'op']);
const SHELLS = new Set(['sh', 'bash', 'zsh', 'dash', 'fish', 'ksh']);

function patternProblem(pattern: string): string | undefined {
  const [kind = ''] = pattern.split(':', 1);
  if (!KINDS.has(kind))
    return `begins with \`${kind}\`, which is no kind (${[...KINDS].join(', ')})`;
  return kind === 'fs' && !/^fs:(r|w|rw)(:|$)/.test(pattern)
    ? 'must say `fs:r:…` or `fs:w:…`'
    : undefined;
}

/** What an operation needs, in the words of patterns; undefined when policies have no word for it. */
function needOf(op: Operation): readonly string[] {
  const { type, subtype, target, name } = op;
  switch (type) {
    case 'run':
      if (subtype === 'cmd') return commandNeeds(op);
      return subtype ? [subtype] : [];
    case 'output':
    case 'append':
      return target?.includes('/') ? [`fs:w:${target}`] : [];
    case 'file':
    case 'import':
      return target ? [`fs:r:${target}`] : [];
    default:
      return type === 'tool' && name.startsWith('http/') ? ['network'] : [];
  }
}

const NETWORK = /^(?:curl|wget|ssh|scp|sftp|rsync|ftp|telnet|nc|ncat)$/;
/** The shell would run what stands inside. */
const SUBSTITUTION = /\$\(|`|<\(/;

/** Every command of every pipe; a shell as a program counts as `sh`. */
function commandNeeds(op: Operation): string[] {
  const text = op.metadata?.['command'];
  if (typeof text !== 'string') return ['cmd'];
  const commands = [text, ...substituted(text)].join('\n').split('\n').flatMap(splitPipes);
  const needs = commands.flatMap((command) => {
    const words = command.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/g) ?? [];
    return programNeeds(words.map((word) => word.replace(/['"\\]/g, '')));
  });
  const isShell = SUBSTITUTION.test(text.replace(/'[^']*'|\\./g, ''));
  return isShell ? ['sh', ...needs] : needs;
}

function programNeeds(given: readonly string[]): string[] {
  const words = given.slice(given.findIndex((word) => !/^\w+=/.test(word)));
  const program = (words[0] ?? '').split('/').at(-1) ?? '';
  if (SHELLS.has(program)) return ['sh'];
  const needs = [['cmd', program, ...words.slice(1)].join(':')];
  if (NETWORK.test(program)) needs.push('network');
  const inner = carriedBy(words);
  return inner ? [...needs, ...programNeeds(inner)] : needs;
}

const parts = (pattern: string): string[] => pattern.split(':');

/** `cmd:git:push` begins `cmd:git:push:origin`. */
const isPrefix = (wanted: readonly string[], given: readonly string[]): boolean =>
  wanted.every((part, at) => part === given[at]);

/** Relative globs begin at the project; a denied one bites wherever such a path ends. */
function coversFile(pattern: string, need: string, root: string, isDeny: boolean): boolean {
  const [, mode = '', ...globs] = parts(pattern);
  const [, wanted = '', ...path] = parts(need);
  if (!need.startsWith('fs:') || !mode.includes(wanted)) return false;
  const [glob, place] = [globs.join(':').replace(/^\.\//, ''), path.join(':')];
  if (glob === '' || matchGlob(glob, place)) return true;
  return (
    matchGlob(glob, relative(root, place)) || (isDeny && matchGlob(`**/${glob}`, place.slice(1)))
  );
}

function denies(pattern: string, need: string, root: string): boolean {
  if (pattern.startsWith('fs:')) return coversFile(pattern, need, root, true);
  const wanted = parts(aliasOf(pattern)).filter((part) => part !== '*');
  return isPrefix(wanted, parts(need));
}

const aliasOf = (pattern: string): string =>
  pattern.replace(/^bash\b/, 'sh').replace(/^python\b/, 'py');

function allows(pattern: string, need: string, root: string): boolean {
  if (pattern.startsWith('fs:')) return coversFile(pattern, need, root, false);
  const [wanted, given] = [parts(aliasOf(pattern)), parts(need)];
  if (wanted.at(-1) === '*') return isPrefix(wanted.slice(0, -1), given);
  return wanted.length === 1 ? wanted[0] === given[0] : wanted.join(':') === given.join(':');
}

/** With an `allow` list, `cmd` and `fs` are closed, and every other kind it mentions. */
function isClosed(patterns: readonly string[], need: string): boolean {
  const [kind] = parts(need);
  const isKnown = kind === 'cmd' || kind === 'fs';
  return isKnown || patterns.some((pattern) => parts(aliasOf(pattern))[0] === kind);
}

/** Why a policy does not let this happen; undefined: it does. Deny wins. */
function refusal({ allow, deny, root }: Patterns, needs: readonly string[]): string | undefined {
  // `op:…` is asked of the operation itself, by guards of its own.
  for (const need of needs) {
    const against = deny.find((pattern) => denies(pattern, need, root));
    if (against) return `\`${need}\` is denied by \`${against}\``;
    if (allow && isClosed(allow, need) && !allow.some((pattern) => allows(pattern, need, root))) {
      return `\`${need}\` is not among what the policy allows`;
    }
  }
  return undefined;
}

// `/policy`, `/profiles` and `/needs` of a script, in the words of flow's policies. A script's policy
// only narrows: its `allow` and `deny` patterns become a guard nobody can leave out, everything else a
// level of its own below those in force.

const KEYS =
  'allow deny capabilities labels operations defaults rules locked name description'.split(' ');

const textual = (data: Json): string => (typeof data === 'string' ? data : JSON.stringify(data));

const words = (data: Json | undefined): string[] => {
  if (data === undefined || data === null) return [];
  if (Array.isArray(data)) return data.map(textual);
  if (typeof data === 'string') return [data];
  if (!isObject(data)) return [];
  return Object.entries(data).flatMap(([key, value]) => listed(key, value));
};

/** `{ sh: true, cmd: ["git:*"], fs: { r: ["**"] } }` as patterns. */
function listed(key: string, value: Json): string[] {
  if (value === true) return [key];
  if (value === false || value === null) return [];
  return words(value).map((rest) => (rest === '*' ? key : `${key}:${rest}`));
}

function patternsOf(data: JsonObject, root: string): Patterns {
  const inner = isObject(data['capabilities']) ? data['capabilities'] : {};
  const allowed = data['allow'] ?? inner['allow'];
  const patterns: Patterns = {
    allow: allowed === undefined ? undefined : words(allowed),
    deny: [...words(data['deny']), ...words(inner['deny'])],
    root,
  };
  for (const pattern of [...(patterns.allow ?? []), ...patterns.deny]) {
    const problem = patternProblem(pattern);
    if (problem) raise('config_invalid', `policy pattern \`${pattern}\` ${problem}`);
  }
  return patterns;
}

const rulesOf = (data: Json | undefined): Record<string, RuleState> =>
  Array.isArray(data) ? Object.fromEntries(data.map((name) => [textual(name), 'deny'])) : {};

/** What flow's policies can say already. */
function rulesIn(data: JsonObject, root: string): PolicyRules {
  const defaults = isObject(data['defaults']) ? data['defaults'] : {};
  const unlabelled = words(defaults['unlabeled'] ?? defaults['unlabelled']);
  const rules = { ...rulesOf(data['rules']), ...rulesOf(defaults['rules']) };
  const packs = Object.keys(rules);
  const unknown = packs.find((name) => !RULE_NAMES.includes(name));
  if (unknown !== undefined)
    raise('config_invalid', `\`${unknown}\` is no rule`, { hint: RULE_NAMES.join(', ') });
  const { labels, operations, locked = false } = data;
  if (typeof locked !== 'boolean') raise('config_invalid', '`locked` is true or false');
  return {
    ...(locked && { locked }),
    ...(isObject(labels) ? { labels: labelsOf(labels, root) } : {}),
    ...(isObject(operations) ? { operations: operationsOf(operations) } : {}),
    ...(unlabelled.length > 0 ? { defaults: { unlabelled } } : {}),
    ...(packs.length > 0 ? { rules, packs } : {}),
  };
}

/** By the names that files carry. */
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

/** `op:…` patterns are filters of guards; an allowed one closes the others of its first word. */
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
          : `is not among what the policy allows of \`${word}\``,
      ),
    ),
  ];
}

function guardOf(patterns: Patterns): GuardSet {
  const decide = ({ op }: GuardView) => refusal(patterns, needOf(op));
  // A list of what is allowed is no list of the script's own modules.
  const unlisted = { ...patterns, allow: undefined };
  return createGuardSet([
    ...['op:run', 'op:output', 'op:append', 'op:file', 'op:tool'].map((on) => locked(on, decide)),
    locked('op:import', ({ op }) => refusal(unlisted, needOf(op))),
    ...operationGuards(patterns),
  ]);
}

export function applyPolicy(run: RunState, { data }: Value): void {
  if (!isObject(data)) return raise('config_invalid', 'a policy is an object');
  for (const key of Object.keys(data)) {
    if (!KEYS.includes(key))
      raise('config_invalid', `\`${key}\` is nothing a script's policy can say`, {
        hint: KEYS.join(', '),
      });
  }
  const patterns = patternsOf(data, run.world.root);
  const policy = run.ground.policy.narrowedBy(rulesIn(data, run.world.root));
  const isOpen = patterns.allow === undefined && patterns.deny.length === 0;
  run.policies.push(patterns);
  run.ground = childFrame(run.ground, { policy, ...(isOpen ? {} : { guards: guardOf(patterns) }) });
}

/** `requires: { cmd: [git], sh, network }` as patterns. */
const requirements = (data: Json | undefined): string[] =>
  words(data).map((word) => word.replace(/^cmd:([^:]+)$/, 'cmd:$1:*'));

const isGranted = (run: RunState, pattern: string): boolean =>
  run.policies.every((patterns) => refusal(patterns, [pattern.replace(/:\*$/, '')]) === undefined);

/** The first profile whose requirements no policy denies, else the last. It grants nothing. */
export function profileOf(run: RunState, profiles: JsonObject): Json {
  const entries = Object.entries(profiles);
  const fits = entries.find(([, profile]) => {
    const requires = isObject(profile) ? profile['requires'] : undefined;
    return requirements(requires).every((pattern) => isGranted(run, pattern));
  });
  return (fits ?? entries.at(-1))?.[0] ?? null;
}

/** What a script says it cannot do without, and does not have: refused, or not installed. */
export async function missingNeeds(env: Environment, needs: JsonObject): Promise<string[]> {
  const wanted = requirements(needs);
  const refused = wanted.filter((pattern) => !isGranted(env.run, pattern));
  const programs = [...new Set(wanted.flatMap((pattern) => programOf(pattern)))];
  if (refused.length > 0 || programs.length === 0) return refused;
  return (await absentPrograms(programs, env)).map((name) => `cmd:${name}`);
}

const INTERPRETERS: Readonly<Record<string, string>> = { node: 'node', py: 'python3' };

function programOf(pattern: string): string[] {
  const [kind = '', name] = pattern.split(':');
  const program = kind === 'cmd' ? name : INTERPRETERS[kind];
  return program === undefined || program === '*' ? [] : [program];
}

/** Asked of the shell that would run them, all at once. */
async function absentPrograms(
  programs: readonly string[],
  { run, unit, frame }: Environment,
): Promise<string[]> {
  const tests = programs.map(
    (name) => `command -v ${quoteWord(name)} >/dev/null || echo ${quoteWord(name)}`,
  );
  const source = tests.join('\n');
  const plain = { env: {}, stdin: undefined, timeoutMs: undefined };
  const request = { kind: 'sh', source, folder: unit.folder, ...plain } as const;
  const { stdout } = unwrap(await run.world.process(request, frame));
  return stdout.split('\n').filter((name) => name !== '');
}
