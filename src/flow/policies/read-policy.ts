// `capabilities` of a policy: what nobody below may exceed. Entries are names, or a name with scope.
import {
  createLines,
  type Diagnostic,
  globProblem,
  hasErrors,
  isObject,
  type Json,
  type JsonObject,
  nearest,
  type Position,
  parseYaml,
  type Severity,
  type YamlDocument,
} from '../../base/index.ts';
import { type Ceiling, type Grant, normalizeCapability, type Scope } from '../../trust/index.ts';
import type { LabelRule, RuleState } from '../frame.ts';
import { type GuardSource, guardProblems } from '../guards/guard-expression.ts';
import { normalizePattern } from '../operation.ts';
import { PACK_NAMES, RULE_NAMES } from './named-rules.ts';
import { isLimit, type Policy, type PolicyLevel, type SurfacePolicy } from './policy.ts';

// How a setting of a policy file is read: the shapes that several settings share.

export interface Problem {
  message: string;
  hint?: string;
  code?: string;
  severity?: Severity;
}

export interface FieldContext {
  problem(path: readonly (string | number)[], problem: Problem, part?: 'key' | 'value'): void;
  place(path: readonly (string | number)[]): Position;
  file: string;
  level: PolicyLevel;
}

export type FieldReader = (value: Json, context: FieldContext) => unknown;
type Path = readonly (string | number)[];

/** Reports keys that nothing reads, with the nearest one that is read. */
export function onlyKeys(
  value: object,
  known: readonly string[],
  context: FieldContext,
  path: Path = [],
): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    const close = nearest(key, known);
    const hint = close ? `did you mean \`${close}\`?` : `known: ${known.join(', ')}`;
    context.problem([...path, key], { message: `\`${key}\` is unknown here`, hint }, 'key');
  }
}

export function texts(value: Json | undefined, context: FieldContext, path: Path = []): string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : [value];
  return list.flatMap((item, at) => {
    if (typeof item === 'string' && item.trim() !== '') return [item.trim()];
    context.problem(Array.isArray(value) ? [...path, at] : path, { message: 'expected a text' });
    return [];
  });
}

export function oneOf(choices: readonly string[]): FieldReader {
  return (value, context) => {
    if (typeof value === 'string' && choices.includes(value)) return value;
    context.problem([], {
      message: `\`${typeof value === 'string' ? value : JSON.stringify(value)}\` is not possible here`,
      hint: `one of ${choices.join(', ')}`,
    });
    return undefined;
  };
}

export const listOf =
  (choices: readonly string[]): FieldReader =>
  (value, context) =>
    texts(value, context).filter((word, at) => {
      if (choices.includes(word)) return true;
      const close = nearest(word, choices);
      const hint = close ? `did you mean \`${close}\`?` : `one of ${choices.join(', ')}`;
      context.problem([at], { message: `\`${word}\` is unknown`, hint });
      return false;
    });

export function mapping(value: Json, context: FieldContext, path: Path = []): Record<string, Json> {
  if (isObject(value)) return value;
  context.problem(path, { message: 'expected a mapping' });
  return {};
}

export function patterns(value: Json | undefined, context: FieldContext, path: Path): string[] {
  const found = texts(value, context, path);
  for (const [at, pattern] of found.entries()) {
    const wrong = globProblem(normalizePattern(pattern));
    if (wrong) context.problem([...path, at], { message: `pattern \`${pattern}\` ${wrong}` });
  }
  return found;
}

const SCOPE_FIELDS = ['path', 'id', 'host', 'method', 'subtree'] as const;

function readScope(
  entry: Readonly<Record<string, Json>>,
  context: FieldContext,
  path: (string | number)[],
): Scope {
  const scope: Scope = {};
  for (const field of SCOPE_FIELDS) {
    const value = entry[field];
    if (value === undefined) continue;
    const wrong = typeof value === 'string' ? globProblem(value) : 'is not a text';
    if (wrong) context.problem([...path, field], { message: `\`${field}\` ${wrong}` });
    else scope[field] = value as string;
  }
  return scope;
}

