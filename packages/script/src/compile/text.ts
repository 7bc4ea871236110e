// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles texts with references. The result has the marks of every inserted value. An unknown name stays
// unchanged.
import { extname } from 'node:path';
import { inTurn, type Json, whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  makeValue,
  mergeDescriptors,
  type Value,
} from '@kernmantle/core/flow';
import { toFault } from '../fault.ts';
import {
  type Compiler,
  constant,
  type Environment,
  type Eval,
  executableOf,
  resolvePath,
  under,
} from '../run/environment.ts';
import { findName } from '../run/names.ts';
import { judgeReading, unwrap } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { NodeOf, Quote, TemplatePart } from '../syntax/ast.ts';
import { parseTemplateFile } from '../syntax/parse.ts';
import { fieldOf, indexOf } from '../values/access.ts';
import { itemsOf } from '../values/data.ts';
import { isTruthy } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { compileKnownReference, invoke } from './reference.ts';

/**
 * A piece of a text, or an inserted value with the quotes around it. `mark` has no text, only the marks of
 * a condition. `slot` is an unknown name of a `:::` template. Such a template stays open and is filled in
 * the scope that uses it. Slots are stored separately, so text from data is never parsed again.
 */
export type Word = string | { readonly value: Value; readonly quote: Quote | 'mark' | 'slot' };

type TextPart = string | { slot: string };

const slotWord = (raw: string): Word => ({ value: makeValue(raw), quote: 'slot' });

const isSlot = (word: Word): boolean => typeof word !== 'string' && word.quote === 'slot';

/** Joins words to a text with the marks of all inserted values. The text is open if a word is a slot. */
export function textOfWords(words: readonly Word[], marks: Descriptor = EMPTY): Value {
  let text = '';
  let descriptor = marks;
  for (const word of words) {
    text += pieceOf(word);
    if (typeof word !== 'string')
      descriptor = mergeDescriptors(descriptor, word.value.meta.descriptor);
  }
  if (!words.some(isSlot)) return makeValue(text, { descriptor });
  const open = words.map((word): Json => (isSlot(word) ? { slot: pieceOf(word) } : pieceOf(word)));
  return makeValue(text, { descriptor, origin: { open } });
}

const pieceOf = (word: Word): string => (typeof word === 'string' ? word : textOf(word.value));

/** Returns words with the marks of the value that selected them. */
const marked = (words: readonly Word[], descriptor: Descriptor): readonly Word[] =>
  descriptor === EMPTY
    ? words
    : [...words, { value: makeValue('', { descriptor }), quote: 'mark' }];

const SLOT_KEY = /\.([\w-]+)|\[(?:"([^"]*)"|(-?\d+))\]/g;

/** Returns the value of a slot such as `{{ user.name[0] }}`; `undefined` if its name is unknown. */
function valueOfSlot(slot: string, env: Environment): Value | undefined {
  const inner = slot.replace(/^\{\{\s*|\s*\}\}$/g, '');
  const name = /^[A-Za-z_][\w-]*/.exec(inner)?.[0] ?? '';
  const found = findName(env, name);
  if (!found || found.isMissing) return undefined;
  let { value } = found;
  for (const [, field, quoted, index] of inner.slice(name.length).matchAll(SLOT_KEY)) {
    const key = field ?? quoted ?? index ?? '';
    value = /^-?\d+$/.test(key)
      ? indexOf(value, makeValue(Number(key)), 'lenient')
      : fieldOf(value, key, 'lenient');
  }
  return value;
}

/** Fills the slots of an open text. Other values are returned unchanged. */
export function resolveOpen(value: Value, env: Environment): Value {
  const { open } = value.meta.origin;
  if (!Array.isArray(open)) return value;
  const words = (open as TextPart[]).map((part): Word => {
    if (typeof part === 'string') return part;
    const found = valueOfSlot(part.slot, env);
    return found ? { value: found, quote: 'none' } : slotWord(part.slot);
  });
  return textOfWords(words, value.meta.descriptor);
}

type Make = Eval<readonly Word[]>;

const insertedWords = (
  value: Value,
  env: Environment,
  { quote = 'none' }: { quote?: Quote },
): Word[] => [{ value: resolveOpen(value, env), quote }];

/** Compiles a reference in a text with its stages. Returns `undefined` for an unknown name. */
function compileInsertion(c: Compiler, part: NodeOf<'insert'>): Eval<Value | undefined> {
  const isLenient = part.mode.kind !== 'plain';
  const find = compileKnownReference(c, part.value, isLenient ? 'condition' : 'operand');
  if (part.stages.length === 0) return find;
  const piped = c.piped(part.stages);
  const { name, steps, at } = part.value;
  const isName = steps.at(-1)?.kind !== 'call';
  // The bare name of a function as the source of stages is a call.
  const source = (value: Value, env: Environment) =>
    isName && executableOf(value) ? invoke(value, name, [], env, at) : value;
  return (env) =>
    whenReady(
      find(env),
      (value) => value && whenReady(source(value, env), (input) => piped(input, env)),
    );
}

