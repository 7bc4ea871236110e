// `:::…:::` and `.mtt`: only `{{name.field}}` is put in, everything else is text.
import type { InsertPart, TemplateExpression, TemplatePart } from './ast.ts';
import { parseTextSteps } from './parse-reference.ts';
import type { Reader } from './scan.ts';
import { CONTROL, createParts, unclosedText, withoutLastBreak } from './template-parts.ts';

/** Stands at `:::`. */
export function parseMustacheText(r: Reader): TemplateExpression {
  const at = r.pos;
  r.pos += 3;
  r.match(/\r?\n/y);
  const close = r.find(':::');
  if (close < 0) {
    r.far = r.end;
    unclosedText(r, at, 3);
  }
  const parts = r.within({ end: close }, () => parseMustacheParts(r));
  r.pos = close + 3;
  return { kind: 'template', style: 'mustache', parts: withoutLastBreak(parts), at, end: r.pos };
}

/** `{{name.field[0]}}` up to the end of what the reader sees. */
export function parseMustacheParts(r: Reader, escapes = 'nt\\'): TemplatePart[] {
  const parts = createParts();
  let from = r.pos;
  while (!r.isAtEnd) {
    const at = r.pos;
    const next = r.peek(1);
    let special: TemplatePart | undefined;
    if (r.peek() === '{' && next === '{') special = parseSlot(r);
    else if (r.peek() === '\\' && next !== '' && escapes.includes(next)) {
      special = CONTROL[next] ?? next;
      r.pos += 2;
    }
    if (special === undefined) {
      r.pos = at + 1;
      continue;
    }
    parts.text(r.slice(from, at));
    if (typeof special === 'string') parts.text(special);
    else parts.part(special);
    from = r.pos;
  }
  parts.text(r.slice(from));
  return parts.done();
}

function parseSlot(r: Reader): InsertPart | undefined {
  const at = r.pos;
  r.match(/\{\{[ \t]*@?/y);
  const name = r.takeName();
  const steps = name === undefined ? [] : parseTextSteps(r, false);
  const end = r.pos;
  if (name === undefined || r.match(/[ \t]*\}\}/y) === undefined) {
    r.pos = at;
    return undefined;
  }
  const value = { kind: 'reference', name, steps, isOptional: false, at, end } as const;
  const raw = r.slice(at);
  return { kind: 'insert', value, stages: [], raw, mode: { kind: 'plain' }, at, end: r.pos };
}
