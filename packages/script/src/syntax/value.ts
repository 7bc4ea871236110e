// Parses values in all positions: right-hand sides, arguments, conditions, entries and arms. The table
// `LEVELS` has the precedence of operators. `|` binds weaker than all of them, and `with` applies to the
// whole value before it.
import { nearest } from '@kernmantle/core/base';
import type { BinaryOperator, Expression, NodeOf } from './ast.ts';
import { CODE_WORDS, isCodeStart, parseCode, parseCommand, parseCommandString } from './command.ts';
import type { Reader } from './cursor.ts';
import { parseFile } from './file.ts';
import { parseBracket, parseObject } from './literal.ts';
import { atPipe, parseLeadingGroup, parseOptions, parsePipes, parseWith } from './pipeline.ts';
import { takeRaw } from './raw-body.ts';
import { parseReference } from './reference.ts';
import { isTextStart, parseText, parseTrimmed } from './text.ts';

export const LONGEST_CHAIN = 1000;

/** Operators by precedence, the lowest first. */
const LEVELS = ['??', '||', '&&', '== != ~= !~=', '<= >= < >', '+ -', '* / %'];
const OPERATOR_LEVEL = Object.fromEntries(
  LEVELS.flatMap((operators, at) => operators.split(' ').map((operator) => [operator, at + 1])),
) as Readonly<Record<BinaryOperator, number>>;

const OPERATOR = /\?\?|\|\||&&|==|!=|!?~=|<=|>=|<(?!<)|>(?!>)|\+(?!=)|-|\*(?![ \t]*=>)|\/|%/y;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])/y;
const WILDCARD_ARM = /\*[ \t]*=>/y;
export const STATEMENT_WORDS = new Set(
  `var exe run show log output append import export for when if loop guard hook policy profiles needs
   return bail stream`.split(/\s+/),
);

