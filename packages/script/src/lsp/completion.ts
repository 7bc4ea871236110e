// Completes names in scripts and tags in directives. The line before the cursor decides the kind of
// completion. Its entries come from the syntax tree, parsed as if the typed name were complete.
import { isObject, parseYaml } from '@kernmantle/core/base';
import { childShape, DIRECTIVE, type Shape } from '@kernmantle/core/items';
import { keysOf, literalAt } from '../syntax/outline.ts';
import { fieldOf, type Meaning, resolve, typeOfMeaning } from './definition.ts';
import type { Modules } from './modules.ts';
import {
  isProse,
  readScript,
  type Scripted,
  type ScriptView,
  scriptedAt,
  type View,
} from './view.ts';
import { about, wordList } from './words.ts';

const TAG = /<!--[\s\S]*?(?:-->|$)|<(\/?)([A-Za-z_][\w.:-]*)([^<>]*?)(\/?)>/g;
const RAW = new Set(['when', 'script', 'template', 'example', 'raw']);

interface Open {
  readonly name: string;
  readonly shape: Shape | undefined;
}

/** Returns the elements that are open at an offset, the outermost first. */
function openAt(text: string, offset: number): Open[] {
  const start = text.search(/<directive[\s>/]/);
  if (start === -1 || start > offset) return [];
  const open: Open[] = [];
  const before = text.slice(start, offset);
  for (const [, slash, name = '', , closed] of before.matchAll(TAG)) {
    const inside = open.at(-1);
    if (name === '' || (inside && RAW.has(inside.name) && name !== inside.name)) continue;
    if (slash === '/') {
      const at = open.findLastIndex((one) => one.name === name);
      if (at !== -1) open.length = at;
    } else if (closed !== '/') {
      const shape = open.length === 0 ? DIRECTIVE : childShape(inside?.shape, name);
      open.push({ name, shape });
    }
  }
  return open;
}

interface TagOffer {
  readonly names: readonly string[];
  readonly at: number;
}

/** Returns the tags that are legal at an offset in a directive. */
function offerTags(text: string, offset: number): TagOffer | undefined {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  const [, closing] = /<\/([\w.:-]*)$/.exec(line) ?? [];
  if (closing !== undefined) {
    const last = openAt(text, offset - closing.length - 2).at(-1);
    return last && { names: [last.name], at: offset - closing.length };
  }
  const [, opening] = /<([\w.:-]*)$/.exec(line) ?? [];
  if (opening !== undefined) {
    const open = openAt(text, offset - opening.length - 1);
    const parent = open.at(-1);
    if (parent && RAW.has(parent.name)) return undefined;
    const children = Object.entries(parent?.shape?.children ?? {}).filter(([, { gone }]) => !gone);
    const names = parent ? children.map(([name]) => name) : ['directive'];
    return { names, at: offset - opening.length };
  }
  return offerAttributes(text, offset);
}

