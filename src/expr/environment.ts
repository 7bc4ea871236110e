// `${NAME}` and `${NAME:-default}` in configs authored on disk. INVARIANT: only names the tool
// declares are read.
import { type Failure, fail } from '../base/index.ts';
import type { ReadPlaceholder } from './placeholder.ts';
import { nameEnd } from './syntax.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

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
  env: Environment,
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
