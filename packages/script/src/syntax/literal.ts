// Parses brackets and braces. `[` opens an array or, where one is legal, a block. The first item decides,
// or the text after it, so nothing is parsed twice.
import { ParseError, type SyntaxProblem } from '../problem.ts';
import type { ActionExpression, ArrayItem, Expression, NodeOf, ObjectEntry } from './ast.ts';
import type { Reader } from './cursor.ts';

const OPENS_BLOCK =
  /=>|(?:let|var|show|log|output|append|done|continue|skip|retry|bail|return|if|import|export|exe|guard)(?![\w-])|stream[ \t]+["'`<[]|@[\w\u0080-\uffff-]+[ \t]*\+=/y;
const MAY_OPEN_BLOCK = /@|(?:run|stream|when|for|foreach|loop)(?![\w-])/y;
/** Matches a text that is followed by a pipe. It can be a line of a block. */
const PIPED_TEXT =
  /(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|::(?!:)(?:(?!::)[^])*::)\s*\|(?!\|)/y;
const BLOCK_IN_ARGUMENT = /=>|let[ \t]+(?:[\w:.,-]+[ \t]+)*@/y;
const BLOCK_HERE = 'a block is not allowed here';
const KEY = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w$\u0080-\uffff-]+/y;

/** Parses an array, a block or a bracket text. The reader is at `[`. */
export function parseBracket(r: Reader): Expression {
  return r.deeper(() => {
    if (!r.starts('[[')) return parseList(r);
    let slip: SyntaxProblem | undefined;
    const list = r.attempt(() => {
      try {
        return parseList(r);
      } catch (error) {
        if (error instanceof ParseError) slip = error.problem;
        throw error;
      }
    });
    if (list) return list;
    refuseBlocks(r, slip);
    return parseBracketText(r) ?? parseList(r);
  });
}

/** Fails if an element is a block. Such a bracket is neither an array nor a text. An arrow before words is text. */
function refuseBlocks(r: Reader, slip: SyntaxProblem | undefined): void {
  const here = r.pos;
  const binds = slip?.message === BLOCK_HERE && /^\[\s*let\s/.test(r.slice(slip.at, slip.end + 9));
  const found = binds ? slip.at : r.attempt(() => findBlock(r));
  r.pos = here;
  if (found !== undefined) refuseElement(r, found);
}

/** Returns the offset of the first block with a value among the elements. */
function findBlock(r: Reader): number | undefined {
  r.pos += 1;
  const items = r.list(']', 'elements', () =>
    r.within({ blocks: 'value' }, () => r.rules.value(r)),
  );
  const isBlock = (item: Expression): boolean =>
    item.kind === 'block' && item.body.some(({ kind }) => kind === 'return');
  return items.find(isBlock)?.at;
}

const refuseElement = (r: Reader, at: number): never =>
  r.fail(BLOCK_HERE, {
    at,
    end: at + 1,
    hint: 'bind it to a name first: `let @x = [ … ]`',
  });

/** Parses `[[ … ]]` as a literal text. */
function parseBracketText(r: Reader): NodeOf<'template'> | undefined {
  const at = r.pos;
  const close = r.find(']]', at + 2);
  if (close < 0) return undefined;
  const text = r.slice(at + 2, close).replaceAll('\\\\', '\\');
  r.pos = close + 2;
  return { kind: 'template', style: 'bracket', parts: text === '' ? [] : [text], at, end: r.pos };
}

function parseList(r: Reader): Expression {
  const at = r.pos;
  r.pos += 1;
  const inside = r.pos;
  r.gap();
  if (r.scope.blocks === 'none') {
    if (r.sees(BLOCK_IN_ARGUMENT)) {
      r.fail(BLOCK_HERE, { at, hint: 'bind it to a name first: `let @x = [ … ]`' });
    }
  } else {
    if (r.sees(OPENS_BLOCK)) return finishBlock(r, at, []);
    if (r.sees(MAY_OPEN_BLOCK) || r.sees(PIPED_TEXT)) return parseUnsure(r, at, inside);
  }
  r.pos = inside;
  const items = r.list(']', 'elements', () => parseItem(r));
  return { kind: 'array', items, at, end: r.pos };
}

function finishBlock(r: Reader, at: number, first: readonly ActionExpression[]): NodeOf<'block'> {
  const body = r.rules.blockRest(r, first, at);
  return { kind: 'block', body, at, end: r.pos };
}

/** Parses a bracket whose first item may be an element or a line. The text after the item decides. */
function parseUnsure(r: Reader, at: number, inside: number): Expression {
  const isAction = r.scope.blocks === 'action';
  const value = r.within({ isOpen: false, inBody: true }, () => r.rules.value(r));
  r.gap();
  const isOnly = r.peek() === ']';
  if (r.peek() === ',' || (isOnly && !(isAction && isLine(value)))) {
    const between = r.slice(inside, value.at) + r.slice(value.end);
    if (/>>|<</.test(between)) r.fail('a comment is not allowed between elements', { at: inside });
    const rest = r.take(',') ? r.list(']', 'elements', () => parseItem(r), at) : [];
    if (isOnly) r.pos += 1;
    return { kind: 'array', items: [toItem(value), ...rest], at, end: r.pos };
  }
  return finishBlock(r, at, [asLine(value)]);
}

/** True if a value alone in brackets is a line. A name is none, and a text is one only if piped into an effect. */
function isLine(value: Expression): boolean {
  const isText =
    value.kind === 'pipeline' && /^(?:literal|template)$/.test(value.source?.kind ?? '');
  return isText ? value.stages.at(-1)?.kind === 'effect-stage' : value.kind !== 'reference';
}

export function asLine(value: Expression): ActionExpression {
  const { kind, at, end } = value;
  if (kind === 'run-value') return { kind: 'run', action: value.action, at, end };
  // `stream` was written before the value, not among its options.
  if (kind === 'with' && value.options.entries.get('stream')?.at === at)
    return { kind: 'run', action: value, at, end };
  const isFlow =
    kind === 'when' || kind === 'if' || kind === 'for' || kind === 'foreach' || kind === 'loop';
  return isFlow ? { kind: 'flow', value, at, end } : value;
}

function parseItem(r: Reader): ArrayItem {
  const at = r.pos;
  if (r.take('[')) {
    r.gap();
    if (r.sees(BLOCK_IN_ARGUMENT)) refuseElement(r, at);
    r.pos = at;
  }
  if (r.take('...')) return { value: r.rules.value(r), isOptional: false, isSpread: true };
  return toItem(r.rules.value(r));
}

const toItem = (value: Expression): ArrayItem => ({
  value,
  isOptional: value.kind === 'reference' && value.isOptional,
  isSpread: false,
});

export function parseObject(r: Reader, parse = parsePair): NodeOf<'object'> {
  const at = r.pos;
  r.expect('{', 'before an object');
  let isFirst = true;
  const parseEntry = (): ObjectEntry => {
    const leads = isFirst;
    isFirst = false;
    if (r.take('...')) return { kind: 'spread', value: r.rules.value(r) };
    return parse(r, parseKey(r, at, leads));
  };
  const entries = r.deeper(() => r.list('}', 'entries', parseEntry));
  return { kind: 'object', entries, at, end: r.pos };
}

/** Parses the object of `profiles` or `needs`. A bare word means `word: true`; lists contain bare words. */
export const parseWordObject = (r: Reader): NodeOf<'object'> => parseObject(r, parseWordPair);

function parseKey(r: Reader, brace: number, isFirst: boolean): string {
  const at = r.pos;
  const found = r.match(KEY);
  r.space();
  if (found !== undefined && (!isFirst || /[:?,}]/.test(r.peek()))) return unquoted(found);
  r.pos = at;
  return r.fail(`expected \`key: value\`, found ${r.shown()}`, {
    at: isFirst ? brace : at,
    hint: isFirst ? 'use `cmd { … }` for a command' : undefined,
  });
}

