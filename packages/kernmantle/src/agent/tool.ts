// Defines the tools of agents. The door of the library loads this file at once, so it imports types only. What the
// author does not say is taken for the worst: a tool writes, has every risk and returns untrusted results.
import type { Json, JsonObject } from '@kernmantle/core/base';
import type { ProgramTool, StandardSchema, TypedTool } from '@kernmantle/core/kernel';
import { checkNames, invalidOption } from './error.ts';

/** A JSON Schema of an object. Its fields have no types in TypeScript. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, unknown>>;
  readonly [keyword: string]: unknown;
}

type Declared = Exclude<NonNullable<ProgramTool['parameters']>, StandardSchema>;
type ToolInput = StandardSchema | ObjectSchema | Declared;

/** Input of `run`, typed by its schema. */
export type InputOf<S> = S extends ObjectSchema ? JsonObject : Parameters<TypedTool<S>['run']>[0];

/** Facts about the call of a tool. */
export interface ToolContext {
  /** Aborts when the run is cancelled or its time is over. */
  readonly signal: AbortSignal;
  /** Key of the call, the same for every repetition, for example after a crash. */
  readonly idempotencyKey: string;
  readonly thread: string;
}

type ToolRole = 'destination' | 'command' | 'path' | 'content';

type ToolResult = ReturnType<ProgramTool['run']> | object | undefined;

export interface ToolOptions<S extends ToolInput = ToolInput>
  extends Pick<ProgramTool, 'effect' | 'risk' | 'labels' | 'requires'> {
  /** Letters, digits, `_`, `-` and `/`, at most 59. It begins with a letter. */
  readonly name: string;
  readonly description: string;
  readonly input: S;
  /** Schema of the result. Absent: the result is not checked. */
  readonly output?: StandardSchema | ObjectSchema;
  /** Meaning of parameters for guards and policies. A text without a role counts as one that steers the call. */
  readonly roles?: { readonly [name in keyof InputOf<S>]?: ToolRole };
  /** `false`: the author vouches for the results. Absent: results are untrusted. */
  readonly untrusted?: boolean;
  /** `always`: a person approves every call. */
  readonly approval?: 'always';
  run(input: InputOf<S>, context: ToolContext): ToolResult | Promise<ToolResult>;
}

/** A tool for agents and for runtimes. `tool` creates it. */
export class AgentTool implements ProgramTool {
  declare readonly id: string;
  declare readonly description: string;
  declare readonly run: ProgramTool['run'];
  readonly approval: 'always' | undefined;

  constructor(program: ProgramTool, approval?: 'always') {
    Object.assign(this, program);
    this.approval = approval;
  }
}

const OPTIONS =
  'name description input output roles run effect risk labels untrusted requires approval'.split(
    ' ',
  );
const NAME = /^[A-Za-z][A-Za-z0-9_/-]{0,58}$/;
const CHOICES = {
  effect: ['read', 'idempotent', 'write'],
  approval: ['always'],
  risk: ['exfil', 'destructive', 'privileged'],
  role: ['destination', 'command', 'path', 'content'],
} as const;
const RESERVED = ['search', 'load', 'execute', 'help', 'kernel', 'return_output', 'read_result'];

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the Standard Schema of a value. Some libraries represent a schema as a function. */
export const isStandard = (value: unknown): value is StandardSchema =>
  (isObject(value) || typeof value === 'function') && '~standard' in value;

const standardOf = (value: unknown): StandardSchema['~standard'] | undefined =>
  isStandard(value) ? value['~standard'] : undefined;

const isDeclared = (value: unknown): value is Declared =>
  isObject(value) && !isStandard(value) && !isSchema(value);

const isSchema = (value: unknown): value is ObjectSchema =>
  isObject(value) && value.type === 'object' && isObject(value.properties);

const copyJson = (value: unknown): JsonObject => JSON.parse(JSON.stringify(value));

