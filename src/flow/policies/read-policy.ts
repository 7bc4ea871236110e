// `policy.yaml`: from text to a policy, with a place for everything that is wrong. Unknown names are
// errors with a suggestion: a rule that is misspelt must not look as if it held.
// INVARIANT: a file with an error yields no policy at all; half a policy would protect half.
import {
  anything,
  compact,
  type Diagnostic,
  flag,
  globProblem,
  hasErrors,
  isObject,
  type Json,
  listOf,
  listOrOne,
  mapping,
  numberBetween,
  oneOf,
  openYaml,
  type Position,
  type Rule,
  type RulePath,
  type RulePlace,
  record,
  tableOf,
  text,
  wrongType,
} from '../../base/index.ts';
import { type Ceiling, type Grant, normalizeCapability, RISK_TIERS } from '../../trust/index.ts';
import type { LabelRule, RuleState } from '../frame.ts';
import { type GuardSource, guardProblems, TIMINGS } from '../guards/guard-expression.ts';
import { normalizePattern } from '../operation.ts';
import { PACK_NAMES, RULE_NAMES } from './named-rules.ts';
import { isLimit, type Policy, type PolicyLevel, TOOL_EFFECTS } from './policy.ts';

const word: Rule<string> = (value, place) =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : wrongType(place, 'text', value);

/** A text with `*` in it; `normalize` says what of it is compared. */
const glob =
  (what: string, normalize: (written: string) => string = (written) => written): Rule<string> =>
  (value, place) => {
    const written = word(value, place);
    const wrong = written === undefined ? undefined : globProblem(normalize(written));
    if (wrong === undefined) return written;
    return place.report({ code: 'invalid_field', message: `${what} \`${written}\` ${wrong}` });
  };
const words = listOrOne(word);
const patterns = listOrOne(glob('pattern', normalizePattern));

const labelRule: Rule<LabelRule> = record({ deny: patterns, ask: patterns, allow: patterns });

/** What nobody below may exceed: names of capabilities, or a name with its scope. */
const SCOPE = {
  path: glob('path'),
  id: glob('id'),
  host: glob('host'),
  method: glob('method'),
  subtree: glob('subtree'),
};
const scopedGrant = record({ capability: word, ...SCOPE }, { required: ['capability'] });
const grant: Rule<Grant> = (value, place) => {
  if (!isObject(value)) {
    const name = word(value, place);
    return name === undefined ? undefined : { capability: normalizeCapability(name) };
  }
  const { capability, ...scope } = scopedGrant(value, place) ?? {};
  if (capability === undefined) return undefined;
  const named = { capability: normalizeCapability(capability) };
  return Object.keys(scope).length > 0 ? { ...named, scope } : named;
};
const ceiling: Rule<Ceiling> = record({ allow: listOf(grant), deny: listOf(grant) });

const limit: Rule<number | string> = (value, place) =>
  isLimit(value) ? value : wrongType(place, 'a number, or a decimal amount in quotes', value);

const RULE_VALUES = new Map<Json, RuleState>([
  [true, 'deny'],
  ['deny', 'deny'],
  ['ask', 'ask'],
  [false, 'off'],
  ['off', 'off'],
]);

const ruleState =
  (level: PolicyLevel): Rule<RuleState> =>
  (value, place) => {
    const state = RULE_VALUES.get(value);
    if (state === undefined) return wrongType(place, 'true, false or ask', value);
    if (level === 'project' && state === 'off') {
      place.report({
        code: 'rule_not_off',
        severity: 'warning',
        message: `a project turns \`${place.path.at(-1)}\` off only with a signed policy`,
        hint: 'sign the policy file, or set it in your user policy',
      });
    }
    return state;
  };

const rulesOf = (level: PolicyLevel): Rule<Record<string, RuleState>> => {
  const rules = record(Object.fromEntries(RULE_NAMES.map((name) => [name, ruleState(level)])));
  return (value, place) => {
    const read = rules(value, place);
    return read && compact<Record<string, RuleState>>(read);
  };
};

const defaults: Rule<{ unlabelled: string[] }> = (value, place) => {
  const read = record({ unlabelled: words, unlabeled: words })(value, place);
  return read && { unlabelled: [...(read.unlabelled ?? []), ...(read.unlabeled ?? [])] };
};

const surface = record({
  capabilities: ceiling,
  open: listOf(grant),
  effects: listOrOne(oneOf(TOOL_EFFECTS)),
  directives: oneOf(['none', 'signed', 'all']),
  elicitation: flag,
});

