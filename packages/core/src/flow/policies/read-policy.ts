// Parses `policy.yaml` into a policy, with a location for every problem. Unknown names are errors with a
// suggestion, because a misspelt rule must not look as if it applied. INVARIANT: a file with an error
// never yields a policy, because half a policy would protect half.
import { isIPv4, isIPv6 } from 'node:net';
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
import {
  type CapabilityCatalog,
  type Ceiling,
  ceilingProblem,
  type Grant,
  normalizeCapability,
  RISK_TIERS,
} from '../../trust/index.ts';
import type { LabelRule, RuleState } from '../frame.ts';
import { type GuardSource, guardProblems, TIMINGS } from '../guards/guard-expression.ts';
import { isGlob, keyProblem, normalizePattern } from '../operation.ts';
import { patternsIn } from './lint.ts';
import { PACK_NAMES, RULE_NAMES } from './named-rules.ts';
import {
  COMPACT,
  COMPACT_MODES,
  isLimit,
  LIMIT_NAMES,
  NOTICE_KINDS,
  type Policy,
  type PolicyLevel,
  SURFACE_NAMES,
  TOOL_EFFECTS,
} from './policy.ts';

const word: Rule<string> = (value, place) =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : wrongType(place, 'text', value);

/** A text that may contain `*`. `normalize` returns the form that is compared. */
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

/** Scope of a capability in a ceiling. */
const SCOPE = {
  path: glob('path'),
  id: glob('id'),
  host: glob('host'),
  method: glob('method'),
  subtree: glob('subtree'),
};
const scopedGrant = record({ capability: word, ...SCOPE }, { required: ['capability'] });
function readGrant(value: Json, place: RulePlace): Grant | undefined {
  if (!isObject(value)) {
    const name = word(value, place);
    return name === undefined ? undefined : { capability: normalizeCapability(name) };
  }
  const { capability, ...scope } = scopedGrant(value, place) ?? {};
  if (capability === undefined) return undefined;
  const named = { capability: normalizeCapability(capability) };
  return Object.keys(scope).length > 0 ? { ...named, scope } : named;
}

/** Parses a grant. Without a catalog, any name is valid. */
const grantOf =
  (catalog: CapabilityCatalog | undefined): Rule<Grant> =>
  (value, place) => {
    const read = readGrant(value, place);
    const message = read && catalog && ceilingProblem(read, catalog);
    if (message === undefined) return read;
    const isKnown = catalog?.get(read?.capability ?? '') !== undefined;
    const declare = 'declare your own capabilities in `config/capabilities.yaml`';
    const hint = isKnown ? undefined : declare;
    return place.report({ code: 'unknown_capability', message, hint });
  };

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
        message: `a project policy can turn rule \`${place.path.at(-1)}\` off only if it is signed`,
        hint: 'sign the policy file, or set it in your user policy',
      });
    }
    return state;
  };

/** A mapping with known names. Another name is an error with a suggestion. `more`: rules of further names. */
const tableOver = <T>(
  names: readonly string[],
  rule: Rule<T>,
  more: Readonly<Record<string, Rule<T>>> = {},
): Rule<Record<string, T>> => {
  const table = record({ ...Object.fromEntries(names.map((name) => [name, rule])), ...more });
  return (value, place) => {
    const read = table(value, place);
    return read && compact<Record<string, T>>(read);
  };
};

/** A host name, an address, or a glob of one, without scheme, port or mask. */
const host: Rule<string> = (value, place) => {
  const written = glob('host')(value, place);
  if (written === undefined || isHost(written)) return written;
  const range = /^(\d+)\.[\d.]+\/\d+$/.exec(written);
  const hint = range
    ? `write a glob such as \`${range[1]}.*\``
    : 'e.g. `localhost`, `10.0.*`, `::1`';
  const message = `\`${written}\` is not a host; write a name or an address without scheme, port or mask`;
  return place.report({ code: 'invalid_field', message, hint });
};

function isHost(written: string): boolean {
  if (isGlob(written))
    return /^[\w.*?-]+$/.test(written) || /^(?!.*:::)[\da-f:*?]+$/i.test(written);
  if (written.includes(':')) return isIPv6(written);
  return /^[\d.]+$/.test(written) ? isIPv4(written) : /^[\w-]+(?:\.[\w-]+)*\.?$/.test(written);
}

const defaults: Rule<{ unlabelled: string[] }> = (value, place) => {
  const read = record({ unlabelled: words, unlabeled: words })(value, place);
  return read && { unlabelled: [...(read.unlabelled ?? []), ...(read.unlabeled ?? [])] };
};

