import type { Diagnostic, Severity } from './diagnostic.ts';
import { getOwn, isObject } from './json.ts';
import { fail, type Json, type JsonObject, type Outcome, ok } from './outcome.ts';
import { createLines, didYouMean, type Position } from './text.ts';
import { parseYaml, type YamlDocument } from './yaml.ts';

type Loose<T> = { [K in keyof T]: T[K] | undefined };

/** Returns the same object without undefined fields, because absent and undefined mean the same. */
export function compact<T extends object>(value: Loose<T>): T {
  return Object.fromEntries(
    Object.entries(value).filter(([, field]) => field !== undefined),
  ) as unknown as T;
}

export type RulePath = readonly (string | number)[];

interface RuleProblem {
  code: string;
  message: string;
  hint?: string | undefined;
  severity?: Severity;
  /** `key`: the problem is at the key. Absent: it is at the value. */
  at?: 'key';
  /** Name of the missing field. Absent: no field is missing. */
  field?: string;
}

export interface RulePlace {
  readonly path: RulePath;
  child(step: string | number): RulePlace;
  position(part?: 'key' | 'value'): Position;
  report(problem: RuleProblem): undefined;
}

/** Maximum number of problems. A hostile file can contain one per byte, and people read the first few. */
const MAX_DIAGNOSTICS = 100;

export type Rule<T> = (value: Json, place: RulePlace) => T | undefined;

/** Returns a path such as `config.stream` for messages. */
const pathText = (path: RulePath): string => path.join('.');

/**
 * A file of an untrusted author that rules can read. A rule reports every problem with its location, and
 * returns undefined after an error.
 */
interface OpenedYaml {
  readonly value: Json;
  readonly place: RulePlace;
  /** Problems so far. Rules add to them. */
  readonly diagnostics: Diagnostic[];
}

/** Parses YAML for rules. Never throws. `before` is the number of lines that precede the text in its file. */
export function openYaml(yaml: string, file: string, before = 0): OpenedYaml {
  const document = parseYaml(yaml);
  const lines = createLines(yaml);
  const source = { file, before, line: (number: number) => lines.line(number) };
  const diagnostics: Diagnostic[] = document.problems.map(({ line, column, message }) => ({
    file,
    line: line + before,
    column,
    code: 'yaml_syntax',
    severity: 'error',
    message: message.replace(/\.$/, ''),
    text: lines.line(line),
  }));
  return { value: document.value, place: createPlace(document, source, diagnostics), diagnostics };
}

function createPlace(
  document: YamlDocument,
  source: { file: string; before: number; line(number: number): string },
  diagnostics: Diagnostic[],
  path: RulePath = [],
): RulePlace {
  const position = (part: 'key' | 'value' = 'value'): Position => {
    const { line, column } = document.locate(path, part);
    return { line: line + source.before, column };
  };
  return {
    path,
    position,
    child: (step) => createPlace(document, source, diagnostics, [...path, step]),
    report({ code, message, hint, severity = 'error', at }) {
      if (diagnostics.length >= MAX_DIAGNOSTICS) return undefined;
      const { line, column } = position(at);
      const text = source.line(line - source.before);
      const { file } = source;
      diagnostics.push(compact({ file, line, column, code, severity, message, hint, text }));
      return undefined;
    },
  };
}

function describe(value: Json): string {
  if ((value ?? null) === null) return 'nothing'; // A program can pass undefined.
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  const preview = JSON.stringify(value);
  return `\`${preview.length > 60 ? `${preview.slice(0, 60)}…` : preview}\``;
}

/** Reports that the value has another type than `expected`. */
export function wrongType(
  place: RulePlace,
  expected: string,
  value: Json,
  hint?: string,
): undefined {
  const name = pathText(place.path) || 'the file';
  const message = `\`${name}\` must be ${expected}, not ${describe(value)}`;
  return place.report({ code: 'invalid_field', message, hint });
}

export const text: Rule<string> = (value, place) =>
  typeof value === 'string' ? value : wrongType(place, 'text', value);

/** Reads a text that matches the pattern. `what` describes the form in messages. */
export const textLike =
  (pattern: RegExp, what: string, hint?: string): Rule<string> =>
  (value, place) =>
    typeof value === 'string' && pattern.test(value) ? value : wrongType(place, what, value, hint);

export const flag: Rule<boolean> = (value, place) =>
  typeof value === 'boolean' ? value : wrongType(place, '`true` or `false`', value);

export const anything: Rule<Json> = (value) => value;

export const mapping: Rule<JsonObject> = (value, place) =>
  isObject(value) ? value : wrongType(place, 'a mapping', value);

