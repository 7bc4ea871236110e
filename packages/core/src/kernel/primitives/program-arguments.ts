// Reads the parameters of a program's tool. They are declared as in a tool file, or by a schema of any
// library that implements Standard Schema (https://standardschema.dev).
import { fail, isObject, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type ReadArguments<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Standard<Input, Output> {
  readonly version: 1;
  readonly vendor: string;
  readonly validate: (value: unknown) => ReadArguments<Output> | Promise<ReadArguments<Output>>;
  readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  /** Present if the schema can convert itself to JSON Schema. */
  readonly jsonSchema?: {
    readonly input: (options: { readonly target: 'draft-2020-12' }) => Record<string, unknown>;
    readonly output?: (options: { readonly target: 'draft-2020-12' }) => Record<string, unknown>;
  };
}

/** Standard Schema, version 1: zod, valibot, arktype and others. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': Standard<Input, Output>;
}

interface Types {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  object: JsonObject;
  array: Json[];
  any: Json;
}

/** One parameter, declared as in a tool file. */
interface Declaration {
  readonly type?: keyof Types;
  readonly required?: boolean;
  readonly default?: unknown;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly items?: keyof Types | Readonly<Record<string, unknown>>;
  readonly role?: string;
  readonly kind?: string;
  readonly volatile?: boolean;
}

export type Declarations = Readonly<Record<string, keyof Types | Declaration>>;

type ValueOf<D> = D extends keyof Types
  ? Types[D]
  : D extends { enum: readonly (infer Member)[] }
    ? Member
    : D extends { type: infer Word extends keyof Types }
      ? Types[Word]
      : Json;

/** A type word alone means a required parameter. A default is filled in before the tool is called. */
type PresentName<P> = {
  [name in keyof P]: P[name] extends string | { required: true } | { default: unknown }
    ? name
    : never;
}[keyof P];

export type ArgumentsOf<P> =
  P extends StandardSchema<unknown, infer Output>
    ? Output
    : string extends keyof P
      ? JsonObject
      : { [name in PresentName<P>]: ValueOf<P[name]> } & {
          [name in Exclude<keyof P, PresentName<P>>]?: ValueOf<P[name]>;
        };

const isStandard = (value: unknown): value is StandardSchema =>
  // Some libraries represent a schema as a function.
  ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
  '~standard' in value;

export const standardOf = (
  parameters: Declarations | StandardSchema | undefined,
): StandardSchema['~standard'] | undefined =>
  isStandard(parameters) ? parameters['~standard'] : undefined;

/** Accepts any fields. The schema reports its own problems when the tool is called. */
const ANYTHING: JsonObject = { type: 'object', additionalProperties: true };

/** Returns the JSON Schema for the model. A schema that cannot convert itself accepts any object. */
export function inputSchema({ jsonSchema }: StandardSchema['~standard']): JsonObject {
  try {
    const schema = JSON.parse(
      JSON.stringify(jsonSchema?.input({ target: 'draft-2020-12' }) ?? null),
    );
    if (!isObject(schema)) return ANYTHING;
    // Alternatives have no fields of their own, so unknown fields cannot be detected.
    return isObject(schema.properties)
      ? schema
      : { ...schema, type: 'object', additionalProperties: true };
  } catch {
    return ANYTHING;
  }
}

const fieldOf = ({ path = [] }: Issue): string =>
  path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.') || '(whole)';

/** Returns the arguments as the schema parses them: defaults filled in, texts converted. */
export async function readArguments(
  { validate }: StandardSchema['~standard'],
  input: JsonObject,
  tool: string,
): Promise<Outcome<JsonObject>> {
  const read = await validate(structuredClone(input));
  if (!read.issues) return ok(read.value as JsonObject);
  const errors = read.issues.map((issue) => ({ field: fieldOf(issue), error: issue.message }));
  const list = errors.map(({ field, error }) => `\`${field}\`: ${error}`).join('; ');
  const message = `parameters of \`${tool}\` do not fit: ${list}`;
  return fail('invalid_input', message, { validation_errors: errors });
}
