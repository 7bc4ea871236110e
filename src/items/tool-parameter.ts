// How one parameter of a tool or of an action is declared.
import { isObject, type Json, type JsonObject, jsonEqual } from '../base/index.ts';
import { compact } from './compact.ts';
import { ROLES } from './item-kinds.ts';
import {
  anything,
  flag,
  listOf,
  mapping,
  oneOf,
  type Place,
  type Rule,
  record,
  text,
  textLike,
  uniqueBy,
  wrongType,
} from './shape.ts';
import type { ToolParameter } from './tool.ts';

const TYPES = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'any'] as const;
type ParameterType = (typeof TYPES)[number];

/** Names from other languages; the hint is worth more than a list of seven words. */
const TYPE_SLIPS: Readonly<Record<string, ParameterType>> = {
  str: 'string',
  text: 'string',
  int: 'integer',
  float: 'number',
  bool: 'boolean',
  dict: 'object',
  map: 'object',
  list: 'array',
};

const plainType = oneOf(TYPES);
const type: Rule<ParameterType> = (value, place) => {
  const meant = typeof value === 'string' && Object.hasOwn(TYPE_SLIPS, value) && TYPE_SLIPS[value];
  if (!meant) return plainType(value, place);
  return wrongType(place, `one of ${TYPES.join(', ')}`, value, `write \`${meant}\``);
};

const items: Rule<JsonObject> = (value, place) => {
  if (typeof value !== 'string') return mapping(value, place);
  const named = type(value, place);
  return named === undefined ? undefined : named === 'any' ? {} : { type: named };
};

const parameterName = textLike(
  /^(?!__)[A-Za-z_][A-Za-z0-9_.-]{0,127}$/,
  'a name of letters, digits, `_`, `.` and `-`',
  'names that begin with `__` are set by the runtime',
);

const PARAMETER_FIELDS = {
  name: parameterName,
  type,
  required: flag,
  default: anything,
  description: text,
  enum: listOf(anything),
  items,
  role: oneOf(ROLES),
  volatile: flag,
};

const parameterFields = record(PARAMETER_FIELDS, {
  required: ['name'],
  moved: { optional: 'write `required: false`, or leave it out', choices: 'write `enum`' },
});

function fitsType(value: Json, name: ParameterType | undefined): boolean {
  if (name === undefined || name === 'any') return true;
  if (name === 'array') return Array.isArray(value);
  if (name === 'object') return isObject(value);
  if (name === 'integer') return Number.isInteger(value);
  return typeof value === name;
}

/** A default that its own declaration refuses would fail at every call. */
function checkValues(parameter: ToolParameter, place: Place): void {
  const { default: fallback, enum: members, type: name } = parameter;
  const typed = name as ParameterType | undefined;
  if (fallback !== undefined && !fitsType(fallback, typed)) {
    wrongType(place.child('default'), `of type \`${typed}\``, fallback);
  }
  for (const [index, member] of (members ?? []).entries()) {
    if (!fitsType(member, typed)) {
      wrongType(place.child('enum').child(index), `of type \`${typed}\``, member);
    }
  }
  if (fallback !== undefined && members && !members.some((one) => jsonEqual(one, fallback))) {
    place.child('default').report({
      code: 'invalid_field',
      message: `the default of \`${parameter.name}\` is not among its \`enum\``,
    });
  }
}

const parameter: Rule<ToolParameter> = (value, place) => {
  const read = parameterFields(value, place);
  if (read?.name === undefined) return undefined;
  const result = compact<ToolParameter>({
    ...read,
    name: read.name,
    required: read.required ?? false,
    description: read.description ?? '',
  });
  checkValues(result, place);
  return result;
};

export const parameters: Rule<ToolParameter[]> = uniqueBy(
  listOf(parameter),
  ({ name }) => name,
  'parameter',
);