/** Returns the JSON Schema of an object. Throws `config_invalid` for a schema that cannot be converted. */
export function objectSchema(
  about: string,
  option: string,
  schema: unknown,
  direction: 'input' | 'output' = 'input',
): JsonObject {
  const standard = standardOf(schema);
  if (!standard && isSchema(schema)) return copyJson(schema);
  if (!standard) throw invalidOption(about, option, 'must be a schema of an object');
  const { vendor, jsonSchema } = standard;
  if (!jsonSchema) {
    const remedy =
      vendor === 'valibot'
        ? 'wrap it in `toStandardJsonSchema` of `@valibot/to-json-schema`'
        : 'use a library that offers `~standard.jsonSchema`';
    throw invalidOption(about, option, `of \`${vendor}\` has no JSON Schema; ${remedy}`);
  }
  let converted: JsonObject;
  try {
    const convert = direction === 'output' ? jsonSchema.output : jsonSchema.input;
    converted = copyJson(convert?.({ target: 'draft-2020-12' }) ?? null);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw invalidOption(about, option, `cannot be written as JSON Schema: ${why}`);
  }
  if (!isSchema(converted)) throw invalidOption(about, option, 'must be a schema of an object');
  return converted;
}

function oneOf(about: string, option: string, value: unknown, names: readonly string[]): void {
  if (names.includes(String(value))) return;
  const problem = `cannot be \`${String(value)}\`; use one of: ${names.join(', ')}`;
  throw invalidOption(about, option, problem);
}

function checkText(about: string, option: string, value: unknown): asserts value is string {
  if (typeof value === 'string' && value.trim() !== '') return;
  throw invalidOption(about, option, 'must be a text');
}

/** Checks the values that a program without types can get wrong. */
function checkOptions(about: string, options: Partial<ToolOptions>): void {
  const { name, description, effect, risk = [], approval, roles = {}, run } = options;
  checkText(about, 'description', description);
  if (!NAME.test(String(name))) {
    const rule =
      'must begin with a letter and consist of at most 59 letters, digits, `_`, `-`, `/`';
    throw invalidOption(about, 'name', rule);
  }
  if (RESERVED.includes(String(name))) throw invalidOption(about, 'name', 'is reserved');
  if (typeof run !== 'function') throw invalidOption(about, 'run', 'must be a function');
  if (effect !== undefined) oneOf(about, 'effect', effect, CHOICES.effect);
  if (approval !== undefined) oneOf(about, 'approval', approval, CHOICES.approval);
  for (const one of risk) oneOf(about, 'risk', one, CHOICES.risk);
  for (const role of Object.values(roles)) oneOf(about, 'roles', role, CHOICES.role);
}

/** Returns the parameters with their roles. Throws for a role of an unknown parameter. */
function readInput(
  about: string,
  input: ToolInput,
  roles: Readonly<Record<string, string>>,
): Pick<ProgramTool, 'parameters' | 'input_schema' | 'roles'> {
  if (!isDeclared(input)) {
    const schema = objectSchema(about, 'input', input);
    checkNames(`${about}: roles`, roles, Object.keys(Object(schema.properties)));
    return { ...(isStandard(input) && { parameters: input }), input_schema: schema, roles };
  }
  checkNames(`${about}: roles`, roles, Object.keys(input));
  const parameters = Object.entries(input).map(([name, one]) => {
    const declared = typeof one === 'string' ? { type: one, required: true } : one;
    return [name, { ...declared, ...(roles[name] && { role: roles[name] }) }];
  });
  return { parameters: Object.fromEntries(parameters) };
}

/** Returns the result as JSON. A file stays as it is. Throws for a value that is no JSON, such as a BigInt. */
function asResult(result: ToolResult): Awaited<ReturnType<ProgramTool['run']>> {
  if (isObject(result) && result.file instanceof Uint8Array)
    return { ...result, file: result.file };
  const copy: Json = JSON.parse(JSON.stringify(result) ?? 'null');
  return copy;
}

/**
 * Defines a tool for agents. `input` is a schema of zod, arktype or another library with Standard Schema, a JSON
 * Schema, or types by name. Throws `config_invalid` and names the option.
 */
export function tool<const S extends ToolInput>(options: ToolOptions<S>): AgentTool {
  const about = `tool \`${String(options.name)}\``;
  checkNames(about, options, OPTIONS);
  checkOptions(about, options);
  const { name, description, input, output, approval, untrusted, effect = 'write' } = options;
  const { risk = effect === 'read' ? [] : CHOICES.risk, labels, requires } = options;
  const program: ProgramTool = {
    id: name,
    description,
    effect,
    risk,
    ...(labels && { labels }),
    ...(requires && { requires }),
    ...readInput(about, input, { ...options.roles }),
    ...(output && { output_schema: objectSchema(about, 'output', output, 'output') }),
    result: { untrusted: untrusted !== false },
    run: async (values, { signal, idempotencyKey = '', thread = '' }) =>
      asResult(await options.run(values as InputOf<S>, { signal, idempotencyKey, thread })),
  };
  return new AgentTool(program, approval);
}