function readGrant(entry: Json, context: FieldContext, path: (string | number)[]): Grant[] {
  if (typeof entry === 'string' && entry.trim() !== '') {
    return [{ capability: normalizeCapability(entry.trim()) }];
  }
  if (!isObject(entry) || typeof entry.capability !== 'string') {
    context.problem(path, {
      message: 'expected a capability, e.g. `fs.write`',
      hint: 'with a scope: `{ capability: fs.write, path: "out/**" }`',
    });
    return [];
  }
  onlyKeys(entry, ['capability', ...SCOPE_FIELDS], context, path);
  const scope = readScope(entry, context, path);
  const capability = normalizeCapability(entry.capability);
  return [Object.keys(scope).length > 0 ? { capability, scope } : { capability }];
}

export const readCeiling: FieldReader = (value, context): Ceiling | undefined => {
  if (!isObject(value)) {
    context.problem([], { message: 'expected `allow` and `deny` lists' });
    return undefined;
  }
  onlyKeys(value, ['allow', 'deny'], context);
  const ceiling: Ceiling = {};
  for (const name of ['allow', 'deny'] as const) {
    const list = value[name];
    if (list === undefined) continue;
    if (!Array.isArray(list)) context.problem([name], { message: 'expected a list' });
    else ceiling[name] = list.flatMap((entry, at) => readGrant(entry, context, [name, at]));
  }
  return ceiling;
};

// `guards` of a policy file: the same guards as in directives, in YAML.

const GUARD_VERDICTS = ['allow', 'deny', 'retry', 'ask'] as const;
const KEYS = ['name', 'on', 'timing', 'when', 'privileged', ...GUARD_VERDICTS];

/** `allow: true`, or what to put in the value's place and how to change its labels. */
function readAllow(
  given: Json,
  context: FieldContext,
  path: (string | number)[],
): GuardSource['verdict'] {
  if (given === true || given === null) return { kind: 'allow' };
  if (!isObject(given)) return { kind: 'allow_value', value: given };
  onlyKeys(given, ['value', 'add_labels', 'remove_labels'], context, path);
  const { value } = given;
  const labels = {
    ...(given.add_labels === undefined
      ? {}
      : { add_labels: texts(given.add_labels, context, [...path, 'add_labels']) }),
    ...(given.remove_labels === undefined
      ? {}
      : { remove_labels: texts(given.remove_labels, context, [...path, 'remove_labels']) }),
  };
  return value === undefined
    ? { kind: 'allow', ...labels }
    : { kind: 'allow_value', value, ...labels };
}

function readVerdict(
  entry: JsonObject,
  context: FieldContext,
  at: number,
): GuardSource['verdict'] | undefined {
  const given = GUARD_VERDICTS.filter((kind) => Object.hasOwn(entry, kind));
  const [kind] = given;
  if (kind === undefined || given.length > 1) {
    context.problem([at], {
      message: `a guard has exactly one verdict: ${GUARD_VERDICTS.join(', ')}`,
    });
    return undefined;
  }
  const value = entry[kind] as Json;
  if (kind === 'allow') return readAllow(value, context, [at, 'allow']);
  if (typeof value === 'string' && value.trim() !== '') return { kind, text: value.trim() };
  context.problem([at, kind], { message: `\`${kind}\` needs a text that says why` });
  return undefined;
}

function readGuard(entry: JsonObject, context: FieldContext, at: number): GuardSource[] {
  onlyKeys(entry, KEYS, context, [at]);
  const verdict = readVerdict(entry, context, at);
  const { on, timing, when, name, privileged } = entry;
  if (typeof on !== 'string') {
    context.problem([at], { message: 'a guard needs `on`: a label, `op:…` or `@function`' });
    return [];
  }
  if (when !== undefined && typeof when !== 'string') {
    context.problem([at, 'when'], { message: 'expected an expression in quotes' });
    return [];
  }
  if (!verdict) return [];
  const place = context.place([at]);
  const guard: GuardSource = {
    on,
    timing: timing === undefined ? 'before' : (timing as GuardSource['timing']),
    verdict,
    file: context.file,
    ...place,
    ...(typeof name === 'string' ? { name } : {}),
    ...(when === undefined ? {} : { when }),
    ...(privileged === true ? { privileged: true } : {}),
  };
  for (const { message, column, hint } of guardProblems(guard)) {
    const shown = column === undefined ? message : `${message} (column ${column} of the condition)`;
    context.problem(column === undefined ? [at] : [at, 'when'], {
      message: shown,
      ...(hint ? { hint } : {}),
    });
  }
  return [guard];
}

