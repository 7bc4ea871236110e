// Parses `@name` with its fields, indexes, slices and calls. In a value a malformed step is an error. In
// text it ends the reference.
import { messageOf } from '@kernmantle/core/base';
import type { Binding, Expression, NodeOf, PathStep } from './ast.ts';
import type { Reader } from './cursor.ts';

const DIGITS = /\d+/y;
const NEXT_LINE_METHOD = /[ \t\r]*\n[ \t]*(?=\.[A-Za-z_]\w*\()/y;
const ENDS_OPTIONAL = /\?[ \t]*(?:$|[\n\r,\])}|;]|=>|==|!=|!?~=|&&|>>|<<)/my;

export function parseReference(r: Reader): NodeOf<'reference'> {
  const at = r.pos;
  r.expect('@', 'before a name');
  const name = r.name('after `@`');
  const steps = parseSteps(r);
  const isOptional = r.sees(ENDS_OPTIONAL);
  if (isOptional) r.pos += 1;
  return { kind: 'reference', name, steps, isOptional, at, end: r.pos };
}

export const parseSteps = (r: Reader): PathStep[] => allOf((last) => parseStep(r, last));

function parseStep(r: Reader, last: PathStep | undefined): PathStep | undefined {
  if (r.peek() !== '.') r.match(NEXT_LINE_METHOD);
  const at = r.pos;
  switch (r.peek()) {
    case '.':
      if (r.starts('..')) return undefined;
      return fieldStep(r) ?? r.fail('expected a field name after `.`', { at, end: at + 1 });
    case '[':
      return parseIndex(r);
    case '(':
      return { kind: 'call', arguments: compilable(r, parseArguments(r, takesPattern(last))), at };
    default:
      return undefined;
  }
}

/** Parses the steps of a reference in text. */
export const parseTextSteps = (r: Reader, mayCall: boolean): PathStep[] =>
  allOf((last) => textStep(r, mayCall, last));

function allOf(next: (last: PathStep | undefined) => PathStep | undefined): PathStep[] {
  const steps: PathStep[] = [];
  for (let step = next(undefined); step !== undefined; step = next(step)) steps.push(step);
  return steps;
}

function textStep(r: Reader, mayCall: boolean, last: PathStep | undefined): PathStep | undefined {
  const at = r.pos;
  switch (r.peek()) {
    case '.':
      return fieldStep(r);
    case '[':
      return /[\d@"'*:-]/.test(r.peek(1)) ? r.attempt(() => parseIndex(r)) : undefined;
    case '(': {
      const read = () => parseArguments(r, takesPattern(last));
      const all = r.isTemplateFile ? () => compilable(r, read()) : read;
      const values = mayCall ? r.attempt(all) : undefined;
      return values && { kind: 'call', arguments: compilable(r, values), at };
    }
    default:
      return undefined;
  }
}

function fieldStep(r: Reader): PathStep | undefined {
  const at = r.pos;
  r.pos += 1;
  const name = r.takeName() ?? r.match(DIGITS);
  if (name !== undefined) return { kind: 'field', name, at };
  r.pos = at;
  return undefined;
}

/** Parses `[0]`, `["k"]`, `[@i]`, `[*]` or `[1:-1]`. */
function parseIndex(r: Reader): PathStep {
  const at = r.pos;
  r.pos += 1;
  return r.within({ isOpen: true, blocks: 'none' }, () => {
    r.space();
    if (r.take(/\*\s*\]/y)) return { kind: 'each', at };
    const from = r.peek() === ':' ? undefined : r.rules.value(r);
    r.space();
    const isSlice = r.take(':');
    r.space();
    const to = isSlice && r.peek() !== ']' ? r.rules.value(r) : undefined;
    r.space();
    if (!r.take(']'))
      r.fail(`expected \`]\` to close the index, found ${r.shown()}`, { code: 'unclosed' });
    if (from !== undefined && !isSlice) return { kind: 'index', index: from, at };
    return { kind: 'slice', from, to, at };
  });
}

export function parseArguments(r: Reader, mayPattern = false): Expression[] {
  r.pos += 1;
  let isFirst = mayPattern;
  return r.list(')', 'arguments', () => {
    const value = isFirst && r.peek() === '/' ? parsePattern(r) : r.rules.value(r);
    isFirst = false;
    return value;
  });
}

const PATTERN_METHODS = new Set(['match', 'replace', 'replaceAll', 'split']);

const takesPattern = (step: PathStep | undefined): boolean =>
  step?.kind === 'field' && PATTERN_METHODS.has(step.name);

// A slash inside of brackets is an ordinary character.
const PATTERN = /\/(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\\[\n])*\/[A-Za-z]*/y;

/** Parses `/body/flags`. The reader is at the slash. */
function parsePattern(r: Reader): NodeOf<'pattern'> {
  const at = r.pos;
  const text = r.match(PATTERN);
  if (text === undefined) return r.failUnclosed(at, 'the pattern is not closed');
  const close = text.lastIndexOf('/');
  const [body, flags] = [text.slice(1, close), text.slice(close + 1)];
  return { kind: 'pattern', body, flags, at, end: r.pos };
}

/** Fails on a pattern that cannot be compiled, also in text, where another malformed call would be text. */
function compilable(r: Reader, values: Expression[]): Expression[] {
  const [first] = values;
  if (first?.kind !== 'pattern') return values;
  const { body, flags, at, end } = first;
  const unknown = /[^gimsu]/.exec(flags)?.[0];
  if (unknown !== undefined) {
    r.fail(`\`${unknown}\` is not a flag of a pattern`, {
      at,
      end,
      hint: 'use the flags g, i, m, s and u',
    });
  }
  try {
    RegExp(body, flags);
  } catch (error) {
    r.fail(`\`/${body}/${flags}\` cannot be compiled: ${reasonOf(error)}`, { at, end });
  }
  return values;
}

const reasonOf = (error: unknown): string => messageOf(error).replace(/^.*: /s, '').toLowerCase();

/** Parses `@k, @v in`, `@item.path in` or `@x in`. The reader ends after `in`. */
export function parseBinding(r: Reader): Binding {
  const first = parseReference(r);
  r.blanks();
  const isPair = r.take(',');
  r.blanks();
  const item = isPair ? parseReference(r) : first;
  const path = item.steps.map((step) =>
    step.kind === 'field'
      ? step.name
      : r.fail('a loop variable can only have fields', { at: step.at }),
  );
  r.space();
  if (!r.takeWord('in')) r.fail(`expected \`in\` after the loop variable, found ${r.shown()}`);
  r.space();
  return { key: isPair ? first.name : undefined, name: item.name, path };
}