function unquoted(key: string): string {
  if (key.startsWith('"')) {
    return key
      .slice(1, -1)
      .replace(/\\(.)/g, (_, char: string) => ({ n: '\n', t: '\t' })[char] ?? char);
  }
  return key.startsWith("'") ? key.slice(1, -1).replace(/\\(['\\])/g, '$1') : key;
}

function parsePair(r: Reader, key: string): ObjectEntry {
  const isOptional = r.take('?');
  r.space();
  if (!r.take(':')) {
    r.fail(`expected \`:\` after the key \`${key}\`, found ${r.shown()}`, {
      hint: 'an object is written `{ key: value }`, a command `cmd { … }`',
    });
  }
  r.space();
  return { kind: 'pair', key, value: r.rules.value(r), isOptional };
}

function parseWordPair(r: Reader, key: string): ObjectEntry {
  const at = r.pos;
  if (r.take(':')) {
    r.space();
    return { kind: 'pair', key, value: parseWordValue(r), isOptional: false };
  }
  const value: Expression = { kind: 'literal', value: true, at, end: at };
  return { kind: 'pair', key, value, isOptional: false };
}

function parseWordValue(r: Reader): Expression {
  const at = r.pos;
  if (r.peek() === '{') return parseWordObject(r);
  if (r.peek() !== '[') return bareWord(r) ?? r.rules.value(r);
  r.pos += 1;
  const items = r.list(']', 'words', () => toItem(r.deeper(() => parseWordValue(r))));
  return { kind: 'array', items, at, end: r.pos };
}

function bareWord(r: Reader): Expression | undefined {
  const at = r.pos;
  if (r.sees(/(?:true|false|null|\d+)(?![\w:*/.-])/y)) return undefined;
  const value = r.match(/[\w*][^\s,\]}]*/y);
  return value === undefined ? undefined : { kind: 'literal', value, at, end: r.pos };
}
