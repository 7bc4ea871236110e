// Puts inputs into a directive's texts.
import { getOwn, type Json, type JsonObject } from '../base/index.ts';

const PLACEHOLDER =
  /\$\{(?:inputs\.)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\}|(?<!\$)\{([A-Za-z_]\w*)\}/g;

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value));

/**
 * `${inputs.name}`, `${name}` and `{name}` of the given inputs, in one pass: what an input's value
 * contains is never looked at again. Everything else, missing and null inputs too, stays as written.
 */
export function fillDirectiveText(text: string, inputs: JsonObject): string {
  return text.replace(PLACEHOLDER, (written: string, path?: string, name?: string) => {
    let value: Json | undefined = inputs;
    for (const step of (path ?? name ?? '').split('.')) value = getOwn(value, step);
    return value === undefined || value === null ? written : textOf(value);
  });
}
