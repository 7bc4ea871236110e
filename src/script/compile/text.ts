// Texts with something put in. The result carries the marks of everything that was put in; what an
// unknown name would stand for stays as written.
import type { Json } from '../../base/index.ts';
import {
  addMarks,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  type MaybePromise,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import { toFault } from '../fault.ts';
import { type Compiler, type Environment, type Eval, under } from '../run/environment.ts';
import { findName } from '../run/names.ts';
import { VariableScope } from '../run/scope.ts';
import type { Node, TemplatePart } from '../syntax/ast.ts';
import { fieldOf, indexOf } from '../values/access.ts';
import { itemsOf } from '../values/data.ts';
import { isAbsent, isTruthy } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { compileKnownReference } from './reference.ts';

// A `:::` template with names nobody knew: it stays open, and is resolved again in the scope where it
// is used. The slots are kept apart from the text, so text that came from data is never read again.

/** A piece of a text; a slot is a name that was unknown in a `:::` template. */
interface Piece {
  readonly text: string;
  readonly marks: Descriptor;
  readonly slot?: string;
}

type Part = string | { slot: string };

/** Undefined when every name was known. */
function openSlots(pieces: readonly Piece[]): Json | undefined {
  if (!pieces.some(({ slot }) => slot !== undefined)) return undefined;
  return pieces.map(({ text, slot }): Json => (slot === undefined ? text : { slot }));
}

/** `{{ user.name[0] }}` as a name and keys. */
function readSlot(slot: string): { name: string; keys: string[] } | undefined {
  const inner = slot.replace(/^\{\{\s*|\s*\}\}$/g, '');
  const name = /^[A-Za-z_][\w-]*/.exec(inner)?.[0];
  if (name === undefined) return undefined;
  const keys = [...inner.slice(name.length).matchAll(/\.([\w-]+)|\[(?:"([^"]*)"|(-?\d+))\]/g)];
  return { name, keys: keys.map(([, field, quoted, index]) => field ?? quoted ?? index ?? '') };
}

function valueOfSlot(slot: string, env: Environment): Value | undefined {
  const read = readSlot(slot);
  const found = read && findName(env, read.name);
  if (!read || !found || found.isMissing) return undefined;
  return read.keys.reduce(
    (value, key) =>
      /^-?\d+$/.test(key)
        ? indexOf(value, makeValue(Number(key)), 'lenient')
        : fieldOf(value, key, 'lenient'),
    found.value,
  );
}

/** The value itself unless it is an open text. */
export function resolveOpen(value: Value, env: Environment): Value {
  const { open } = value.meta.origin;
  if (!Array.isArray(open)) return value;
  let marks = EMPTY;
  const pieces = (open as Part[]).map((part): Piece => {
    if (typeof part === 'string') return { text: part, marks: EMPTY };
    const found = valueOfSlot(part.slot, env);
    if (!found) return { text: part.slot, marks: EMPTY, slot: part.slot };
    marks = mergeDescriptors(marks, found.meta.descriptor);
    return { text: textOf(found), marks: found.meta.descriptor };
  });
  const still = openSlots(pieces);
  return makeValue(pieces.map(({ text }) => text).join(''), {
    descriptor: mergeDescriptors(value.meta.descriptor, marks),
    ...(still ? { origin: { open: still } } : {}),
  });
}

/** Text as written is a piece already. */
type MakePiece = Piece | ((env: Environment) => Promise<Piece>);

const plain = (text: string): Piece => ({ text, marks: EMPTY });

function pieceOf(value: Value, env: Environment): Piece {
  const ready = resolveOpen(value, env);
  return { text: isAbsent(ready) ? '' : textOf(ready), marks: ready.meta.descriptor };
}

/** The value of an insertion after its stages; undefined when the name is unknown. */
function compileInsertion(
  c: Compiler,
  part: Node<'insert'>,
): (env: Environment) => MaybePromise<Value | undefined> {
  const isLenient = part.mode.kind !== 'plain';
  const find = compileKnownReference(c, part.value, isLenient ? 'condition' : 'operand');
  if (part.stages.length === 0) return find;
  const piped = c.piped(part.stages);
  return async (env) => {
    const value = await find(env);
    return value && (await piped(value, env));
  };
}

/** `` @x?`…` `` and friends, over whatever makes a piece of text from a value. */
export function compileModes<T>(
  c: Compiler,
  part: Node<'insert'>,
  make: {
    value(value: Value, env: Environment): T;
    text(text: string): T;
    /** What was chosen because of a value with these marks. */
    under(made: T, marks: Descriptor): T;
    parts(parts: readonly TemplatePart[]): (env: Environment) => MaybePromise<T>;
  },
): (env: Environment) => Promise<T> {
  const find = compileInsertion(c, part);
  const { mode, raw } = part;
  const fragment = mode.kind === 'fragment' ? make.parts(mode.parts) : undefined;
  const fallback = mode.kind === 'default' ? c.expression(mode.value, 'value') : undefined;
  return async (env) => {
    const value = await find(env);
    if (!value) {
      if (fallback) return make.value(await fallback(env), env);
      return make.text(mode.kind === 'plain' ? raw : '');
    }
    if (mode.kind === 'plain') return make.value(value, env);
    const { descriptor } = value.meta;
    if (fallback) {
      if (!isAbsent(value) && value.data !== null) return make.value(value, env);
      return make.value(addMarks(await fallback(under(env, descriptor)), descriptor), env);
    }
    if (!isTruthy(value)) return make.under(make.text(''), descriptor);
    if (!fragment) return make.value(value, env);
    return make.under(await fragment(under(env, descriptor)), descriptor);
  };
}

function compileInsert(c: Compiler, part: Node<'insert'>, isMustache: boolean): MakePiece {
  return compileModes<Piece>(c, part, {
    value: pieceOf,
    text: (text) => (isMustache && text !== '' ? { ...plain(text), slot: part.raw } : plain(text)),
    under: (piece, marks) => ({ ...piece, marks: mergeDescriptors(piece.marks, marks) }),
    parts: (parts) => compilePieces(c, parts, isMustache),
  });
}

/** A missing file in a text is nothing, and a warning. */
function compileFilePart(c: Compiler, part: Node<'file-part'>): MakePiece {
  const load =
    part.stages.length === 0 ? c.expression(part.file, 'value') : c.stages(part.file, part.stages);
  return async (env) => {
    try {
      return pieceOf(await load(env), env);
    } catch (error) {
      const fault = toFault(error);
      if (fault.fault.code !== 'not_found') throw fault;
      env.run.warn(fault.message, env.unit, part.at);
      return { text: '', marks: descriptorOfFault(fault.fault) };
    }
  };
}

function compileRepeat(c: Compiler, part: Node<'repeat'>, isMustache: boolean): MakePiece {
  const collection = c.expression(part.collection, 'value');
  const body = compilePieces(c, part.parts, isMustache);
  const { key, name } = part.bind;
  return async (env) => {
    const list = await collection(env);
    const pieces: Piece[] = [];
    for (const item of itemsOf(list)) {
      const scope = new VariableScope('block', env.scope);
      scope.bind(name, 'loop', item.value);
      if (key) scope.bind(key, 'loop', makeValue(item.key));
      pieces.push(await body({ ...env, scope }));
    }
    const joined = joinPieces(pieces);
    const text = part.trimsEnd ? joined.text.replace(/\r?\n$/, '') : joined.text;
    return { text, marks: mergeDescriptors(joined.marks, list.meta.descriptor) };
  };
}

function joinPieces(pieces: readonly Piece[]): Piece {
  let text = '';
  let marks = EMPTY;
  for (const piece of pieces) {
    text += piece.text;
    marks = mergeDescriptors(marks, piece.marks);
  }
  return { text, marks };
}

function compilePart(c: Compiler, part: TemplatePart, isMustache: boolean): MakePiece {
  if (typeof part === 'string') return plain(part);
  if (part.kind === 'insert') return compileInsert(c, part, isMustache);
  return part.kind === 'file-part' ? compileFilePart(c, part) : compileRepeat(c, part, isMustache);
}

function compilePieces(
  c: Compiler,
  parts: readonly TemplatePart[],
  isMustache: boolean,
): (env: Environment) => Promise<Piece> {
  const all = compileAll(c, parts, isMustache);
  return async (env) => joinPieces(await all(env));
}

function compileAll(
  c: Compiler,
  parts: readonly TemplatePart[],
  isMustache: boolean,
): (env: Environment) => Promise<Piece[]> {
  const makers = parts.map((part) => compilePart(c, part, isMustache));
  return async (env) => {
    const pieces: Piece[] = [];
    for (const make of makers) pieces.push(typeof make === 'function' ? await make(env) : make);
    return pieces;
  };
}

/** The text of any interpolating form. */
export function compileText(c: Compiler, parts: readonly TemplatePart[], isMustache = false): Eval {
  const [first = '', ...others] = parts;
  if (typeof first === 'string' && others.length === 0) {
    const only = makeValue(first);
    return () => only;
  }
  const all = compileAll(c, parts, isMustache);
  return async (env) => {
    const pieces = await all(env);
    const { text, marks } = joinPieces(pieces);
    const open = isMustache ? openSlots(pieces) : undefined;
    return makeValue(text, { descriptor: marks, ...(open ? { origin: { open } } : {}) });
  };
}

export const compileTemplate = (c: Compiler, node: Node<'template'>): Eval =>
  compileText(c, node.parts, node.style === 'mustache');