export const numberBetween =
  (min: number, max: number, what: string): Rule<number> =>
  (value, place) =>
    typeof value === 'number' && value >= min && value <= max
      ? value
      : wrongType(place, what, value);

export const wholeBetween =
  (min: number, max: number): Rule<number> =>
  (value, place) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : wrongType(place, `a whole number from ${min} to ${max}`, value);

const meantOrAll = (word: string, names: readonly string[]): string =>
  didYouMean(word, names) ?? `one of: ${names.join(', ')}`;

export const oneOf =
  <const T extends string>(members: readonly T[]): Rule<T> =>
  (value, place) => {
    const member = members.find((each) => each === value);
    if (member !== undefined) return member;
    const hint = meantOrAll(typeof value === 'string' ? value : '', members);
    return wrongType(place, `one of ${members.join(', ')}`, value, hint);
  };

/** Reads a list. Invalid elements are reported and left out. */
export const listOf =
  <T>(rule: Rule<T>, max = 1000): Rule<T[]> =>
  (value, place) => {
    if (!Array.isArray(value)) {
      return wrongType(place, 'a list', value, `put ${describe(value)} in brackets: \`[…]\``);
    }
    if (value.length > max) return wrongType(place, `a list of at most ${max}`, value);
    const read = value.map((element, index) => rule(element, place.child(index)));
    return read.filter((element) => element !== undefined);
  };

/** Reads a list, or its only element without brackets, as people often write it. */
export const listOrOne =
  <T>(rule: Rule<T>): Rule<T[]> =>
  (value, place) => {
    if (Array.isArray(value)) return listOf(rule)(value, place);
    const only = rule(value, place);
    return only === undefined ? undefined : [only];
  };

/** Reads a list like `listOf` and reports a name that occurs twice. */
export const uniqueBy =
  <T>(rule: Rule<T[]>, nameOf: (element: T) => string, what: string): Rule<T[]> =>
  (value, place) => {
    const read = rule(value, place);
    if (read === undefined) return undefined;
    const names = new Set<string>();
    for (const [index, element] of read.entries()) {
      const name = nameOf(element);
      if (names.has(name)) {
        place.child(index).report({
          code: 'duplicate_name',
          message: `${what} \`${name}\` is declared twice`,
          hint: 'names must differ; remove one of them',
        });
      }
      names.add(name);
    }
    return read;
  };

/** Reads a mapping from any name to values of one shape. Invalid values are reported and left out. */
export const tableOf =
  <T>(rule: Rule<T>, max = Number.POSITIVE_INFINITY): Rule<Record<string, T>> =>
  (value, place) => {
    if (!isObject(value)) return wrongType(place, 'a mapping', value);
    if (Object.keys(value).length > max)
      return wrongType(place, `a mapping of at most ${max}`, value);
    const read: [string, T][] = [];
    for (const [key, element] of Object.entries(value)) {
      const result = rule(element, place.child(key));
      if (result !== undefined) read.push([key, result]);
    }
    return Object.fromEntries(read);
  };

/** The type that a rule reads. */
export type ReadBy<R> = R extends Rule<infer T> ? T : never;

type Read<S> = { [K in keyof S]?: ReadBy<S[K]> };

interface RecordOptions<Name> {
  required?: readonly Name[];
  moved?: Record<string, string>;
  /** True if other code reads more fields: unknown fields and empty values are kept, with a warning. */
  open?: boolean;
  /** True if the rule of a field reads its empty value. Otherwise an empty value counts as absent. */
  strict?: boolean;
}

/** Reads a mapping with the fields of `rules`. Any other field is an error with a suggestion. */
export const record =
  <S extends Record<string, Rule<unknown>>>(
    rules: S,
    options: RecordOptions<keyof S & string> = {},
  ): Rule<Read<S>> =>
  (value, place) => {
    if (!isObject(value)) return wrongType(place, 'a mapping', value);
    const read: [string, unknown][] = [];
    for (const [key, field] of Object.entries(value)) {
      const rule = Object.hasOwn(rules, key) ? rules[key] : undefined;
      if (!rule) reportUnknown(place.child(key), key, Object.keys(rules), options);
      const extra = options.open ? field : undefined;
      const isRead = options.strict || (field ?? null) !== null;
      const result = rule && isRead ? rule(field, place.child(key)) : extra;
      if (result !== undefined) read.push([key, result]);
    }
    for (const key of options.required ?? []) {
      if ((value[key] ?? null) !== null) continue;
      const owner = pathText(place.path);
      place.report({
        code: 'missing_field',
        field: key,
        message: owner === '' ? `\`${key}\` is missing` : `\`${owner}\` has no \`${key}\``,
        hint: `add \`${key}: …\``,
      });
    }
    return Object.fromEntries(read) as Read<S>;
  };

