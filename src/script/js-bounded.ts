// Which js blocks are certain to be over soon. Ending an endless block needs a watching thread for
// every entry, and that costs more than a tiny block itself; a block without loops, without functions
// of its own apart from one level of `=>`, and with nothing but these calls over small data needs none.
import type { JsToken } from './js-scan.ts';

const WORDS = new Set(
  (
    'return const let if else typeof null true false undefined NaN Infinity ' +
    'Math JSON Object Array String Number Boolean parseInt parseFloat'
  ).split(' '),
);
const CALLED = new Set('String Number Boolean parseInt parseFloat'.split(' '));
const METHODS = new Set(
  (
    'at charAt charCodeAt codePointAt endsWith includes indexOf lastIndexOf slice split startsWith ' +
    'substring toLowerCase toUpperCase trim trimEnd trimStart toString toFixed toPrecision valueOf ' +
    'concat every filter find findIndex join map reverse some reduce sort keys values entries push ' +
    'isArray isInteger isFinite isNaN parse stringify abs ceil floor max min round sign sqrt trunc pow'
  ).split(' '),
);
const MAX_SOURCE = 2000;
/** Characters of data: a call that looks at each for each stays within a second. */
export const BOUNDED_DATA = 16_384;

function isCallAllowed(tokens: readonly JsToken[], index: number): boolean {
  const [callee, before] = [tokens[index - 1], tokens[index - 2]];
  if (!callee || /^[;,=(:?[{!<>&|+*%-]|^=>$/.test(callee.text)) return true; // grouping
  if (callee.kind !== 'word') return false;
  if (callee.text === 'if' || callee.text === 'return' || callee.text === 'typeof') return true;
  const isMethod = before?.text === '.' || before?.text === '?.';
  return isMethod ? METHODS.has(callee.text) : CALLED.has(callee.text);
}

/** Words that are neither known nor names of parameters or of the block's own constants. */
function isWordAllowed(
  tokens: readonly JsToken[],
  index: number,
  names: ReadonlySet<string>,
): boolean {
  const { text } = tokens[index] as JsToken;
  const [before, after] = [tokens[index - 1]?.text, tokens[index + 1]?.text];
  if (before === '.' || before === '?.') return !/^(?:__proto__|prototype|constructor)$/.test(text);
  return WORDS.has(text) || names.has(text) || after === ':';
}

/** Names that the block itself introduces: `const x`, `x =>`, `(a, b) =>`. */
function ownNames(tokens: readonly JsToken[]): string[] {
  const names: string[] = [];
  tokens.forEach(({ kind, text }, index) => {
    const [before, after] = [tokens[index - 1]?.text, tokens[index + 1]?.text];
    if (kind === 'word' && (before === 'const' || before === 'let' || after === '=>')) {
      names.push(text);
    }
    if (text !== '=>' || before !== ')') return;
    for (let at = index - 2; at >= 0 && tokens[at]?.text !== '('; at--) {
      const token = tokens[at] as JsToken;
      if (token.kind === 'word') names.push(token.text);
    }
  });
  return names;
}

/** Where the parameters of the `=>` at `index` begin. */
function arrowStart(tokens: readonly JsToken[], index: number): number {
  const { depth } = tokens[index] as JsToken;
  let at = index - 1;
  if (tokens[at]?.text !== ')') return at;
  do at--;
  while (at >= 0 && (tokens[at] as JsToken).depth > depth);
  return at;
}

/** Only as the first argument of a known method: elsewhere a function could come to call itself. */
function isArrowAllowed(tokens: readonly JsToken[], index: number): boolean {
  const at = arrowStart(tokens, index);
  const [method, dot] = [tokens[at - 2], tokens[at - 3]?.text];
  const isArgument = tokens[at - 1]?.text === '(' && (dot === '.' || dot === '?.');
  return isArgument && method?.kind === 'word' && METHODS.has(method.text);
}

/** A `=>` inside the body of another one multiplies. */
const hasNestedArrows = (tokens: readonly JsToken[]): boolean =>
  tokens.some(
    ({ text }, index) =>
      text === '=>' &&
      tokens.slice(0, index).some((other, at) => {
        const after = tokens.slice(at, index + 1);
        return other.text === '=>' && after.every(({ depth }) => depth >= other.depth);
      }),
  );

const KEYWORDS = new Set('return const let if else typeof'.split(' '));

/** A value stands directly before: then `[` is a key, a template is a call, a word is no operator. */
const isValue = (token: JsToken | undefined): boolean =>
  token !== undefined &&
  (token.kind === 'mark' ? /^[)\]}]$/.test(token.text) : !KEYWORDS.has(token.text));

function isTokenAllowed(
  tokens: readonly JsToken[],
  index: number,
  names: ReadonlySet<string>,
): boolean {
  const { kind, text } = tokens[index] as JsToken;
  const before = tokens[index - 1];
  if (kind === 'regex') return false;
  if (kind === 'template') return text[0] === '}' || !isValue(before);
  if (kind === 'word') {
    // Two words in a row: a getter, an `async`, something else that is not meant here.
    if (before?.kind === 'word' && !KEYWORDS.has(before.text)) return false;
    return isWordAllowed(tokens, index, names);
  }
  if (text === '(') return isCallAllowed(tokens, index);
  if (text === '=>') return isArrowAllowed(tokens, index);
  // A computed key may reach anything.
  if (text === '[') return !isValue(before) || tokens[index + 1]?.kind === 'number';
  return true;
}

/** True only when no run of the block on small data can take long. */
export function isBounded(
  source: string,
  tokens: readonly JsToken[],
  parameters: readonly string[],
): boolean {
  if (source.length > MAX_SOURCE || tokens.length === 0) return false;
  const names = new Set([...parameters, ...ownNames(tokens)]);
  return (
    tokens.every((_, index) => isTokenAllowed(tokens, index, names)) && !hasNestedArrows(tokens)
  );
}