const surfaceOf = (grant: Rule<Grant>, ceiling: Rule<Ceiling>) =>
  record({
    capabilities: ceiling,
    open: listOf(grant),
    effects: listOrOne(oneOf(TOOL_EFFECTS)),
    directives: oneOf(['none', 'signed', 'all']),
    elicitation: flag,
  });

const command: Rule<Json> = (value, place) =>
  typeof value === 'string' ? value : listOf(text)(value, place);
const notifyFields = record({ webhook: text, command, on: listOf(oneOf(NOTICE_KINDS)) });

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

/** Parses `allow: true`, or the replacement of the value and its label changes. */
function allowVerdict(setting: Json, place: RulePlace): GuardSource['verdict'] | undefined {
  if (setting === true || setting === null) return { kind: 'allow' };
  if (!isObject(setting)) return { kind: 'allow_value', value: setting };
  const read = replacement(setting, place);
  return read && { kind: read.value === undefined ? 'allow' : 'allow_value', ...read };
}

/** Parses a guard: `on`, `when` and exactly one verdict, as in directives. */
const guardOf =
  (file: string): Rule<GuardSource> =>
  (value, place) => {
    const read = GUARD(value, place);
    if (read?.on === undefined || !isObject(value)) return undefined;
    const [kind, ...more] = VERDICTS.filter((each) => Object.hasOwn(value, each));
    if (kind === undefined || more.length > 0) {
      const message = `a guard must have exactly one verdict: ${VERDICTS.join(', ')}`;
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

function settingsOf(level: PolicyLevel, file: string, catalog: CapabilityCatalog | undefined) {
  const grant = grantOf(catalog);
  const ceiling: Rule<Ceiling> = record({ allow: listOf(grant), deny: listOf(grant) });
  return record({
    labels: tableOf(labelRule),
    operations: tableOf(patterns),
    capabilities: ceiling,
    approve: listOrOne(oneOf(RISK_TIERS)),
    limits: tableOver(LIMIT_NAMES, limit, { [COMPACT]: oneOf(COMPACT_MODES) }),
    defaults,
    rules: tableOver(RULE_NAMES, ruleState(level)),
    packs: listOrOne(oneOf(PACK_NAMES)),
    guards: listOf(guardOf(file)),
    unsigned: oneOf(['allow', 'restrict']),
    sandbox: oneOf(['none', 'required']),
    install: oneOf(['allow', 'ask', 'deny']),
    hosts: listOrOne(host),
    models: record({ allow: listOrOne(glob('model')), deny: listOrOne(glob('model')) }),
    surfaces: tableOver(SURFACE_NAMES, surfaceOf(grant, ceiling)),
    acp: record({ may_approve: flag, words: oneOf(['user', 'untrusted']) }),
    trusted: record({ tools: listOrOne(glob('tool')) }),
    untrusted: oneOf(['show', 'reference']),
    approvals: record({ days: numberBetween(0.001, 3650, 'a number of days') }),
    retention: record({ days: numberBetween(0, 1e6, 'a number of days'), keep_failed: flag }),
    anneal: oneOf(['ask', 'auto']),
    prices: oneOf(['user', 'project']),
    notify: (value, place) => notifyFields(value, place) && mapping(value, place),
    transcript: oneOf(['preview', 'full']),
  });
}

interface ParsedPolicy {
  policy?: Policy;
  diagnostics: Diagnostic[];
  /** Returns the location of a setting, for findings (`lintPolicy`). */
  readonly locate: (path: RulePath) => Position;
}

/**
 * Parses a policy file. Never throws. `policy` is absent if the file has an error. An empty file is an
 * empty policy. `catalog`: the capabilities that may be named. Absent: any name is valid.
 */
export function parsePolicy(
  text: string,
  file: string,
  level: PolicyLevel,
  catalog?: CapabilityCatalog,
): ParsedPolicy {
  const { value, place, diagnostics } = openYaml(text, file);
  const read = value === null ? {} : settingsOf(level, file, catalog)(value, place);
  const at = (path: RulePath) => path.reduce((above: RulePlace, step) => above.child(step), place);
  const locate = (path: RulePath) => at(path).position();
  const labels = Object.keys(read?.operations ?? {});
  for (const { written, path } of read ? patternsIn({ level, ...read }) : []) {
    const problem = keyProblem(written, labels);
    if (problem) at(path).report({ code: 'unknown_operation', ...problem });
  }
  return read === undefined || hasErrors(diagnostics)
    ? { diagnostics, locate }
    : { policy: { level, file, ...read }, diagnostics, locate };
}
