// `@parse` and `@json`: text as data. The result prints with two blanks per level.
import { type Json, type Outcome, parseJson } from '../base/index.ts';
import { makeValue, type Value, withText } from '../flow/index.ts';
import { raise } from './fault.ts';
import { findJson, parseRelaxed } from './json-relaxed.ts';
import { prettyJson, textOf } from './text-of.ts';
import { isStructure } from './value-kinds.ts';

const laidOut = (value: Value): Value =>
  isStructure(value.data) ? withText(value, prettyJson(value.data)) : value;

const parsed = (value: Value, data: Json): Value => {
  const { descriptor, origin } = value.meta;
  return laidOut(makeValue(data, { descriptor, origin }));
};

function read(value: Value, parse: (text: string) => Outcome<Json>): Value {
  // Data passes: it has been read already.
  if (typeof value.data !== 'string') return laidOut(value);
  const text = value.data.trim();
  const outcome = parse(text);
  if (outcome.ok) return parsed(value, outcome.output);
  if (text.startsWith('```')) {
    raise('invalid_input', 'the text is fenced; `@parse.llm` reads the JSON inside');
  }
  return raise('invalid_input', `the text is no JSON: ${reasonOf(text, outcome)}`);
}

const reasonOf = (text: string, outcome: Outcome<Json>): string => {
  if (text === '') return 'it is empty';
  const reason = outcome.ok ? '' : outcome.error.detail.message;
  return reason.replace(/^not valid JSON: /, '');
};

/** Strict first, so that everything that is JSON is read as JSON and the reason is the plain one. */
function eitherWay(text: string): Outcome<Json> {
  const strict = parseJson(text);
  // Prose and fences are no relaxed JSON either.
  if (strict.ok || !/^[[{"'/]/.test(text)) return strict;
  const relaxed = parseRelaxed(text);
  return relaxed.ok ? relaxed : strict;
}

export const parseValue = (value: Value): Value => read(value, eitherWay);

export const PARSE_VARIANTS: Readonly<Record<string, (value: Value) => Value>> = {
  strict: (value) => read(value, parseJson),
  loose: (value) => read(value, eitherWay),
  llm(value) {
    if (typeof value.data !== 'string') return laidOut(value);
    const whole = parseJson(value.data);
    return parsed(value, whole.ok ? whole.output : (findJson(value.data) ?? null));
  },
  fromlist(value) {
    if (Array.isArray(value.data)) return laidOut(value);
    const lines = textOf(value).split('\n');
    return parsed(
      value,
      lines.map((line) => line.trim()).filter((line) => line !== ''),
    );
  },
};
