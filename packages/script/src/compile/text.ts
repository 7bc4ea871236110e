// Hot: runs for each step of a script, and a promise costs more than most steps.
// Texts with something put in. The result carries the marks of everything that was put in; what an
// unknown name would stand for stays as written.
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
  type Environment,
  type Eval,
  executableOf,
  given,
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

// A `:::` template with names nobody knew: it stays open, and is resolved again in the scope where it
// is used. The slots are kept apart from the text, so text that came from data is never read again.

/**
 * A piece of a text, or a value and the quotes it stands in. `mark`: no text at all, only the marks of
 * what decided about the text beside it. `slot`: a name that was unknown in a `:::` template, as written.
 */
export type Word = string | { readonly value: Value; readonly quote: Quote | 'mark' | 'slot' };

type TextPart = string | { slot: string };

const slotWord = (raw: string): Word => ({ value: makeValue(raw), quote: 'slot' });

const isSlot = (word: Word): boolean => typeof word !== 'string' && word.quote === 'slot';

/** The text of words with the marks of all that was put in; open when there is a slot among them. */
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

/** What was chosen because of a value with these marks. */
const marked = (words: readonly Word[], descriptor: Descriptor): readonly Word[] =>
  descriptor === EMPTY
    ? words
    : [...words, { value: makeValue('', { descriptor }), quote: 'mark' }];

const SLOT_KEY = /\.([\w-]+)|\[(?:"([^"]*)"|(-?\d+))\]/g;

/** `{{ user.name[0] }}`: a name and keys. */
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

/** The value itself unless it is an open text. */
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

const put = (value: Value, env: Environment, { quote = 'none' }: { quote?: Quote }): Word[] => [
  { value: resolveOpen(value, env), quote },
];

/** The value of an insertion after its stages; undefined when the name is unknown. */
function compileInsertion(c: Compiler, part: NodeOf<'insert'>): Eval<Value | undefined> {
  const isLenient = part.mode.kind !== 'plain';
  const find = compileKnownReference(c, part.value, isLenient ? 'condition' : 'operand');
  if (part.stages.length === 0) return find;
  const piped = c.piped(part.stages);
  const { name, steps, at } = part.value;
  const isName = steps.at(-1)?.kind !== 'call';
  // A function's bare name as the source is a call of it.
  const source = (value: Value, env: Environment) =>
    isName && executableOf(value) ? invoke(value, name, [], env, at) : value;
  return (env) =>
    whenReady(
      find(env),
      (value) => value && whenReady(source(value, env), (made) => piped(made, env)),
    );
}

/** `@x`, `` @x?`…` `` and friends. */
function compileInsert(c: Compiler, part: NodeOf<'insert'>, isMustache: boolean): Make {
  const find = compileInsertion(c, part);
  const { mode, raw } = part;
  const fragment = mode.kind === 'fragment' ? compileParts(c, mode.parts) : undefined;
  const fallback = mode.kind === 'default' ? c.expression(mode.value) : undefined;
  const words = (value: Value | undefined, env: Environment): ReturnType<Make> => {
    const descriptor = value?.meta.descriptor ?? EMPTY;
    if (fallback && (value?.data ?? null) === null)
      return whenReady(fallback(under(env, descriptor)), (other) =>
        put(addMarks(other, descriptor), env, part),
      );
    if (!value) return mode.kind === 'plain' ? [isMustache ? slotWord(raw) : raw] : [];
    if (mode.kind === 'plain' || fallback) return put(value, env, part);
    if (!isTruthy(value)) return marked([], descriptor);
    if (!fragment) return put(value, env, part);
    return whenReady(fragment(under(env, descriptor)), (inner) => marked(inner, descriptor));
  };
  return (env) => whenReady(find(env), (value) => words(value, env));
}

/** A missing file in a text is nothing, and a warning. */
function compileFilePart(c: Compiler, part: NodeOf<'file-part'>): Make {
  const load =
    part.stages.length === 0 ? c.expression(part.file) : c.stages(part.file, part.stages);
  return async (env) => {
    try {
      return put(await load(env), env, part);
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
      whenReady(typeof make === 'string' ? [make] : make(env), (made) => {
        words.push(...made);
      }),
    );
    return whenReady(done, () => words);
  };
}

/** The text of any interpolating form. */
export function compileText(c: Compiler, parts: readonly TemplatePart[], isMustache = false): Eval {
  const [first = '', ...others] = parts;
  if (typeof first === 'string' && others.length === 0) return given(makeValue(first));
  const all = compileParts(c, parts, isMustache);
  return (env) => whenReady(all(env), (words) => textOfWords(words));
}

export const compileTemplate = (c: Compiler, node: NodeOf<'template'>): Eval =>
  compileText(c, node.parts, node.style === 'mustache');

/** Read once per definition, when the function is first called. */
export function compileTemplateFile(c: Compiler, node: NodeOf<'template-file'>): Eval {
  const path = c.text(node.path.parts);
  const known = new Map<string, Eval>();
  const read = async (place: string, env: Environment): Promise<Eval> => {
    const { text, descriptor } = unwrap(await env.run.world.readFile(place, env.frame));
    const kind = extname(place) === '.mtt' ? 'mtt' : 'att';
    const made = compileTemplate(c, parseTemplateFile(text, kind));
    // The file says the text, and decides what is done for it.
    return async (caller) => addMarks(await made(under(caller, descriptor)), descriptor);
  };
  return async (env) => {
    const named = await path(env);
    const place = resolvePath(env, named.text);
    await judgeReading(place, env, /^\.[am]tt$/.test(extname(place)));
    const made = known.get(place) ?? (await read(place, env));
    known.set(place, made);
    return addMarks(await made(env), named.meta.descriptor);
  };
}
