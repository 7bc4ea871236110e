// `capabilities` of a policy: what nobody below may exceed. Entries are names, or a name with scope.
import { globProblem, isObject, type Json } from '../base/index.ts';
import { type Ceiling, type Grant, normalizeCapability, type Scope } from '../trust/index.ts';
import { type FieldContext, type FieldReader, onlyKeys } from './policy-reading.ts';

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
