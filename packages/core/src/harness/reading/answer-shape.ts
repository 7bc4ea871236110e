// The answers that a quarantined reader can give: a small part of JSON Schema. The model can act for the author
// of an untrusted text. So each answer is either data (a word of the schema, a number, a date, a known
// identifier) or untrusted text.
//
// INVARIANT: an error about an answer only ever has words of the schema, never words of the answer.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  setOwn,
  suggestion,
} from '../../base/index.ts';

export type AnswerShape =
  | { type: 'object'; fields: ReadonlyMap<string, AnswerShape>; required: ReadonlySet<string> }
  | { type: 'list'; of: AnswerShape; least: number; most: number }
  | { type: 'text'; most: number }
  | { type: 'enum'; members: readonly Json[] }
  | { type: 'number'; isWhole: boolean; least: number; most: number }
  | { type: 'boolean' }
  | { type: 'date' | 'date-time' }
  | { type: 'identifier'; kind: string };

const MAX_NESTING = 8;
const MAX_FIELDS = 64;
const MAX_MEMBERS = 200;
const MAX_WORD = 200;
const MAX_TEXT = 50_000;
const MAX_ITEMS = 500;

/** Facts about results name fields without their path, so each name has one meaning. */
const NAME = /^(?!__)[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const KIND = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;
/** Fields that the kernel adds to every answer. */
export const OF_KERNEL: ReadonlySet<string> = new Set(['duration_ms', 'chain']);

const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'minItems', 'maxItems'],
  string: ['maxLength', 'format', 'kind', 'enum'],
  number: ['minimum', 'maximum', 'enum'],
  integer: ['minimum', 'maximum', 'enum'],
  boolean: [],
};
const ANYWHERE: readonly string[] = ['type', 'description', 'title'];
const FORMATS: readonly string[] = ['date', 'date-time', 'identifier'];

/** This error is thrown and caught in this file only. */
class Misfit extends Error {
  constructor(at: string, problem: string) {
    super(`\`${at}\` ${problem}`);
  }
}

const choice = (words: readonly string[]): string => words.map((word) => `\`${word}\``).join(', ');

function typeOf(schema: JsonObject, at: string): string {
  const { type } = schema;
  // An enum of words needs no type.
  if (type === undefined && Array.isArray(schema.enum)) return 'string';
  const types = Object.keys(KEYWORDS);
  if (typeof type === 'string' && types.includes(type)) return type;
  throw new Misfit(`${at}.type`, `must be one of ${choice(types)}`);
}

function checkKeywords(schema: JsonObject, type: string, at: string): void {
  const keywords = [...ANYWHERE, ...(KEYWORDS[type] ?? [])];
  const odd = Object.keys(schema).find((word) => !keywords.includes(word));
  if (odd === undefined) return;
  const hint = suggestion(odd, keywords);
  throw new Misfit(at, `has \`${odd}\`, which type \`${type}\` does not support${hint}`);
}

function countIn(schema: JsonObject, name: string, most: number, at: string): number | undefined {
  const value = schema[name];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most)
    return value;
  throw new Misfit(`${at}.${name}`, `must be a whole number from 0 to ${most}`);
}

function boundIn(schema: JsonObject, name: string, fallback: number, at: string): number {
  const value = schema[name] ?? fallback;
  if (typeof value === 'number' && !Number.isNaN(value)) return value;
  throw new Misfit(`${at}.${name}`, 'must be a number');
}

function enumIn(members: Json, type: string, at: string): AnswerShape {
  const fits = (one: Json): boolean =>
    type === 'string'
      ? typeof one === 'string' && one.length <= MAX_WORD
      : typeof one === 'number' && (type === 'number' || Number.isSafeInteger(one));
  if (Array.isArray(members) && members.length > 0 && members.length <= MAX_MEMBERS) {
    if (members.every(fits)) return { type: 'enum', members };
  }
  const what = type === 'string' ? `texts of at most ${MAX_WORD} characters` : `${type}s`;
  throw new Misfit(`${at}.enum`, `must be a list of 1 to ${MAX_MEMBERS} ${what}`);
}

