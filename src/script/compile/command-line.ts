// Command lines. INVARIANT: a value put into a command is exactly one word (a list of plain values:
// one word each) whatever it contains; the shell never splits, expands or runs any of it.
import type { Json } from '../../base/index.ts';
import { EMPTY, type MaybePromise, makeValue, type Value } from '../../flow/index.ts';
import { toFault } from '../fault.ts';
import type { Compiler, Environment } from '../run/environment.ts';
import type { Node, TemplatePart } from '../syntax/ast.ts';
import { isAbsent } from '../values/kinds.ts';
import { compactJson, textOf } from '../values/text.ts';
import { compileModes, resolveOpen } from './text.ts';

/** `mark`: no text at all, only the marks of what decided about the text beside it. */
type Quote = 'none' | 'single' | 'double' | 'mark';

/** Either text of the command, or a value with the quotes it stands in. */
export type Word = string | { readonly value: Value; readonly quote: Quote };

export const quoteWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const escapeQuoted = (text: string): string => text.replace(/[\\"$`]/g, '\\$&');

const isPlain = (data: Json): boolean => typeof data !== 'object' || data === null;

const plainText = (data: Json): string => (typeof data === 'string' ? data : compactJson(data));

function textOfValue(value: Value): string {
  if (isAbsent(value)) return '';
  const { data } = value;
  return isPlain(data) ? textOf(value) : compactJson(data);
}

function wordOf({ value, quote }: { value: Value; quote: Quote }): string {
  if (quote === 'mark') return '';
  const { data } = value;
  const list = Array.isArray(data) && data.every(isPlain) ? data : undefined;
  if (quote === 'none') {
    return list
      ? list.map((item) => quoteWord(plainText(item))).join(' ')
      : quoteWord(textOfValue(value));
  }
  const text = list ? list.map(plainText).join(' ') : textOfValue(value);
  return quote === 'double' ? escapeQuoted(text) : text.replaceAll("'", `'\\''`);
}

/** The finished line. */
export const joinWords = (words: readonly Word[]): string =>
  words.map((word) => (typeof word === 'string' ? word : wordOf(word))).join('');

type MakeWords = (env: Environment) => MaybePromise<readonly Word[]>;

function compileInsertWord(c: Compiler, part: Node<'insert'>): MakeWords {
  const quote = part.quote ?? 'none';
  return compileModes<readonly Word[]>(c, part, {
    value: (value, env) => [{ value: resolveOpen(value, env), quote }],
    text: (text) => [text],
    under: (words, descriptor) =>
      descriptor === EMPTY
        ? words
        : [...words, { value: makeValue('', { descriptor }), quote: 'mark' }],
    parts: (parts) => compileWords(c, parts),
  });
}

/** A missing file is nothing, and a warning. */
function compileFileWord(c: Compiler, part: Node<'file-part'>): MakeWords {
  const load = c.stages(part.file, part.stages);
  return async (env) => {
    try {
      return [{ value: await load(env), quote: part.quote ?? 'none' }];
    } catch (error) {
      const fault = toFault(error);
      if (fault.fault.code !== 'not_found') throw fault;
      env.run.warn(fault.message, env.unit, part.at);
      return [''];
    }
  };
}

function compileWord(c: Compiler, part: TemplatePart): MakeWords {
  if (typeof part === 'string') return () => [part];
  if (part.kind === 'insert') return compileInsertWord(c, part);
  if (part.kind === 'file-part') return compileFileWord(c, part);
  return () => [];
}

function compileWords(
  c: Compiler,
  parts: readonly TemplatePart[],
): (env: Environment) => Promise<readonly Word[]> {
  const makers = parts.map((part) => compileWord(c, part));
  return async (env) => {
    const words: Word[] = [];
    for (const make of makers) words.push(...(await make(env)));
    return words;
  };
}

/** Every line as words; values are evaluated, nothing is joined yet. */
export function compileLines(
  c: Compiler,
  node: Node<'command'>,
): (env: Environment) => Promise<readonly (readonly Word[])[]> {
  const makers = node.lines.map((parts) => compileWords(c, parts));
  return async (env) => {
    const lines: (readonly Word[])[] = [];
    for (const make of makers) lines.push(await make(env));
    return lines;
  };
}

export const valuesIn = (lines: readonly (readonly Word[])[]): Value[] =>
  lines.flat().flatMap((word) => (typeof word === 'string' ? [] : [word.value]));

/** A line without the values put into it: where something came from is no place for data. */
export const writtenIn = (words: readonly Word[]): string =>
  words.map((word) => (typeof word === 'string' ? word : ' ')).join('');

/** The same lines with other values in the same places. */
export function withValues(
  lines: readonly (readonly Word[])[],
  values: readonly Value[],
): readonly (readonly Word[])[] {
  let at = 0;
  return lines.map((words) =>
    words.map((word) =>
      typeof word === 'string' ? word : { ...word, value: values[at++] ?? word.value },
    ),
  );
}

/** `op:cmd:git:push`: the leading plain words of a command, and of each command of a pipe. */
export function commandKeys(lines: readonly string[]): string[] {
  const keys = new Set<string>();
  for (const line of lines) {
    for (const command of [line, ...substituted(line)].flatMap(splitPipes)) {
      const words = leadingWords(command);
      if (words.length > 0) keys.add(`op:cmd:${words.join(':')}`);
    }
  }
  return [...keys];
}

/** What stands in `$( … )` and backticks is run as well; single quotes and backslashes keep it from that. */
export function substituted(line: string): string[] {
  const read = line.replaceAll(/\\.|'[^']*'/gs, (part) => ' '.repeat(part.length));
  const opened = [...read.matchAll(/\$\((?!\()/g)].map(({ index }) => line.slice(index + 2));
  const ticks = read.split('`').filter((_, at) => at % 2 === 1);
  return [...opened, ...ticks].map((text) => text.replace(/[)"].*$/s, ''));
}

export const splitPipes = (line: string): string[] =>
  (line.match(/(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^|'"\\])+/g) ?? []).map((part) => part.trim());

const MAX_WORDS = 4;

function leadingWords(command: string): string[] {
  const words: string[] = [];
  for (const raw of command.split(/\s+/)) {
    const word = raw.replace(/^(['"])(.*)\1$/, '$2');
    if (words.length === 0 && /^\w+=/.test(word)) continue;
    if (word === '' || words.length === MAX_WORDS) break;
    if (words.length > 0 && !/^[A-Za-z0-9][\w.-]*$/.test(word)) break;
    words.push(words.length === 0 ? (word.split('/').at(-1) ?? word) : word);
  }
  return words;
}
