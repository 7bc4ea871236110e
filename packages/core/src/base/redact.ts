// Masks secrets in whole texts, in JSON values and in texts that arrive in chunks.
//
// A text is searched in four views. The original view contains the secret itself, its base64 and its hex. In the
// folded view escapes (`%5a`, `%255a`, `%u005a`, `\u005a`, `\u{5a}`, `\"`, `&#90;`, `&period;`) are decoded and line
// ends are removed, so that neither hides a secret. The view of digits omits the separators of a hex dump. The view
// of letters omits case and everything but letters and digits; it reveals a secret that was spelt out, reversed,
// encoded twice or has two bytes per character. Each view takes one pass for all patterns. A view that must be
// computed is computed only if it can reveal something new.
//
// INVARIANT: the result never depends on how a text was cut into chunks, and never contains one of these forms of
// a secret.
import { setOwn } from './json.ts';
import type { Json, JsonObject } from './outcome.ts';
import { createRecent } from './recent.ts';
import { createLetterMatcher, createMatcher, lettersOf, type TextMatcher } from './text-matcher.ts';

export interface RedactionStream {
  /** Returns the text that is certain. Text that may begin a secret is held back. */
  push(chunk: string): string;
  end(): string;
}

/**
 * Masks separate texts of one stream. A text is returned at once, unless a secret may begin at its end:
 * then it waits for the next texts. A secret that spans several texts is masked in each of them.
 */
interface Follower {
  /**
   * True if the text can be shown at once, so that it need not be pushed. `isClean`: the text alone
   * contains no secret.
   */
  passes(text: string, isClean?: boolean): boolean;
  /** Returns the texts that are certain by now, in order. */
  push(text: string): readonly string[];
  end(): readonly string[];
}

export interface Redactor {
  /** True if there is no secret to mask. */
  readonly isIdle: boolean;
  text(text: string): string;
  /** Masks every text in a value, keys and numbers included. Returns the value itself if nothing is masked. */
  json<T extends Json>(value: T): T;
  stream(): RedactionStream;
  /** Returns a follower for separate texts of one stream, such as events. */
  follow(): Follower;
  /** True if the value certainly contains no secret, keys and numbers included. */
  isClean(value: Json): boolean;
  /** True if no line of the text contains a secret. Secrets across lines do not count. */
  hasCleanLines(text: string): boolean;
  /** Works like `text`, but `put` returns the replacement of each masked part, which is `match`. */
  replace(text: string, put: (match: string) => string): string;
}

/** Minimum lengths. A shorter form occurs in ordinary text. */
const LEAST = { plain: 4, otherCase: 8, base64: 6, hex: 8, spacedHex: 16, letters: 8, line: 12 };
/** Long values are searched for in pieces, each of which is recognisable by itself. */
const PIECE = 256;
/** Masks in order of preference. The ends of a usable one occur in no form, so no secret can arise around it. */
const MASKS = ['[secret]', '<hidden>', '***', '\u2588\u2588\u2588', '\ue000'];

const toBytes = (text: string): string => Buffer.from(text).toString('latin1');
const toText = (bytes: string): string => Buffer.from(bytes, 'latin1').toString();

function* piecesOf(secret: string): Generator<string> {
  const lines = secret.split(/\r?\n/);
  if (lines.length > 1) {
    for (const line of lines) if (line.trim().length >= LEAST.line) yield* piecesOf(line.trim());
  }
  if (secret.length <= PIECE) {
    yield secret;
    return;
  }
  for (let at = 0; at < secret.length; at += PIECE) {
    // The last piece is as long as the others, so that it is as recognisable.
    yield secret.slice(Math.min(at, secret.length - PIECE), at + PIECE);
  }
}

