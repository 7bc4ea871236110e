// Parses a whole file into a tree, or into a list of its syntax problems. A statement that fails is
// skipped, so that an editor shows the problems of all statements.
import { frontMatterAt } from '@kernmantle/core/base';
import { ParseError, type SyntaxProblem } from '../problem.ts';
import { parseBlockRest } from './action.ts';
import type { Mode, NodeOf, ScriptTree, Statement } from './ast.ts';
import { parseFlow } from './control-flow.ts';
import { OUTERMOST, Reader, type Rules } from './cursor.ts';
import { parseEffect } from './effect.ts';
import { parseFile } from './file.ts';
import { filterProblems } from './filters.ts';
import { parseStatement } from './statement.ts';
import { parseBare } from './text.ts';
import { isLaterStart, isStreamLine, parseValue, STATEMENT_WORDS } from './value.ts';

const RULES: Rules = {
  value: parseValue,
  file: (r) => parseFile(r),
  flow: (r) => parseFlow(r),
  effect: parseEffect,
  blockRest: parseBlockRest,
};

const SLASHED = /[ \t]*\/(?:([a-z]+)(?=[\s[({]|$)|(?=@[A-Za-z_\u0080-\uffff])|(?==>))/y;
/** Matches a call or a piped value after `/`. Any other name there is text. */
const BARE =
  /@[\w\u0080-\uffff-]+(?:\.[\w\u0080-\uffff-]+|\[(?:[^[\]\n]|\[[^[\]\n]*\])*\])*(?:\(|[ \t]*\||[ \t]+with[ \t]*\{|[ \t]*\r?\n[ \t]*\|\|?[ \t]*(?:[@{]|[a-z]+\b(?![ \t]*\|)))/y;
const FENCE = /[ \t]*(`{3,}|~{3,})[ \t]*([^`\n]*)/y;

export interface Parsed {
  /** Absent if there is a problem: such a file does not run at all. */
  readonly script: ScriptTree | undefined;
  /** The statements that could be parsed, for editors. */
  readonly partial: ScriptTree;
  readonly problems: readonly SyntaxProblem[];
}

/** Parses a script, also one with problems. It never throws. */
export function parseScript(text: string, { mode }: { mode: Mode; file: string }): Parsed {
  const r = new Reader(text, mode, RULES);
  const problems: SyntaxProblem[] = [];
  if (text.startsWith('\uFEFF')) r.pos = 1;
  const frontMatter = takeFrontMatter(r, problems);
  const body = mode === 'markdown' ? readMarkdown(r, problems) : readStrict(r, problems);
  // Without fuel nothing is attempted, so the parsed tree may not be what the author wrote.
  if (r.fuel <= 0 && problems.length === 0) {
    const message = 'too much of the script does not parse';
    problems.push({ at: Math.min(r.pos, r.end), end: r.end, message, code: 'too_deep' });
  }
  const partial: ScriptTree = { mode, text, frontMatter, body };
  if (problems.length === 0) problems.push(...filterProblems(partial));
  return { script: problems.length === 0 ? partial : undefined, partial, problems };
}

const RESUMES = /^resume:[ \t]*(["']?)(?:auto|manual|never)\1[ \t]*(?:#.*)?$/m;

function takeFrontMatter(r: Reader, problems: SyntaxProblem[]): string | undefined {
  const found = frontMatterAt(r.text, r.pos);
  if (found === undefined || found === 'open') return undefined;
  r.pos = found.after;
  const resumes = RESUMES.exec(r.slice(found.start, found.end));
  if (resumes) {
    const at = found.start + resumes.index;
    const message = '`resume` is not part of this version: every run starts at the first statement';
    const end = at + 'resume'.length;
    problems.push({ at, end, message, hint: 'delete the line', code: 'unsupported' });
  }
  return r.slice(found.start, found.end).replace(/\r?\n$/, '');
}

function readStrict(r: Reader, problems: SyntaxProblem[]): Statement[] {
  const body: Statement[] = [];
  while (!isSpent(r, problems)) {
    r.gap();
    if (r.isAtEnd) break;
    if (r.peek() === '/' && /[a-z@="'`]/.test(r.peek(1))) r.pos += 1;
    const statement = tryStatement(r, problems);
    if (statement !== undefined) body.push(statement);
  }
  return body;
}

// A file with more problems is most likely not a script.
const MOST_PROBLEMS = 1000;

// INVARIANT: failed statements always pay from the fuel of the reader, so a file without any valid
// statement ends after its first problems.
const isSpent = (r: Reader, problems: readonly SyntaxProblem[]): boolean =>
  r.isAtEnd || problems.length >= MOST_PROBLEMS || (r.fuel <= 0 && problems.length > 0);

function tryStatement(r: Reader, problems: SyntaxProblem[]): Statement | undefined {
  r.far = r.pos;
  r.overrun = undefined;
  try {
    return parseStatement(r);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    problems.push(error.problem);
    // An unclosed bracket does not reveal where its statement ends, so parsing continues at the next line.
    const { at, code } = error.problem;
    recover(r, code === 'unclosed' ? at : Math.max(at, r.pos));
    return undefined;
  }
}

/** Moves to the next line that looks like the start of a statement. */
function recover(r: Reader, at: number): void {
  const reached = r.far;
  r.scope = OUTERMOST;
  r.isOpen = false;
  r.pos = at;
  do {
    nextLine(r);
  } while (!r.isAtEnd && !looksLikeStatement(r));
  r.fuel -= Math.max(0, reached - r.pos) + (r.pos - at);
}

function nextLine(r: Reader): void {
  r.pos = Math.min(r.end, r.lineEnd() + 1);
}

function looksLikeStatement(r: Reader): boolean {
  if (r.mode === 'markdown') return r.peek() === '/' && isSlashed(r);
  if (r.peek() === '@' || r.peek() === '/') return true;
  return STATEMENT_WORDS.has(r.word() ?? '');
}

function isSlashed(r: Reader): boolean {
  const at = r.pos;
  const found = r.sees(SLASHED) ? r.match(SLASHED)?.trim().slice(1) : undefined;
  if (found !== undefined) r.pos -= found.length;
  const isLater = isLaterStart(r);
  const isText = (found === 'stream' && !isStreamLine(r)) || (r.peek() === '@' && !r.sees(BARE));
  r.pos = at;
  if (found === undefined || isText) return false;
  return found === '' || isLater || STATEMENT_WORDS.has(found);
}

function readMarkdown(r: Reader, problems: SyntaxProblem[]): (NodeOf<'text'> | Statement)[] {
  const body: (NodeOf<'text'> | Statement)[] = [];
  let from = r.pos;
  const flush = (to: number): void => {
    if (to > from) body.push({ kind: 'text', text: r.slice(from, to), at: from, end: to });
  };
  while (!isSpent(r, problems)) {
    const line = r.pos;
    const read = readLine(r, problems);
    if (read === 'text') continue;
    flush(line);
    if (read !== undefined) body.push(read);
    from = r.pos;
  }
  flush(r.pos);
  return body;
}

/** Parses the next line: text, a statement, or `undefined` for a comment or failed statement. It always advances. */
function readLine(r: Reader, problems: SyntaxProblem[]): Statement | 'text' | undefined {
  if (r.sees(FENCE)) return readFence(r, problems);
  const isComment = r.sees(/[ \t]*(?:>>|<<(?!\S))/y);
  if (isComment || !isSlashed(r)) {
    nextLine(r);
    return isComment ? undefined : 'text';
  }
  r.match(/[ \t]*\//y);
  return tryStatement(r, problems);
}

/** Passes a fence as text, except for `mlld-run`, whose content is a strict script. */
function readFence(r: Reader, problems: SyntaxProblem[]): NodeOf<'fence'> | 'text' {
  const at = r.pos;
  const head = r.match(FENCE) ?? '';
  const [, mark = '```', kind = ''] = /(`{3,}|~{3,})[ \t]*([^`\n]*)/.exec(head) ?? [];
  nextLine(r);
  const from = r.pos;
  const closedAt = passFence(r, mark);
  if (kind.trim() !== 'mlld-run') return 'text';
  const inner = new Reader(r.text, 'strict', RULES);
  inner.pos = from;
  inner.end = closedAt;
  inner.fuel = r.fuel;
  const body = readStrict(inner, problems);
  r.fuel = inner.fuel;
  return { kind: 'fence', body, at, end: r.pos };
}

/** Moves after the line that closes a fence and returns the offset of that line. An open fence ends with the text. */
function passFence(r: Reader, mark: string): number {
  const close = new RegExp(`[ \\t]*\\${mark[0]}{${mark.length},}[ \\t]*\\r?(?:\\n|$)`, 'y');
  while (!r.isAtEnd) {
    const at = r.pos;
    if (r.match(close) !== undefined) return at;
    nextLine(r);
  }
  return r.end;
}

/** Parses a template file: `.att` like `::`, `.mtt` with `{{…}}` only. A final line break is dropped. */
export function parseTemplateFile(text: string, kind: 'att' | 'mtt'): NodeOf<'template'> {
  const r = new Reader(text.replace(/\r?\n$/, ''), 'markdown', RULES);
  r.isTemplateFile = true;
  return parseBare(r, r.end, kind === 'att' ? 'file' : 'mtt');
}
