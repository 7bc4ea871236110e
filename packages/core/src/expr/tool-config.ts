// Fills placeholders in configs of tools: `${NAME}` with a variable of the environment, `{name}` with a
// parameter of the call. INVARIANT: a filled-in value is never scanned. A parameter with the text
// `${SECRET}` stays that text, and a password with `{id}` stays that password.
import {
  type Failure,
  fail,
  getOwn,
  isFrozenJson,
  isObject,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
} from '../base/index.ts';
import { nameEnd } from './syntax-tree.ts';
import {
  type Blank,
  findPlaceholders,
  MAX_TEXT,
  type Placeholder,
  placeholderText,
  type ReadPlaceholder,
  readBlank,
  replaceEach,
} from './template.ts';

type EnvironmentValues = Readonly<Record<string, string | undefined>>;

interface Variable {
  name: string;
  fallback: string | typeof NESTED | undefined;
}

const NESTED = Symbol('a default that contains another placeholder');

/** Reads a variable: `${NAME}` or `${NAME:-default}`. */
const readVariable: ReadPlaceholder<Variable> = (text, start) => {
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

/** The first `}` ends a default, as in a shell. The search stops at the next `${`, which keeps it linear. */
function defaultEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== '}' && !(text[at] === '$' && text[at + 1] === '{')) at++;
  return at;
}

/** Reads `{name}`, unless a `$` precedes it. */
const readParameter: ReadPlaceholder<string> = (text, start) => {
  const end = nameEnd(text, start + 1);
  if (end === start + 1 || text[end] !== '}' || text[start - 1] === '$') return undefined;
  return { start, end: end + 1, content: text.slice(start + 1, end) };
};

interface FilledConfig {
  value: Json;
  /** Values from the environment, for redaction. Defaults are not secret, because the file contains them. */
  secrets: string[];
}

interface ConfigSources {
  env: EnvironmentValues;
  /** The names that may be read from `env`. */
  declared: ReadonlySet<string>;
  parameters: JsonObject;
  required: ReadonlySet<string>;
}

/** Thrown if the filled config would be too deep or too long. It never leaves this file. */
class ConfigFault extends Error {}

function tooDeep(): never {
  throw new ConfigFault(`nested deeper than ${MAX_DEPTH} levels`);
}

/** Messages for refused variables. The first reason with a variable is reported. */
const REFUSALS = {
  nested: (names: string) => `the default of ${names} may not contain another \`\${…}\``,
  undeclared: (names: string) => `${names} is not listed in \`env\` of the tool`,
  unset: (names: string) => `${names} is not set; set it, or write \`\${NAME:-default}\``,
};

/** Sources and problems of one call that fills a config. */
class Filling {
  readonly secrets = new Set<string>();
  readonly #sources: ConfigSources;
  readonly #missing = new Set<string>();
  readonly #refused = new Map<keyof typeof REFUSALS, Set<string>>();
  #room = MAX_TEXT;

  constructor(sources: ConfigSources) {
    this.#sources = sources;
  }

  /** Returns undefined for a missing parameter, and an empty text for a variable that may not be read. */
  lookUp(content: Variable | string): Json | undefined {
    const { env, declared, parameters, required } = this.#sources;
    if (typeof content === 'string') {
      const parameter = getOwn(parameters, content);
      if (parameter === undefined && required.has(content)) this.#missing.add(content);
      return parameter;
    }
    // INVARIANT: only names that the tool declares are ever read.
    const { name, fallback } = content;
    if (fallback === NESTED) return this.#refuse('nested', name);
    if (!declared.has(name)) return this.#refuse('undeclared', name);
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (fallback !== undefined && (value === undefined || value === '')) return fallback;
    if (value === undefined) return this.#refuse('unset', name);
    if (value !== '') this.secrets.add(value);
    return value;
  }

