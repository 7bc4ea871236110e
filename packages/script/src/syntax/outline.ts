// Lists the names that a script binds: their location, their scope, and the facts that are known without
// running the script. Editors use it, so it also works on a partly parsed script.
import { basename, extname } from 'node:path';
import {
  type Binding,
  type Expression,
  type NodeOf,
  type Range,
  type ScriptTree,
  type Statement,
  visit,
} from './ast.ts';

export interface Bound {
  readonly name: string;
  readonly kind: BoundKind;
  /** Range of the name in the text, without `@`. */
  readonly place: Range;
  readonly seen: Range;
  readonly labels: readonly string[];
  readonly value?: Expression;
  readonly exe?: NodeOf<'exe'>;
  /** Expression that a loop variable iterates over. */
  readonly collection?: Expression;
  /** Text of the type after the `:` of a parameter. */
  readonly type?: string;
  /** File of an import, and the name in that file. */
  readonly source?: { readonly path: NodeOf<'template'>; readonly name?: string };
  readonly connector?: string;
}

type BoundKind =
  | 'variable'
  | 'function'
  | 'parameter'
  | 'loop variable'
  | 'import'
  | 'namespace'
  | 'templates'
  | 'policy'
  | 'guard'
  | 'hook';

const isNameChar = (char: string | undefined): boolean => /[\w\u0080-\uffff-]/.test(char ?? '');

/** Returns the range of a name as a whole word; an empty range at `from` if it does not occur. */
function placeOfName(text: string, name: string, from: number, to: number): Range {
  const bare = name.replace(/^@/, '');
  for (let at = text.indexOf(name, from); at !== -1 && at < to; at = text.indexOf(name, at + 1)) {
    const end = at + name.length;
    const begin = end - bare.length;
    if (!isNameChar(text[begin - 1]) && !isNameChar(text[end])) return { at: begin, end };
  }
  return { at: from, end: from };
}

/** Kinds of nodes whose names are visible only inside of them. */
const CLOSED = new Set(['block', 'when', 'exe', 'for', 'repeat']);

export function namesIn({ text, body }: ScriptTree): Bound[] {
  const whole: Range = { at: 0, end: text.length };
  const found: Bound[] = [];
  const open: [unknown, Range][] = [[body, whole]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [item, around] = next;
    if (typeof item !== 'object' || item === null) continue;
    if (Array.isArray(item) || item instanceof Map) {
      for (const inner of item.values()) open.push([inner, around]);
      continue;
    }
    const { kind } = item as { kind?: string };
    const range = CLOSED.has(kind ?? '') ? (item as Range) : around;
    found.push(...boundBy(item as Statement | NodeOf<'repeat'>, text, whole, range));
    for (const inner of Object.values(item)) open.push([inner, range]);
  }
  return found.sort((a, b) => a.place.at - b.place.at);
}

function boundBy(
  node: Statement | NodeOf<'repeat' | 'for'>,
  text: string,
  whole: Range,
  around: Range,
): Bound[] {
  const { at, end } = node;
  const named = (
    kind: BoundKind,
    name: string,
    range: Range,
    more: Partial<Bound> = {},
  ): Bound => ({
    name,
    kind,
    place: placeOfName(text, `@${name}`, at, end),
    seen: range,
    labels: [],
    ...more,
  });
  switch (node.kind) {
    case 'var':
      return [named('variable', node.name, whole, { labels: node.labels, value: node.value })];
    case 'let':
      return [named('variable', node.name, around, { labels: node.labels, value: node.value })];
    case 'exe': {
      const own = named('function', node.name, whole, { labels: node.labels, exe: node });
      const parameters = node.parameters.map(({ name, type }) => ({
        ...named('parameter', name, around, type === undefined ? {} : { type }),
        place: placeOfName(text, name, own.place.end, node.body.at),
      }));
      return [own, ...parameters];
    }
    case 'for':
    case 'repeat':
      return loopNames(node.bind).map(([name, written]) => ({
        ...named('loop variable', written, around, { collection: node.collection }),
        name,
      }));
    case 'policy':
      return [named('policy', node.name, whole)];
    case 'guard':
    case 'hook':
      return node.name === undefined ? [] : [named(node.kind, node.name, whole)];
    case 'import':
      return importedBy(node, text, whole);
    default:
      return [];
  }
}

/** Returns the names of a loop, each with the name in the text: `@x` also binds `@x_key`. */
const loopNames = ({ key, name }: Binding): [name: string, written: string][] => [
  key === undefined ? [`${name}_key`, name] : [key, key],
  [name, name],
];

function importedBy(node: NodeOf<'import'>, text: string, range: Range): Bound[] {
  const { form, source } = node;
  const path = source.kind === 'path' ? source.path : undefined;
  const connector = source.kind === 'connector' ? staticText(source.name) : undefined;
  const bound = (kind: BoundKind, name: string, place: Range, inFile?: string): Bound => ({
    name,
    kind,
    place,
    seen: range,
    labels: [],
    ...(path ? { source: { path, ...(inFile === undefined ? {} : { name: inFile }) } } : {}),
    ...(connector === undefined ? {} : { connector }),
  });
  if (form.kind === 'names') {
    const from = text.indexOf('{', node.at);
    return form.names.map(({ name, alias }) =>
      bound('import', alias, placeOfAlias(text, alias, from, node.end), name),
    );
  }
  if (form.alias === undefined) {
    const name = path ? derivedName(staticText(path) ?? '') : '';
    return path && name !== '' ? [bound('namespace', name, path)] : [];
  }
  const place = placeOfAlias(text, form.alias, node.at, node.end);
  return [bound(form.kind, form.alias, place)];
}

