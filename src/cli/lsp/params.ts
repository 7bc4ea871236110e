// What a client sends is not ours: every field is looked at before it is used.
import { isObject, type Json } from '../../base/index.ts';
import type { Change, Place } from './document.ts';

/** As the protocol numbers them. */
export const ERROR = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  early: -32002,
} as const;

/** Stays inside this folder: the server answers with it. */
export class Refusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export function textField(from: Json | undefined, name: string): string {
  const value = isObject(from) ? from[name] : undefined;
  if (typeof value !== 'string') throw new Refusal(ERROR.params, `\`${name}\` must be a text`);
  return value;
}

export function placeField(from: Json | undefined): Place {
  const { line, character } = isObject(from) ? from : {};
  if (!Number.isInteger(line) || !Number.isInteger(character)) {
    throw new Refusal(ERROR.params, 'a position needs `line` and `character`');
  }
  return { line: line as number, character: character as number };
}

export function changeOf(change: Json): Change {
  const text = textField(change, 'text');
  const range = isObject(change) ? change['range'] : undefined;
  if (!isObject(range)) return { text };
  return { text, range: { start: placeField(range['start']), end: placeField(range['end']) } };
}

export function versionOf(document: Json | undefined): number {
  const version = isObject(document) ? document['version'] : undefined;
  return typeof version === 'number' ? version : 0;
}
