// Turns text into data: command output, stage inputs and loop collections. The value keeps its text, so
// that printing it gives the same text again.
import { type Json, parseJson, plainJson } from '@kernmantle/core/base';
import { elementOf, makeValue, type Value, withOrigin } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { isKept, keysOf, kindName, typeName } from './kinds.ts';
import { structureIn } from './text.ts';

const JSON_START = /^\s*(?:["[{\d-]|true\b|false\b|null\b)/;

const withData = (value: Value, data: Json): Value => {
  const { descriptor, origin } = value.meta;
  return makeValue(data, { descriptor, origin, text: value.text });
};

/** Parses a text that is one complete JSON value. A number that would lose digits stays text. */
export function parseJsonText(value: Value): Value {
  const { data } = value;
  if (typeof data !== 'string' || !JSON_START.test(data)) return value;
  const parsed = parseJson(data);
  if (!parsed.ok) return value;
  const { output } = parsed;
  const isRounded = Number.isInteger(output) && !Number.isSafeInteger(output);
  return isRounded ? value : withData(value, output);
}

/** Parses a text that is a JSON list or object, for a pipeline stage. */
export function stageInput(value: Value): Value {
  const isText = typeof value.data === 'string' && value.meta.origin['format'] !== 'text';
  const data = isText ? structureIn(value.data) : undefined;
  return data === undefined ? value : withData(value, data);
}

export interface LoopItem {
  readonly key: string;
  readonly value: Value;
}

/** Returns the elements that `for` visits, each with its own marks, key and index. */
export function itemsOf(value: Value): readonly LoopItem[] {
  const collection = stageInput(value);
  const type = typeName(collection);
  const isText = typeof value.data === 'string';
  if (type !== 'array' && (type !== 'object' || isText)) {
    raise('expression_error', `\`for\` needs a list or an object, not ${kindName(value)}`);
  }
  const keepMark = isKept(value) ? { keep: true } : {};
  return keysOf(collection).map((key, index) => ({
    key,
    value: withOrigin(elementOf(collection, key), { key, index, ...keepMark }),
  }));
}

/** Copies data whose members are computed, because the data of a value must be plain. */
export const plainCopy = (data: Json): Json =>
  typeof data === 'object' && data !== null ? plainJson(data) : data;
