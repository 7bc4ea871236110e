// One reader per setting of a policy file. Unknown names are errors with a suggestion: a rule that
// is misspelt must not look as if it held.
import { globProblem, type Json } from '../base/index.ts';
import type { LabelRule, Policy, RuleState, SurfacePolicy } from './policy.ts';
import { readCeiling } from './policy-ceiling.ts';
import { readGuards } from './policy-guards.ts';
import { isLimit } from './policy-limits.ts';
import {
  type FieldContext,
  type FieldReader,
  listOf,
  mapping,
  oneOf,
  onlyKeys,
  patterns,
  texts,
} from './policy-reading.ts';
import { PACK_NAMES, RULE_NAMES } from './policy-rules.ts';

const VERDICTS = ['deny', 'ask', 'allow'] as const;

const labels: FieldReader = (value, context) => {
  const read = (label: string, given: Json): LabelRule => {
    const rule = mapping(given, context, [label]);
    onlyKeys(rule, VERDICTS, context, [label]);
    const named = VERDICTS.filter((name) => Object.hasOwn(rule, name));
    return Object.fromEntries(
      named.map((name) => [name, patterns(rule[name], context, [label, name])]),
    );
  };
  const given = Object.entries(mapping(value, context));
  return Object.fromEntries(given.map(([label, rule]) => [label, read(label, rule)]));
};

const operations: FieldReader = (value, context) =>
  Object.fromEntries(
    Object.entries(mapping(value, context)).map(([label, given]) => [
      label,
      patterns(given, context, [label]),
    ]),
  );

const RULE_VALUES = new Map<Json, RuleState>([
  [true, 'deny'],
  ['deny', 'deny'],
  ['ask', 'ask'],
  [false, 'off'],
  ['off', 'off'],
]);

const rules: FieldReader = (value, context) => {
  const given = mapping(value, context);
  onlyKeys(given, RULE_NAMES, context);
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, setting]) => {
      const state = RULE_VALUES.get(setting);
      if (state === undefined) {
        context.problem([name], { message: 'expected true, false or ask' });
        return [];
      }
      const isWeak = context.level === 'project' && state === 'off';
      if (isWeak) {
        context.problem([name], {
          severity: 'warning',
          message: `a project turns \`${name}\` off only with a signed policy`,
          hint: 'sign the policy file, or set it in your user policy',
        });
      }
      return [[name, state]];
    }),
  );
};

const limits: FieldReader = (value, context) =>
  Object.fromEntries(
    Object.entries(mapping(value, context)).filter(([name, limit]) => {
      if (isLimit(limit)) return true;
      context.problem([name], { message: 'expected a number, or a decimal amount in quotes' });
      return false;
    }),
  );

const defaults: FieldReader = (value, context) => {
  const given = mapping(value, context);
  onlyKeys(given, ['unlabelled', 'unlabeled'], context);
  const unlabelled = [
    ...texts(given.unlabelled, context, ['unlabelled']),
    ...texts(given.unlabeled, context, ['unlabeled']),
  ];
  return { unlabelled };
};

const hosts: FieldReader = (value, context) => {
  const found = texts(value, context);
  for (const [at, host] of found.entries()) {
    const wrong = globProblem(host);
    if (wrong) context.problem([at], { message: `host \`${host}\` ${wrong}` });
  }
  return found;
};

function readSurface(name: string, given: Json, context: FieldContext): SurfacePolicy {
  const surface = mapping(given, context, [name]);
  onlyKeys(surface, ['capabilities', 'effects', 'directives'], context, [name]);
  const inside = (key: string): FieldContext => ({
    ...context,
    problem: (path, problem, part) => context.problem([name, key, ...path], problem, part),
    place: (path) => context.place([name, key, ...path]),
  });
  const read = (key: string, reader: FieldReader) =>
    Object.hasOwn(surface, key) ? { [key]: reader(surface[key] as Json, inside(key)) } : {};
  return {
    ...read('capabilities', readCeiling),
    ...read('effects', listOf(['read', 'idempotent', 'write'])),
    ...read('directives', oneOf(['none', 'signed', 'all'])),
  };
}

const surfaces: FieldReader = (value, context) =>
  Object.fromEntries(
    Object.entries(mapping(value, context)).map(([name, given]) => [
      name,
      readSurface(name, given, context),
    ]),
  );

const retention: FieldReader = (value, context) => {
  const given = mapping(value, context);
  onlyKeys(given, ['days', 'keep_failed'], context);
  const { days, keep_failed } = given;
  if (days !== undefined && !(typeof days === 'number' && days >= 0)) {
    context.problem(['days'], { message: 'expected a number of days' });
  }
  if (keep_failed !== undefined && typeof keep_failed !== 'boolean') {
    context.problem(['keep_failed'], { message: 'expected true or false' });
  }
  return given;
};

const notify: FieldReader = (value, context) => {
  const given = mapping(value, context);
  onlyKeys(given, ['webhook', 'command', 'on'], context);
  return given;
};

type Setting = Exclude<keyof Policy, 'level' | 'file' | 'signed'>;

export const FIELDS: Readonly<Record<Setting, FieldReader>> = {
  labels,
  operations,
  capabilities: readCeiling,
  approve: listOf(['read', 'write', 'elevated', 'system']),
  limits,
  defaults,
  rules,
  packs: listOf(PACK_NAMES),
  guards: readGuards,
  unsigned: oneOf(['allow', 'restrict']),
  sandbox: oneOf(['none', 'required']),
  install: oneOf(['allow', 'ask', 'deny']),
  hosts,
  surfaces,
  retention,
  anneal: oneOf(['ask', 'auto']),
  prices: oneOf(['user', 'project']),
  notify,
  transcript: oneOf(['preview', 'full']),
};
