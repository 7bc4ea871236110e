// Configs of tools have two kinds of placeholders: `${NAME}` for the environment, `{name}` for the
// caller's parameters. INVARIANT: both are looked for in the authored text alone. A parameter that
// says `${SECRET}` stays that text, and a password that holds `{id}` stays that password.
import {
  type ErrorCode,
  type Failure,
  fail,
  isFrozenJson,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  setOwn,
} from '../base/index.ts';
import { nameEnd } from './syntax-tree.ts';
import {
  findPlaceholders,
  MAX_TEXT,
  type Placeholder,
  placeholderText,
  type ReadPlaceholder,
  replaceEach,
} from './template.ts';

// `${NAME}` and `${NAME:-default}` in configs authored on disk. INVARIANT: only names the tool
// declares are read.

export type EnvironmentValues = Readonly<Record<string, string | undefined>>;

export interface Variable {
  name: string;
  fallback: string | typeof NESTED | undefined;
}

const NESTED = Symbol('a default that holds another placeholder');

export const readVariable: ReadPlaceholder<Variable> = (text, start) => {
  const nameStop = nameEnd(text, start + 2);
  if (nameStop === start + 2) return undefined;
  const name = text.slice(start + 2, nameStop);
  if (text[nameStop] === '}') {
    return { start, end: nameStop + 1, content: { name, fallback: undefined } };
  }
  if (!text.startsWith(':-', nameStop)) return undefined;
  const stop = defaultEnd(text, nameStop + 2);
  if (stop === text.length) return undefined;
  const fallback = text[stop] === '}' ? text.slice(nameStop + 2, stop) : NESTED;
  return { start, end: stop + 1, content: { name, fallback } };
};

/** As in a shell, the first `}` ends a default; looking no further than the next `${` keeps it linear. */
function defaultEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== '}' && !(text[at] === '$' && text[at + 1] === '{')) at++;
  return at;
}

export interface VariableSource {
  /** Empty for what may not or cannot be read, which is remembered. */
  lookUp(variable: Variable): string;
  problem(): Failure | undefined;
  /** What came out of the environment so far; defaults are in the file for all to read. */
  secrets(): string[];
}

export function createVariableSource(
  env: EnvironmentValues,
  declared: ReadonlySet<string>,
): VariableSource {
  const secrets = new Set<string>();
  const [nested, undeclared, unset] = [new Set<string>(), new Set<string>(), new Set<string>()];

  function lookUp({ name, fallback }: Variable): string {
    if (fallback === NESTED) return refuse(name, nested);
    if (!declared.has(name)) return refuse(name, undeclared);
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (fallback !== undefined && (value === undefined || value === '')) return fallback;
    if (value === undefined) return refuse(name, unset);
    if (value !== '') secrets.add(value);
    return value;
  }

  function problem(): Failure | undefined {
    return (
      failure(nested, (names) => `the default of ${names} may not hold another \`\${…}\``) ??
      failure(undeclared, (names) => `${names} is not listed in \`env\` of the tool`) ??
      failure(unset, (names) => `${names} is not set; set it, or write \`\${NAME:-default}\``)
    );
  }

  return { lookUp, problem, secrets: () => [...secrets] };
}

function refuse(name: string, names: Set<string>): string {
  names.add(name);
  return '';
}

/** The message speaks of the first, `variables` lists all. */
function failure(
  names: ReadonlySet<string>,
  message: (name: string) => string,
): Failure | undefined {
  const [first] = names;
  if (first === undefined) return undefined;
  const others = names.size === 1 ? '' : ` (and ${names.size - 1} more)`;
  return fail('config_invalid', message(`environment variable \`${first}\`${others}`), {
    variables: [...names],
  });
}

// `{name}` in tool configs: the caller's parameters, put where the author said.

/** `{name}`, unless a `$` stands before it: that is the other form. */
export const readParameter: ReadPlaceholder<string> = (text, start) => {
  const end = nameEnd(text, start + 1);
  if (end === start + 1 || text[end] !== '}' || text[start - 1] === '$') return undefined;
  return { start, end: end + 1, content: text.slice(start + 1, end) };
};

export interface ParameterSource {
  /** Undefined when it is not given; what is missing though required is remembered. */
  lookUp(name: string): Json | undefined;
  problem(): Failure | undefined;
}

export function createParameterSource(
  parameters: JsonObject,
  required: ReadonlySet<string>,
): ParameterSource {
  const missing = new Set<string>();
  return {
    lookUp(name) {
      const value = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
      if (value === undefined && required.has(name)) missing.add(name);
      return value;
    },
    problem() {
      if (missing.size === 0) return undefined;
      const listed = Array.from(missing, (name) => `\`${name}\``).join(', ');
      const noun = missing.size === 1 ? 'parameter' : 'parameters';
      return fail('invalid_input', `missing required ${noun} ${listed}`, { missing: [...missing] });
    },
  };
}

export interface FilledConfig {
  value: Json;
  /** What came out of the environment, for redaction; defaults are in the file for all to read. */
  secrets: string[];
}

export interface ConfigSources {
  env: EnvironmentValues;
  /** The names that may be read from `env`. */
  declared: ReadonlySet<string>;
  parameters: JsonObject;
  required: ReadonlySet<string>;
}

/**
 * Fills both kinds at once, in strings at any depth, never in keys. A string that is exactly one
 * `{name}` keeps the value's type. A missing optional parameter drops the key (in a list: the
 * element; a config that is nothing else becomes null); missing required ones are `invalid_input`
 * with their names in `detail.missing`; undeclared and unset variables are `config_invalid` with
 * theirs in `detail.variables`.
 */