  #refuse(reason: keyof typeof REFUSALS, name: string): string {
    const names = this.#refused.get(reason) ?? new Set();
    this.#refused.set(reason, names.add(name));
    return '';
  }

  textOf(value: Json): string {
    const text = placeholderText(value);
    if (text === undefined) return tooDeep();
    this.#room -= text.length;
    if (this.#room < 0) throw new ConfigFault(`longer than ${MAX_TEXT} characters`);
    return text;
  }

  problem(): Failure | undefined {
    for (const [reason, message] of Object.entries(REFUSALS)) {
      // The message is about the first variable, and `variables` lists all.
      const variables = [...(this.#refused.get(reason as keyof typeof REFUSALS) ?? [])];
      if (variables.length === 0) continue;
      const others = variables.length === 1 ? '' : ` (and ${variables.length - 1} more)`;
      const named = `environment variable \`${variables[0]}\`${others}`;
      return fail('config_invalid', message(named), { variables });
    }
    const missing = [...this.#missing];
    if (missing.length === 0) return undefined;
    const noun = missing.length === 1 ? 'parameter' : 'parameters';
    const listed = missing.map((name) => `\`${name}\``).join(', ');
    return fail('invalid_input', `missing required ${noun} ${listed}`, { missing });
  }
}

type PlaceholderKind = 'both' | 'variables' | 'parameters';
const NOTHING = {
  env: {},
  declared: new Set<string>(),
  parameters: {},
  required: new Set<string>(),
};

/**
 * Fills both kinds of placeholders in strings at any depth, never in keys. A string that is exactly one `{name}`
 * becomes the parameter with its type. A missing optional parameter drops the key (in a list: the element; as the
 * whole config: null). Fails with `invalid_input` and `detail.missing` for missing required parameters, and with
 * `config_invalid` and `detail.variables` for undeclared or unset variables.
 */
export const fillConfig = (config: Json, sources: ConfigSources): Outcome<FilledConfig> =>
  fill(config, 'both', sources);

/** Fills only `{name}`, with the rules of `fillConfig`. */
export function fillBody(
  body: Json,
  parameters: JsonObject,
  required: ReadonlySet<string>,
): Outcome<Json> {
  const filled = fill(body, 'parameters', { ...NOTHING, parameters, required });
  return filled.ok ? ok(filled.output.value) : filled;
}

/** Fills only `${NAME}`, with the rules of `fillConfig`. */
export const expandEnv = (
  config: Json,
  env: EnvironmentValues,
  declared: ReadonlySet<string>,
): Outcome<FilledConfig> => fill(config, 'variables', { ...NOTHING, env, declared });

function fill(config: Json, kind: PlaceholderKind, sources: ConfigSources): Outcome<FilledConfig> {
  const filling = new Filling(sources);
  try {
    const value = blankOf(config, kind)(filling) ?? null;
    return filling.problem() ?? ok({ value, secrets: [...filling.secrets] });
  } catch (error) {
    if (!(error instanceof ConfigFault)) throw error;
    const code = kind === 'variables' ? 'config_invalid' : 'invalid_input';
    return fail(code, `the filled config is ${error.message}`);
  }
}

/** Cache of scanned configs, because the same tool is called many times. Only a frozen config is cached. */
const cache = new WeakMap<object, Blank<Filling>>();

function blankOf(config: Json, kind: PlaceholderKind): Blank<Filling> {
  const isCacheable = kind === 'both' && isObject(config) && isFrozenJson(config);
  const cached = isCacheable ? cache.get(config) : undefined;
  if (cached) return cached;
  const blank = readBlank<Filling>(config, (text) => readText(text, kind), tooDeep);
  if (isCacheable) cache.set(config, blank);
  return blank;
}

function readText(text: string, kind: PlaceholderKind): Blank<Filling> {
  const places = placesIn(text, kind);
  const [first] = places;
  if (first === undefined) return () => text;
  if (isExactly(text, places)) return (filling) => filling.lookUp(first.content);
  return (filling) => {
    const values = places.map(({ content }) => filling.lookUp(content));
    if (values.includes(undefined)) return undefined;
    return replaceEach(text, places, (_, index) => filling.textOf(values[index] as Json));
  };
}

type FilledPlace = Placeholder<Variable | string>;

/**
 * Returns the placeholders in the order of the text. A parameter inside of a default belongs to the default.
 */
function placesIn(text: string, kind: PlaceholderKind): FilledPlace[] {
  const variables: FilledPlace[] =
    kind === 'parameters' ? [] : findPlaceholders(text, '${', readVariable);
  if (kind === 'variables') return variables;
  const parameters: FilledPlace[] = findPlaceholders(text, '{', readParameter);
  let end = 0;
  return [...variables, ...parameters]
    .sort((a, b) => a.start - b.start)
    .filter((place) => {
      if (place.start < end) return false;
      end = place.end;
      return true;
    });
}

/** True if the text is one parameter with only blanks around it. */
function isExactly(text: string, [place, second]: readonly FilledPlace[]): boolean {
  if (place === undefined || second !== undefined || typeof place.content !== 'string')
    return false;
  return /^[ \t\r\n]*$/.test(text.slice(0, place.start) + text.slice(place.end));
}