interface Base64Form {
  /** The part that depends on the secret alone. */
  core: string;
  /** All characters that can follow the core with the last bits of the secret. Empty: the core has all bits. */
  tail: string;
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const forUrls = (text: string): string => text.replaceAll('+', '-').replaceAll('/', '_');

/** Returns all characters, of both alphabets, whose bits under `mask` are those of `char`. */
function alikeUnder(mask: number, char: string): string {
  const bits = BASE64.indexOf(char) & mask;
  const alike = Array.from(BASE64).filter((_, value) => (value & mask) === bits);
  return alike.join('') + forUrls(alike.join('')).replace(/[^-_]/g, '');
}

/**
 * Returns the forms at three alignments, because the number of bytes before the secret is not known. The
 * character before the core, which has the first bits, is not masked: a stream would have to withhold one
 * more character for it.
 */
function base64Cores(bytes: Buffer): Base64Form[] {
  return [0, 1, 2].map((before) => {
    const padded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const [first, last] = [before * 8, (before + bytes.length) * 8];
    const [start, end] = [Math.ceil(first / 6), Math.floor(last / 6)];
    const ownLast = 63 - ((1 << (6 - (last - end * 6))) - 1);
    return {
      core: padded.slice(start, end),
      tail: ownLast === 0 ? '' : alikeUnder(ownLast, padded.charAt(end)),
    };
  });
}

function base64Forms(bytes: Buffer): string[] {
  const cores = base64Cores(bytes).map(({ core }) => core);
  return [...cores, ...cores.map(forUrls)];
}

/** Adds the characters that can follow each base64 form of a secret. */
function addTails(tails: Map<string, string>, bytes: Buffer): void {
  for (const { core, tail } of base64Cores(bytes)) {
    for (const form of new Set([core, forUrls(core)])) {
      tails.set(form, (tails.get(form) ?? '') + tail);
    }
  }
}

interface Forms {
  plain: Set<string>;
  folded: Set<string>;
  digits: Set<string>;
  letters: Set<string>;
  /** The characters that can follow a base64 form with its last bits. */
  tails: Map<string, string>;
}

const reversed = (text: string): string => Array.from(text).reverse().join('');

/** Returns two bytes per character, the low one or the high one first. */
function wideBytes(piece: string): Buffer[] {
  const low = Buffer.from(piece, 'utf16le');
  // If all high bytes are 0, the two forms differ only at their ends.
  if (!/[^\0-\xff]/.test(piece)) return [low.subarray(0, -1)];
  return [low, Buffer.from(low).swap16()];
}

/** Returns percent escapes, once and twice. Empty if nothing needs escaping. */
function escapedBytes(piece: string): Buffer[] {
  // Half of a pair of surrogates cannot be encoded.
  const once = encodeURIComponent(piece.toWellFormed());
  const twice = encodeURIComponent(once);
  return once === piece ? [] : [Buffer.from(once), Buffer.from(twice)];
}

/**
 * Returns the forms in the view of letters: the piece and its base64, also reversed before or after, and
 * base64 of base64.
 */
function letterForms(piece: string): string[] {
  const once = base64Forms(Buffer.from(piece));
  const wide = wideBytes(piece);
  // A secret of which every character is escaped leaves its hex digits in the view of letters.
  const hex = [Buffer.from(piece), ...wide].map((bytes) => bytes.toString('hex'));
  const other = [...wide, ...escapedBytes(piece)].flatMap(base64Forms);
  const forms = [piece, fold(piece, false).text, ...once];
  const turned = base64Forms(Buffer.from(reversed(piece)));
  // Inside of base64 every character counts, so the alphabet for URLs gives another form.
  const twice = once.flatMap((form) => base64Forms(Buffer.from(form)));
  const all = [...forms, ...forms.map(reversed), ...turned, ...twice, ...hex, ...other].map(
    lettersOf,
  );
  // After a backslash the first letter may look like an escaped line end.
  return all.flatMap((form) => (/^[nrtbf]/.test(form) ? [form, form.slice(1)] : [form]));
}

/** Returns every form of every secret that is long enough to differ from ordinary text. */
function formsOf(secrets: Iterable<string>, areBytes: boolean): Forms {
  const forms: Forms = {
    plain: new Set(),
    folded: new Set(),
    digits: new Set(),
    letters: new Set(),
    tails: new Map(),
  };
  const add = (set: Set<string>, least: number, list: readonly string[]) => {
    for (const form of list) if (form.length >= least) set.add(form);
  };
  for (const secret of secrets) {
    for (const piece of new Set([...piecesOf(secret), ...piecesOf(secret.trim())])) {
      if (piece.length < LEAST.plain) continue;
      const bytes = Buffer.from(piece);
      const own = areBytes ? [piece].map(toBytes) : [piece];
      const cases = [piece.toLowerCase(), piece.toUpperCase()];
      const hex = bytes.toString('hex');
      addTails(forms.tails, bytes);
      const turned = [reversed(hex), Buffer.from(reversed(piece)).toString('hex')];
      const turnedHex = [...turned, ...turned.map((form) => form.toUpperCase())];
      add(forms.plain, LEAST.plain, own);
      add(forms.plain, LEAST.otherCase, areBytes ? cases.map(toBytes) : cases);
      // A text without escapes equals its folded view, so only its original view is searched.
      const long = foldedForms(piece).filter(({ length }) => length >= LEAST.plain);
      for (const form of areBytes ? [] : long.map(toText)) {
        if (!form.includes('\ufffd')) forms.plain.add(form);
      }
      for (const set of [forms.plain, forms.folded]) {
        add(set, LEAST.plain, foldedForms(piece));
        add(set, LEAST.base64, base64Forms(bytes));
        add(set, LEAST.hex, [hex, hex.toUpperCase()]);
        if (piece.length >= LEAST.letters) add(set, LEAST.hex, turnedHex);
      }
      // A byte of a dump may be written `0x5a`: the `x` is skipped, the `0` is not.
      if (isAscii(piece)) {
        add(forms.digits, LEAST.spacedHex, [hex, hex.replace(/../g, '0$&'), ...turned]);
      }
      if (piece.length >= LEAST.letters) add(forms.letters, LEAST.letters, letterForms(piece));
    }
  }
  return forms;
}

const isAscii = (text: string): boolean => !/[^\0-\x7f]/.test(text);
const withoutBreaks = (bytes: string): string => bytes.replace(/[\r\n\\]/g, '');

/** Returns the forms in the folded view. HTML forms write a blank as `+`. A secret may itself look like an escape. */
function foldedForms(piece: string): string[] {
  const units = Array.from({ length: piece.length }, (_, at) => unitBytes(piece.charCodeAt(at)));
  const written = [toBytes(piece), units.join('')];
  return [
    ...written.map(withoutBreaks),
    withoutBreaks(toBytes(piece.replaceAll(' ', '+'))),
    withoutBreaks(fold(piece, false).text),
  ];
}

/** Returns the UTF-8 bytes of a UTF-16 unit, also for a single surrogate as in `\ud83d\ude00`. */
function unitBytes(unit: number): string {
  if (unit < 0x80) return String.fromCharCode(unit);
  const last = 0x80 | (unit & 0x3f);
  if (unit < 0x800) return String.fromCharCode(0xc0 | (unit >> 6), last);
  return String.fromCharCode(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), last);
}