export function fillConfig(config: Json, sources: ConfigSources): Outcome<FilledConfig> {
  const variables = createVariableSource(sources.env, sources.declared);
  const parameters = createParameterSource(sources.parameters, sources.required);
  const filled = fill(config, 'invalid_input', variables, parameters);
  return filled.ok ? ok({ value: filled.output, secrets: variables.secrets() }) : filled;
}

/** Only `{name}`; see `fillConfig`. */
export function fillBody(
  body: Json,
  parameters: JsonObject,
  required: ReadonlySet<string>,
): Outcome<Json> {
  return fill(body, 'invalid_input', undefined, createParameterSource(parameters, required));
}

/** Only `${NAME}`; see `fillConfig`. */
export function expandEnv(
  config: Json,
  env: EnvironmentValues,
  declared: ReadonlySet<string>,
): Outcome<FilledConfig> {
  const variables = createVariableSource(env, declared);
  const filled = fill(config, 'config_invalid', variables, undefined);
  return filled.ok ? ok({ value: filled.output, secrets: variables.secrets() }) : filled;
}

/** Stays inside this file: the config cannot be filled, whatever its other parts are. */
class ConfigFault extends Error {}

function fill(
  config: Json,
  code: ErrorCode,
  variables: VariableSource | undefined,
  parameters: ParameterSource | undefined,
): Outcome<Json> {
  let room = MAX_TEXT;
  const source: Source = {
    lookUp: (content) =>
      typeof content === 'string' ? parameters?.lookUp(content) : variables?.lookUp(content),
    textOf(value) {
      const text = placeholderText(value);
      if (text === undefined) return tooDeep();
      room -= text.length;
      if (room < 0) throw new ConfigFault(`longer than ${MAX_TEXT} characters`);
      return text;
    },
  };
  try {
    const blank = blankOf(config, { variables: !!variables, parameters: !!parameters });
    const filled = blank(source);
    return variables?.problem() ?? parameters?.problem() ?? ok(filled ?? null);
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error;
    return fail(code, `the filled config is ${error.message}`);
  }
}

function tooDeep(): never {
  throw new ConfigFault(`nested deeper than ${MAX_DEPTH} levels`);
}

/** What is put in, for one filling. */
interface Source {
  lookUp(content: Variable | string): Json | undefined;
  textOf(value: Json): string;
}

interface Kinds {
  variables: boolean;
  parameters: boolean;
}

/** A config whose placeholders were found. Undefined stands for "leave it out". */
type Blank = (source: Source) => Json | undefined;

/** What is frozen for good is looked through once: the same tool is called again and again. */
const known = new WeakMap<object, Blank>();

function blankOf(config: Json, kinds: Kinds): Blank {
  const isKept =
    typeof config === 'object' &&
    config !== null &&
    isFrozenJson(config) &&
    kinds.variables &&
    kinds.parameters;
  if (!isKept) return readValue(config, kinds, 0);
  const before = known.get(config);
  if (before) return before;
  const made = readValue(config, kinds, 0);
  known.set(config, made);
  return made;
}

/** Strings of lists and objects at any depth, never keys. */
function readValue(value: Json, kinds: Kinds, depth: number): Blank {
  if (typeof value === 'string') return readText(value, kinds);
  if (typeof value !== 'object' || value === null) return () => value;
  if (depth > MAX_DEPTH) return tooDeep();
  if (Array.isArray(value)) {
    const items = value.map((item) => readValue(item, kinds, depth + 1));
    return (source) => items.map((item) => item(source)).filter((item) => item !== undefined);
  }
  const fields = Object.keys(value).map(
    (key) => [key, readValue(value[key] as Json, kinds, depth + 1)] as const,
  );
  return (source) => {
    const filled: JsonObject = {};
    for (const [key, field] of fields) {
      const item = field(source);
      if (item !== undefined) setOwn(filled, key, item);
    }
    return filled;
  };
}

function readText(text: string, kinds: Kinds): Blank {
  const places = placesIn(text, kinds.variables, kinds.parameters);
  const [first] = places;
  if (first === undefined) return () => text;
  if (isExactly(text, places)) return (source) => source.lookUp(first.content);
  return (source) => {
    const values = places.map(({ content }) => source.lookUp(content));
    if (values.includes(undefined)) return undefined;
    return replaceEach(text, places, (_, index) => source.textOf(values[index] as Json));
  };
}

type Place = Placeholder<Variable | string>;

/** Both kinds in the order of the text; what looks like a parameter inside a default is the default. */
function placesIn(text: string, withVariables: boolean, withParameters: boolean): Place[] {
  const variables: Place[] = withVariables ? findPlaceholders(text, '${', readVariable) : [];
  if (!withParameters) return variables;
  const parameters: Place[] = findPlaceholders(text, '{', readParameter);
  if (variables.length === 0) return parameters;
  const places = [...variables, ...parameters].sort((a, b) => a.start - b.start);
  let end = 0;
  return places.filter((place) => {
    if (place.start < end) return false;
    end = place.end;
    return true;
  });
}

/** One parameter with nothing but blanks around it. */
function isExactly(text: string, [place, second]: readonly Place[]): boolean {
  if (place === undefined || second !== undefined || typeof place.content !== 'string')
    return false;
  return isBlank(text.slice(0, place.start)) && isBlank(text.slice(place.end));
}

const isBlank = (text: string): boolean => /^[ \t\r\n]*$/.test(text);
