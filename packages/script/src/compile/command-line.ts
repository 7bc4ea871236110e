// Builds command lines. INVARIANT: an inserted value is always exactly one word, and a list of plain values
// is always one word for each. The shell never splits, expands or runs any of it.
import { type Json, shellQuote } from '@kernmantle/core/base';
import type { Value } from '@kernmantle/core/flow';
import { type Compiler, type Eval, evaluateAll } from '../run/environment.ts';
import type { NodeOf } from '../syntax/ast.ts';
import { compactJson, textOf, textOfData } from '../values/text.ts';
import { compileParts, type Word } from './text.ts';

type Lines = readonly (readonly Word[])[];

const escapeQuoted = (text: string): string => text.replace(/[\\"$`]/g, '\\$&');

const isPlain = (data: Json): boolean => typeof data !== 'object' || data === null;

const textOfValue = (value: Value): string =>
  isPlain(value.data) ? textOf(value) : compactJson(value.data);

function wordOf({ value, quote }: Exclude<Word, string>): string {
  if (quote === 'mark') return '';
  const { data } = value;
  const isList = Array.isArray(data) && data.every(isPlain);
  const texts = isList ? data.map(textOfData) : [textOfValue(value)];
  if (quote === 'none') return texts.map(shellQuote).join(' ');
  const text = texts.join(' ');
  return quote === 'double' ? escapeQuoted(text) : shellQuote(text).slice(1, -1);
}

export const joinWords = (words: readonly Word[]): string =>
  words.map((word) => (typeof word === 'string' ? word : wordOf(word))).join('');

/** Compiles the lines into words. Values are evaluated but not joined. */
export function compileLines(c: Compiler, node: NodeOf<'command'>): Eval<Lines> {
  const makers = node.lines.map((parts) => compileParts(c, parts));
  return (env) => evaluateAll(makers, env);
}

export const valuesIn = (lines: Lines): Value[] =>
  lines.flat().flatMap((word) => (typeof word === 'string' ? [] : [word.value]));

/** Returns a line without its values, because locations must not contain data. */
export const writtenIn = (words: readonly Word[]): string =>
  words.map((word) => (typeof word === 'string' ? word : ' ')).join('');

/** Returns the lines with other values at the same positions. */
export function withValues(lines: Lines, values: readonly Value[]): Lines {
  let at = 0;
  return lines.map((words) =>
    words.map((word) =>
      typeof word === 'string' ? word : { ...word, value: values[at++] ?? word.value },
    ),
  );
}
