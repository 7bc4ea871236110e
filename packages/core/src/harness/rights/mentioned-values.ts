// Finds the values that a text mentions as a whole. A whole is the text, a line, a quoted text, or a word that is
// written like a name. INVARIANT: a part of a whole never counts as mentioned.

const CLOSING_QUOTES: Readonly<Record<string, string>> = {
  '`': '`',
  '"': '"',
  "'": "'",
  '“': '”',
  '‘': '’',
  '«': '»',
};
const ANY_QUOTE = /[`"'“‘«]/g;
const BEFORE_QUOTE = /[\s([{<>,:;=]/;
const AFTER_QUOTE = /[\s)\]}<>.,:;!?]/;
/** A word that is written like a name: a path, an address, an id. A number alone names nothing. */
const IS_NAME = /[/@:_#~\d]|.\../u;
const IS_NUMBER = /^[\d.,:/-]*$/;
export const isNumber = (text: string): boolean => IS_NUMBER.test(text.trim());
const PAIRS: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}', '<': '>' };
const OPENING: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{', '>': '<' };
const MARKS_AT_END = '.,:;!?…';

/** Returns a word without brackets and final punctuation, in one pass, because it can be as long as the text. */
function bareWord(word: string): string {
  let [start, end] = [0, word.length];
  const counts = new Map<string, number>();
  const count = (sign: string, by: number) => counts.set(sign, (counts.get(sign) ?? 0) + by);
  for (const [bracket] of word.matchAll(/[()[\]{}<>]/g)) count(bracket, 1);
  const has = (sign: string): boolean => (counts.get(sign) ?? 0) > 0;
  while (start < end) {
    const [first, last] = [word.charAt(start), word.charAt(end - 1)];
    const [closing, opening] = [PAIRS[first], OPENING[last]];
    const isPair = closing !== undefined && last === closing;
    const isOpen = closing !== undefined && !has(closing);
    if (isPair || isOpen) {
      start += 1;
      count(first, -1);
    }
    if (isPair || (!isOpen && opening !== undefined && !has(opening))) {
      end -= 1;
      count(last, -1);
    } else if (!isOpen) {
      if (!MARKS_AT_END.includes(last)) break;
      end -= 1;
    }
  }
  return word.slice(start, end);
}

/** Calls `onQuoted` for each quoted text, and returns the text with a blank in place of each. */
function withoutQuoted(text: string, onQuoted: (inside: string) => void): string {
  const next = new Map<string, number>();
  /** Returns the next position of a sign. `at` only grows, so each position is visited once. */
  const nextOf = (sign: string, at: number): number => {
    const cached = next.get(sign) ?? -1;
    if (cached >= at) return cached;
    const place = text.indexOf(sign, at);
    next.set(sign, place === -1 ? text.length : place);
    return place === -1 ? text.length : place;
  };
  let [rest, copied] = ['', 0];
  for (const { 0: quote, index } of text.matchAll(ANY_QUOTE)) {
    if (index < copied || (index > 0 && !BEFORE_QUOTE.test(text.charAt(index - 1)))) continue;
    const end = nextOf(CLOSING_QUOTES[quote] ?? quote, index + 1);
    const isWhole = end > index + 1 && end < text.length && nextOf('\n', index + 1) > end;
    if (!isWhole || (end + 1 < text.length && !AFTER_QUOTE.test(text.charAt(end + 1)))) continue;
    onQuoted(text.slice(index + 1, end));
    rest += `${text.slice(copied, index)} `;
    copied = end + 1;
  }
  return rest + text.slice(copied);
}

/** Returns everything that the text mentions as a whole, with single words if `words`. Takes linear time. */
export function saidIn(text: string, words: boolean): ReadonlySet<string> {
  const mentioned = new Set([text, text.trim()]);
  for (const line of text.split(/\r?\n/)) mentioned.add(line.trim());
  // A quoted text is one value. Its words are not.
  const rest = withoutQuoted(text, (inside) => {
    if (inside.trim() === inside) mentioned.add(inside);
  });
  for (const word of words ? rest.split(/\s+/u) : []) {
    const bare = bareWord(word);
    if (IS_NAME.test(bare) && !IS_NUMBER.test(bare)) mentioned.add(bare);
  }
  mentioned.delete('');
  return mentioned;
}
