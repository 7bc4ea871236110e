// Describes a name or word in a few lines of markdown.
import type { Expression } from '../syntax/ast.ts';
import { bodyKindOf, staticText } from '../syntax/outline.ts';
import { tagAt } from './completion.ts';
import {
  type Meaning,
  type NameToken,
  possibleLabels,
  resolve,
  tokenAt,
  typeOfMeaning,
} from './definition.ts';
import type { Home, Modules } from './modules.ts';
import { type Scripted, scriptedAt, type View } from './view.ts';
import { about } from './words.ts';

interface Hover {
  readonly text: string;
  readonly at: number;
  readonly end: number;
}

export function hoverAt(view: View, offset: number, modules: Modules): Hover | undefined {
  const scripted = scriptedAt(view, offset);
  if (scripted) return hoverInScript(scripted, offset, modules);
  return view.kind === 'directive' ? hoverOfTag(view.text, offset) : undefined;
}

function hoverOfTag(text: string, offset: number): Hover | undefined {
  const tag = tagAt(text, offset);
  const line = tag && about('tags', tag.name);
  return tag && line !== undefined
    ? { text: `${code(`<${tag.name}>`)}\n${line}`, at: tag.at, end: tag.end }
    : undefined;
}

const code = (text: string): string => `\`\`\`mlld\n${text}\n\`\`\``;

function hoverInScript(view: Scripted, offset: number, modules: Modules): Hover | undefined {
  const token = tokenAt(view.script, offset);
  if (!token) return undefined;
  const { at, end } = token;
  if (token.kind === 'word') {
    const line = about('statements', token.word) ?? about('block_words', token.word);
    return line === undefined ? undefined : { text: line, at, end };
  }
  const text = describe(resolve(token, offset, view, modules), token, modules);
  return text === '' ? undefined : { text, at, end };
}

/** Returns the description of a name; empty if there is none. */
function describe(meaning: Meaning, token: NameToken, modules: Modules): string {
  const written = `@${[token.name, ...token.fields].join('.')}`;
  switch (meaning.kind) {
    case 'ambient':
      return aboutAmbient(meaning.name, meaning.fields);
    case 'module':
      return lines(code(`import "${meaning.module.file}" as ${written}`), 'namespace');
    case 'input': {
      const { type, description, required } = meaning.input;
      if (meaning.fields.length > 0) return aboutMember(meaning, written);
      const kind = `input, ${type}${required ? ', required' : ''}`;
      return lines(code(written), kind, description);
    }
    case 'bound':
      return meaning.fields.length > 0
        ? aboutMember(meaning, written)
        : aboutBound(meaning, modules);
  }
}

const lines = (...parts: (string | undefined)[]): string =>
  parts.filter((part) => part !== undefined && part !== '').join('\n');

const labelled = (labels: readonly string[]): string =>
  labels.length === 0 ? '' : `, labels ${labels.map((label) => `\`${label}\``).join(' ')}`;

const possibleLabelsLine = (home: Home, modules: Modules): string => {
  const others = possibleLabels(home, modules).filter((one) => !home.bound.labels.includes(one));
  return others.length === 0 ? '' : `may also have${labelled(others).replace(',', '')}`;
};

function aboutBound(meaning: Meaning & { kind: 'bound' }, modules: Modules): string {
  const { name, kind, labels, exe } = meaning.home.bound;
  const type = typeOfMeaning(meaning);
  const typed = type === undefined ? kind : `${kind}, ${type}`;
  const word = exe ? 'exe' : kind === 'variable' ? 'var' : '';
  const parameters = exe?.parameters.map((one) =>
    one.type === undefined ? one.name : `${one.name}: ${one.type}`,
  );
  const called = parameters ? `(${parameters.join(', ')})` : '';
  const text = exe?.options?.entries.get('description');
  return lines(
    code([word, labels.join(','), `@${name}${called}`].filter((part) => part !== '').join(' ')),
    `${exe ? `function, body ${bodyKindOf(exe.body)}` : typed}${labelled(labels)}`,
    possibleLabelsLine(meaning.home, modules),
    text && writtenText(text),
  );
}

function writtenText(value: Expression): string | undefined {
  if (value.kind === 'template') return staticText(value);
  return value.kind === 'literal' && typeof value.value === 'string' ? value.value : undefined;
}

function aboutMember(meaning: Meaning & { fields: readonly string[] }, written: string): string {
  const { fields } = meaning;
  const last = fields.at(-1) ?? '';
  const type = typeOfMeaning(meaning);
  if (type !== undefined) return lines(code(written), `field, ${type}`);
  const facts = /^(?:mx|ctx)$/.test(fields.at(-2) ?? '') ? about('value_mx', last) : undefined;
  return facts ?? aboutMethod(last) ?? '';
}

const aboutMethod = (name: string): string | undefined => {
  const line =
    about('value_members', name === 'ctx' ? 'mx' : name) ??
    about('text_methods', name) ??
    about('list_methods', name) ??
    about('questions', name);
  return line === undefined ? undefined : lines(code(`.${name}`), line);
};

function aboutAmbient(name: string, fields: readonly string[]): string {
  const [first, second] = fields;
  const isContext = name === 'mx' || name === 'ctx';
  const line =
    first === undefined
      ? (about('ambient', name) ?? about('transformers', name.toLowerCase()))
      : isContext
        ? aboutContext(first, second)
        : undefined;
  if (line !== undefined) return lines(code(`@${[name, ...fields].join('.')}`), line);
  if (first === undefined) return '';
  const member = name === 'p' || name === 'pipeline' ? about('pipe', first) : undefined;
  const variant = /^(?:parse|json)$/i.test(name) ? about('parse_variants', first) : undefined;
  return member ?? variant ?? aboutMethod(fields.at(-1) ?? '') ?? '';
}

const aboutContext = (first: string, second: string | undefined): string | undefined => {
  if (second === undefined) return about('context', first);
  if (first === 'op' || first === 'operation') return about('operation', second);
  return first === 'pipe' ? about('context', second) : undefined;
};
