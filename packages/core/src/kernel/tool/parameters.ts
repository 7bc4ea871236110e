// Checks parameters before anything runs: defaults filled in, types by JSON Schema. The validator
// interprets schemas and compiles no code, so an untrusted schema stays data.
import { Validator } from '@cfworker/json-schema';
import {
  asJson,
  compact,
  type Failure,
  fail,
  getOwn,
  isDeeperThan,
  isObject,
  type Json,
  type JsonObject,
  messageOf,
  nearest,
  type Outcome,
  ok,
  setOwn,
} from '../../base/index.ts';
import type { ToolParameter } from '../../items/index.ts';

export interface ValidationError {
  field: string;
  error: string;
}

const MAX_PARAMETER_DEPTH = 100;
const MAX_NAME = 1000;

/** Returns the schema of one declared parameter. */
function propertySchema(parameter: ToolParameter): JsonObject {
  const { type, description, enum: values, items, default: preset } = parameter;
  return compact<JsonObject>({
    type: type === 'any' ? undefined : type,
    description: description || undefined,
    enum: values,
    items,
    default: preset,
  });
}

/**
 * Returns the schema that `load` returns and `execute` checks: an object with the declared names and no others.
 */
export function schemaOf(parameters: readonly ToolParameter[]): JsonObject {
  const properties: JsonObject = {};
  for (const parameter of parameters) {
    setOwn(properties, parameter.name, propertySchema(parameter));
  }
  const required = parameters
    .filter((parameter) => parameter.required && parameter.default === undefined)
    .map((parameter) => parameter.name);
  return { type: 'object', properties, required, additionalProperties: false };
}

/** Merges declarations. The tool's own declaration wins over one of the executor with the same name. */
export function inheritParameters(
  chain: readonly (readonly ToolParameter[])[],
): readonly ToolParameter[] {
  const byName = new Map<string, ToolParameter>();
  for (const parameters of chain.toReversed()) {
    for (const parameter of parameters) byName.set(parameter.name, parameter);
  }
  return [...byName.values()];
}

/** Fills in defaults of missing parameters. Does not change `parameters`. */
function fillDefaults(parameters: JsonObject, declared: readonly ToolParameter[]): JsonObject {
  const filled = { ...parameters };
  for (const { name, default: value } of declared) {
    if (value !== undefined && !Object.hasOwn(filled, name)) {
      setOwn(filled, name, typeof value === 'object' ? structuredClone(value) : value);
    }
  }
  return filled;
}

/** Returns one line per invalid field. A message about the whole object would not name the field. */
function readErrors(
  errors: readonly { keyword: string; instanceLocation: string; error: string }[],
): ValidationError[] {
  const leaves = errors.filter(
    (error) => !['properties', 'items', '$ref', 'allOf'].includes(error.keyword),
  );
  return leaves.slice(0, 20).map(({ instanceLocation, error }) => ({
    field: instanceLocation.replace(/^#\/?/, '').replaceAll('/', '.') || '(whole)',
    error: error.replace(/\.$/, ''),
  }));
}

/** Cache, because resolving the references of a schema costs more than most checks. Schemas are immutable. */
const validators = new WeakMap<JsonObject, Validator>();

const TYPES = ['string', 'number', 'boolean', 'integer', 'object', 'array'];
const PLAIN_KEYS: ReadonlySet<string> = new Set(['type', 'description', 'default']);

/** Returns the type of each property. Undefined if the schema restricts more than types. */
function plainTypes(schema: JsonObject): ReadonlyMap<string, string> | undefined {
  const { type, properties, required, additionalProperties, ...more } = schema;
  if (type !== 'object' || !isObject(properties) || additionalProperties !== false)
    return undefined;
  if (!Array.isArray(required) || Object.keys(more).length > 0) return undefined;
  const types = new Map<string, string>();
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property) || !Object.keys(property).every((key) => PLAIN_KEYS.has(key)))
      return undefined;
    const own = TYPES.find((each) => each === property.type);
    if (own === undefined) return undefined;
    types.set(name, own);
  }
  return types;
}

/** True for a list or object of this type, which `typeof` does not distinguish. */
const isContainer = (value: Json, type: string | undefined): boolean =>
  type === 'array' ? Array.isArray(value) : type === 'object' && isObject(value);

/** Cache of `plainTypes`. Schemas are immutable. */
const plain = new WeakMap<JsonObject, ReturnType<typeof plainTypes>>();

/**
 * Returns true if the value certainly matches. Most tools only name types, and a match then needs no
 * validator. Otherwise the validator decides.
 */
