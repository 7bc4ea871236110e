// Finds the definition of a name, in this file or in the file that it is imported from.
import type { DirectiveInput } from '@kernmantle/core/items';
import { type Bound, literalAt, namesReadBy, typeOf } from '../syntax/outline.ts';
import { type Home, type Module, type Modules, ownName } from './modules.ts';
import {
  findBound,
  isProse,
  type Scripted,
  type ScriptView,
  scriptedAt,
  type View,
} from './view.ts';

/** The meaning of a name, found through scopes, namespaces, imports and literals. */
export type Meaning =
  /** `fields` are the fields after the namespaces. */
  | { readonly kind: 'bound'; readonly home: Home; readonly fields: readonly string[] }
  | { readonly kind: 'module'; readonly module: Module }
  | { readonly kind: 'input'; readonly input: DirectiveInput; readonly fields: readonly string[] }
  /** A name of the language, or an unknown name. */
  | { readonly kind: 'ambient'; readonly name: string; readonly fields: readonly string[] };

export function resolve(
  { name, fields }: Pick<NameToken, 'name' | 'fields'>,
  offset: number,
  view: Scripted,
  modules: Modules,
): Meaning {
  const { script, file } = view;
  const bound = findBound(script.names, name, offset);
  if (bound) return ofBound({ file, script, bound }, fields, modules);
  const path = name === 'input' ? fields : [name, ...fields];
  const input = script.inputs.find((one) => one.name === path[0]);
  if (input) return { kind: 'input', input, fields: path.slice(1) };
  return { kind: 'ambient', name, fields };
}

function ofBound(start: Home, fields: readonly string[], modules: Modules): Meaning {
  const home = modules.home(start);
  const module = home.bound.kind === 'namespace' ? modules.of(home.bound, home.file) : undefined;
  if (!module) return { kind: 'bound', home, fields };
  const [first, ...rest] = fields;
  const inner = module.script && ownName(module.script, first);
  if (!inner || !module.script) {
    return first === undefined ? { kind: 'module', module } : { kind: 'bound', home, fields };
  }
  return ofBound({ file: module.file, script: module.script, bound: inner }, rest, modules);
}

/** Returns the type of a name or field if a literal or declaration decides it. */
export function typeOfMeaning(meaning: Meaning): string | undefined {
  if (meaning.kind === 'module') return 'object';
  if (meaning.kind === 'ambient') return undefined;
  if (meaning.kind === 'input') return meaning.fields.length === 0 ? meaning.input.type : undefined;
  const { bound } = meaning.home;
  if (meaning.fields.length > 0) return typeOf(literalAt(bound.value, meaning.fields));
  return bound.kind === 'function' ? 'executable' : (bound.type ?? typeOf(bound.value));
}

const MOST_NAMES = 500;

/** Returns the labels that a value may have from the names it reads. It never omits a written name. */
export function possibleLabels(home: Home, modules: Modules): string[] {
  const labels = new Set<string>();
  const visited = new Set<Bound>();
  const open: Home[] = [home];
  for (let next = open.pop(); next && visited.size < MOST_NAMES; next = open.pop()) {
    const { file, script, bound } = next;
    if (visited.has(bound)) continue;
    visited.add(bound);
    for (const label of bound.labels) labels.add(label);
    for (const { name, at } of namesReadBy(bound)) {
      const inner = findBound(script.names, name, at);
      if (inner) open.push(modules.home({ file, script, bound: inner }));
    }
  }
  return [...labels];
}

const WORD = '[A-Za-z_\\u0080-\\uffff](?:[\\w\\u0080-\\uffff-]*[\\w\\u0080-\\uffff])?';
const STEP = `\\.(?:${WORD}|\\d+)|\\[\\d+\\]|\\["[^"\\n]*"\\]|\\([^()\\n]*\\)`;
const REFERENCE = new RegExp(`(?:(?<!@)@|\\{\\{\\s*)(${WORD})((?:${STEP})*)`, 'g');
const STEPS = new RegExp(STEP, 'g');

interface Covered {
  readonly at: number;
  readonly end: number;
}

export interface NameToken extends Covered {
  readonly kind: 'name';
  readonly name: string;
  /** Fields up to the one at the cursor; empty for the name itself. */
  readonly fields: readonly string[];
}

