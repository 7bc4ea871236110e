// Texts with something put in. The result carries the marks of everything that was put in; what an
// unknown name would stand for stays as written.
import { extname } from 'node:path';
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
import {
  type Compiler,
  type Environment,
  type Eval,
  resolvePath,
  under,
} from '../run/environment.ts';
import { findName } from '../run/names.ts';
import { unwrap } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { NodeOf, TemplatePart } from '../syntax/ast.ts';
import { parseTemplateFile } from '../syntax/parse.ts';
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

/** What the parts of a text become: pieces of text, or words of a command. */
export interface TextMaker<T> {
  text(text: string): T;
  value(value: Value, env: Environment, part: NodeOf<'insert' | 'file-part'>): T;
  /** A name that nobody knows, as written. */
  unknown(raw: string): T;
  /** What was chosen because of a value with these marks. */
  under(made: T, marks: Descriptor): T;
  join(made: readonly T[]): T;
  withoutLastBreak(made: T): T;
}

type Make<T> = (env: Environment) => Promise<T>;

const plain = (text: string): Piece => ({ text, marks: EMPTY });

const PIECES: TextMaker<Piece> = {
  text: plain,
  value(value, env) {
    const ready = resolveOpen(value, env);
    return { text: isAbsent(ready) ? '' : textOf(ready), marks: ready.meta.descriptor };
  },
  unknown: plain,
  under: (piece, marks) => ({ ...piece, marks: mergeDescriptors(piece.marks, marks) }),
  join(pieces) {
    let text = '';
    let marks = EMPTY;
    for (const piece of pieces) {
      text += piece.text;
      marks = mergeDescriptors(marks, piece.marks);
    }
    return { text, marks };
  },
  withoutLastBreak: (piece) => ({ ...piece, text: piece.text.replace(/\r?\n$/, '') }),
};

const OPEN_PIECES: TextMaker<Piece> = {
  ...PIECES,
  unknown: (raw) => ({ ...plain(raw), slot: raw }),
};

/** The value of an insertion after its stages; undefined when the name is unknown. */
function compileInsertion(
  c: Compiler,
  part: NodeOf<'insert'>,
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

/** `@x`, `` @x?`…` `` and friends. */
function compileInsert<T>(c: Compiler, part: NodeOf<'insert'>, make: TextMaker<T>): Make<T> {
  const find = compileInsertion(c, part);
  const { mode, raw } = part;
  const fragment = mode.kind === 'fragment' ? compileParts(c, mode.parts, make) : undefined;
  const fallback = mode.kind === 'default' ? c.expression(mode.value) : undefined;
  return async (env) => {
    const value = await find(env);
    if (!value) {
      if (fallback) return make.value(await fallback(env), env, part);
      return mode.kind === 'plain' ? make.unknown(raw) : make.text('');
    }
    if (mode.kind === 'plain') return make.value(value, env, part);
    const { descriptor } = value.meta;
    if (fallback) {
      if (!isAbsent(value) && value.data !== null) return make.value(value, env, part);
      const other = await fallback(under(env, descriptor));
      return make.value(addMarks(other, descriptor), env, part);
    }
    if (!isTruthy(value)) return make.under(make.text(''), descriptor);
    if (!fragment) return make.value(value, env, part);
    return make.under(make.join(await fragment(under(env, descriptor))), descriptor);
  };
}

/** A missing file in a text is nothing, and a warning. */
function compileFilePart<T>(c: Compiler, part: NodeOf<'file-part'>, make: TextMaker<T>): Make<T> {
  const load =
    part.stages.length === 0 ? c.expression(part.file) : c.stages(part.file, part.stages);
  return async (env) => {
    try {
      return make.value(await load(env), env, part);
    } catch (error) {
      const fault = toFault(error);
      if (fault.fault.code !== 'not_found') throw fault;
      env.run.warn(fault.message, env.unit, part.at);
      return make.under(make.text(''), descriptorOfFault(fault.fault));
    }
  };
}

function compileRepeat<T>(c: Compiler, part: NodeOf<'repeat'>, make: TextMaker<T>): Make<T> {
  const collection = c.expression(part.collection);
  const body = compileParts(c, part.parts, make);
  const { key, name } = part.bind;
  return async (env) => {
    const list = await collection(env);
    const made: T[] = [];
    for (const item of itemsOf(list)) {
      const scope = new VariableScope('block', env.scope);
      scope.bind(name, 'loop', item.value);
      if (key) scope.bind(key, 'loop', makeValue(item.key));
      made.push(...(await body({ ...env, scope })));
    }
    const joined = make.join(made);
    const trimmed = part.trimsEnd ? make.withoutLastBreak(joined) : joined;
    return make.under(trimmed, list.meta.descriptor);
  };
}

export function compileParts<T>(
  c: Compiler,
  parts: readonly TemplatePart[],
  make: TextMaker<T>,
): Make<T[]> {
  const makers = parts.map((part): { made: T } | { make: Make<T> } => {
    if (typeof part === 'string') return { made: make.text(part) };
    if (part.kind === 'insert') return { make: compileInsert(c, part, make) };
    if (part.kind === 'repeat') return { make: compileRepeat(c, part, make) };
    return { make: compileFilePart(c, part, make) };
  });
  return async (env) => {
    const made: T[] = [];
    for (const one of makers) made.push('made' in one ? one.made : await one.make(env));
    return made;
  };
}

/** The text of any interpolating form. */
export function compileText(c: Compiler, parts: readonly TemplatePart[], isMustache = false): Eval {
  const [first = '', ...others] = parts;
  if (typeof first === 'string' && others.length === 0) {
    const only = makeValue(first);
    return () => only;
  }
  const all = compileParts(c, parts, isMustache ? OPEN_PIECES : PIECES);
  return async (env) => {
    const pieces = await all(env);
    const { text, marks } = PIECES.join(pieces);
    const open = isMustache ? openSlots(pieces) : undefined;
    return makeValue(text, { descriptor: marks, ...(open ? { origin: { open } } : {}) });
  };
}

export const compileTemplate = (c: Compiler, node: NodeOf<'template'>): Eval =>
  compileText(c, node.parts, node.style === 'mustache');

// Bodies that need something from outside: template files and models.

/** Read once per definition, when the function is first called. */
export function compileTemplateFile(c: Compiler, node: NodeOf<'template-file'>): Eval {
  const path = c.text(node.path.parts);
  const known = new Map<string, Eval>();
  return async (env) => {
    const place = resolvePath(env, (await path(env)).text);
    const ready = known.get(place);
    if (ready) return await ready(env);
    const { text } = unwrap(await env.run.world.readFile(place, env.frame));
    const made = compileTemplate(
      c,
      parseTemplateFile(text, extname(place) === '.mtt' ? 'mtt' : 'att'),
    );
    known.set(place, made);
    return await made(env);
  };
}

export function compileModel(c: Compiler, node: NodeOf<'model'>): Eval {
  const prompt = c.text(node.prompt.parts);
  const tier = node.options?.entries.get('tier') ?? node.options?.entries.get('model');
  const wanted = tier && c.expression(tier);
  return async (env) => {
    const request = { prompt: await prompt(env), tier: (await wanted?.(env))?.text, options: {} };
    const { data, meta, text } = unwrap(await env.run.world.model(request, env.frame));
    return makeValue(data, { descriptor: meta.descriptor, text });
  };
}