/** One view of a text, with the position of each character in the original text. */
interface TextView {
  text: string;
  starts: number[];
  ends: number[];
  /** Spans of escapes and line ends, each of which represents at most one character. */
  tokens: Span[];
}

const SAME_POSITIONS: Omit<TextView, 'text'> = { starts: [], ends: [], tokens: [] };

interface Span {
  start: number;
  end: number;
}

/** HTML names of ASCII characters and of the hyphen that looks like a minus. A line end becomes empty. */
const ENTITIES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      `amp& lt< gt> quot" apos' excl! num# dollar$ percnt% lpar( rpar) ast* midast* plus+ comma,`,
      'hyphen- dash- period. sol/ colon: semi; equals= quest? commat@ lsqb[ lbrack[ rsqb] rbrack]',
      'hat^ lowbar_ underbar_ grave` diacriticalgrave` lcub{ lbrace{ verbar| vert| verticalline|',
      'rcub} rbrace}',
    ]
      .flatMap((line) => line.split(' '))
      .map((entry) => [entry.slice(0, -1), entry.slice(-1)]),
  ),
  tab: '\t',
  newline: '',
  bsol: '',
  fjlig: 'fj',
};
// An entity with a number needs no semicolon, and neither do four of the names.
const ENTITY = `&(?:(?:#0*\\d{1,7}|#x0*[0-9a-f]{1,6}|amp|lt|gt|quot);?|(?:${Object.keys(ENTITIES).join('|')});)`;
const BACKSLASHED = String.raw`\\+(?:u\{0*[0-9a-f]{1,6}\}|u[0-9a-f]{4}|x[0-9a-f]{2}|[ -$'-[\]-~])?`;
const TOKEN = new RegExp(
  String.raw`(?:[\r\n]|\\+[nr])+|${BACKSLASHED}|%(?:25){0,8}(?:u[0-9a-f]{4}|[0-9a-f]{2})|${ENTITY}`,
  'gi',
);
const TOKEN_HERE = new RegExp(TOKEN.source, 'iy');
/** True if a text differs from its folded view. */
const isFoldable = (text: string): boolean => /[\r\n%&\\]|[^\0-\x7f]/.test(text);
/** Matches an escape that changes the letters of the folded text. */
const REAL_ESCAPE = new RegExp(
  String.raw`\\(?:[ux][0-9a-f]{2}|u\{[0-9a-f])|%u?[0-9a-f]{2}|${ENTITY}`,
  'i',
);
/** Characters that make an escape after a backslash. */
const ESCAPING: ReadonlySet<number> = new Set(Buffer.from('\\uxtbfUX'));
const WRITTEN_BREAK: ReadonlySet<number> = new Set(Buffer.from('nrNR'));
/** First characters of escapes, and line ends, which come last. */
const MARKS = ['\\', '%', '&', '\n', '\r'];
const WRITTEN_MARKS = MARKS.slice(0, 3);
/** Separators, digits and first characters of escapes, after which a secret may continue. */
const GOES_ON: ReadonlySet<number> = new Set(Buffer.from(' \t\r\n\v\f%&\\#;:,._|xX0123456789-'));
const [OPEN_BRACE, CLOSE_BRACE, LETTER_U, BACKSLASH] = [123, 125, 117, 92];
const isBreak = (code: number): boolean => code === 10 || code === 13;