function compileInsert(c: Compiler, part: NodeOf<'insert'>, isMustache: boolean): Make {
  const find = compileInsertion(c, part);
  const { mode, raw } = part;
  const fragment = mode.kind === 'fragment' ? compileParts(c, mode.parts) : undefined;
  const fallback = mode.kind === 'default' ? c.expression(mode.value) : undefined;
  const words = (value: Value | undefined, env: Environment): ReturnType<Make> => {
    const descriptor = value?.meta.descriptor ?? EMPTY;
    if (fallback && (value?.data ?? null) === null)
      return whenReady(fallback(under(env, descriptor)), (other) =>
        insertedWords(addMarks(other, descriptor), env, part),
      );
    if (!value) return mode.kind === 'plain' ? [isMustache ? slotWord(raw) : raw] : [];
    if (mode.kind === 'plain' || fallback) return insertedWords(value, env, part);
    if (!isTruthy(value)) return marked([], descriptor);
    if (!fragment) return insertedWords(value, env, part);
    return whenReady(fragment(under(env, descriptor)), (inner) => marked(inner, descriptor));
  };
  return (env) => whenReady(find(env), (value) => words(value, env));
}

/** Compiles a file in a text. A missing file gives an empty text and a warning. */
function compileFilePart(c: Compiler, part: NodeOf<'file-part'>): Make {
  const load =
    part.stages.length === 0 ? c.expression(part.file) : c.stages(part.file, part.stages);
  return async (env) => {
    try {
      return insertedWords(await load(env), env, part);
    } catch (error) {
      const fault = toFault(error);
      if (fault.fault.code !== 'not_found') throw fault;
      env.run.warn(fault.message, env.unit, part.at);
      return marked([], descriptorOfFault(fault.fault));
    }
  };
}

function compileRepeat(c: Compiler, part: NodeOf<'repeat'>): Make {
  const collection = c.expression(part.collection);
  const body = compileParts(c, part.parts);
  const { key, name } = part.bind;
  return async (env) => {
    const list = await collection(env);
    const words: Word[] = [];
    for (const item of itemsOf(list)) {
      const scope = new VariableScope('block', env.scope);
      scope.bind(name, 'loop', item.value);
      if (key) scope.bind(key, 'loop', makeValue(item.key));
      words.push(...(await body({ ...env, scope })));
    }
    const { text, meta } = addMarks(textOfWords(words), list.meta.descriptor);
    const trimmed = part.trimsEnd ? text.replace(/\r?\n$/, '') : text;
    return [{ value: makeValue(trimmed, { descriptor: meta.descriptor }), quote: 'none' }];
  };
}

export function compileParts(
  c: Compiler,
  parts: readonly TemplatePart[],
  isMustache = false,
): Make {
  const makers = parts.map((part): string | Make => {
    if (typeof part === 'string') return part;
    if (part.kind === 'insert') return compileInsert(c, part, isMustache);
    return part.kind === 'repeat' ? compileRepeat(c, part) : compileFilePart(c, part);
  });
  return (env) => {
    const words: Word[] = [];
    const done = inTurn(makers, (make) =>
      whenReady(typeof make === 'string' ? [make] : make(env), (pieces) => {
        words.push(...pieces);
      }),
    );
    return whenReady(done, () => words);
  };
}

export function compileText(c: Compiler, parts: readonly TemplatePart[], isMustache = false): Eval {
  const [first = '', ...others] = parts;
  if (typeof first === 'string' && others.length === 0) return constant(makeValue(first));
  const all = compileParts(c, parts, isMustache);
  return (env) => whenReady(all(env), (words) => textOfWords(words));
}

export const compileTemplate = (c: Compiler, node: NodeOf<'template'>): Eval =>
  compileText(c, node.parts, node.style === 'mustache');

/** Compiles a template file. It is read at the first call of each definition. */
export function compileTemplateFile(c: Compiler, node: NodeOf<'template-file'>): Eval {
  const path = c.text(node.path.parts);
  const templates = new Map<string, Eval>();
  const read = async (place: string, env: Environment): Promise<Eval> => {
    const { text, descriptor } = unwrap(await env.run.world.readFile(place, env.frame));
    const kind = extname(place) === '.mtt' ? 'mtt' : 'att';
    const template = compileTemplate(c, parseTemplateFile(text, kind));
    // The text and everything that its references do have the marks of the file.
    return async (caller) => addMarks(await template(under(caller, descriptor)), descriptor);
  };
  return async (env) => {
    const named = await path(env);
    const place = resolvePath(env, named.text);
    await judgeReading(place, env, /^\.[am]tt$/.test(extname(place)));
    const compiled = templates.get(place) ?? (await read(place, env));
    templates.set(place, compiled);
    return addMarks(await compiled(env), named.meta.descriptor);
  };
}
