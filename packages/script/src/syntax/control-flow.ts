// Parses `when`, `if`, `for`, `foreach` and `loop`. Each form can be a statement, a value or an action.
// Most functions start after the word of the form; `at` is the offset of that word.
import { parseAction, parseBlock } from './action.ts';
import {
  type ActionExpression,
  type Condition,
  type Expression,
  givesValue,
  type NodeOf,
  type Parallel,
  type PipelineStage,
} from './ast.ts';
import type { Reader } from './cursor.ts';
import { parseAugment, parseLet } from './define.ts';
import {
  parseCap,
  parseOptions,
  parsePipes,
  parseRounds,
  parseStages,
  parseWith,
} from './pipeline.ts';
import { parseBinding, parseReference } from './reference.ts';
import {
  LONGEST_CHAIN,
  parseCompared,
  parsePrimary,
  parseTernary,
  STATEMENT_WORDS,
} from './value.ts';

type When = NodeOf<'when'>;
type WhenItem = When['items'][number];

/** Parses a form. The reader is at its word. With `mayVar` its action can bind a name of the file. */
export function parseFlow(r: Reader, mayVar = false): NodeOf<'flow'>['value'] {
  const at = r.pos;
  const word = r.word() ?? '';
  r.takeWord(word);
  if (word === 'when') return parseWhen(r, at, mayVar);
  if (word === 'if') return parseIf(r, at);
  if (word === 'for') return parseFor(r, at);
  return word === 'foreach' ? parseForeach(r, at) : parseLoop(r, at, mayVar);
}

