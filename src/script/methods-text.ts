// The methods of strings, as functions of a text and its arguments. They answer with plain data; the
// marks are merged by the caller.
import type { Json } from '../base/index.ts';
import { raise } from './fault.ts';
import { matchesOf } from './methods-pattern.ts';

export interface Arguments {
  text(position: number): string;
  optionalText(position: number): string | undefined;
  number(position: number): number;
  optionalNumber(position: number): number | undefined;
}

type TextMethod = (text: string, args: Arguments) => Json;

/** More than any prompt holds; a mistaken count must not fill the memory. */
const MAX_LENGTH = 16 * 1024 * 1024;

function bounded(length: number): number {
  if (length <= MAX_LENGTH) return length;
  return raise('invalid_input', `the result would be longer than ${MAX_LENGTH} characters`);
}

// Replacements are literal: `$&` in a text from outside is no instruction.
export const TEXT_METHODS: ReadonlyMap<string, TextMethod> = new Map<string, TextMethod>([
  ['length', (text) => text.length],
  ['includes', (text, args) => text.includes(args.text(0))],
  ['indexOf', (text, args) => text.indexOf(args.text(0), args.optionalNumber(1))],
  ['startsWith', (text, args) => text.startsWith(args.text(0), args.optionalNumber(1))],
  ['endsWith', (text, args) => text.endsWith(args.text(0), args.optionalNumber(1))],
  ['toLowerCase', (text) => text.toLowerCase()],
  ['toUpperCase', (text) => text.toUpperCase()],
  ['trim', (text) => text.trim()],
  ['split', (text, args) => split(text, args.optionalText(0), args.optionalNumber(1))],
  ['slice', (text, args) => text.slice(args.optionalNumber(0), args.optionalNumber(1))],
  [
    'substring',
    (text, args) => text.substring(args.optionalNumber(0) ?? 0, args.optionalNumber(1)),
  ],
  ['replace', (text, args) => replace(text, args.text(0), args.text(1))],
  ['replaceAll', (text, args) => replaceAll(text, args.text(0), args.text(1))],
  ['match', (text, args) => matchesOf(text, args.text(0))],
  ['padStart', (text, args) => text.padStart(bounded(args.number(0)), args.optionalText(1))],
  ['padEnd', (text, args) => text.padEnd(bounded(args.number(0)), args.optionalText(1))],
  ['repeat', (text, args) => repeated(text, args.number(0))],
  ['at', (text, args) => text.at(args.optionalNumber(0) ?? 0) ?? null],
]);

const split = (text: string, by: string | undefined, limit: number | undefined): string[] =>
  by === undefined ? [text] : text.split(by, limit);

const replace = (text: string, from: string, to: string): string => text.replace(from, () => to);

const replaceAll = (text: string, from: string, to: string): string =>
  text.replaceAll(from, () => to);

function repeated(text: string, count: number): string {
  if (!Number.isInteger(count) || count < 0) {
    raise('invalid_input', `\`repeat\` needs a whole number from 0 up, not \`${count}\``);
  }
  bounded(text.length * count);
  return text.repeat(count);
}