function textIn(schema: JsonObject, at: string): AnswerShape {
  const { format, kind } = schema;
  if (schema.enum !== undefined) return enumIn(schema.enum, 'string', at);
  if (format === 'date' || format === 'date-time') return { type: format };
  if (format === 'identifier') {
    if (typeof kind === 'string' && KIND.test(kind)) return { type: 'identifier', kind };
    throw new Misfit(`${at}.kind`, 'must be the name of a kind of identifiers');
  }
  if (format === undefined)
    return { type: 'text', most: countIn(schema, 'maxLength', MAX_TEXT, at) ?? MAX_TEXT };
  throw new Misfit(`${at}.format`, `must be one of ${choice(FORMATS)}`);
}

function objectIn(schema: JsonObject, at: string, depth: number): AnswerShape {
  const { properties = {}, required = [], additionalProperties = false } = schema;
  if (additionalProperties !== false) {
    throw new Misfit(`${at}.additionalProperties`, 'must be false, so name each field');
  }
  if (!isObject(properties) || Object.keys(properties).length > MAX_FIELDS) {
    throw new Misfit(`${at}.properties`, `must be a mapping of at most ${MAX_FIELDS} fields`);
  }
  const fields = new Map<string, AnswerShape>();
  for (const [name, inner] of Object.entries(properties)) {
    if (!NAME.test(name)) throw new Misfit(`${at}.properties`, 'has a field with an invalid name');
    fields.set(name, shapeIn(inner, `${at}.properties.${name}`, depth + 1));
  }
  const isNamed = (name: Json): name is string => typeof name === 'string' && fields.has(name);
  if (!Array.isArray(required) || !required.every(isNamed)) {
    throw new Misfit(`${at}.required`, 'must be a list of names from `properties`');
  }
  return { type: 'object', fields, required: new Set(required) };
}

function shapeIn(schema: Json, at: string, depth: number): AnswerShape {
  if (depth > MAX_NESTING) throw new Misfit(at, `is nested deeper than ${MAX_NESTING} levels`);
  if (!isObject(schema)) throw new Misfit(at, 'must be a schema, such as {"type": "integer"}');
  const type = typeOf(schema, at);
  checkKeywords(schema, type, at);
  switch (type) {
    case 'object':
      return objectIn(schema, at, depth);
    case 'array':
      return {
        type: 'list',
        of: shapeIn(schema.items ?? { type: 'string' }, `${at}.items`, depth + 1),
        least: countIn(schema, 'minItems', MAX_ITEMS, at) ?? 0,
        most: countIn(schema, 'maxItems', MAX_ITEMS, at) ?? MAX_ITEMS,
      };
    case 'string':
      return textIn(schema, at);
    case 'boolean':
      return { type: 'boolean' };
    default:
      if (schema.enum !== undefined) return enumIn(schema.enum, type, at);
      return {
        type: 'number',
        isWhole: type === 'integer',
        least: boundIn(schema, 'minimum', Number.NEGATIVE_INFINITY, at),
        most: boundIn(schema, 'maximum', Number.POSITIVE_INFINITY, at),
      };
  }
}

export function* leavesOf(
  shape: AnswerShape,
  name = 'result',
): Generator<readonly [string, AnswerShape]> {
  if (shape.type === 'object') {
    for (const [field, inner] of shape.fields) yield* leavesOf(inner, field);
  } else if (shape.type === 'list') yield* leavesOf(shape.of, name);
  else yield [name, shape];
}

/** Fails if a name has identifiers in one place and other values in another. */
function checkIdentifiers(shape: AnswerShape): void {
  const kinds = new Map<string, string | undefined>();
  for (const [name, leaf] of leavesOf(shape)) {
    const kind = leaf.type === 'identifier' ? leaf.kind : undefined;
    const isOther = kinds.has(name) && kinds.get(name) !== kind;
    if (isOther || (kind !== undefined && OF_KERNEL.has(name))) {
      throw new Misfit(name, 'is an identifier in one place and something else in another');
    }
    kinds.set(name, kind);
  }
}

/** Parses the schema of a caller. An error contains the path in the schema. */
export function readShape(schema: Json): Outcome<AnswerShape> {
  try {
    const shape = shapeIn(schema, 'schema', 1);
    checkIdentifiers(shape);
    return ok(shape);
  } catch (error) {
    if (error instanceof Misfit) return fail('invalid_input', error.message);
    throw error;
  }
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,3})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)$/;

/** True for an existing day in the form YYYY-MM-DD. */
function isDate(text: string): boolean {
  const [, year, month, day] = (DATE.exec(text) ?? []).map(Number);
  if (year === undefined || month === undefined || day === undefined) return false;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.toISOString().slice(0, 10) === text;
}