const notifyFields = record({ webhook: anything, command: anything, on: anything });

const VERDICTS = ['allow', 'deny', 'retry', 'ask'] as const;
const GUARD = record(
  {
    name: text,
    on: text,
    timing: oneOf(TIMINGS),
    when: text,
    privileged: flag,
    allow: anything,
    deny: word,
    retry: word,
    ask: word,
  },
  { required: ['on'] },
);
const replacement = record({ value: anything, add_labels: words, remove_labels: words });

/** `allow: true`, or what to put in the value's place and how to change its labels. */
function allowVerdict(given: Json, place: RulePlace): GuardSource['verdict'] | undefined {
  if (given === true || given === null) return { kind: 'allow' };
  if (!isObject(given)) return { kind: 'allow_value', value: given };
  const read = replacement(given, place);
  return read && { kind: read.value === undefined ? 'allow' : 'allow_value', ...read };
}

/** As in directives, in YAML: `on`, `when` and exactly one verdict. */
const guardOf =
  (file: string): Rule<GuardSource> =>
  (value, place) => {
    const read = GUARD(value, place);
    if (read?.on === undefined || !isObject(value)) return undefined;
    const [kind, ...more] = VERDICTS.filter((each) => Object.hasOwn(value, each));
    if (kind === undefined || more.length > 0) {
      const message = `a guard has exactly one verdict: ${VERDICTS.join(', ')}`;
      return place.report({ code: 'invalid_field', message });
    }
    const { on, timing = 'before', name, when, privileged } = read;
    const verdict =
      kind === 'allow'
        ? allowVerdict(value.allow ?? null, place.child('allow'))
        : { kind, text: read[kind] ?? '' };
    if (verdict === undefined) return undefined;
    const guard: GuardSource = {
      on,
      timing,
      verdict,
      file,
      ...place.position(),
      ...(name === undefined ? {} : { name }),
      ...(when === undefined ? {} : { when }),
      ...(privileged === true ? { privileged } : {}),
    };
    for (const { message, column, hint } of guardProblems(guard)) {
      const inCondition = column === undefined ? '' : ` (column ${column} of the condition)`;
      const at = column === undefined ? place : place.child('when');
      at.report({ code: 'invalid_guard', message: message + inCondition, ...(hint && { hint }) });
    }
    return guard;
  };

const settingsOf = (level: PolicyLevel, file: string) =>
  record({
    labels: tableOf(labelRule),
    operations: tableOf(patterns),
    capabilities: ceiling,
    approve: listOrOne(oneOf(RISK_TIERS)),
    limits: tableOf(limit),
    defaults,
    rules: rulesOf(level),
    packs: listOrOne(oneOf(PACK_NAMES)),
    guards: listOf(guardOf(file)),
    unsigned: oneOf(['allow', 'restrict']),
    sandbox: oneOf(['none', 'required']),
    install: oneOf(['allow', 'ask', 'deny']),
    hosts: listOrOne(glob('host')),
    models: record({ allow: listOrOne(glob('model')), deny: listOrOne(glob('model')) }),
    surfaces: tableOf(surface),
    trusted: record({ tools: listOrOne(glob('tool')) }),
    untrusted: oneOf(['show', 'reference']),
    approvals: record({ days: numberBetween(0.001, 3650, 'a number of days') }),
    retention: record({ days: numberBetween(0, 1e6, 'a number of days'), keep_failed: flag }),
    anneal: oneOf(['ask', 'auto']),
    prices: oneOf(['user', 'project']),
    notify: (value, place) => notifyFields(value, place) && mapping(value, place),
    transcript: oneOf(['preview', 'full']),
  });

interface ParsedPolicy {
  policy?: Policy;
  diagnostics: Diagnostic[];
  /** Where a setting stands, for findings about it (`lintPolicy`). */
  readonly locate: (path: RulePath) => Position;
}

/** Never throws; `policy` is absent when anything is wrong. An empty file is an empty policy. */
export function parsePolicy(text: string, file: string, level: PolicyLevel): ParsedPolicy {
  const { value, place, diagnostics } = openYaml(text, file);
  const read = value === null ? {} : settingsOf(level, file)(value, place);
  const locate = (path: RulePath) =>
    path.reduce((at: RulePlace, step) => at.child(step), place).position();
  return read === undefined || hasErrors(diagnostics)
    ? { diagnostics, locate }
    : { policy: { level, file, ...read }, diagnostics, locate };
}
