// `@name` and what hangs on it: fields, indexes, slices, calls. In a value every step must be well
// formed; in text a step that is not simply ends the reference.
import type { Binding, Expression, NodeOf, PathStep } from './ast.ts';
import type { Reader } from './cursor.ts';

const DIGITS = /\d+/y;
const NEXT_LINE_METHOD = /[ \t\r]*\n[ \t]*(?=\.[A-Za-z_]\w*\()/y;
const ENDS_OPTIONAL = /\?[ \t]*(?:$|[\n\r,\])}|;]|=>|==|!=|!?~=|&&|>>|<<)/my;

/** Stands at `@`. */
export function parseReference(r: Reader): NodeOf<'reference'> {
  const at = r.pos;
  r.expect('@', 'before a name');
  const name = r.name('after `@`');
  const steps = parseSteps(r);
  const isOptional = r.sees(ENDS_OPTIONAL);
  if (isOptional) r.pos += 1;
  return { kind: 'reference', name, steps, isOptional, at, end: r.pos };
}

export const parseSteps = (r: Reader): PathStep[] => allOf(() => parseStep(r));

function parseStep(r: Reader): PathStep | undefined {
  if (r.peek() !== '.') r.match(NEXT_LINE_METHOD);
  const at = r.pos;
  switch (r.peek()) {
    case '.':
      if (r.starts('..')) return undefined;
      return fieldStep(r) ?? r.fail('expected a field name after `.`', { at, end: at + 1 });
    case '[':
      return parseIndex(r);
    case '(':
      return { kind: 'call', arguments: parseArguments(r), at };
    default:
      return undefined;
  }
}

/** Steps in running text. */
export const parseTextSteps = (r: Reader, mayCall: boolean): PathStep[] =>
  allOf(() => textStep(r, mayCall));

function allOf(next: () => PathStep | undefined): PathStep[] {
  const steps: PathStep[] = [];
  for (let step = next(); step !== undefined; step = next()) steps.push(step);
  return steps;
}

function textStep(r: Reader, mayCall: boolean): PathStep | undefined {
  const at = r.pos;
  switch (r.peek()) {
    case '.':
      return fieldStep(r);
    case '[':
      return /[\d@"'*:-]/.test(r.peek(1)) ? r.attempt(() => parseIndex(r)) : undefined;
    case '(': {
      const values = mayCall ? r.attempt(() => parseArguments(r)) : undefined;
      return values && { kind: 'call', arguments: values, at };
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

/** `[0]`, `["k"]`, `[@i]`, `[*]`, `[1:-1]` */
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

/** Stands at `(`. */
export function parseArguments(r: Reader): Expression[] {
  r.pos += 1;
  return r.list(')', 'arguments', () => r.rules.value(r));
}

/** `@k, @v in`, `@item.path in`, `@x in`; afterwards behind `in`. */
export function parseBinding(r: Reader): Binding {
  const first = parseReference(r);
  r.blanks();
  const isPair = r.take(',');
  r.blanks();
  const item = isPair ? parseReference(r) : first;
  const path = item.steps.map((step) =>
    step.kind === 'field'
      ? step.name
      : r.fail('a loop variable is a name, with fields at most', { at: step.at }),
  );
  r.space();
  if (!r.takeWord('in')) r.fail(`expected \`in\` after the loop variable, found ${r.shown()}`);
  r.space();
  return { key: isPair ? first.name : undefined, name: item.name, path };
}