const isDateTime = (text: string): boolean =>
  text[10] === 'T' && isDate(text.slice(0, 10)) && TIME.test(text.slice(11));

/** Returns the identifier of this kind with this spelling, or `undefined` if no result contains it. */
type FindIdentifier = (kind: string, written: string) => Json | undefined;

/** Returns the answer in the order of the schema, without other fields. `find` looks up identifiers. */
export function fitAnswer(shape: AnswerShape, answer: Json, find: FindIdentifier): Outcome<Json> {
  try {
    return ok(fitted(shape, answer, 'answer', find));
  } catch (error) {
    if (error instanceof Misfit) return fail('output_invalid', error.message);
    throw error;
  }
}

function fitted(shape: AnswerShape, answer: Json, at: string, find: FindIdentifier): Json {
  switch (shape.type) {
    case 'object':
      return fittedObject(shape, answer, at, find);
    case 'list':
      if (!Array.isArray(answer)) throw new Misfit(at, 'must be a list');
      if (answer.length < shape.least || answer.length > shape.most) {
        throw new Misfit(at, `must have ${shape.least} to ${shape.most} items`);
      }
      return answer.map((item, index) => fitted(shape.of, item, `${at}[${index}]`, find));
    case 'text':
      if (typeof answer === 'string' && answer.length <= shape.most) return answer.toWellFormed();
      throw new Misfit(at, `must be a text of at most ${shape.most} characters`);
    case 'enum': {
      // The member of the schema is returned, because the reader's word is untrusted.
      const member = shape.members.find((one) => one === answer);
      if (member !== undefined) return member;
      throw new Misfit(
        at,
        `must be one of ${shape.members.map((one) => JSON.stringify(one)).join(', ')}`,
      );
    }
    case 'number':
      if (isNumber(shape, answer)) return answer;
      throw new Misfit(at, numberWords(shape));
    case 'boolean':
      if (typeof answer === 'boolean') return answer;
      throw new Misfit(at, 'must be true or false');
    case 'date':
      if (typeof answer === 'string' && isDate(answer)) return answer;
      throw new Misfit(at, 'must be a date that exists, written YYYY-MM-DD');
    case 'date-time':
      if (typeof answer === 'string' && isDateTime(answer)) return answer;
      throw new Misfit(at, 'must be a time, written YYYY-MM-DDTHH:MM:SSZ or with an offset');
    case 'identifier': {
      const isWritten = typeof answer === 'string' || typeof answer === 'number';
      const identifier = isWritten ? find(shape.kind, String(answer)) : undefined;
      if (identifier !== undefined) return identifier;
      throw new Misfit(at, `must be a known identifier of the kind \`${shape.kind}\``);
    }
  }
}

const isNumber = (
  { isWhole, least, most }: Extract<AnswerShape, { type: 'number' }>,
  answer: Json,
): answer is number =>
  typeof answer === 'number' &&
  (isWhole ? Number.isSafeInteger(answer) : Number.isFinite(answer)) &&
  answer >= least &&
  answer <= most;

function numberWords({ isWhole, least, most }: Extract<AnswerShape, { type: 'number' }>): string {
  const from = Number.isFinite(least) ? ` from ${least}` : '';
  const to = Number.isFinite(most) ? ` up to ${most}` : '';
  return `must be a ${isWhole ? 'whole number' : 'number'}${from}${to}`;
}

function fittedObject(
  { fields, required }: Extract<AnswerShape, { type: 'object' }>,
  answer: Json,
  at: string,
  find: FindIdentifier,
): JsonObject {
  if (!isObject(answer)) throw new Misfit(at, 'must be an object');
  if (Object.keys(answer).some((name) => !fields.has(name))) {
    throw new Misfit(
      at,
      `has a field that the schema lacks; allowed: ${[...fields.keys()].join(', ')}`,
    );
  }
  const whole: JsonObject = {};
  for (const [name, inner] of fields) {
    const item = getOwn(answer, name) ?? null;
    if (item === null) {
      if (required.has(name)) throw new Misfit(`${at}.${name}`, 'is missing');
      setOwn(whole, name, null);
    } else setOwn(whole, name, fitted(inner, item, `${at}.${name}`, find));
  }
  return whole;
}