function offerAttributes(text: string, offset: number): TagOffer | undefined {
  const start = text.lastIndexOf('<', offset - 1);
  if (start === -1) return undefined;
  const [, name = '', attributes = '', typed = ''] =
    /^<([A-Za-z_][\w.:-]*)((?:\s+[\w.:-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s+([\w.:-]*)$/.exec(
      text.slice(start, offset),
    ) ?? [];
  if (name === '') return undefined;
  const parent = openAt(text, start).at(-1);
  const shape = parent ? childShape(parent.shape, name) : DIRECTIVE;
  const used = new Set([...attributes.matchAll(/([\w.:-]+)\s*=/g)].map(([, key]) => key));
  const names = (shape?.attributes ?? []).filter((key) => !used.has(key));
  return { names, at: offset - typed.length };
}

export function tagAt(
  text: string,
  offset: number,
): { name: string; at: number; end: number } | undefined {
  const start = text.lastIndexOf('<', offset);
  const [, slash = '', name = ''] =
    /^<(\/?)([A-Za-z_][\w.:-]*)/.exec(text.slice(start, start + 80)) ?? [];
  const at = start + 1 + slash.length;
  return start !== -1 && name !== '' && offset <= at + name.length
    ? { name, at, end: at + name.length }
    : undefined;
}

/** Numbers of the protocol for completion kinds. */
export const KINDS = {
  method: 2,
  function: 3,
  field: 5,
  variable: 6,
  module: 9,
  tag: 10,
  word: 14,
} as const;
type CompletionKind = keyof typeof KINDS;

interface Item {
  readonly label: string;
  readonly kind: CompletionKind;
  readonly detail?: string;
}

export interface Completion {
  readonly items: readonly Item[];
  readonly at: number;
}

export function completeAt(view: View, offset: number, modules: Modules): Completion | undefined {
  const scripted = scriptedAt(view, offset);
  if (scripted) return completeScript(scripted, offset, modules);
  const offer = view.kind === 'directive' ? offerTags(view.text, offset) : undefined;
  if (!offer) return undefined;
  const items = offer.names.map((label) => item('tag', label, about('tags', label)));
  return { items, at: offer.at };
}

const item = (kind: CompletionKind, label: string, detail?: string): Item => ({
  label,
  kind,
  ...(detail === undefined ? {} : { detail }),
});

const listed = (kind: CompletionKind, list: Parameters<typeof wordList>[0]): Item[] =>
  Object.entries(wordList(list)).map(([label, detail]) => item(kind, label, detail));

const NAME = '[A-Za-z_\\u0080-\\uffff][\\w\\u0080-\\uffff-]*';
const STEP = `\\.(?:${NAME}|\\d+)|\\[\\d+\\]|\\["[^"\\n]*"\\]|\\([^()\\n]*\\)`;
const MEMBER = new RegExp(`(?:@|\\{\\{\\s*)(${NAME})((?:${STEP})*)\\.([\\w-]*)$`);
const TYPED_NAME = /(?:(?<![@\w])@|\{\{\s*)([\w\u0080-\uffff-]*)$/;

interface CompletionRequest {
  readonly view: Scripted;
  readonly offset: number;
  /** Text of the line before the cursor. */
  readonly line: string;
  readonly modules: Modules;
}

function completeScript(view: Scripted, offset: number, modules: Modules): Completion | undefined {
  const { text } = view.script;
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  const request: CompletionRequest = { view, offset, line, modules };
  const statement = beginning(request);
  if (statement) return statement;
  const repaired = repair(request);
  if (isProse(repaired.view.script, Math.max(0, offset - 1))) return undefined;
  return (
    ruleHead(repaired) ??
    imported(repaired) ??
    member(repaired) ??
    named(repaired) ??
    word(repaired)
  );
}

/** Inserts a name at the cursor after `@` or `.`, because a statement that ends there does not parse. */
function repair(request: CompletionRequest): CompletionRequest {
  const { view, offset, line } = request;
  if (!/[@.]$/.test(line)) return request;
  const { text, mode, from, to, inputs } = view.script;
  const repairedText = `${text.slice(0, offset)}x${text.slice(offset)}`;
  const script = readScript(repairedText, mode, view.file, { from, to: to + 1 }, inputs);
  return { ...request, view: { ...view, script } };
}

function beginning({ view, offset, line }: CompletionRequest): Completion | undefined {
  const found = /^[ \t]*(\/?)([a-z]*)$/.exec(line);
  if (!found) return undefined;
  const [, slash = '', typed = ''] = found;
  const { script } = view;
  if (slash === '' && script.mode !== 'strict' && !isInside(script, offset)) return undefined;
  const block = slash === '' ? listed('word', 'block_words') : [];
  return { items: [...listed('word', 'statements'), ...block], at: offset - typed.length };
}

const isInside = ({ parsed }: ScriptView, offset: number): boolean =>
  parsed.partial.body.some(({ kind, at, end }) => kind !== 'text' && at < offset && offset < end);

/** Completes the timings and filters of `guard` and `hook`. */
function ruleHead({ view, offset, line }: CompletionRequest): Completion | undefined {
  const [, rule, head = ''] = /^[ \t]*\/?(guard|hook)[ \t]+([^=]*)$/.exec(line) ?? [];
  if (rule === undefined) return undefined;
  const [typed = ''] = /[\w:@.-]*$/.exec(head) ?? [];
  const at = offset - typed.length;
  const before = head.slice(0, head.length - typed.length);
  if (/\b(?:before|after|always|for)[ \t]/.test(before)) return { items: filters(view.script), at };
  const timings = listed('word', 'timings').filter(
    ({ label }) => rule === 'guard' || label === 'before' || label === 'after',
  );
  const privileged = item(
    'word',
    'privileged',
    'may remove labels and make exceptions to policies; it cannot be switched off',
  );
  return { items: rule === 'guard' ? [...timings, privileged] : timings, at };
}

function filters({ names }: ScriptView): Item[] {
  const labels = new Set(names.flatMap((bound) => bound.labels));
  const functions = names.filter(({ kind }) => kind === 'function');
  return [
    ...[...labels].map((label) => item('word', label, 'label of this file')),
    ...listed('word', 'operation_filters'),
    ...functions.map(({ name }) => item('function', `@${name}`)),
  ];
}

/** Completes `import { … } from "./m.mld"` with the exports of that file. */
function imported({ view, offset, line, modules }: CompletionRequest): Completion | undefined {
  const [, tools, typed] =
    /^[ \t]*\/?import[ \t]*(tools[ \t]*)?\{[^}]*?@?([\w-]*)$/.exec(line) ?? [];
  if (typed === undefined) return undefined;
  const { text } = view.script;
  const end = text.indexOf('\n', offset);
  const rest = text.slice(offset, end === -1 ? text.length : end);
  if (tools !== undefined) {
    const [, connector] = /\}[ \t]*from[ \t]*mcp[ \t]*["'`]([^"'`\n]+)/.exec(rest) ?? [];
    return { items: toolsOf(connector, view, modules), at: offset - typed.length };
  }
  const [, path] = /\}[ \t]*from[ \t]*["'<]?([^"'>\s]+)/.exec(rest) ?? [];
  const probe = readScript(`import "${path ?? ''}" as @m`, 'strict', view.file);
  const [bound] = probe.names;
  const module = bound && modules.of(bound, view.file);
  const names = module ? modules.exports(module) : [];
  return { items: names.map((name) => item('variable', name)), at: offset - typed.length };
}

function toolsOf(connector: string | undefined, { file }: Scripted, modules: Modules): Item[] {
  const tools = connector === undefined ? undefined : modules.tools(connector, file);
  return tools && 'names' in tools ? tools.names.map((name) => item('function', name)) : [];
}

function named({ view, offset, line }: CompletionRequest): Completion | undefined {
  const [, typed] = TYPED_NAME.exec(line) ?? [];
  if (typed === undefined) return undefined;
  const { names, inputs, text, parsed } = view.script;
  const at = offset - typed.length;
  const visible = names.filter(
    (bound) =>
      !/^(?:guard|hook)$/.test(bound.kind) &&
      // The name that is being bound is left out.
      bound.place.at !== at &&
      bound.seen.at <= offset &&
      offset <= bound.seen.end,
  );
  const items = [
    ...visible.map(({ name, kind, labels }) =>
      item(kind === 'function' ? 'function' : 'variable', name, [kind, ...labels].join(' ')),
    ),
    ...inputs.map(({ name, description }) => item('variable', name, description)),
    ...(parsed.script ? [] : looseNames(text, at)),
    ...listed('variable', 'ambient'),
    ...listed('function', 'transformers'),
  ];
  return { items: unique(items), at };
}

const BINDING =
  /(?:^|[^\w-])(?:var|let|exe|for)[ \t]+(?:[\w:,.-]+[ \t]+)?@([\w-]+)(?:\(([^()\n]*)\))?/g;

/** Returns names at binding locations of the text, because a statement that does not parse binds none in the tree. */
function looseNames(text: string, typedAt: number): Item[] {
  return Array.from(text.matchAll(BINDING)).flatMap(
    ({ index, 0: whole, 1: name = '', 2: list = '' }) => {
      const isTyped = index <= typedAt && typedAt <= index + whole.length;
      const parameters = list.split(',').map((one) => one.replace(/^\s*@?|\s*(?::.*)?$/g, ''));
      return [...(isTyped ? [] : [name]), ...parameters]
        .filter((one) => one !== '')
        .map((one) => item('variable', one));
    },
  );
}

function unique(items: readonly Item[]): Item[] {
  const first = new Map<string, Item>();
  for (const one of items) if (!first.has(one.label)) first.set(one.label, one);
  return [...first.values()];
}

function member({ view, offset, line, modules }: CompletionRequest): Completion | undefined {
  const [, name, steps = '', typed = ''] = MEMBER.exec(line) ?? [];
  if (name === undefined) {
    const [, after] = /[)\]>"'`]\.([\w-]*)$/.exec(line) ?? [];
    return after === undefined
      ? undefined
      : { items: methodsOf(undefined), at: offset - after.length };
  }
  const parts = [...steps.matchAll(new RegExp(STEP, 'g'))].map(([step]) => fieldOf(step));
  const isCalled = parts.includes(undefined);
  const fields = parts.filter((part) => part !== undefined);
  const meaning = resolve({ name, fields }, offset, view, modules);
  const items = isCalled ? methodsOf(undefined) : membersOf(meaning, view, modules);
  return { items: unique(items), at: offset - typed.length };
}

function methodsOf(type: string | undefined): Item[] {
  const common = [...listed('method', 'questions'), ...listed('field', 'value_members')];
  const text = type === undefined || type === 'string' ? listed('method', 'text_methods') : [];
  const list = type === undefined || type === 'array' ? listed('method', 'list_methods') : [];
  return unique([...text, ...list, ...common]);
}

const fieldsNamed = (names: readonly string[]): Item[] => names.map((name) => item('field', name));

function membersOf(meaning: Meaning, view: Scripted, modules: Modules): Item[] {
  if (meaning.kind === 'module') {
    const names = modules.exports(meaning.module).map((name) => item('module', name));
    const { script } = meaning.module;
    return script ? [...names, item('field', '__meta__', 'its front matter')] : names;
  }
  const { fields } = meaning;
  if (/^(?:mx|ctx)$/.test(fields.at(-1) ?? '')) return listed('field', 'value_mx');
  if (meaning.kind === 'ambient') return membersOfAmbient(meaning.name, fields, view);
  const connector = meaning.kind === 'bound' ? meaning.home.bound : undefined;
  if (connector?.kind === 'namespace' && connector.connector && fields.length === 0)
    return toolsOf(connector.connector, view, modules);
  const type = typeOfMeaning(meaning);
  const value = meaning.kind === 'bound' ? literalAt(meaning.home.bound.value, fields) : undefined;
  return [...fieldsNamed(keysOf(value)), ...methodsOf(type)];
}

function membersOfAmbient(name: string, fields: readonly string[], view: Scripted): Item[] {
  const [first] = fields;
  const { parsed, inputs } = view.script;
  switch (name) {
    case 'mx':
    case 'ctx':
      if (first === undefined) return listed('field', 'context');
      return first === 'op' || first === 'operation' ? listed('field', 'operation') : [];
    case 'p':
    case 'pipeline':
      return first === undefined ? listed('field', 'pipe') : methodsOf(undefined);
    case 'fm':
    case 'frontmatter':
      return fieldsNamed(frontMatterKeys(parsed.partial.frontMatter, fields));
    case 'input':
      return [
        ...inputs.map((one) => item('field', one.name, one.description)),
        ...methodsOf(undefined),
      ];
    default:
      return /^(?:parse|json)$/i.test(name)
        ? listed('method', 'parse_variants')
        : methodsOf(undefined);
  }
}

function frontMatterKeys(text: string | undefined, fields: readonly string[]): string[] {
  let value: unknown = text === undefined ? undefined : parseYaml(text).value;
  for (const field of fields) {
    value = isObject(value) && Object.hasOwn(value, field) ? value[field] : undefined;
  }
  return isObject(value) ? Object.keys(value) : [];
}

/** Completes words inside of a statement: decisions, effects as stages, and block words. */
function word({ view, offset, line }: CompletionRequest): Completion | undefined {
  const [, sign, typed] = /(=>|\|)[ \t]*([a-z]*)$/.exec(line) ?? [];
  if (typed === undefined) return undefined;
  const at = offset - typed.length;
  if (sign === '|') return { items: listed('word', 'effect_stages'), at };
  const isGuard = headBefore(view.script.text, offset) === 'guard';
  const stages = [...listed('word', 'block_words'), ...listed('word', 'effect_stages')];
  return { items: isGuard ? listed('word', 'verdicts') : stages, at };
}

/** Returns the word of the last statement that begins before an offset. */
function headBefore(text: string, offset: number): string | undefined {
  const before = text.slice(0, offset).split('\n');
  for (let index = before.length - 1; index >= 0; index -= 1) {
    const [, found] = /^[ \t]*\/?([a-z]+)\b/.exec(before[index] ?? '') ?? [];
    if (found !== undefined && about('statements', found) !== undefined) return found;
  }
  return undefined;
}
