// Classifies an open text as a script, a directive, another item or something else, and parses the script
// in it. Nothing is run.
import {
  type Directive,
  type DirectiveInput,
  itemKindOf,
  parseDirective,
} from '@kernmantle/core/items';
import { type Bound, namesIn } from '../syntax/outline.ts';
import { type Parsed, parseScript } from '../syntax/parse.ts';

export interface ScriptView {
  /** Text with the length of the file. Everything outside of the script is blank, so that offsets match the file. */
  readonly text: string;
  readonly mode: 'strict' | 'markdown';
  readonly from: number;
  readonly to: number;
  readonly parsed: Parsed;
  readonly names: readonly Bound[];
  readonly inputs: readonly DirectiveInput[];
  /** True if the directive extends another one, whose inputs are variables too. */
  readonly isOpen?: true;
}

export interface View {
  readonly kind: 'script' | 'directive' | 'item' | 'other';
  readonly file: string;
  readonly text: string;
  readonly script: ScriptView | undefined;
}

export type Scripted = View & { readonly script: ScriptView };

/** Returns the view if the offset is inside of its script. */
export function scriptedAt(view: View, offset: number): Scripted | undefined {
  const { script } = view;
  return script && script.from <= offset && offset <= script.to ? { ...view, script } : undefined;
}

export function viewOf(text: string, file: string): View {
  const plain = (kind: View['kind'], script?: ScriptView): View => ({ kind, file, text, script });
  if (file.endsWith('.mld')) return plain('script', readScript(text, 'strict', file));
  const kind = itemKindOf(file, text);
  if (kind === 'directive') return plain('directive', scriptInside(text, file));
  if (kind) return plain('item');
  return file.endsWith('.md')
    ? plain('script', readScript(text, 'markdown', file))
    : plain('other');
}

export function readScript(
  text: string,
  mode: ScriptView['mode'],
  file: string,
  range: { from: number; to: number } = { from: 0, to: text.length },
  inputs: readonly DirectiveInput[] = [],
): ScriptView {
  const parsed = parseScript(text, { mode, file });
  return { text, mode, ...range, parsed, names: namesIn(parsed.partial), inputs };
}

const blank = (text: string): string => text.replace(/[^\r\n]/g, ' ');

function scriptInside(text: string, file: string): ScriptView | undefined {
  const { directive, draft } = parseDirective(text, file);
  const item = directive ?? draft;
  const range = item && rangeOf(item, text);
  if (!item || !range) return undefined;
  const { from, to } = range;
  const alone = `${blank(text.slice(0, from))}${text.slice(from, to)}${blank(text.slice(to))}`;
  const script = readScript(alone, 'strict', file, range, item.inputs);
  return item.relationships.extends.length === 0 ? script : { ...script, isOpen: true };
}

/** Returns the range of the script in the file: from its first character to the end of its last line. */
function rangeOf({ process }: Directive, text: string): { from: number; to: number } | undefined {
  const { script } = process;
  if (!script) return undefined;
  const lines = script.text.split('\n');
  const whole = text.split('\n');
  const startOf = (index: number) => whole.slice(0, index).join('\n').length + (index > 0 ? 1 : 0);
  const last = (lines.at(-1) ?? '').trim();
  const end = script.line + lines.length - 2;
  const column = lines.length === 1 ? script.column - 1 : (whole[end] ?? '').indexOf(last);
  const from = startOf(script.line - 1) + script.column - 1;
  return { from, to: startOf(end) + Math.max(0, column) + last.length };
}

/** Returns the innermost visible name with this spelling. */
export function findBound(
  names: readonly Bound[],
  name: string,
  offset: number,
): Bound | undefined {
  const size = ({ seen }: Bound): number => seen.end - seen.at;
  const [found] = names
    .filter((bound) => bound.name === name && bound.seen.at <= offset && offset <= bound.seen.end)
    .sort((a, b) => size(a) - size(b));
  return found;
}

/** True inside of markdown text or a comment. */
export function isProse({ parsed, text, mode }: ScriptView, offset: number): boolean {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  if (/^[ \t]*(?:>>|<<(?!\S))/.test(text.slice(start, offset + 3))) return true;
  if (mode === 'strict') return false;
  return parsed.partial.body.some(
    ({ kind, at, end }) => kind === 'text' && at <= offset && offset < end,
  );
}