export const readGuards: FieldReader = (value, context) => {
  if (!Array.isArray(value)) {
    context.problem([], { message: 'expected a list of guards' });
    return undefined;
  }
  return value.flatMap((entry, at) => {
    if (isObject(entry)) return readGuard(entry, context, at);
    context.problem([at], { message: 'expected a guard: `on`, `when` and a verdict' });
    return [];
  });
};

// One reader per setting of a policy file. Unknown names are errors with a suggestion: a rule that
// is misspelt must not look as if it held.

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

// `policy.yaml`: from text to a policy, with a place for everything that is wrong. INVARIANT: a file
// with an error yields no policy at all; half a policy would protect half.

function createReporter(text: string, file: string, document: YamlDocument) {
  const lines = createLines(text);
  const diagnostics: Diagnostic[] = [];
  return {
    diagnostics,
    add(place: { line: number; column: number }, problem: Problem): void {
      const { line, column } = place;
      diagnostics.push({
        file,
        line,
        column,
        code: problem.code ?? 'config_invalid',
        severity: problem.severity ?? 'error',
        message: problem.message,
        ...(problem.hint === undefined ? {} : { hint: problem.hint }),
        text: lines.line(line),
      });
    },
    at(path: Path, problem: Problem, part: 'key' | 'value' = 'value'): void {
      this.add(document.locate(path, part), problem);
    },
  };
}

export interface ParsedPolicy {
  policy?: Policy;
  diagnostics: Diagnostic[];
  /** Where a setting stands, for findings about it (`lintPolicy`). */
  readonly locate: (path: Path) => Position;
}

/** Never throws; `policy` is absent when anything is wrong. An empty file is an empty policy. */
export function parsePolicy(text: string, file: string, level: PolicyLevel): ParsedPolicy {
  const document = parseYaml(text);
  const report = createReporter(text, file, document);
  for (const problem of document.problems) report.add(problem, { message: problem.message });
  const policy: Policy = { level, file };
  if (isObject(document.value)) {
    for (const [name, value] of Object.entries(document.value))
      readField(policy, name, value, report, document);
  } else if (document.value !== null) {
    report.at([], { message: 'a policy is a mapping of settings' });
  }
  const { diagnostics } = report;
  const locate = (path: Path) => document.locate(path);
  return hasErrors(diagnostics) ? { diagnostics, locate } : { policy, diagnostics, locate };
}

function readField(
  policy: Policy,
  name: string,
  value: Json,
  report: ReturnType<typeof createReporter>,
  document: YamlDocument,
): void {
  const reader = readerOf(name);
  if (!reader) {
    const close = nearest(name, Object.keys(FIELDS));
    const hint = close ? `did you mean \`${close}\`?` : `known: ${Object.keys(FIELDS).join(', ')}`;
    report.at([name], { message: `a policy has no setting \`${name}\``, hint }, 'key');
    return;
  }
  const problem = (path: Path, given: Problem, part?: 'key' | 'value') =>
    report.at([name, ...path], given, part);
  const place = (path: Path) => document.locate([name, ...path]);
  const parsed = reader(value, { problem, place, file: policy.file ?? '', level: policy.level });
  if (parsed !== undefined) Object.assign(policy, { [name]: parsed });
}

const readerOf = (name: string): FieldReader | undefined =>
  Object.hasOwn(FIELDS, name) ? FIELDS[name as keyof typeof FIELDS] : undefined;
