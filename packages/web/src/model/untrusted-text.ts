// Cuts text of models, tools and files into bits that are safe to show. Invisible characters and
// characters that reorder or hide text become visible signs. Long stretches are folded with their
// size. A fold is not parsed until a user opens it, so a line of 5 MB costs as much as one of 2,000
// characters. INVARIANT: the sources of all bits, one after the other, are always the text.
import { count, shortCount } from './format.ts';

export interface ForeignBit {
  /**
   * text: unchanged · sign: one hidden character · ansi: a terminal control sequence · host: a host name
   * with letters that are not ASCII, in its network form · run: many similar characters · fold: the rest
   * of a long text. `openedBits` opens a run or a fold.
   */
  readonly kind: 'text' | 'sign' | 'ansi' | 'host' | 'run' | 'fold';
  /** Text to render, without control characters (except newline and tab) and format characters. */
  readonly text: string;
  /** Original characters of this bit. A copy of the text contains them. */
  readonly source: string;
}

/** Number of characters per line and in total before the rest is folded. */
interface Bounds {
  readonly line: number;
  readonly whole: number;
  /** True to render runs unchanged, without folding them. */
  readonly showsRuns?: boolean;
}
const FIRST_LOOK: Bounds = { line: 2_000, whole: 50_000 };
/** Bounds of a fold after the user opens it. */
const OPENED: Bounds = { line: 20_000, whole: 100_000 };

const MAX_SPACES = 40;
const MAX_BLANK_LINES = 40;
/** Each sign needs an element of the page, so a text with more bits is folded. */
const MAX_BITS = 2_000;

const HIDDEN =
  '[[\\p{C}\\p{DI}\\u2028\\u2029\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800]--[\\n\\t]]';
/** The only hidden character that stays: a variation selector that makes the character before it an emoji. */
const EMOJI = '(?<=\\p{ExtPict})\\ufe0f(?!\\p{DI})';
const SINGLE = [
  `(?<kept>${EMOJI})`,
  '(?<ansi>\\x1b\\[[0-9:;<=>?]{0,64}[ -\\/]{0,8}[@-~])',
  `(?<sign>${HIDDEN})`,
  '(?<address>:\\/\\/[[^\\s\\/?#]--[\\p{C}\\p{DI}]]+)',
];
const RUNS = [
  `(?<many>${HIDDEN}{9,})`,
  `(?<spaces>[ \\t\\u00a0\\u3000]{${MAX_SPACES + 1},})`,
  '(?<marks>\\p{M}{6,})',
];
const SPECIAL = new RegExp([...RUNS, ...SINGLE].join('|'), 'gv');
const SPECIAL_ALONE = new RegExp(SINGLE.join('|'), 'gv');

/** Returns `U+202E`, or the picture of an ASCII control character. */
function signOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** Moves a cut so that it never splits a character. */
function cutAt(text: string, at: number): number {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at);
  const splits = before >= 0xd800 && before < 0xdc00 && after >= 0xdc00 && after < 0xe000;
  return splits ? at - 1 : at;
}

/** Returns the name that the network looks up. Undefined if the host is ASCII or not a valid name. */
function networkName(host: string): string | undefined {
  if (!/[^\x00-\x7f]/.test(host)) return undefined;
  try {
    const { hostname } = new URL(`http://${host}`);
    return /^[\x21-\x7e]+$/.test(hostname) ? hostname : undefined;
  } catch {
    return undefined;
  }
}

function createBits() {
  const bits: ForeignBit[] = [];
  let plain = '';
  const flush = () => {
    if (plain !== '') bits.push({ kind: 'text', text: plain, source: plain });
    plain = '';
  };
  return {
    plain(text: string): void {
      plain += text;
    },
    put(kind: ForeignBit['kind'], text: string, source: string): void {
      flush();
      bits.push({ kind, text, source });
    },
    isFull: () => bits.length >= MAX_BITS,
    done(): readonly ForeignBit[] {
      flush();
      return bits;
    },
  };
}
type Bits = ReturnType<typeof createBits>;

