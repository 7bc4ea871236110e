// `guards` of a policy file: the same guards as in directives, in YAML.
import { isObject, type Json, type JsonObject } from '../base/index.ts';
import { type GuardSource, guardProblems } from './guard-expression.ts';
import { type FieldContext, type FieldReader, onlyKeys, texts } from './policy-reading.ts';

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