/** Words of older versions and of other languages, with the word of this language. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  add: 'show',
  embed: 'show',
  echo: 'show',
  print: 'show',
  text: 'var',
  data: 'var',
  path: 'var',
  define: 'var',
  set: 'var',
  const: 'var',
  exec: 'exe',
  function: 'exe',
  def: 'exe',
  foreach: 'for',
  while: 'loop',
};

/** Returns a hint with the intended word, if the rest of the line shows that a statement was intended. */
export function hintOfWord(r: Reader, word: string): string | undefined {
  const isStatement = /^[ \t]+[@"'`{[(<]|^\(/.test(r.text.slice(r.pos + word.length));
  if (!isStatement) return undefined;
  const replacement = Object.hasOwn(OTHER_WORDS, word) ? OTHER_WORDS[word] : undefined;
  const meant = replacement ?? nearest(word, STATEMENT_WORDS);
  return meant && `did you mean \`${meant}\`?`;
}

const NOT_YET = 'is not part of this version';

/** Words that begin a statement of a later version, with the pattern of such a statement. */
const LATER: Readonly<Record<string, { needs: RegExp; hint: string }>> = {
  auth: { needs: /auth[ \t]+@/y, hint: 'pass a value with `using @value as NAME`' },
  box: {
    needs: /box(?:[ \t]*[[{]|[ \t]+@|[ \t]+with[ \t]*\{)/y,
    hint: 'work in a folder of the project: `sh:folder { … }`',
  },
  checkpoint: {
    needs: /checkpoint(?:[ \t]*["'`]|[ \t]+(?:@|::))/y,
    hint: 'leave it out: every run starts at the first statement',
  },
  file: { needs: /file(?:[ \t]*["'`<]|[ \t]+@)/y, hint: 'write `output @value to "path"`' },
  files: { needs: /files(?:[ \t]*["'`<]|[ \t]+@)/y, hint: 'write each with `output … to "path"`' },
};

/** True if such a statement begins here. The reader is at the word. */
export const isLaterStart = (r: Reader): boolean =>
  Object.values(LATER).some(({ needs }) => r.sees(needs));

export function refuseLater(r: Reader, word: string): void {
  const later = Object.hasOwn(LATER, word) ? LATER[word] : undefined;
  if (later && r.sees(later.needs)) {
    refuseUnsupported(r, word, { at: r.pos, end: r.pos + word.length, hint: later.hint });
  }
}

/** Fails on a construct that is specified but not implemented. */
export const refuseUnsupported = (
  r: Reader,
  written: string,
  where: { at: number; end: number; hint: string },
): never => r.fail(`\`${written}\` ${NOT_YET}`, { ...where, code: 'unsupported' });

export const isFlowWord = (word: string | undefined): boolean =>
  /^(?:when|for|foreach|loop|if)$/.test(word ?? '');

export const parseValue = (r: Reader): Expression => parsePiped(r, parseTernary);

const STREAM = new RegExp(
  String.raw`stream[ \t]+(?=@[A-Za-z_\u0080-\uffff]|(?:${CODE_WORDS})(?::|[ \t]*[({])|\{)`,
  'y',
);

/** True at `stream @f()` or `stream sh {…}`, which mean `with { stream: true }`. */
const isStreamStart = (r: Reader): boolean => r.sees(STREAM);

/** Matches `stream` before a value that `show` accepts: a text, a file or a list. */
const STREAM_STATEMENT = /stream[ \t]+(?=["'`<[]|::)/y;

/** Parses a statement that begins with `stream`; absent if there is none. The reader is at the word. */
export function parseStream(r: Reader): NodeOf<'run' | 'effect'> | undefined {
  const at = r.pos;
  if (isStreamStart(r)) return { kind: 'run', action: parseRunAction(r), at, end: r.pos };
  if (!r.take(STREAM_STATEMENT)) return undefined;
  const value = asStream(parseValue(r), at);
  const rest = { target: undefined, format: undefined, at, end: r.pos };
  return { kind: 'effect', effect: 'show', value, ...rest };
}

export const refuseStream = (r: Reader): never =>
  r.fail('expected a command, code or a call after `stream`', {
    end: r.pos + 'stream'.length,
    hint: 'write `stream @f()` or `stream sh { … }`',
  });

/** True for a stream statement. Markdown treats other lines as text. */
export const isStreamLine = (r: Reader): boolean => isStreamStart(r) || r.sees(STREAM_STATEMENT);

/** Parses `stream` inside of a value, where it applies only to the next value. */
function parseStreamed(r: Reader): Expression {
  const at = r.pos;
  r.take(STREAM);
  return asStream(r.peek() === '{' ? parseCommand(r, r.pos) : parsePrimary(r), at);
}

function asStream(expression: Expression, at: number): Expression {
  const { value, options } =
    expression.kind === 'with' ? expression : { value: expression, options: undefined };
  const flag: Expression = { kind: 'literal', value: true, at, end: at + 'stream'.length };
  const entries = new Map([...(options?.entries ?? []), ['stream', flag] as const]);
  const { end } = expression;
  const own: NodeOf<'options'> = { kind: 'options', entries, pipeline: options?.pipeline, at, end };
  return { kind: 'with', value, options: own, at, end };
}

/** Parses a value with its pipes and options. A value that begins with `||` is a group. */
function parsePiped(r: Reader, source: (r: Reader) => Expression, isRun = false): Expression {
  const at = r.pos;
  const isStream = r.take(STREAM);
  const value = r.deeper(() =>
    parseWith(r, r.starts('||') ? parseLeadingGroup(r) : parsePipes(r, source(r), isRun)),
  );
  return isStream ? asStream(value, at) : value;
}

/** Parses one side of a pattern with its pipes. `&&` and `||` join patterns, so they end the side. */
export function parseCompared(r: Reader, first?: Expression): Expression {
  const value = parseBinary(r, OPERATOR_LEVEL['=='], first);
  const here = r.pos;
  r.space();
  const isContinued = r.sees(/\?|\|(?!\|)/y);
  r.pos = here;
  return isContinued ? parsePipes(r, parseTernary(r, value)) : value;
}

/** Parses a value without pipes and `with`, such as a condition. `first` is a part that is already parsed. */
export function parseTernary(r: Reader, first?: Expression): Expression {
  const condition = parseBinary(r, 1, first);
  if (!r.takeAfterSpace(/\?(?!\?)/y)) return condition;
  return r.deeper(() => {
    r.breakAfter();
    const then = parseTernary(r);
    if (atPipe(r)) {
      r.fail('a pipe is not allowed in a branch of `? :`', {
        hint: 'put the piped value in parentheses or in a variable',
      });
    }
    r.space();
    if (!r.isOpen) r.match(/\s*(?=:)/y);
    r.expect(':', 'between the branches of `? :`');
    r.breakAfter();
    const otherwise = parseTernary(r);
    // oxlint-disable-next-line unicorn/no-thenable -- a branch, never awaited
    return { kind: 'ternary', condition, then, else: otherwise, at: condition.at, end: r.pos };
  });
}

function parseBinary(r: Reader, floor: number, first?: Expression): Expression {
  let left = first ?? parseUnary(r);
  for (let count = 0; ; count += 1) {
    const here = r.pos;
    r.space();
    // `/show` on a new line is a statement, not a division.
    const operator = r.startsStatement()
      ? undefined
      : (r.match(OPERATOR) as BinaryOperator | undefined);
    if (operator === undefined || OPERATOR_LEVEL[operator] < floor) {
      r.pos = here;
      return left;
    }
    if (count >= LONGEST_CHAIN) r.fail('too many operators in one value', { code: 'too_deep' });
    r.breakAfter();
    const right = r.deeper(() => parseBinary(r, OPERATOR_LEVEL[operator] + 1));
    left = { kind: 'binary', operator, left, right, at: left.at, end: r.pos };
  }
}

function parseUnary(r: Reader): Expression {
  const at = r.pos;
  const number = r.match(NUMBER);
  if (number !== undefined) return { kind: 'literal', value: Number(number), at, end: r.pos };
  const operator = r.peek();
  if (operator !== '!' && operator !== '-') return parsePrimary(r);
  r.pos += 1;
  r.blanks();
  const value = r.deeper(() => parseUnary(r));
  return { kind: 'unary', operator, value, at, end: r.pos };
}

export function parsePrimary(r: Reader): Expression {
  const at = r.pos;
  switch (r.peek()) {
    case '@':
      return parseReference(r);
    case '[':
      return parseBracket(r);
    case '{':
      return parseObject(r);
    case '<':
      return parseFile(r, false);
    case '(':
      return parseParentheses(r);
    case '*':
      r.pos += 1;
      return { kind: 'literal', value: true, isWildcard: true, at, end: r.pos };
    default:
      if (isTextStart(r)) return parseText(r);
      if (isStreamStart(r)) return parseStreamed(r);
      return isCodeStart(r) ? parseCode(r) : parseWord(r);
  }
}

function parseParentheses(r: Reader): Expression {
  const at = r.pos;
  r.pos += 1;
  return r.within({ isOpen: true, blocks: 'none' }, () => {
    r.space();
    const value = parseValue(r);
    r.space();
    if (r.take(')')) return value;
    const message = `expected \`)\`, found ${r.shown()}`;
    return r.isAtEnd ? r.failUnclosed(at, message) : r.fail(message);
  });
}

const CONSTANTS = new Map<string, null | boolean>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

function parseWord(r: Reader): Expression {
  const at = r.pos;
  const word = r.word();
  if (word === undefined) {
    refuseSlash(r);
    const hint =
      r.peek() === '/'
        ? 'a pattern is the first argument of `match`, `replace`, `replaceAll` or `split`'
        : undefined;
    return r.fail(`expected a value, found ${r.shown()}`, { hint });
  }
  const constant = CONSTANTS.get(word);
  if (constant !== undefined) {
    r.pos += word.length;
    return { kind: 'literal', value: constant, at, end: r.pos };
  }
  if (isFlowWord(word)) return r.deeper(() => r.rules.flow(r));
  refuseLater(r, word);
  const end = at + word.length;
  switch (word) {
    case 'run':
      r.takeWord(word);
      return { kind: 'run-value', action: parseRunAction(r), at, end: r.pos };
    case 'template':
      return parseTemplateFile(r);
    case 'prose':
    case 'llm':
      return parseModel(r, word);
    case 'allow':
    case 'deny':
    case 'ask':
      return r.fail(`\`${word}\` is allowed only in the arms of a guard`, {
        end,
        code: 'misplaced',
      });
    case 'none':
      return r.fail('`none` cannot be used with operators or as a value', {
        end,
        hint: 'it must be alone as the last condition of a `when`: `none => …`',
        code: 'misplaced',
      });
    default:
      return r.fail(`\`${word}\` is not a value`, {
        end,
        hint: `a text is quoted, a variable begins with @: \`"${word}"\` or \`@${word}\``,
      });
  }
}

/** Fails on a slash before a statement word. `also` is a further word that takes no slash here. */
export function refuseSlash(r: Reader, also?: string): void {
  const at = r.pos;
  const word = r.match(/\/[a-z]+(?![\w/])/y)?.slice(1);
  r.pos = at;
  if (word !== undefined && (STATEMENT_WORDS.has(word) || word === also)) {
    const end = at + word.length + 1;
    r.fail(`\`/${word}\` is not allowed here`, { end, hint: `write \`${word} …\`` });
  }
}

/** Parses the action of `run` with its pipes and options. The reader is after the word. */
export const parseRunAction = (r: Reader): Expression => parsePiped(r, parseRunSource, true);

function parseRunSource(r: Reader): Expression {
  const at = r.pos;
  if (r.peek() === '{') return parseCommand(r, at);
  if (isCodeStart(r)) return parseCode(r);
  if (/["'`]/.test(r.peek())) return parseRunText(r);
  if (r.peek() === '@' || r.peek() === '(' || r.peek() === '<') return parsePrimary(r);
  const line = r.slice(at, Math.min(r.lineEnd(), at + 60)).trim();
  return r.fail(`expected a command in braces after \`run\`, found ${r.shown()}`, {
    end: Math.min(r.lineEnd(), at + 60),
    hint: `write \`run {${line || 'command'}}\``,
  });
}

/** A quoted text is a command. If it is piped, it is the input of the pipeline. */
function parseRunText(r: Reader): Expression {
  const at = r.pos;
  parseText(r);
  const isInput = atPipe(r);
  r.pos = at;
  return isInput ? parseText(r) : parseCommandString(r);
}

/** Parses a template file, as in `template "./page.att"`. */
function parseTemplateFile(r: Reader): Expression {
  const at = r.pos;
  r.takeWord('template');
  const path = parsePathText(r, 'after `template`');
  return { kind: 'template-file', path, at, end: r.pos };
}

export function parsePathText(r: Reader, where: string): NodeOf<'template'> {
  if (!isTextStart(r)) r.fail(`expected a quoted path ${where}, found ${r.shown()}`);
  const text = parseText(r);
  if (text.kind === 'template') return text;
  const { at, end, value } = text;
  return { kind: 'template', style: 'single', parts: [String(value)], at, end };
}

/** Parses `prose { … }`, `llm "…"` or `llm:tier { … }`. */
function parseModel(r: Reader, word: 'prose' | 'llm'): NodeOf<'model'> {
  const at = r.pos;
  r.pos += word.length;
  const tier = r.match(/:[\w.-]+/y)?.slice(1);
  r.blanks();
  const prompt = r.peek() === '{' ? parsePrompt(r, word) : parsePathText(r, `after \`${word}\``);
  const options = parseOptions(r);
  return { kind: 'model', word, tier, prompt, options, at, end: r.pos };
}

function parsePrompt(r: Reader, word: string): NodeOf<'template'> {
  const { from, to } = takeRaw(r, 'plain', `\`${word}\``);
  return parseTrimmed(r, from, to, 'file');
}

/** True at a `*` that begins an arm. It never continues the value before it. */
export const isWildcardArm = (r: Reader): boolean => r.sees(WILDCARD_ARM);
