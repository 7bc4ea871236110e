// Reads parts of values: fields, indexes and slices.
import { getOwn, nearest, plainText } from '@kernmantle/core/base';
import { addMarks, elementOf, makeValue, type Value, withText } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import {
  absent,
  computed,
  elementsOf,
  isAbsent,
  isFunctionData,
  KEEP,
  keepOf,
  keysOf,
  kindName,
  lengthOf,
  listFrom,
  marksOf,
  metaOf,
  numericOf,
  ownMarks,
  typeName,
} from './kinds.ts';
import { type MxFacts, mxMember, mxOf } from './metadata.ts';
import { textOf } from './text.ts';

/** `lenient` reads a missing part as undefined, as in conditions and operands of `?: ?? && ||`. */
export type AccessMode = 'strict' | 'lenient';

const INDEX = /^-?\d+$/;

const nothing = (value: Value): Value => makeValue(null, { descriptor: value.meta.descriptor });

export function fieldOf(value: Value, name: string, mode: AccessMode, facts?: MxFacts): Value {
  const member = mxMember(value, name);
  if (member) return member;
  const { data, meta } = value;
  if (name === 'mx' || name === 'ctx') {
    const isUserKey = meta.origin['bare'] === true && getOwn(data, name) !== undefined;
    return isUserKey ? elementOf(value, name) : mxOf(value, facts);
  }
  if (KEEP.has(name) && getOwn(data, name) === undefined) return keepOf(value);
  switch (typeName(value)) {
    case 'array':
      return listField(value, name);
    case 'object':
      return objectField(value, name, mode);
    case 'executable':
      return functionField(value, name, mode);
    case 'string':
      return textField(value, name, mode);
    default:
      return noField(value, name, mode);
  }
}

/** Returns the value of a missing part; `undefined` if reading it is an error. */
function missing(value: Value, mode: AccessMode): Value | undefined {
  if (typeName(value) === 'null') return nothing(value);
  const isNothing = mode === 'lenient' || isAbsent(value);
  return isNothing ? absent(value.meta.descriptor) : undefined;
}

function listField(value: Value, name: string): Value {
  if (INDEX.test(name)) return element(value, Number(name));
  return name === 'length' ? computed(lengthOf(value), [value]) : nothing(value);
}

function objectField(value: Value, name: string, mode: AccessMode): Value {
  const top = name === '__meta__' ? metaOf(value) : undefined;
  if (top) return addMarks(top, ownMarks(value));
  if (getOwn(value.data, name) !== undefined) return elementOf(value, name);
  const { namespace } = value.meta.origin;
  if (namespace === undefined) return elementOf(value, name);
  if (mode === 'lenient') return absent(value.meta.descriptor);
  const meant = nearest(name, keysOf(value));
  const hint = meant === undefined ? '' : `; did you mean \`${meant}\`?`;
  return raise('not_found', `\`${plainText(namespace)}\` does not export \`${name}\`${hint}`);
}

function functionField(value: Value, name: string, mode: AccessMode): Value {
  const signature = isFunctionData(value.data) ? value.data.signature : undefined;
  if (name === 'type') return computed('executable', [value]);
  if (name === 'name') return computed(signature?.name ?? null, [value]);
  if (name === 'parameters') return computed([...(signature?.parameters ?? [])], [value]);
  return noField(value, name, mode);
}

function textField(value: Value, name: string, mode: AccessMode): Value {
  if (name === 'length') return computed(plainText(value.data).length, [value]);
  if (name === 'data') return withText(value, undefined);
  if (name !== 'text') return noField(value, name, mode);
  const { descriptor, origin } = value.meta;
  return value.hasOwnText ? makeValue(value.text, { descriptor, origin }) : value;
}

function noField(value: Value, name: string, mode: AccessMode): Value {
  const instead = missing(value, mode);
  if (instead) return instead;
  const ends = `; write \`\\.${name}\` to end the reference before it`;
  const type = typeName(value);
  const parse = type === 'string' ? ', or read JSON with `@parse` first' : '';
  const hint = type === 'string' || type === 'number' ? ends + parse : '';
  return raise('expression_error', `${kindName(value)} has no field \`${name}\`${hint}`);
}

/** Returns an element. A negative index counts from the end; an index outside of the list gives null. */
function element(value: Value, index: number): Value {
  const length = lengthOf(value);
  const at = index < 0 ? length + index : index;
  const isThere = Number.isInteger(at) && at >= 0 && at < length;
  return isThere ? elementOf(value, at) : nothing(value);
}

/** Reads `value[index]`. Unlike `.mx`, an index never reads metadata, so every key can be reached. */
export function indexOf(value: Value, index: Value, mode: AccessMode): Value {
  return addMarks(pick(value, index, mode), index.meta.descriptor);
}

function pick(value: Value, index: Value, mode: AccessMode): Value {
  const name = textOf(index);
  const type = typeName(value);
  if (type === 'array') return element(value, numericOf(index.data) ?? Number.NaN);
  if (type === 'object') return mxMember(value, name) ?? objectField(value, name, mode);
  const instead = missing(value, mode);
  if (instead) return instead;
  const hint = typeof value.data === 'string' ? `; a character is \`.at(${name})\`` : '';
  return raise('expression_error', `${kindName(value)} has no element \`${name}\`${hint}`);
}

function bound(value: Value | undefined): number | undefined {
  if (value === undefined || value.data === null) return undefined;
  const at = numericOf(value.data);
  if (at !== undefined && Number.isInteger(at)) return at;
  return raise('expression_error', `\`${textOf(value)}\` is not an index of a slice`);
}

/** Returns `value[from:to]` of a list or text. Each end may be absent or count from the end. */
export function sliceOf(value: Value, from: Value | undefined, to: Value | undefined): Value {
  const ends = [from, to].filter((end) => end !== undefined);
  const [start, end] = [bound(from), bound(to)];
  if (value.data === null) return addMarks(value, marksOf(ends));
  if (typeof value.data === 'string')
    return computed(value.data.slice(start, end), [value, ...ends]);
  if (Array.isArray(value.data)) return listFrom(value, elementsOf(value).slice(start, end), ends);
  return raise('expression_error', `only lists and texts have slices, not ${kindName(value)}`);
}
