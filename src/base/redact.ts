import { setOwn } from './json.ts';
import type { Json, JsonObject } from './outcome.ts';

// The forms in which a text may carry a secret. What is cut out of base64 is the part that depends on
// the secret alone: at three alignments, because nobody knows how many bytes came before it.

/** Shorter values are in every text and hide nothing. */
const MIN_LENGTH = 4;
/** Long values are looked for in pieces; each is recognisable by itself. */
const PIECE = 256;
/** A line of a longer value (a key in PEM form) counts on its own from this length on. */
const MIN_LINE = 12;

export interface Forms {
  /** Found as they are. */
  plain: Set<string>;
  /** Base64 and hex: programs break them into lines, so line ends inside them are passed over. */
  wrapped: Set<string>;
}

function base64Core(bytes: Buffer, before: number): string {
  const padded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
  return padded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
}

const toUrl = (text: string): string => text.replaceAll('+', '-').replaceAll('/', '_');

/** A lone surrogate has no place in a URL: it is written as what UTF-8 makes of it. */
const percent = (text: string): string => encodeURIComponent(Buffer.from(text).toString());
const percentAll = (bytes: Buffer): string => bytes.toString('hex').replace(/../g, '%$&');
const lowerEscapes = (text: string): string =>
  text.replace(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase());

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);
const inAscii = (text: string): string =>
  inJson(text).replace(
    /[^ -~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
const inHtml = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');

function plainForms(text: string, bytes: Buffer): string[] {
  const [url, all] = [percent(text), percentAll(bytes)];
  const urls = [url, url.replaceAll('%20', '+'), encodeURI(Buffer.from(text).toString()), all];
  const json = [inJson(text), inAscii(text), inJson(text).replaceAll('/', '\\/')];
  return [
    text,
    ...urls,
    ...urls.map(lowerEscapes),
    all.toUpperCase(),
    ...json,
    ...json.map(inJson),
    inHtml(text),
    inHtml(text).replaceAll("'", '&#39;'),
    inHtml(text).replaceAll("'", '&#x27;'),
  ];
}

function wrappedForms(bytes: Buffer): string[] {
  const cores = [0, 1, 2].map((before) => base64Core(bytes, before));
  const hex = bytes.toString('hex');
  return [...cores, ...cores.map(toUrl), hex, hex.toUpperCase()];
}

function* piecesOf(secret: string): Generator<string> {
  const lines = secret.split(/\r?\n/);
  if (lines.length > 1) {
    for (const line of lines) if (line.trim().length >= MIN_LINE) yield* piecesOf(line.trim());
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

/** Every form of every secret that is long enough to be told from ordinary text. */
export function formsOf(secrets: Iterable<string>): Forms {
  const forms: Forms = { plain: new Set(), wrapped: new Set() };
  for (const secret of secrets) {
    for (const piece of new Set([...piecesOf(secret), ...piecesOf(secret.trim())])) {
      if (piece.length < MIN_LENGTH) continue;
      const bytes = Buffer.from(piece);
      for (const form of plainForms(piece, bytes)) forms.plain.add(form);
      for (const form of wrappedForms(bytes)) {
        if (form.length >= MIN_LENGTH) forms.wrapped.add(form);
      }
    }
  }
  return forms;
}

// Finds any of many texts in one pass (Aho and Corasick): each character is one step in a table, so
// the time is linear in the text however many patterns there are and however they overlap. The state
// survives from one chunk to the next.

export interface Finder {
  /**
   * Goes on with the next character, which stands at `offset`. When a pattern ends here: where the
   * longest such pattern began.
   */
  step(code: number, offset: number): number | undefined;
  /** Where the pattern that may be going on now began; undefined when there is none. */
  openAt(): number | undefined;
}

/** A table that any number of finders walk. */
export interface FinderTable {
  /** Does the text hold any pattern? Much faster than finding out where. */
  isIn(text: string): boolean;
  start(): Finder;
}

export interface FinderOptions {
  /** Patterns may be broken into lines. */
  skipsLineEnds: boolean;
}

/** Characters that occur in no pattern are class 0 and lead back to the start. */
function classesOf(patterns: readonly string[]): { classes: Uint16Array; count: number } {
  const classes = new Uint16Array(65_536);
  let count = 1;
  for (const pattern of patterns) {
    for (let index = 0; index < pattern.length; index++) {
      const code = pattern.charCodeAt(index);
      if (classes[code] === 0) classes[code] = count++;
    }
  }
  return { classes, count };
}

interface Table {
  next: Int32Array;
  depth: Uint16Array;
  /** Length of the longest pattern that ends in a state, 0 for none. */
  match: Uint16Array;
  classes: Uint16Array;
  width: number;
}

function buildTable(patterns: readonly string[]): Table {
  const { classes, count: width } = classesOf(patterns);
  const states = patterns.reduce((sum, pattern) => sum + pattern.length, 1);
  const [depth, match] = [new Uint16Array(states), new Uint16Array(states)];
  let [next, used] = [new Int32Array(states * width), 1];
  for (const pattern of patterns) {
    let state = 0;
    for (let index = 0; index < pattern.length; index++) {
      const slot = state * width + (classes[pattern.charCodeAt(index)] ?? 0);
      if (next[slot] === 0) {
        depth[used] = index + 1;
        next[slot] = used++;
      }
      state = next[slot] ?? 0;
    }
    match[state] = pattern.length;
  }
  next = next.slice(0, used * width);
  linkBack(next, match, used, width);
  return { next, depth, match, classes, width };
}

/** Fills in where to go on when a pattern does not: breadth first, so shorter suffixes are ready. */
function linkBack(next: Int32Array, match: Uint16Array, used: number, width: number): void {
  const fallback = new Int32Array(used);
  const queue: number[] = [];
  for (let kind = 0; kind < width; kind++) {
    const state = next[kind] ?? 0;
    if (state !== 0) queue.push(state);
  }
  for (const state of queue) {
    const back = fallback[state] ?? 0;
    if (match[state] === 0) match[state] = match[back] ?? 0;
    for (let kind = 0; kind < width; kind++) {
      const slot = state * width + kind;
      const child = next[slot] ?? 0;
      const other = next[back * width + kind] ?? 0;
      if (child === 0) next[slot] = other;
      else {
        fallback[child] = other;
        queue.push(child);
      }
    }
  }
}

const [LINE_FEED, RETURN] = [10, 13];
/** More line ends in a row are no broken line; without a bound a stream of them would be held back. */
const MAX_SKIPPED = 4;

/** The next power of two: where something stands in a ring is then found without dividing. */
const ringSize = (least: number): number => 2 ** Math.ceil(Math.log2(least + 1));

export function createFinderTable(
  patterns: Iterable<string>,
  { skipsLineEnds }: FinderOptions,
): FinderTable {
  const list = [...patterns].filter((pattern) => pattern.length > 0);
  const { next, depth, match, classes, width } = buildTable(list);
  const ring = ringSize(list.reduce((most, pattern) => Math.max(most, pattern.length), 1));

  function isIn(text: string): boolean {
    let [state, skipped] = [0, 0];
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (skipsLineEnds && (code === LINE_FEED || code === RETURN)) {
        skipped += 1;
        if (skipped <= MAX_SKIPPED) continue;
      } else skipped = 0;
      state = next[state * width + (classes[code] as number)] as number;
      if (match[state] !== 0) return true;
    }
    return false;
  }

  function start(): Finder {
    // Where the last characters stood; with line ends passed over, lengths alone do not say.
    const offsets = new Float64Array(ring);
    let [state, seen, skipped] = [0, 0, 0];
    const began = (length: number): number | undefined => offsets[(seen - length) & (ring - 1)];
    return {
      step(code, offset) {
        const isLineEnd = skipsLineEnds && (code === LINE_FEED || code === RETURN);
        skipped = isLineEnd ? skipped + 1 : 0;
        if (isLineEnd && skipped <= MAX_SKIPPED) return undefined;
        offsets[seen & (ring - 1)] = offset;
        seen += 1;
        state = next[state * width + (classes[code] as number)] as number;
        const length = match[state] as number;
        return length === 0 ? undefined : began(length);
      },
      openAt() {
        const open = depth[state] ?? 0;
        return open === 0 ? undefined : began(open);
      },
    };
  }
  return { isIn, start };
}

// Takes known secrets out of texts before anybody can read them, in every usual form, also when a
// secret is cut in two by a chunk boundary. INVARIANT: the result does not depend on how a text was
// cut into chunks, and no form of a secret is left in it.

export interface RedactionStream {
  /** What is certain by now; what may be the beginning of a secret is held back. */
  push(chunk: string): string;
  end(): string;
}

export interface Redactor {
  /** True when there is nothing to hide. */
  readonly isIdle: boolean;
  text(text: string): string;
  /** Every text in a value, keys and numbers included. */
  json(value: Json): Json;
  stream(): RedactionStream;
  /** Is there surely nothing to hide in it, keys and numbers included? */
  isClean(value: Json): boolean;
  /** As `text`, with something else in each place; `found` is what stood there. */
  replace(text: string, put: (found: string) => string): string;
}

/** The first whose ends occur in no form, so that no secret can come together around it. */
const MASKS = ['[secret]', '<hidden>', '***', '\u2588\u2588\u2588', '\ue000'];

function maskFor(forms: readonly string[]): string {
  const isSafe = (mask: string): boolean =>
    forms.every(
      (form) =>
        !form.includes(mask.slice(0, 1)) && !form.includes(mask.slice(-1)) && !mask.includes(form),
    );
  return MASKS.find(isSafe) ?? '\ue000';
}

interface Span {
  start: number;
  end: number;
}

/** Spans come in the order of their ends; one that reaches back swallows those before it. */
function addSpan(spans: Span[], span: Span): void {
  let { start } = span;
  for (let last = spans.at(-1); last && last.end > start; last = spans.at(-1)) {
    start = Math.min(start, last.start);
    spans.pop();
  }
  spans.push({ start, end: span.end });
}

/** Replaces in a text that arrives in chunks. */
function createReplacement(finders: readonly Finder[], put: (found: string) => string) {
  const spans: Span[] = [];
  /** What was not given out yet, and the offset at which it begins. */
  let [held, base] = ['', 0];

  function give(until: number): string {
    let [result, at] = ['', base];
    let count = 0;
    for (const { start, end } of spans) {
      if (end > until) break;
      count += 1;
      result += held.slice(at - base, start - base) + put(held.slice(start - base, end - base));
      at = end;
    }
    spans.splice(0, count);
    // A span that is not over yet keeps its beginning back.
    const stop = Math.max(at, Math.min(until, spans[0]?.start ?? until));
    result += held.slice(at - base, stop - base);
    held = held.slice(stop - base);
    base = stop;
    return result;
  }

  return {
    push(chunk: string): string {
      const offset = base + held.length;
      held += chunk;
      for (let index = 0; index < chunk.length; index++) {
        const code = chunk.charCodeAt(index);
        for (const finder of finders) {
          const start = finder.step(code, offset + index);
          if (start !== undefined) addSpan(spans, { start, end: offset + index + 1 });
        }
      }
      const open = finders.map((finder) => finder.openAt() ?? Number.POSITIVE_INFINITY);
      return give(Math.min(base + held.length, ...open));
    },
    end: (): string => give(base + held.length),
  };
}

/** `secrets` shorter than four characters are left alone: they are in every text. */
export function createRedactor(secrets: Iterable<string>): Redactor {
  const forms = formsOf(secrets);
  const isIdle = forms.plain.size === 0;
  const mask = isIdle ? '' : maskFor([...forms.plain, ...forms.wrapped]);
  const tables = isIdle
    ? []
    : [
        createFinderTable(forms.plain, { skipsLineEnds: false }),
        createFinderTable(forms.wrapped, { skipsLineEnds: true }),
      ];
  const start = (put: (found: string) => string) =>
    createReplacement(
      tables.map((table) => table.start()),
      put,
    );
  const hide = () => mask;

  const isIn = (text: string): boolean => {
    for (const table of tables) if (table.isIn(text)) return true;
    return false;
  };
  const isClean = (value: Json): boolean => {
    if (isIdle) return true;
    if (typeof value === 'string') return !isIn(value);
    if (typeof value === 'number') return !isIn(String(value));
    if (typeof value !== 'object' || value === null) return true;
    if (Array.isArray(value)) return value.every(isClean);
    for (const key of Object.keys(value)) {
      if (isIn(key) || !isClean(value[key] as Json)) return false;
    }
    return true;
  };
  const replace = (text: string, put: (found: string) => string): string => {
    if (!isIn(text)) return text;
    const replacement = start(put);
    return replacement.push(text) + replacement.end();
  };
  const text = (given: string): string => replace(given, hide);
  const json = (value: Json): Json => {
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number') {
      const shown = String(value);
      return text(shown) === shown ? value : mask;
    }
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map(json);
    const result: JsonObject = {};
    for (const [key, child] of Object.entries(value)) setOwn(result, text(key), json(child));
    return result;
  };
  return {
    isIdle,
    text,
    // Mostly there is nothing: then nothing is copied.
    json: (value) => (isClean(value) ? value : json(value)),
    isClean,
    stream: () => (isIdle ? { push: (chunk) => chunk, end: () => '' } : start(hide)),
    replace,
  };
}
