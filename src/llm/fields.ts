// Reading JSON that somebody else wrote: a field is there with the right type, or it is not there.
import { getOwn, isObject, type Json, type JsonObject } from '../base/index.ts';

/** Empty when absent or not a text. */
export function textAt(value: Json | undefined, key: string): string {
  const text = getOwn(value, key);
  return typeof text === 'string' ? text : '';
}

/** The texts of a list; empty when absent or not a list. */
export function textsAt(value: Json | undefined, key: string): string[] {
  const list = getOwn(value, key);
  return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : [];
}

/** The list, or none. */
export function listAt(value: Json | undefined, key: string): Json[] {
  const list = getOwn(value, key);
  return Array.isArray(list) ? list : [];
}

/** The text as an object, if it is one. Its depth is not looked at: fields are read, not walked. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The text of a JSON string, if that is all there is. A copy: a part would keep the whole alive. */
export function parseText(literal: string): string | undefined {
  try {
    const value = JSON.parse(literal) as Json;
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
