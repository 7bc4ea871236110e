// Defines checks of stored JSON. The type of the data is derived from its check.
import { getOwn, isObject, type Json, type JsonObject } from '../base/index.ts';

/** Path of the field that fails the check. '' is the value itself. `undefined`: the value passes. */
type Problem = string | undefined;
export interface Check<T> {
  (value: Json | undefined): Problem;
  /** This field is never set. It connects the check with its type. */
  readonly proves?: T;
}
export type Proven<C> = C extends Check<infer T> ? T : never;

export const is =
  <T>(holds: (value: Json | undefined) => boolean): Check<T> =>
  (value) =>
    holds(value) ? undefined : '';
export const text = is<string>((value) => typeof value === 'string');
// `JSON.stringify` writes NaN and infinite numbers as null.
export const number = is<number>((value) => Number.isFinite(value));
export const flag = is<boolean>((value) => typeof value === 'boolean');
export const yes = is<true>((value) => value === true);
export const data = is<JsonObject>(isObject);
/** Fails for any value, for a field that only another form of the same event has. */
export const none = is<never>(() => false);
export const json = is<Json>((value) => value !== undefined);
export const word = <const T extends string>(...words: readonly T[]): Check<T> =>
  is((value) => words.some((one) => one === value));

const at = (name: string | number, problem: string): string =>
  problem === '' ? `${name}` : `${name}.${problem}`;

export const list =
  <T>(item: Check<T>): Check<readonly T[]> =>
  (value) => {
    if (!Array.isArray(value)) return '';
    for (const [index, one] of value.entries()) {
      const problem = item(one);
      if (problem !== undefined) return at(index, problem);
    }
    return undefined;
  };

type Checks<T> = { readonly [name in keyof T]-?: Check<T[name]> };
type Fields<Must, May> = { readonly [name in keyof Must]: Must[name] } & {
  readonly [name in keyof May]?: May[name];
};

/** Checks required and optional fields of an object. Other fields are not checked. */
export function fields<Must extends object, May extends object = object>(
  must: Checks<Must>,
  may?: Checks<May>,
): Check<Fields<Must, May>> {
  const needed = Object.entries<Check<unknown>>(must);
  const optional = Object.entries<Check<unknown>>(may ?? {});
  return (value) => {
    if (!isObject(value)) return '';
    for (const [name, check] of needed) {
      const problem = check(getOwn(value, name));
      if (problem !== undefined) return at(name, problem);
    }
    for (const [name, check] of optional) {
      const inner = getOwn(value, name);
      const problem = inner === undefined ? undefined : check(inner);
      if (problem !== undefined) return at(name, problem);
    }
    return undefined;
  };
}

/** Passes if one check passes. Otherwise it returns the problem of the last check. */
export const either =
  <All extends readonly Check<unknown>[]>(...checks: All): Check<Proven<All[number]>> =>
  (value) => {
    let problem: Problem = '';
    for (const check of checks) {
      problem = check(value);
      if (problem === undefined) return undefined;
    }
    return problem;
  };