function reportUnknown(
  place: RulePlace,
  key: string,
  validNames: readonly string[],
  { moved = {}, open }: RecordOptions<string>,
): void {
  const hint = Object.hasOwn(moved, key) ? moved[key] : undefined;
  place.report({
    code: 'unknown_field',
    severity: open ? 'warning' : 'error',
    message: `unknown field \`${key}\``,
    hint: hint ?? meantOrAll(key, validNames),
    at: 'key',
  });
}

/** A problem of a value without a document, such as a config that was merged from several files. */
export interface ShapeProblem {
  readonly path: RulePath;
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  /** Name of the missing field. Absent: no field is missing. */
  readonly field?: string;
}

/** Returns the errors of a value, without warnings. Their paths begin with `name`, unless `name` is empty. */
export function problemsIn(value: Json, name: string, rule: Rule<unknown>): ShapeProblem[] {
  const problems: ShapeProblem[] = [];
  rule(value, placeIn(problems, name));
  return problems;
}

/** Returns the value as the rule reads it. Fails with `invalid_input` and the first problem. */
export function readValue<T>(value: Json, name: string, rule: Rule<T>): Outcome<T> {
  const problems: ShapeProblem[] = [];
  const read = rule(value, placeIn(problems, name));
  const [first] = problems;
  if (first === undefined && read !== undefined) return ok(read);
  const { code, path = [], message = 'the value cannot be read', hint } = first ?? {};
  const owner = code === 'unknown_field' ? pathText(path.slice(0, -1)) : '';
  const where = owner === '' ? '' : ` in \`${owner}\``;
  return fail('invalid_input', `${message}${where}${hint === undefined ? '' : `; ${hint}`}`);
}

function placeIn(problems: ShapeProblem[], name: string): RulePlace {
  const placeAt = (path: RulePath): RulePlace => ({
    path,
    child: (step) => placeAt([...path, step]),
    position: () => ({ line: 1, column: 1 }),
    report({ code, message, hint, field, severity = 'error' }) {
      if (severity !== 'error' || problems.length >= MAX_DIAGNOSTICS) return undefined;
      problems.push(compact<ShapeProblem>({ path, code, message, hint, field }));
      return undefined;
    },
  });
  return placeAt(name === '' ? [] : [name]);
}

const PLACEHOLDER = /\{[^{}]+\}/;
const ONLY_PLACEHOLDER = /^\s*\$?\{[^{}]+\}\s*$/;

/** Skips `rule` for a text that is one placeholder, because any value may replace it. */
export const fillable =
  <T>(rule: Rule<T>): Rule<T> =>
  (value, place) =>
    typeof value === 'string' && ONLY_PLACEHOLDER.test(value) ? undefined : rule(value, place);

/** Skips `rule` for a text that contains a placeholder. */
export const fillableText =
  <T>(rule: Rule<T>): Rule<T> =>
  (value, place) =>
    typeof value === 'string' && PLACEHOLDER.test(value) ? undefined : rule(value, place);

/** Returns the text of a field. Empty if the field is absent or not a text. */
export function textAt(value: Json | undefined, key: string): string {
  const text = getOwn(value, key);
  return typeof text === 'string' ? text : '';
}

/** Returns the texts in the list of a field. Empty if the field is absent or not a list. */
export function textsAt(value: Json | undefined, key: string): string[] {
  const list = getOwn(value, key);
  return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : [];
}

export function listAt(value: Json | undefined, key: string): Json[] {
  const list = getOwn(value, key);
  return Array.isArray(list) ? list : [];
}

/** Returns the object of a field. Empty if the field is absent or not an object. */
export function objectAt(value: Json | undefined, key: string): JsonObject {
  const field = getOwn(value, key);
  return isObject(field) ? field : {};
}

/** Returns the number of a field. Undefined if the field is absent or not a number. */
export function numberAt(value: Json | undefined, key: string): number | undefined {
  const field = getOwn(value, key);
  return typeof field === 'number' ? field : undefined;
}

/**
 * Returns the object of a JSON text. Undefined if the text has no object. The depth is not checked,
 * because callers read single fields.
 */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the text of a JSON string. Undefined if the literal is not one. The result is a copy, because
 * a slice would keep the whole source in memory.
 */
export function parseText(literal: string): string | undefined {
  try {
    const value = JSON.parse(literal) as Json;
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