/** Returns the range of the alias: `as @alias`, or a name between commas. */
function placeOfAlias(text: string, alias: string, from: number, to: number): Range {
  const written = alias.replace(/[^\w\u0080-\uffff-]/g, '');
  const pattern = new RegExp(
    `(?:\\bas\\s+@?|[{,]\\s*@?|policy\\s+@)(?=${written}(?![\\w-]|\\s+as\\b))`,
    'g',
  );
  const found = pattern.exec(text.slice(from, to));
  if (!found) return placeOfName(text, alias, from, to);
  const at = from + found.index + found[0].length;
  return { at, end: at + alias.length };
}

/** Returns the default alias of a file: `./my-lib.mld` gives `@my_lib`. */
export const derivedName = (path: string): string =>
  basename(path, extname(path)).replace(/[^A-Za-z0-9_]/g, '_');

/** Returns the camel case form that a tool of a connector can be called by: `list_files` gives `listFiles`. */
export const camelCased = (name: string): string =>
  name.replace(/[^A-Za-z0-9]+([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** Returns a text whose only reference may be `@root`; `undefined` if it is known only at run time. */
export function staticText({ parts }: NodeOf<'template'>): string | undefined {
  const texts = parts.map((part) => {
    if (typeof part === 'string') return part;
    const isRoot = part.kind === 'insert' && /^(?:root|base)$/.test(part.value.name);
    return isRoot && part.value.steps.length === 0 ? '@root' : undefined;
  });
  return texts.includes(undefined) ? undefined : texts.join('');
}

/** Returns the constant texts of a list. A computed text is left out. */
export const staticTexts = (list: Expression | undefined): string[] =>
  list?.kind === 'array'
    ? list.items.flatMap(({ value }) =>
        value.kind === 'template' ? (staticText(value) ?? []) : [],
      )
    : [];

/** Returns the names that a bound value reads, with their offsets. */
export function namesReadBy(bound: Bound): { name: string; at: number }[] {
  const found: { name: string; at: number }[] = [];
  visit(bound.value ?? bound.exe?.body ?? bound.collection, (node) => {
    if (node.kind === 'reference') found.push({ name: node.name, at: node.at });
  });
  return found;
}

const TYPES: { readonly [K in Expression['kind']]?: string } = {
  template: 'string',
  array: 'array',
  object: 'object',
};

export function typeOf(value: Expression | undefined): string | undefined {
  if (!value) return undefined;
  switch (value.kind) {
    case 'literal':
      return value.value === null ? 'null' : typeof value.value;
    case 'unary':
      return value.operator === '!' ? 'boolean' : 'number';
    case 'binary':
      if (/^[=!<>]/.test(value.operator)) return 'boolean';
      return /^[-+*/%]/.test(value.operator) ? 'number' : undefined;
    case 'with':
      return typeOf(value.value);
    case 'for':
    case 'foreach':
      return value.batch ? undefined : 'array';
    default:
      return TYPES[value.kind];
  }
}

/** Follows fields into literals, such as `a`, `b` into `{ a: { b: 1 } }`. */
export function literalAt(
  value: Expression | undefined,
  path: readonly string[],
): Expression | undefined {
  let found = value;
  for (const field of path) {
    const list = found?.kind === 'array' ? found.items : undefined;
    const entries = found?.kind === 'object' ? found.entries : [];
    const pair = entries.find((entry) => entry.kind === 'pair' && entry.key === field);
    found = list?.[Number(field)]?.value ?? pair?.value;
  }
  return found;
}

/** Returns the keys of an object literal; empty for other values. */
export const keysOf = (value: Expression | undefined): string[] =>
  value?.kind === 'object'
    ? value.entries.flatMap((entry) => (entry.kind === 'pair' ? [entry.key] : []))
    : [];

const BODY_KINDS: typeof TYPES = {
  command: 'cmd',
  template: 'template',
  literal: 'template',
  'template-file': 'template',
  model: 'llm',
};

/** Returns the kind of a function body, in the words of `op:` filters. */
export function bodyKindOf(body: Expression): string {
  if (body.kind === 'run-value') return bodyKindOf(body.action);
  if (body.kind === 'with') return bodyKindOf(body.value);
  if (body.kind === 'code') return body.language === 'bash' ? 'sh' : body.language;
  return BODY_KINDS[body.kind] ?? 'exe';
}

/** Kinds of function bodies that a block of each language can call by name. */
export const HELPER_BODIES: Readonly<Record<NodeOf<'helpers'>['language'], readonly string[]>> = {
  js: ['js'],
  node: ['node', 'js'],
  py: ['py'],
};
