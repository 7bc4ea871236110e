// Configs of tools have two kinds of placeholders: `${NAME}` for the environment, `{name}` for the
// caller's parameters. INVARIANT: both are looked for in the authored text alone. A parameter that
// says `${SECRET}` stays that text, and a password that holds `{id}` stays that password.
import {
  type ErrorCode,
  fail,
  isFrozenJson,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  setOwn,
} from '../base/index.ts';
import {
  createVariableSource,
  type Environment,
  readVariable,
  type Variable,
  type VariableSource,
} from './environment.ts';
import { createParameterSource, type ParameterSource, readParameter } from './parameters.ts';
import {
  findPlaceholders,
  MAX_TEXT,
  type Placeholder,
  placeholderText,
  replaceEach,
} from './placeholder.ts';

export interface FilledConfig {
  value: Json;
  /** What came out of the environment, for redaction; defaults are in the file for all to read. */
  secrets: string[];
}

export interface ConfigSources {
  env: Environment;
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
  env: Environment,
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
