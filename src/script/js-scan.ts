// The tokens of a JavaScript block, as far as one must see them to find where its last statement
// begins: words, punctuation, literals, and how deep in brackets each stands. It never decides what
// is allowed: whoever hides something from it gets an odd answer, not more rights.

export interface JsToken {
  readonly kind: 'word' | 'number' | 'string' | 'regex' | 'template' | 'mark';
  readonly text: string;
  readonly at: number;
  /** Brackets open around it; a bracket itself counts as outside. */
  readonly depth: number;
  /** A line break stands before it. */
  readonly isFirst: boolean;
}

/** After these words a `/` begins a regular expression, and a value may follow. */
const BEFORE_VALUE = new Set(
  'return typeof instanceof in of new delete void throw case do else await yield'.split(' '),
);

const BLANK = /(?:\s|\/\/.*|\/\*[\s\S]*?\*\/)+/y;
const WORD = /[\p{ID_Start}$_#\\](?:[\p{ID_Continue}$\\]|\u200c|\u200d)*/uy;
const NUMBER = /(?:0[xob][\da-f_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?\d+)?)n?/iy;
const STRING = /"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'/y;
const REGEX = /\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const MARK = /=>|\?\.(?!\d)|\.\.\.|\+\+|--|[=!]==?|[\s\S]/y;
/** The piece of a template up to its end or the next `${`. */
const PIECE = /(?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{)/y;

function isValueBefore(last: JsToken | undefined): boolean {
  if (!last) return false;
  if (last.kind === 'mark') return /^[)\]}]$/.test(last.text);
  return !(last.kind === 'word' && BEFORE_VALUE.has(last.text));
}

/** Undefined when brackets, quotes or templates do not match. */
export function scanJs(source: string): JsToken[] | undefined {
  const tokens: JsToken[] = [];
  /** Open brackets; `${` stands for a template that goes on after its `}`. */
  const open: string[] = [];
  let at = 0;
  let isFirst = true;

  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  const push = (kind: JsToken['kind'], text: string, depth = open.length): void => {
    tokens.push({ kind, text, at, depth, isFirst });
    at += text.length;
    isFirst = false;
  };
  /** From a backtick, or from the `}` that ends an insertion. */
  const template = (): boolean => {
    const start = at;
    at += 1;
    const piece = take(PIECE);
    at = start;
    if (piece === undefined) return false;
    const text = source[start] + piece;
    push('template', text);
    if (piece.endsWith('${')) open.push('${');
    return true;
  };
  const mark = (text: string): boolean => {
    if ('([{'.includes(text)) {
      push('mark', text);
      open.push(text);
      return true;
    }
    if (')]}'.includes(text)) {
      const opener = open.pop();
      if (opener === '${') return text === '}' && template();
      if (opener !== ({ ')': '(', ']': '[', '}': '{' } as Record<string, string>)[text])
        return false;
    }
    push('mark', text);
    return true;
  };

  while (at < source.length) {
    const blank = take(BLANK);
    if (blank !== undefined) {
      isFirst ||= /[\n\r\u2028\u2029]/.test(blank);
      at += blank.length;
      continue;
    }
    const word = take(WORD);
    const number = word === undefined ? take(NUMBER) : undefined;
    if (word !== undefined) push('word', word);
    else if (number !== undefined) push('number', number);
    else if (source[at] === '`') {
      if (!template()) return undefined;
    } else if (source[at] === '"' || source[at] === "'") {
      const text = take(STRING);
      if (text === undefined) return undefined;
      push('string', text);
    } else {
      const regex = source[at] === '/' && !isValueBefore(tokens.at(-1)) ? take(REGEX) : undefined;
      if (regex !== undefined) push('regex', regex);
      else if (!mark(take(MARK) ?? '')) return undefined;
    }
  }
  return open.length === 0 ? tokens : undefined;
}
