// What the text between the braces of a `js` block means: an expression, statements of which the last
// may be one, or a function body with `return`. Whether a piece parses is V8's to say.
import { compileFunction } from 'node:vm';
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';
import { type JsToken, scanJs } from './js-scan.ts';

export interface JsBody {
  /** To be compiled as the body of a function with the block's parameters. */
  readonly code: string;
  readonly isAsync: boolean;
  readonly tokens: readonly JsToken[];
}

/** Rejects with an error that is not the realm's own; see the invariant in `js-realm.ts`. */
const DYNAMIC_IMPORT = /import\s*(?:[(/<-]|\.\s*[a-z/<])/;

const STATEMENT_WORDS = new Set(
  (
    'break class const continue debugger do export for function if import let return switch throw ' +
    'try var while with'
  ).split(' '),
);
/** What may go on with an expression of the line before; such a line begins no statement. */
const CONTINUES = /^(?:[([`+\-*/,.?:=&|<>%^]|instanceof\b|in\b|\?\.)/;
const MAX_TRIES = 60;

const wrapSync = (code: string): string => code;
const wrapAsync = (code: string): string => `return (async () => {${code}\n})()`;

type Wrap = typeof wrapSync;

function errorIn(code: string, names: readonly string[]): Error | undefined {
  try {
    compileFunction(code, names);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

/** Where statements of the block may begin, last first. */
function* beginnings(tokens: readonly JsToken[]): Generator<JsToken> {
  for (let index = tokens.length - 1; index > 0; index--) {
    const [token, before] = [tokens[index] as JsToken, tokens[index - 1] as JsToken];
    if (token.depth > 0 || /^[;)\]}]$/.test(token.text)) continue;
    if (before.text === ';') yield token;
    else if ((token.isFirst || before.text === '}') && !CONTINUES.test(token.text)) yield token;
  }
}

/** The block with its last expression returned; undefined when it does not end in one. */
function returning(
  source: string,
  tokens: readonly JsToken[],
  parses: (code: string) => boolean,
): string | undefined {
  const end = tokens.findLast(({ text }) => text !== ';');
  const first = tokens[0];
  if (!end || !first) return undefined;
  const until = end.at + end.text.length;
  const valueFrom = (at: number): string => `return (${source.slice(at, until)}\n)`;
  if (!STATEMENT_WORDS.has(first.text) && parses(valueFrom(first.at))) {
    return source.slice(0, first.at) + valueFrom(first.at);
  }
  let tries = 0;
  for (const { at, text } of beginnings(tokens)) {
    if (at > until || ++tries > MAX_TRIES) continue;
    if (!parses(source.slice(0, at))) continue;
    if (STATEMENT_WORDS.has(text)) return undefined;
    if (parses(valueFrom(at))) return source.slice(0, at) + valueFrom(at);
  }
  return undefined;
}

function syntaxFault(error: Error): Failure {
  const line = Number(/^[^\n]*:(\d+)\n/.exec(error.stack ?? '')?.[1] ?? 0);
  const where = line > 0 ? { line } : {};
  return fail('invalid_input', `the js block does not parse: ${error.message}`, where);
}

/** `await (x)` parses as a call of something named await where nothing waits. */
const mayAwaitUnseen = (tokens: readonly JsToken[]): boolean =>
  tokens.some(
    ({ kind, text }, index) =>
      kind === 'word' && text === 'await' && /^[(['"`+\-/]/.test(tokens[index + 1]?.text ?? ''),
  );

/** A block ready to be compiled with these parameter names. */
export function readJsBody(
  source: string,
  names: readonly string[],
  mayImport = false,
): Outcome<JsBody> {
  if (!mayImport && DYNAMIC_IMPORT.test(source)) {
    return fail('invalid_input', '`import(…)` is not available in js blocks; use `node { … }`');
  }
  const tokens = scanJs(source) ?? [];
  const parsesAs = (wrap: Wrap) => (code: string) => errorIn(wrap(code), names) === undefined;
  const waits = tokens.some(({ kind, text }) => kind === 'word' && text === 'await');
  const isPlain = parsesAs(wrapSync)(source) || !waits;
  const isAsync = waits && (!isPlain || mayAwaitUnseen(tokens));
  const wrap = isAsync ? wrapAsync : wrapSync;
  const body = returning(source, tokens, parsesAs(wrap)) ?? source;
  const code = wrap(body);
  const error = errorIn(code, names);
  // An expression alone need not parse as statements (`{ a: 1, b: 2 }`), so this is asked last.
  if (error) return syntaxFault(error);
  return ok({ code, isAsync, tokens });
}