function putAddress(bits: Bits, address: string): void {
  const user = address.lastIndexOf('@') + 1;
  const start = Math.max(user, 3);
  const host = /^[\p{L}\p{N}\p{M}._-]*/u.exec(address.slice(start))?.[0] ?? '';
  const name = networkName(host);
  if (name === undefined) {
    bits.plain(address);
    return;
  }
  bits.plain(address.slice(0, start));
  bits.put('host', name, host);
  bits.plain(address.slice(start + host.length));
}

/** Adds a stretch without line ends. Returns the number of characters that fit the bounds. */
function putStretch(bits: Bits, text: string, special: RegExp): number {
  let from = 0;
  for (const { 0: match, index, groups = {} } of text.matchAll(special)) {
    if (bits.isFull()) return from;
    bits.plain(text.slice(from, index));
    from = index + match.length;
    if (groups.kept !== undefined) bits.plain(match);
    else if (groups.ansi !== undefined) bits.put('ansi', `\u241b${match.slice(1)}`, match);
    else if (groups.sign !== undefined) bits.put('sign', signOf(match), match);
    else if (groups.address !== undefined) putAddress(bits, match);
    else {
      const name =
        groups.spaces === undefined ? (groups.many ? 'hidden signs' : 'marks') : 'spaces';
      bits.put('run', `${count(match.replace(/./gsu, 'x').length)} ${name}`, match);
    }
  }
  bits.plain(text.slice(from));
  return text.length;
}

const isBlank = (text: string, from: number, to: number): boolean => {
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 9 && code !== 13 && code !== 160 && code !== 0x3000) return false;
  }
  return true;
};

/** Finds the end and the number of the blank lines that start at `from`. */
function blankLines(text: string, from: number): { end: number; lines: number } {
  let [end, lines] = [from, 0];
  for (;;) {
    const next = text.indexOf('\n', end);
    if (next === -1 || !isBlank(text, end, next)) return { end, lines };
    lines += 1;
    end = next + 1;
  }
}

/** Cuts `text` into bits. A text without special characters is one bit. */
export const foreignBits = (text: string): readonly ForeignBit[] => cutText(text, FIRST_LOOK);

/** Returns the bits of an opened `run` or `fold`. A very long rest is folded again. */
export const openedBits = ({ kind, source }: ForeignBit): readonly ForeignBit[] =>
  cutText(source, { ...OPENED, showsRuns: kind === 'run' });

function cutText(text: string, bounds: Bounds): readonly ForeignBit[] {
  const bits = createBits();
  const whole = text.length > bounds.whole ? cutAt(text, bounds.whole) : text.length;
  let at = 0;
  while (at < whole && !bits.isFull()) {
    const blank = bounds.showsRuns ? { end: at, lines: 0 } : blankLines(text, at);
    if (blank.lines > MAX_BLANK_LINES) {
      bits.put('run', `${count(blank.lines)} blank lines`, text.slice(at, blank.end));
      at = blank.end;
      continue;
    }
    const newline = text.indexOf('\n', at);
    const end = newline === -1 ? text.length : newline;
    const limit = end - at > bounds.line ? cutAt(text, at + bounds.line) : end;
    const length = putStretch(
      bits,
      text.slice(at, limit),
      bounds.showsRuns ? SPECIAL_ALONE : SPECIAL,
    );
    at += length;
    if (at < limit) break;
    if (limit < end) {
      bits.put('fold', `${shortCount(end - limit)} more in this line`, text.slice(limit, end));
      at = end;
    }
    if (newline !== -1) bits.plain('\n');
    at = newline === -1 ? end : end + 1;
  }
  if (at < text.length) bits.put('fold', `${shortCount(text.length - at)} more`, text.slice(at));
  return bits.done();
}

/** Returns text in one line for a chip or a row: signs in brackets, folds as their size. */
export const visibleText = (text: string, max = 200): string => {
  const visible = foreignBits(text.slice(0, cutAt(text, max)))
    .map(({ kind, text: content }) =>
      kind === 'text' || kind === 'host' ? content : `\u2039${content}\u203a`,
    )
    .join('')
    .replace(/[\n\t]+/g, ' ');
  return text.length > max ? `${visible}…` : visible;
};