function surelyFits(value: Json, schema: JsonObject): boolean {
  if (!plain.has(schema)) plain.set(schema, plainTypes(schema));
  const types = plain.get(schema);
  if (!types || !isObject(value)) return false;
  for (const name of Object.keys(value)) {
    const [own, type] = [value[name] as Json, types.get(name)];
    const isFlat =
      type === 'integer' ? Number.isSafeInteger(own) : typeof own === type && type !== 'object';
    if (!isFlat && !isContainer(own, type)) return false;
  }
  for (const name of schema.required as string[]) if (!Object.hasOwn(value, name)) return false;
  return true;
}

/** Checks a value against a schema. An invalid schema refuses every value. */
export function validate(value: Json, schema: JsonObject): ValidationError[] {
  if (isDeeperThan(value, MAX_PARAMETER_DEPTH)) {
    return [{ field: '(whole)', error: `nested deeper than ${MAX_PARAMETER_DEPTH} levels` }];
  }
  if (surelyFits(value, schema)) return [];
  try {
    // The validator writes into its schema, and this one may be frozen as part of an answer, so it gets a copy.
    const validator =
      validators.get(schema) ?? new Validator(structuredClone(schema), '2020-12', false);
    validators.set(schema, validator);
    const result = validator.validate(value);
    return result.valid ? [] : readErrors(result.errors);
  } catch (error) {
    return [{ field: '(schema)', error: `the schema cannot be used: ${messageOf(error)}` }];
  }
}

/** Returns the declared names. Undefined for a schema that allows other names. */
function knownNames(schema: JsonObject, declared: readonly ToolParameter[]): string[] | undefined {
  const named = Object.keys((getOwn(schema, 'properties') as JsonObject | undefined) ?? {});
  const others = getOwn(schema, 'additionalProperties');
  if (others === false) return named;
  // JSON Schema allows unknown names by default. Here a schema must allow them explicitly.
  const isOpen = others !== undefined || getOwn(schema, 'patternProperties') !== undefined;
  return isOpen ? undefined : [...named, ...declared.map(({ name }) => name)];
}

/** True if a schema contains regular expressions. An untrusted one can keep the process busy for ever. */
export function hasPatterns(schema: Json): boolean {
  if (Array.isArray(schema)) return schema.some(hasPatterns);
  if (!isObject(schema)) return false;
  return Object.entries(schema).some(
    ([key, value]) =>
      (key === 'pattern' && typeof value === 'string') ||
      key === 'patternProperties' ||
      hasPatterns(value),
  );
}

/** Returns a refusal that lists every problem, not only the first. */
export function misfit(
  what: string,
  errors: readonly ValidationError[],
  more: JsonObject = {},
): Failure {
  const list = errors.map(({ field, error }) => `\`${field}\`: ${error}`).join('; ');
  return fail('invalid_input', `${what} do not fit: ${list}`, {
    validation_errors: asJson(errors),
    ...more,
  });
}

/** True if a name abbreviates another, such as `cmd` for `command`: the same first letter, others in order. */
function isShortFor(short: string, name: string): boolean {
  let at = 0;
  for (const letter of name) if (letter === short[at]) at += 1;
  return short[0] === name[0] && at === short.length;
}

/** Fills in defaults, refuses unknown names with a suggestion, and checks types. */
export function checkParameters(
  toolId: string,
  input: JsonObject,
  declared: readonly ToolParameter[],
  schema: JsonObject,
): Outcome<JsonObject> {
  const filled = fillDefaults(input, declared);
  if (surelyFits(filled, schema) && !isDeeperThan(filled, MAX_PARAMETER_DEPTH)) return ok(filled);
  const errors: ValidationError[] = [];
  const validNames = knownNames(schema, declared);
  const required = (getOwn(schema, 'required') as string[] | undefined) ?? [];
  const missing = required.filter((name) => !Object.hasOwn(filled, name));
  for (const name of Object.keys(filled)) {
    if (name.length > MAX_NAME) {
      return fail(
        'invalid_input',
        `a parameter of \`${toolId}\` has a name of ${name.length} characters`,
      );
    }
    if (validNames === undefined || validNames.includes(name)) continue;
    const near = missing.find((one) => isShortFor(name, one)) ?? nearest(name, validNames);
    const hint = near ? `did you mean \`${near}\`` : `it takes: ${validNames.join(', ') || 'none'}`;
    errors.push({ field: name, error: `unknown parameter; ${hint}` });
  }
  errors.push(...missing.map((field) => ({ field, error: 'required, but missing' })));
  if (errors.length === 0) errors.push(...validate(filled, schema));
  return errors.length === 0 ? ok(filled) : misfit(`parameters of \`${toolId}\``, errors);
}
