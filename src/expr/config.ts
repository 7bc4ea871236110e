// Configs of tools have two kinds of placeholders: `${NAME}` for the environment, `{name}` for the
// caller's parameters. INVARIANT: both are looked for in the authored text alone. A parameter that
// says `${SECRET}` stays that text, and a password that holds `{id}` stays that password.
import {
  type ErrorCode,
  fail,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
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
  mapTexts,
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

  function fillText(text: string): Json | undefined {
    const places = placesIn(text, variables !== undefined, parameters !== undefined);
    const values = places.map(({ content }) => lookUp(content));
    if (values.includes(undefined)) return undefined;
    if (isExactly(text, places)) return values[0];
    return replaceEach(text, places, (_, index) => textOf(values[index] as Json));
  }

  function lookUp(content: Variable | string): Json | undefined {
    return typeof content === 'string' ? parameters?.lookUp(content) : variables?.lookUp(content);
  }

  function textOf(value: Json): string {
    const text = placeholderText(value);
    if (text === undefined) return tooDeep();
    room -= text.length;
    if (room < 0) throw new ConfigFault(`longer than ${MAX_TEXT} characters`);
    return text;
  }

  try {
    const filled = mapTexts(config, fillText, tooDeep);
    return variables?.problem() ?? parameters?.problem() ?? ok(filled ?? null);
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error;
    return fail(code, `the filled config is ${error.message}`);
  }
}

function tooDeep(): never {
  throw new ConfigFault(`nested deeper than ${MAX_DEPTH} levels`);
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
