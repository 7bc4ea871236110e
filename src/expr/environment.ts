// `${NAME}` and `${NAME:-default}` in configs authored on disk. INVARIANT: only names the tool
// declares are read, and only from the authored text: what an expansion yields is never expanded.
import {
  fail,
  isObject,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  setOwn,
} from '../base/index.ts';
import { findPlaceholders, type ReadPlaceholder } from './placeholder.ts';
import { nameEnd } from './syntax.ts';

interface Variable {
  name: string;
  fallback: string | typeof NESTED | undefined;
}

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

const NESTED = Symbol('a default that holds another placeholder');

/** As in a shell, the first `}` ends a default; looking no further than the next `${` keeps it linear. */
function defaultEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== '}' && !(text[at] === '$' && text[at + 1] === '{')) at++;
  return at;
}

export interface ExpandedConfig {
  value: Json;
  /** What came out of the environment, for redaction; defaults are in the file for all to read. */
  secrets: string[];
}

/**
 * Expands strings at any depth, never keys. An undeclared or unset name is `config_invalid`, with
 * the names in `detail.variables`.
 */
export function expandEnv(
  config: Json,
  env: Readonly<Record<string, string | undefined>>,
  declared: ReadonlySet<string>,
): Outcome<ExpandedConfig> {
  const secrets = new Set<string>();
  const undeclared = new Set<string>();
  const unset = new Set<string>();
  const nested = new Set<string>();
  let isTooDeep = false;

  function expand(value: Json, depth: number): Json {
    if (typeof value === 'string') return expandText(value);
    if (depth > MAX_DEPTH) {
      isTooDeep = true;
      return null;
    }
    if (Array.isArray(value)) return value.map((item) => expand(item, depth + 1));
    if (!isObject(value)) return value;
    const expanded: JsonObject = {};
    for (const key of Object.keys(value)) {
      setOwn(expanded, key, expand(value[key] as Json, depth + 1));
    }
    return expanded;
  }

  function expandText(text: string): string {
    let expanded = '';
    let from = 0;
    for (const { start, end, content } of findPlaceholders(text, '${', readVariable)) {
      expanded += text.slice(from, start) + lookUp(content);
      from = end;
    }
    return expanded + text.slice(from);
  }

  function lookUp({ name, fallback }: Variable): string {
    if (fallback === NESTED) {
      nested.add(name);
      return '';
    }
    if (!declared.has(name)) {
      undeclared.add(name);
      return '';
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (fallback !== undefined && (value === undefined || value === '')) return fallback;
    if (value === undefined) {
      unset.add(name);
      return '';
    }
    if (value !== '') secrets.add(value);
    return value;
  }

  const value = expand(config, 0);
  if (isTooDeep) {
    return fail('config_invalid', `the config is nested deeper than ${MAX_DEPTH} levels`);
  }
  return (
    refuse(nested, (names) => `the default of ${names} may not hold another \`\${…}\``) ??
    refuse(undeclared, (names) => `${names} is not listed in \`env\` of the tool`) ??
    refuse(unset, (names) => `${names} is not set; set it, or write \`\${NAME:-default}\``) ??
    ok({ value, secrets: [...secrets] })
  );
}

/** The message speaks of the first, `variables` lists all. */
function refuse(
  names: ReadonlySet<string>,
  message: (name: string) => string,
): Outcome<never> | undefined {
  const [first] = names;
  if (first === undefined) return undefined;
  const others = names.size === 1 ? '' : ` (and ${names.size - 1} more)`;
  return fail('config_invalid', message(`environment variable \`${first}\`${others}`), {
    variables: [...names],
  });
}