interface WordToken extends Covered {
  readonly kind: 'word';
  readonly word: string;
}

/** Returns the field of a step such as `.a`, `[0]` or `["k"]`; `undefined` for a call. */
export const fieldOf = (step: string): string | undefined =>
  step.startsWith('(') ? undefined : step.replace(/^\.|^\["?|"?\]$/g, '');

function nameIn(match: RegExpExecArray, start: number, offset: number): NameToken | undefined {
  const [whole, name = '', steps = ''] = match;
  const first = start + match.index + whole.length - steps.length;
  const at = first - name.length;
  if (offset <= first) return { kind: 'name', name, fields: [], at, end: first };
  const fields: string[] = [];
  for (const step of steps.matchAll(STEPS)) {
    const from = first + step.index;
    const end = from + step[0].length;
    const field = fieldOf(step[0]);
    // The parentheses of a call contain other names.
    if (offset < from || (field === undefined && offset < end)) return undefined;
    if (field === undefined) continue;
    fields.push(field);
    if (offset <= end) return { kind: 'name', name, fields, at: from + 1, end };
  }
  return undefined;
}

export function tokenAt(script: ScriptView, offset: number): NameToken | WordToken | undefined {
  const { names: bound, text } = script;
  // A binding location may have the name without `@`.
  const here = bound.find(({ place }) => place.at <= offset && offset <= place.end);
  if (here) return { kind: 'name', name: here.name, fields: [], ...here.place };
  if (isProse(script, offset)) return undefined;
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const [line = ''] = text.slice(start).split('\n', 1);
  const names = new RegExp(REFERENCE);
  for (let match = names.exec(line); match !== null; match = names.exec(line)) {
    const from = start + match.index;
    if (from > offset) break;
    const found = offset <= from + match[0].length ? nameIn(match, start, offset) : undefined;
    if (found) return found;
    // Arguments of a call are searched separately.
    names.lastIndex = match.index + match[0].length - (match[2] ?? '').length;
  }
  for (const match of line.matchAll(/(^[ \t]*\/?|=>?[ \t]*)([a-z]+)(?![\w-])/g)) {
    const [, lead = '', word = ''] = match;
    const at = start + match.index + lead.length;
    if (at <= offset && offset <= at + word.length) {
      return { kind: 'word', word, at, end: at + word.length };
    }
  }
  return undefined;
}

interface Target extends Covered {
  readonly file: string;
  /** Text that the offsets refer to. */
  readonly text: string;
}

const startOf = ({ file, script }: Module): Target => ({
  file,
  text: script?.text ?? '',
  at: 0,
  end: 0,
});

export function definitionAt(view: View, offset: number, modules: Modules): Target | undefined {
  const scripted = scriptedAt(view, offset);
  if (!scripted) return undefined;
  const path = pathAt(scripted, offset, modules);
  if (path) return path;
  const token = tokenAt(scripted.script, offset);
  if (token?.kind !== 'name') return undefined;
  const meaning = resolve(token, offset, scripted, modules);
  switch (meaning.kind) {
    case 'bound': {
      const { file, bound } = meaning.home;
      return { file, text: meaning.home.script.text, ...bound.place };
    }
    case 'module':
      return startOf(meaning.module);
    case 'input':
      return inputIn(view, meaning.input.name);
    case 'ambient':
      return undefined;
  }
}

function pathAt({ script, file }: Scripted, offset: number, modules: Modules): Target | undefined {
  const bound = script.names.find(
    ({ source }) => source && source.path.at < offset && offset < source.path.end,
  );
  const module = bound && modules.of(bound, file);
  return module && startOf(module);
}

/** Returns the declaration of an input: `<input name="x"`, `<x type=…` in `<inputs>`, or a key with its name. */
function inputIn({ text, file }: View, name: string): Target | undefined {
  const start = Math.max(0, text.search(/<inputs[\s>]|^inputs\s*:/m));
  const word = name.replace(/[^\w-]/g, '\\$&');
  const pattern = new RegExp(`(?:name\\s*[=:]\\s*["']?|<|^[ \\t]*)(?=${word}(?![\\w-]))`, 'm');
  const found = pattern.exec(text.slice(start));
  if (!found) return undefined;
  const at = start + found.index + found[0].length;
  return { file, text, at, end: at + name.length };
}
