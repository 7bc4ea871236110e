// Command lines. INVARIANT: a value put into a command is exactly one word (a list of plain values:
// one word each) whatever it contains; the shell never splits, expands or runs any of it.
import type { Json } from '../../base/index.ts';
import type { Value } from '../../flow/index.ts';
import { type Compiler, type Eval, evaluateAll } from '../run/environment.ts';
import type { NodeOf } from '../syntax/ast.ts';
import { compactJson, textOf, textOfData } from '../values/text.ts';
import { compileParts, type Word } from './text.ts';

type Lines = readonly (readonly Word[])[];

export const quoteWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const escapeQuoted = (text: string): string => text.replace(/[\\"$`]/g, '\\$&');

const isPlain = (data: Json): boolean => typeof data !== 'object' || data === null;

const textOfValue = (value: Value): string =>
  isPlain(value.data) ? textOf(value) : compactJson(value.data);

function wordOf({ value, quote }: Exclude<Word, string>): string {
  if (quote === 'mark') return '';
  const { data } = value;
  const isList = Array.isArray(data) && data.every(isPlain);
  const texts = isList ? data.map(textOfData) : [textOfValue(value)];
  if (quote === 'none') return texts.map(quoteWord).join(' ');
  const text = texts.join(' ');
  return quote === 'double' ? escapeQuoted(text) : quoteWord(text).slice(1, -1);
}

/** The finished line. */
export const joinWords = (words: readonly Word[]): string =>
  words.map((word) => (typeof word === 'string' ? word : wordOf(word))).join('');

/** Every line as words; values are evaluated, nothing is joined yet. */
export function compileLines(c: Compiler, node: NodeOf<'command'>): Eval<Lines> {
  const makers = node.lines.map((parts) => compileParts(c, parts));
  return (env) => evaluateAll(makers, env);
}

export const valuesIn = (lines: Lines): Value[] =>
  lines.flat().flatMap((word) => (typeof word === 'string' ? [] : [word.value]));

/** A line without the values put into it: where something came from is no place for data. */
export const writtenIn = (words: readonly Word[]): string =>
  words.map((word) => (typeof word === 'string' ? word : ' ')).join('');

/** The same lines with other values in the same places. */
export function withValues(lines: Lines, values: readonly Value[]): Lines {
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
