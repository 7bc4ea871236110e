// Takes known secrets out of texts before anybody can read them, in every usual form, also when a
// secret is cut in two by a chunk boundary. INVARIANT: the result does not depend on how a text was
// cut into chunks, and no form of a secret is left in it.
import { type Json, type JsonObject, setOwn } from '../base/index.ts';
import { formsOf } from './redact-forms.ts';
import { createFinderTable, type Finder } from './text-finder.ts';

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
