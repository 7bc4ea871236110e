// `{name}` in tool configs: the caller's parameters, put where the author said.
import { type Failure, fail, type Json, type JsonObject } from '../base/index.ts';
import type { ReadPlaceholder } from './placeholder.ts';
import { nameEnd } from './syntax.ts';

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