/** Matches text at the end that may become an escape with more text. */
const UNFINISHED =
  /(?:%(?:25){0,8}(?:u[0-9a-f]{0,3}|[0-9a-f]?)|\\+(?:u\{[0-9a-f]*|u[0-9a-f]{0,3}|x[0-9a-f]?)?|&(?:#x?[0-9a-f]*|[a-z]{0,16}))$/i;
/** Matches an escape with so many leading zeros that its end may be far from its beginning. */
const LONG_ESCAPE = /(?:&#x?|\\u\{)0{16}/i;
const ZEROS_AT_END = /0{16}[0-9a-f]{0,7}\}?$/i;
const isHexDigit = (code: number): boolean =>
  (code > 47 && code < 58) || ((code | 32) > 96 && (code | 32) < 103);

/**
 * True if the brace at the end of a text may belong to an escape. It runs for every event, so few
 * characters are read.
 */
function endsEscape(text: string): boolean {
  const end = text.length - 1;
  let at = end;
  while (end - at < MAX_ESCAPE && isHexDigit(text.charCodeAt(at - 1))) at--;
  if (end - at >= 16 && ZEROS_AT_END.test(text.slice(-MAX_ESCAPE))) return true;
  if (text.charCodeAt(at - 1) === OPEN_BRACE) at--;
  return (text.charCodeAt(at - 1) | 32) === LETTER_U && text.charCodeAt(at - 2) === BACKSLASH;
}

/** Returns how many characters at the end may become an escape with more text. */
function unfinishedIn(text: string): number {
  const tail = text.slice(-MAX_ESCAPE);
  const isLong = ZEROS_AT_END.test(tail) && LONG_ESCAPE.test(text);
  return UNFINISHED.exec(isLong ? text.slice(-MAX_HELD) : tail)?.[0].length ?? 0;
}

const CONTROLS: Readonly<Record<string, string>> = { t: '\t', b: '\b', f: '\f' };

/** Returns the bytes of an escape. Empty for a line end. */
function decode(token: string): string {
  const rest = token.replace(/^\\+/, '');
  // After repeated escaping only the last digits count.
  if (/^%.*u/i.test(token)) return pointBytes(Number.parseInt(token.slice(-4), 16));
  if (token.startsWith('%')) return unlessBreak(Number.parseInt(token.slice(-2), 16));
  if (token.startsWith('&')) return decodeEntity(token.slice(1).replace(';', '').toLowerCase());
  if (rest.length === token.length || /^[nr]?$|[\r\n\\]/i.test(rest)) return '';
  if (rest.length === 1) return CONTROLS[rest] ?? rest;
  const code = Number.parseInt(rest.replace(/^.\{?/, ''), 16);
  return rest.length === 3 ? unlessBreak(code) : pointBytes(code);
}

function decodeEntity(name: string): string {
  const named = ENTITIES[name];
  if (named !== undefined) return named;
  const isHex = name.startsWith('#x');
  const code = Number.parseInt(name.slice(isHex ? 2 : 1), isHex ? 16 : 10);
  return pointBytes(code);
}

/** Returns the bytes of a code point, also of a single surrogate. */
function pointBytes(code: number): string {
  if (code < 0x80) return unlessBreak(code);
  if (code < 0x10000) return unitBytes(code);
  return code <= 0x10ffff ? toBytes(String.fromCodePoint(code)) : '\0';
}

/** Line ends and backslashes are not part of a folded form. */
const unlessBreak = (code: number): string =>
  code === 10 || code === 13 || code === 92 ? '' : String.fromCharCode(code);

/** Returns a view of the text after `from`: `read` converts each token, `write` each other character. */
function viewOf(
  text: string,
  from: number,
  token: RegExp,
  read: (token: string) => string,
  write: (char: string) => string,
): TextView {
  const view: TextView = { text: '', starts: [], ends: [], tokens: [] };
  const add = (bytes: string, start: number, end: number) => {
    view.text += bytes;
    for (let at = 0; at < bytes.length; at++) {
      view.starts.push(start);
      view.ends.push(end);
    }
  };
  const literals = (start: number, until: number) => {
    for (let at = start; at < until; ) {
      const end = at + ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
      add(write(text.slice(at, end)), at, end);
      at = end;
    }
  };
  let next = from;
  for (const { 0: match, index } of text.slice(from).matchAll(token)) {
    const [start, end] = [from + index, from + index + match.length];
    literals(next, start);
    add(read(match), start, end);
    view.tokens.push({ start, end });
    next = end;
  }
  literals(next, text.length);
  return view;
}

/** Returns the folded view: escapes decoded, line ends removed, everything as bytes. */
const fold = (text: string, areBytes: boolean): TextView =>
  viewOf(text, 0, TOKEN, decode, (char) => (areBytes || isAscii(char) ? char : toBytes(char)));

/** Separators of a hex dump: `5a 5b`, `5a:5b`, `0x5a, 0x5b`, `\\x5a\\x5b`. */
const BETWEEN = /[\s:,;._|\\x-]+/gi;
/** Matches two bytes in a hex dump of ASCII text. A text without them needs no search for dumps. */
const DUMP = /[2-7][0-9a-f][\s:,;._|\\x-]+0?x?[2-7][0-9a-f]/i;

/** 1 for each character code that occurs in a hex dump, else 0. */
const IN_DUMP = Uint8Array.from({ length: 0x80 }, (_, code) =>
  /[0-9a-f\s:,;._|\\x-]/i.test(String.fromCharCode(code)) ? 1 : 0,
);

/** True if the text has a run of dump characters of this length. It reads few characters. */
function hasDump(text: string, least: number): boolean {
  for (let at = least - 1; at < text.length; at += least) {
    let [start, end] = [at, at];
    // Characters beyond ASCII count as part of the run, because they may be blanks.
    while (start >= 0 && IN_DUMP[text.charCodeAt(start)] !== 0) start--;
    if (start === at) continue;
    while (end < text.length && IN_DUMP[text.charCodeAt(end)] !== 0) end++;
    if (end - start > least) return true;
  }
  return false;
}

const digitsOf = (text: string): string => text.toLowerCase().replace(BETWEEN, '');

/** Returns the position after which the text is only digits and separators. */
function dumpAtEnd(text: string): number {
  let at = text.length;
  while (at > 0 && /[0-9a-f\s:,;._|\\x-]/i.test(text.charAt(at - 1))) at--;
  return at;
}

/** Sorts spans by their start and merges overlapping ones. */
function joined(spans: readonly Span[]): Span[] {
  if (spans.length === 0) return [];
  const list: Span[] = [];
  for (const { start, end } of spans.toSorted((a, b) => a.start - b.start)) {
    const last = list.at(-1);
    if (last && start < last.end) last.end = Math.max(last.end, end);
    else list.push({ start, end });
  }
  return list;
}

function maskFor(forms: readonly string[]): string {
  const isSafe = (mask: string): boolean =>
    forms.every(
      (form) =>
        !form.includes(mask.slice(0, 1)) && !form.includes(mask.slice(-1)) && !mask.includes(form),
    );
  return MASKS.find(isSafe) ?? '\ue000';
}

/** Hash of a few bits of four characters. A form contains no four characters whose bit is not set. */
const four = (a: number, b: number, c: number, d: number): number =>
  (a * 8191 + b * 1021 + c * 131 + d) & 0xffff;

/** Indexes neighbouring characters of the forms, which shows that most escapes cannot be inside of a secret. */
function createNeighbours(forms: Iterable<string>) {
  const [has, firsts, lasts] = [new Uint8Array(256), new Uint8Array(256), new Uint8Array(256)];
  const pairs = new Uint8Array(65_536);
  const fours = new Uint8Array(65_536);
  for (const form of forms) {
    const code = (at: number): number => form.charCodeAt(at);
    firsts[code(0)] = 1;
    lasts[code(form.length - 1)] = 1;
    for (let at = 0; at < form.length; at++) {
      has[code(at)] = 1;
      pairs[(code(at) << 8) | code(at + 1)] = 1;
      fours[four(code(at), code(at + 1), code(at + 2), code(at + 3))] = 1;
    }
  }
  /** Nonzero for each character code after which a secret may continue. */
  const open = Uint8Array.from({ length: 0x80 }, (_, code) => {
    const lower = code | 0x20;
    const isLetter = lower >= 97 && lower <= 122;
    return isLetter || GOES_ON.has(code) ? 1 : (firsts[code] ?? 0) | (has[code] ?? 0);
  });
  /** True for a character that begins no escape or line end. Beyond the text the code is NaN: false. */
  const isOrdinary = (code: number): boolean =>
    code < 0x80 && code !== 10 && code !== 13 && code !== 37 && code !== 38 && code !== 92;
  const areBeside = (before: number, after: number): boolean => pairs[(before << 8) | after] === 1;

  const areApart = (before: number, after: number): boolean =>
    !areBeside(before, after) && isOrdinary(before) && isOrdinary(after);

  /** True if a token for `bytes`, from `start` to `end` of the text, can be inside of a form. */
  function mayJoin(text: string, start: number, end: number, bytes: string): boolean {
    const [before, after] = [text.charCodeAt(start - 1), text.charCodeAt(end)];
    if (bytes !== '') {
      const [first, last] = [bytes.charCodeAt(0), bytes.charCodeAt(bytes.length - 1)];
      const begins = firsts[first] === 1 || areBeside(before, first);
      const ends = lasts[last] === 1 || areBeside(last, after);
      return (begins || (has[first] === 1 && !isOrdinary(before))) && (ends || !isOrdinary(after));
    }
    if (!isOrdinary(before) || !isOrdinary(after)) {
      // At the edges of the text there is no neighbour to check.
      const isEdge = start === 0 || end === text.length;
      const isOut = (code: number): boolean => isOrdinary(code) && has[code] === 0;
      return !isEdge && !isOut(before) && !isOut(after);
    }
    if (!areBeside(before, after)) return false;
    const [first, last] = [text.charCodeAt(start - 2), text.charCodeAt(end + 1)];
    if (!isOrdinary(first) || !isOrdinary(last)) return true;
    return (
      fours[four(first, before, after, last)] === 1 || firsts[before] === 1 || lasts[after] === 1
    );
  }

  return {
    /**
     * True if an escape or a line end of this text could be inside of a secret. The characters beside it
     * nearly always exclude that. The check must be fast, because it runs for every text.
     */
    mayFold(text: string, marks: readonly string[]): boolean {
      for (const mark of marks) {
        const isEnd = isBreak(mark.charCodeAt(0));
        for (let at = text.indexOf(mark); at !== -1; at = text.indexOf(mark, at + 1)) {
          const before = text.charCodeAt(at - 1);
          const after = text.charCodeAt(at + 1);
          if (isEnd) {
            if (areApart(before, after)) continue;
          } else if (mark === '\\') {
            if (WRITTEN_BREAK.has(after)) {
              if (areApart(before, text.charCodeAt(at + 2))) continue;
            } else if (after < 0x80 && has[after] === 0 && !ESCAPING.has(after)) continue;
          }
          let start = at;
          if (isEnd) while (isBreak(text.charCodeAt(start - 1))) start--;
          TOKEN_HERE.lastIndex = start;
          const token = TOKEN_HERE.exec(text)?.[0];
          if (token === undefined) continue;
          const end = start + token.length;
          if (mayJoin(text, start, end, decode(token))) return true;
          at = end - 1;
        }
      }
      return false;
    },
    /** True if a secret may continue after the end of a clean text. True in doubt. */
    mayGoOn(text: string): boolean {
      const last = text.charCodeAt(text.length - 1);
      const isBrace = last === OPEN_BRACE || last === CLOSE_BRACE;
      if (isBrace && endsEscape(text)) return true;
      if (open[last] === 0) return false;
      if (GOES_ON.has(last) || last > 0x7f || firsts[last] === 1) return true;
      // The last letters may belong to an escape.
      const tail = text.slice(-MAX_ESCAPE);
      return (
        isFoldable(tail) ||
        (isHexDigit(last) && ZEROS_AT_END.test(tail)) ||
        areBeside(text.charCodeAt(text.length - 2), last)
      );
    },
  };
}

interface Look {
  spans: Span[];
  /** Position after which more text could complete a secret. */
  open: number;
}

/** A base64 form, extended by the next character, which has its last bits, and by padding. */
interface Widened extends Span {
  /** True if the next text can belong to the form. */
  isOpen: boolean;
}

const MAX_PADDING = 2;

/** Extends a base64 form by the characters that share bits with it. Returns any other form unchanged. */
function widened(tails: ReadonlyMap<string, string>, text: string, { start, end }: Span): Widened {
  const tail = tails.get(text.slice(start, end)) ?? '';
  if (tail === '') return { start, end, isOpen: false };
  if (end === text.length) return { start, end, isOpen: true };
  if (!tail.includes(text.charAt(end))) return { start, end, isOpen: false };
  let until = end + 1;
  const most = until + MAX_PADDING;
  while (until < most && text.charAt(until) === '=') until++;
  return { start, end: until, isOpen: until < most && until === text.length };
}

type Finder = ReturnType<typeof createFinder>;

function createFinder(forms: Forms, areBytes: boolean) {
  const [plain, folded] = [createMatcher(forms.plain), createMatcher(forms.folded)];
  const digits = createMatcher(forms.digits);
  const letters = createLetterMatcher(forms.letters);
  const { mayFold, mayGoOn } = createNeighbours([...forms.plain, ...forms.folded]);
  const lengths = [forms.plain, forms.folded, forms.letters].flatMap((set) =>
    [...set].map(({ length }) => length),
  );
  const reach = 12 * Math.max(...lengths);
  const leastDigits = Math.min(...[...forms.digits].map((form) => form.length));
  const byteText = (text: string): string => (areBytes || isAscii(text) ? text : toBytes(text));

  // A form that the view of letters finds is searched for again only to replace it.
  const isSeen = (form: string): boolean =>
    !form.includes('\\') && letters.isIn(form) && letters.isIn(`\\${form}`);
  const others = (set: ReadonlySet<string>): TextMatcher | undefined => {
    const list = [...set].filter((form) => !isSeen(form));
    return list.length > 0 ? createMatcher(list) : undefined;
  };
  const [bare, bareFolded] = [others(forms.plain), others(forms.folded)];

  const foldedText = (text: string): string => byteText(text).replace(TOKEN, decode);

  function isInFolded(text: string, marks: readonly string[]): boolean {
    const isWritten = hasMark(text);
    if (!isWritten && marks === WRITTEN_MARKS) return false;
    if (bareFolded && mayFold(text, marks) && bareFolded.isIn(foldedText(text))) return true;
    return isWritten && REAL_ESCAPE.test(text) && letters.isIn(foldedText(text));
  }

  const isIn = (text: string, marks = MARKS): boolean =>
    bare?.isIn(text) === true ||
    letters.isIn(text) ||
    isInFolded(text, marks) ||
    (hasDump(text, leastDigits) && DUMP.test(text) && digits.isIn(digitsOf(text)));

  function lookAt(text: string, hasMore: boolean, isFound: boolean): Look {
    const matches: Span[] = [];
    let open = text.length;
    const openFrom = (view: TextView, at: number): void => {
      if (at < view.text.length) open = Math.min(open, view.starts[at] ?? at);
    };
    const scan = (matcher: TextMatcher, view: TextView, isOne?: (span: Span) => boolean): void => {
      const take = (from: number, until: number): boolean => {
        const wide = widened(forms.tails, view.text, { start: from, end: until });
        const start = view.starts[wide.start] ?? wide.start;
        const end = view.ends[wide.end - 1] ?? wide.end;
        if (isOne?.({ start, end }) === false) return false;
        if (wide.isOpen && hasMore) openFrom(view, wide.start);
        const before = matches.at(-1);
        if (before && before.start <= start && start < before.end) {
          before.end = Math.max(before.end, end);
        } else matches.push({ start, end });
        return true;
      };
      if (isFound) matcher.find(view.text, take);
      openFrom(view, view.text.length - matcher.openAt(view.text));
    };
    scan(plain, { ...SAME_POSITIONS, text });
    scan(letters, { ...SAME_POSITIONS, text });
    // A text without two bytes of a dump may still end in the beginning of a dump.
    const from = DUMP.test(text) ? 0 : dumpAtEnd(text);
    const dump = from < text.length ? digitsOf(text.slice(from)) : '';
    if (dump !== '' && (digits.openAt(dump) > 0 || digits.isIn(dump))) {
      const view = viewOf(text, from, BETWEEN, digitsOf, digitsOf);
      scan(digits, view, ({ start, end }) => DUMP.test(text.slice(start, end)));
    }
    let tokens: readonly Span[] = [];
    if (isFoldable(text)) {
      // An unfinished escape may become anything, so the folded view ends before it.
      const rest = hasMore ? unfinishedIn(text) : 0;
      open = Math.min(open, text.length - rest);
      const view = fold(text.slice(0, text.length - rest), areBytes);
      scan(folded, view);
      scan(letters, view);
      ({ tokens } = view);
    }
    const spans = joined(matches);
    return { spans, open: aligned(open, [spans, tokens]) };
  }

  return {
    isIn,
    /** With `hasMore` the text continues, so an escape at its end is not decoded yet. */
    look(text: string, hasMore: boolean): Look {
      if (isIn(text)) return lookAt(text, hasMore, true);
      if (!hasMore) return { spans: [], open: text.length };
      // Most of a long text cannot change with the next text.
      const isLong = text.length > reach + 1000 && !LONG_ESCAPE.test(text);
      const from = isLong ? quietPlace(text, text.length - reach) : 0;
      return { spans: [], open: from + lookAt(text.slice(from), true, false).open };
    },
    mayGoOn,
    /** Works like `mayGoOn`, but allows any separators between letters. */
    mayGoOnSpelt: (text: string): boolean =>
      mayGoOn(text) || letters.openAt(text) > 0 || (hasMark(text) && REAL_ESCAPE.test(text)),
  };
}

const hasMark = (text: string): boolean =>
  text.includes('\\') || text.includes('%') || text.includes('&');

/** Returns the last position up to `place` that cuts no span. */
function aligned(place: number, lists: readonly (readonly Span[])[]): number {
  let at = place;
  for (let before = -1; before !== at; ) {
    before = at;
    for (const list of lists) {
      at = list.findLast(({ start, end }) => start < before && before < end)?.start ?? at;
    }
  }
  return at;
}

/** Maximum length of an escape with some backslashes. */
const MAX_ESCAPE = 64;
/** Maximum length of withheld text. A redactor assumes that no secret spreads over more text. */
const MAX_HELD = 64 * 1024;

function put(text: string, spans: readonly Span[], by: (match: string) => string): string {
  let [result, at] = ['', 0];
  for (const { start, end } of spans) {
    result += text.slice(at, start) + by(text.slice(start, end));
    at = end;
  }
  return result + text.slice(at);
}

/** True if the text ends in the first half of a character, which waits for the second half. */
const isHalf = (text: string): boolean => /[\ud800-\udbff]$/.test(text);
const wholeOf = (text: string): string => (isHalf(text) ? text.slice(0, -1) : text);

function createStream(finder: Finder, mask: string): RedactionStream {
  let pending = '';
  let isInZeros = false;
  const give = (until: number, spans: readonly Span[]): string => {
    const certain = spans.filter(({ end }) => end <= until);
    const masked = put(pending.slice(0, until), certain, () => mask);
    pending = pending.slice(until);
    return masked;
  };
  return {
    push(chunk) {
      const isQuiet = pending === '' && !isHalf(chunk);
      if (isQuiet && !finder.mayGoOnSpelt(chunk) && !finder.isIn(chunk)) return chunk;
      pending += chunk;
      // More leading zeros of an escape change nothing.
      if (isInZeros && pending.length < MAX_HELD && /^0+$/.test(chunk)) return '';
      const { spans, open } = finder.look(wholeOf(pending), true);
      const masked = give(pending.length - open > MAX_HELD ? pending.length : open, spans);
      isInZeros = unfinishedIn(pending) > MAX_ESCAPE;
      return masked;
    },
    end: () => give(pending.length, finder.look(pending, false).spans),
  };
}

/** Returns the last position up to `from` that is certainly not within an escape, or 0. */
function quietPlace(text: string, from: number): number {
  for (let at = from; at > Math.max(MAX_ESCAPE, from - 1000); at--) {
    if (!/[%&\\\ud800-\udbff]/.test(text.slice(at - MAX_ESCAPE, at))) return at;
  }
  return 0;
}

/** Returns the masked text after `from`. A secret that began before it is removed. */
function maskedPart(text: string, from: number, spans: readonly Span[], mask: string): string {
  const until = from + text.length;
  let [output, at] = ['', from];
  for (const { start, end } of spans) {
    if (end <= from || start >= until) continue;
    output += text.slice(at - from, Math.max(start, from) - from) + (start < from ? '' : mask);
    at = Math.min(end, until);
  }
  return output + text.slice(at - from);
}

function createFollower(finder: Finder, mask: string): Follower {
  let pending: string[] = [];
  function give(until: number, spans: readonly Span[]): string[] {
    const results: string[] = [];
    let at = 0;
    for (const text of pending) {
      if (at + text.length > until) break;
      results.push(maskedPart(text, at, spans, mask));
      at += text.length;
    }
    pending = pending.slice(results.length);
    return results;
  }
  const passes = (text: string, isClean = false): boolean =>
    pending.length === 0 &&
    !isHalf(text) &&
    !finder.mayGoOn(text) &&
    (isClean || !finder.isIn(text));
  return {
    passes,
    push(text) {
      if (passes(text)) return [text];
      pending.push(text);
      const whole = pending.join('');
      const { spans, open } = finder.look(wholeOf(whole), true);
      // The certain part ends with the last text whose end is not within a secret.
      let [certain, end] = [0, 0];
      for (const { length } of pending) {
        end += length;
        if (end <= open && aligned(end, [spans]) === end) certain = end;
      }
      const isTooMuch = whole.length - certain > MAX_HELD;
      const isOver = !isHalf(whole) && !finder.mayGoOn(whole);
      return give(isTooMuch || isOver ? whole.length : certain, spans);
    },
    end: () => give(Number.POSITIVE_INFINITY, finder.look(pending.join(''), false).spans),
  };
}

/** Cache of redactors, because a process has few lists of secrets and uses them often. */
const redactorOf = createRecent<string, Redactor>(16);

/**
 * Returns a redactor for these secrets. Secrets shorter than four characters are ignored. With
 * `areBytes` a text has one character per byte, as `latin1` decodes binary output.
 */
export function createRedactor(
  secrets: Iterable<string>,
  { areBytes = false }: { areBytes?: boolean } = {},
): Redactor {
  const list = [...secrets];
  if (list.length === 0) return IDLE;
  // Two different lists never have the same JSON text.
  const key = JSON.stringify([areBytes, list]);
  return (
    redactorOf.get(key) ?? redactorOf.set(key, makeRedactor(formsOf(list, areBytes), areBytes))
  );
}

const IDLE: Redactor = {
  isIdle: true,
  text: (text) => text,
  json: (value) => value,
  stream: () => ({ push: (chunk) => chunk, end: () => '' }),
  follow: () => ({ passes: () => true, push: (text) => [text], end: () => [] }),
  isClean: () => true,
  hasCleanLines: () => true,
  replace: (text) => text,
};

function makeRedactor(forms: Forms, areBytes: boolean): Redactor {
  if (forms.plain.size === 0) return IDLE;
  const all = [...forms.plain, ...forms.folded];
  const mask = areBytes ? toBytes(maskFor(all)) : maskFor(all);
  const finder = createFinder(forms, areBytes);
  const isClean = (value: Json): boolean => {
    if (typeof value === 'string') return !finder.isIn(value);
    if (typeof value === 'number') return !finder.isIn(String(value));
    if (typeof value !== 'object' || value === null) return true;
    if (Array.isArray(value)) return value.every(isClean);
    return Object.entries(value).every(([key, child]) => !finder.isIn(key) && isClean(child));
  };
  const replace = (text: string, by: (match: string) => string): string =>
    finder.isIn(text) ? put(text, finder.look(text, false).spans, by) : text;
  const text = (source: string): string => replace(source, () => mask);
  const walk = (value: Json): Json => {
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number') return isClean(value) ? value : mask;
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map(walk);
    const result: JsonObject = {};
    for (const [key, child] of Object.entries(value)) setOwn(result, text(key), walk(child));
    return result;
  };
  return {
    isIdle: false,
    text,
    // A value without a secret, which is the usual case, is not copied. A masked number becomes a text.
    json: <T extends Json>(value: T): T => (isClean(value) ? value : (walk(value) as T)),
    isClean,
    hasCleanLines: (source) => !finder.isIn(source, WRITTEN_MARKS),
    stream: () => createStream(finder, mask),
    follow: () => createFollower(finder, mask),
    replace,
  };
}