export function parseWhen(r: Reader, at: number, mayVar = false): When {
  r.take(/first[ \t]*(?=\[)/y);
  if (r.peek() === ':') {
    r.fail('`when:` needs a value before the colon', {
      hint: 'write `when [ … ]` or `when @value: [ … ]`',
    });
  }
  if (r.peek() === '[') return listOf(r, at, undefined, mayVar);
  const { condition, at: start } = parseCondition(r, false);
  r.space();
  if (r.take('=>')) {
    const items = [parseArm(r, condition, start, mayVar)];
    return { kind: 'when', subject: undefined, isSimple: true, items, at, end: r.pos };
  }
  if (condition.kind !== 'test')
    return r.fail(`expected \`=>\` after the condition, found ${r.shown()}`);
  r.take(':');
  r.space();
  if (r.peek() !== '[') {
    r.fail(`expected \`=>\` or \`[\` after the condition, found ${r.shown()}`, {
      hint: 'write `when @c => action` or `when @value [ … ]`',
    });
  }
  return listOf(r, at, condition.value, mayVar);
}

/** Parses the arms of a `when`. The reader is at `[`. */
function listOf(r: Reader, at: number, subject: Expression | undefined, mayVar: boolean): When {
  const opened = r.pos;
  r.pos += 1;
  const items = r.within({ isOpen: false, blocks: 'value' }, () =>
    parseArms(r, opened, subject !== undefined, mayVar),
  );
  checkOrder(r, items);
  return { kind: 'when', subject, isSimple: false, items, at, end: r.pos };
}

function parseArms(r: Reader, opened: number, isMatch: boolean, mayVar: boolean): WhenItem[] {
  const items: WhenItem[] = [];
  for (;;) {
    r.gap();
    while (r.take(';')) r.gap();
    if (r.overrun === undefined) {
      if (r.take(']')) return items;
      if (r.isAtEnd) r.failUnclosed(opened, 'the list of `when` is not closed');
      if (r.peek() === ',') {
        r.fail('commas between the arms of `when` are not allowed', {
          hint: 'put each arm on its own line, or use `;`',
        });
      }
    }
    // A statement in place of the first arm gets its own error. After an arm it means that the list was not
    // closed.
    if (items.length > 0 && r.text[r.pos - 1] === '\n' && r.startsStatement()) {
      r.failUnclosed(opened, 'the list of `when` is not closed before the next statement');
    }
    items.push(parseItem(r, isMatch, mayVar));
  }
}

function parseItem(r: Reader, isMatch: boolean, mayVar: boolean): WhenItem {
  const at = r.pos;
  if (r.overrun === undefined) {
    if (r.takeWord('let')) return parseLet(r, at);
    const augment = parseAugment(r);
    if (augment !== undefined) return augment;
    refuseStatement(r, r.word());
  }
  const { condition, at: start } = parseCondition(r, isMatch);
  r.blanks();
  if (!r.starts('=>')) r.match(/\s+(?==>)/y);
  if (!r.take('=>')) {
    r.fail(`expected \`=>\` after the condition, found ${r.shown()}`, {
      hint: 'an arm is written `condition => action`',
    });
  }
  return parseArm(r, condition, start, mayVar);
}

function parseArm(r: Reader, condition: Condition, at: number, mayVar: boolean): NodeOf<'arm'> {
  r.breakAfter();
  const action = parseAction(r, mayVar);
  return { kind: 'arm', condition, action, at, end: r.pos };
}

/** Fails on a list that has statements instead of arms. */
function refuseStatement(r: Reader, word: string | undefined): void {
  if (r.starts('=>')) {
    r.fail('an arm needs a condition before `=>`', {
      end: r.pos + 2,
      hint: 'use `* => …`, or `when @c => [ … ]`',
    });
  }
  if (word === undefined || /^(?:when|run|for)$/.test(word)) return;
  if (!STATEMENT_WORDS.has(word) && word !== 'done' && word !== 'continue') return;
  r.fail(`\`${word}\` is not an arm of \`when\``, {
    end: r.pos + word.length,
    hint: 'use `when @c => [ … ]` or `if @c [ … ]`',
  });
}

type Compared = Extract<Condition, { kind: 'compare' }>['operator'];

const ALONE: Readonly<Record<string, 'none' | 'denied'>> = { n: 'none', d: 'denied' };

function parseCondition(r: Reader, isMatch: boolean): { condition: Condition; at: number } {
  const at = r.pos;
  const waiting = r.overrun;
  r.overrun = undefined;
  if (waiting !== undefined) {
    const test: Condition = { kind: 'test', value: waiting };
    return { condition: isMatch ? patternOf(waiting) : test, at: waiting.at };
  }
  if (r.take(/!denied(?=[ \t]*=>)/y))
    return { condition: { kind: 'not', pattern: { kind: 'denied' } }, at };
  const alone = r.match(/(?:\*|none(?![\w-])|denied(?![\w-]))(?=[ \t]*=>)/y);
  if (alone !== undefined) return { condition: { kind: ALONE[alone.charAt(0)] ?? 'any' }, at };
  if (isMatch) return { condition: r.within({ blocks: 'none' }, () => parsePattern(r)), at };
  const value = r.within({ blocks: 'none' }, () => parsePipes(r, parseTernary(r)));
  return { condition: { kind: 'test', value }, at };
}

// `<@x` can also begin a file, whose name ends with `>`.
const COMPARED = /<=|>=|==|!=|!?~=|>(?!>)|<(?=[\s\d=(-]|@[^<>\n&|]*(?:=>|&&|\|\|))/y;
const COMPARISONS: readonly Compared[] = ['<=', '>=', '==', '!=', '~=', '!~=', '>', '<'];

/** Parses a pattern of `when V [ … ]`. `||` has the lowest precedence. */
const parsePattern = (r: Reader): Condition =>
  parseChain(r, 'or', /\|\|(?![ \t]*=>)/y, () => parseChain(r, 'and', '&&', () => parseSide(r)));

function parseChain(
  r: Reader,
  kind: 'and' | 'or',
  sign: string | RegExp,
  parse: () => Condition,
): Condition {
  let left = parse();
  for (let count = 0; r.takeAfterSpace(sign); count += 1) {
    if (count >= LONGEST_CHAIN) r.fail('too many operators in one value', { code: 'too_deep' });
    r.breakAfter();
    left = { kind, left, right: parse() };
  }
  return left;
}

/** Parses `!P`, `(P)`, a comparison such as `>= 3`, or a value. */
function parseSide(r: Reader): Condition {
  const written = r.match(COMPARED);
  const operator = COMPARISONS.find((one) => one === written);
  if (operator !== undefined) {
    r.blanks();
    return { kind: 'compare', operator, value: parseCompared(r) };
  }
  if (r.take('!')) {
    r.blanks();
    return { kind: 'not', pattern: r.deeper(() => parseSide(r)) };
  }
  if (r.peek() !== '(') return { kind: 'test', value: parseCompared(r) };
  const inner = r.deeper(() => parseInner(r));
  // A value in parentheses can be the start of a larger value.
  return inner.kind === 'test' ? { ...inner, value: parseCompared(r, inner.value) } : inner;
}

/** Parses a pattern in parentheses. The reader is at `(`. */
function parseInner(r: Reader): Condition {
  r.pos += 1;
  return r.within({ isOpen: true }, () => {
    r.space();
    const read = parsePattern(r);
    const inner = read.kind === 'test' ? { ...read, value: parseWith(r, read.value) } : read;
    r.space();
    r.expect(')', 'after the pattern');
    return inner;
  });
}

/** Converts a value that was parsed as a condition into a pattern. */
function patternOf(value: Expression): Condition {
  if (value.kind === 'unary' && value.operator === '!')
    return { kind: 'not', pattern: patternOf(value.value) };
  const kind = value.kind === 'binary' ? LOGICAL[value.operator] : undefined;
  if (value.kind !== 'binary' || !kind) return { kind: 'test', value };
  return { kind, left: patternOf(value.left), right: patternOf(value.right) };
}

const LOGICAL: Readonly<Record<string, 'and' | 'or'>> = { '&&': 'and', '||': 'or' };

/** Fails if a condition follows `none`, or if `none` follows `*`. */
function checkOrder(r: Reader, items: readonly WhenItem[]): void {
  let earlier: 'none' | 'any' | undefined;
  for (const item of items) {
    if (item.kind !== 'arm') continue;
    const { kind } = item.condition;
    const place = { at: item.at, end: item.at + 4, code: 'misplaced' } as const;
    if (kind === 'none' && earlier === 'any') {
      r.fail('`none` cannot follow `*`, which always matches', place);
    }
    if (kind !== 'none' && kind !== 'any' && earlier === 'none') {
      r.fail('`none` must be the last condition of a `when`', { ...place, end: item.at + 1 });
    }
    if (kind === 'none' || kind === 'any') earlier = kind;
  }
}

function parseIf(r: Reader, at: number): NodeOf<'if'> {
  const condition = parseBareCondition(r);
  r.space();
  if (r.starts('=>')) {
    r.fail('`if` needs a block', { end: r.pos + 2, hint: 'write `if @c [ … ]` or `when @c => …`' });
  }
  const then = parseBlock(r, '`if`');
  // oxlint-disable-next-line unicorn/no-thenable -- a branch, never awaited
  return { kind: 'if', condition, then, else: parseElse(r), at, end: r.pos };
}

function parseElse(r: Reader): NodeOf<'block' | 'if'> | undefined {
  // The word `else` alone can be text after the statement.
  if (r.match(/\s*else(?=\s*\[|[ \t]+if\s)\s*/y) === undefined) return undefined;
  const at = r.pos;
  return r.take(/if(?![\w-])[ \t]*/y) ? r.deeper(() => parseIf(r, at)) : parseBlock(r, '`else`');
}

function parseLoop(r: Reader, at: number, isTop: boolean): NodeOf<'loop'> {
  const { cap: limit, pauseMs } = parseRounds(r);
  r.space();
  const until = r.takeWord('until') ? parseBareCondition(r) : undefined;
  r.space();
  const body = r.within({ inLoop: true }, () => parseBlock(r, '`loop`'));
  if (!limit && !until && !mayEnd(body, { isTop, isInner: false })) {
    r.fail('this loop can never end', {
      at,
      end: at + 'loop'.length,
      hint: 'give it a number of rounds, `until`, or a `done` that is reached: `when @ready => done`',
    });
  }
  return { kind: 'loop', limit, pauseMs, until, body, at, end: r.pos };
}

interface LoopContext {
  /** True for a statement of the script, where the value of an arm is printed and ends nothing. */
  readonly isTop: boolean;
  /** True inside of an inner loop, whose `done` ends only that loop. */
  readonly isInner: boolean;
}

/** True if a node in the block of a loop can end the loop. */
function mayEnd(node: ActionExpression, place: LoopContext): boolean {
  switch (node.kind) {
    case 'return':
    case 'bail':
      return true;
    case 'leave':
      return node.word === 'done' && !place.isInner;
    case 'block':
      return node.body.some((line) => mayEnd(line, place));
    case 'flow':
      return mayEnd(node.value, place);
    case 'when':
      return node.items.some((item) => item.kind === 'arm' && armMayEnd(item.action, place));
    case 'if':
      return mayEnd(node.then, place) || (node.else !== undefined && mayEnd(node.else, place));
    case 'for':
    case 'loop':
      return mayEnd(node.body, { ...place, isInner: true });
    default:
      return false;
  }
}

const armMayEnd = (action: ActionExpression, place: LoopContext): boolean =>
  mayEnd(action, place) || (!place.isTop && givesValue(action));

const parseBareCondition = (r: Reader): Expression =>
  r.within({ blocks: 'none' }, () => parseTernary(r));

function parseFor(r: Reader, at: number): NodeOf<'for'> {
  const parallel = parseParallel(r);
  r.blanks();
  const bind = parseBinding(r);
  const collection = r.within({ blocks: 'none' }, () => parsePipes(r, parseTernary(r)));
  r.space();
  const from = r.pos;
  const hasWhen = r.takeWord('when');
  const sifted = hasWhen ? r.within({ inBody: true }, () => parseSifted(r, from)) : undefined;
  const filter = hasWhen && !sifted ? parseBareCondition(r) : undefined;
  r.space();
  const body = sifted ?? r.within({ inBody: true }, () => parseForBody(r));
  const batch = parseBatch(r);
  const head = { kind: 'for', parallel, bind, collection, filter, body, batch, at } as const;
  return { ...head, ...(sifted && { isSifted: true }), end: r.pos };
}

/** Parses `when [ arms ]` as the body of a `for`; absent if there is none. */
const parseSifted = (r: Reader, at: number): When | undefined =>
  r.sees(/(?:first[ \t]*)?\[/y) ? r.deeper(() => parseWhen(r, at)) : undefined;

/** Parses `=> | @stage` or `=> || @a || @b` after a body; absent if there is none. */
const parseBatch = (r: Reader): PipelineStage[] | undefined =>
  r.takeAfterSpace(/=>\s*(?=\|)/y) ? parseStages(r) : undefined;

function parseForBody(r: Reader): ActionExpression {
  if (r.peek() === '[') return parseBlock(r, '`for`');
  if (!r.take('=>')) {
    r.fail(`expected \`=>\` or a block after the collection, found ${r.shown()}`, {
      hint: 'write `for @x in @xs => …` or `for @x in @xs [ … ]`',
    });
  }
  r.breakAfter();
  return parseAction(r);
}

/** Parses `parallel`, `parallel(n, pause)` or `n parallel`; absent if there is none. */
function parseParallel(r: Reader): Parallel | undefined {
  const at = r.pos;
  if (r.sees(/(?:\d+|@[\w.]+)[ \t]+parallel(?![\w-])/y)) {
    const digits = r.match(/\d+/y);
    const cap: Expression = digits
      ? { kind: 'literal', value: Number(digits), at, end: r.pos }
      : parsePrimary(r);
    r.match(/[ \t]+parallel/y);
    return { cap, pauseMs: 0 };
  }
  return r.takeWord('parallel') ? parseCap(r) : undefined;
}

/** Parses the call, stages and options of `foreach @f(@xs, @ys) => | @stage with { … }`. */
function parseForeach(r: Reader, at: number): NodeOf<'foreach'> {
  const call = parseReference(r);
  if (call.steps.at(-1)?.kind !== 'call') {
    const { at: from, end } = call;
    r.fail('`foreach` needs a call', { at: from, end, hint: 'write `foreach @f(@list)`' });
  }
  const batch = parseBatch(r);
  const options = parseOptions(r);
  return { kind: 'foreach', call, batch, options, at, end: r.pos };
}
