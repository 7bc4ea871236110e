// What a text says as a whole. INVARIANT: wholes only: the text, a line, what stands in quotes, a word that
// is written like a name; a piece of something that was said is nothing that was said.

const BEFORE_QUOTE = String.raw`(?<=^|[\s([{<>,:;=])`;
const AFTER_QUOTE = String.raw`(?=$|[\s)\]}<>.,:;!?])`;
const QUOTED = new RegExp(
  ['`([^`\\n]+)`', '"([^"\\n]+)"', "'([^'\\n]+)'", '“([^”\\n]+)”', '‘([^’\\n]+)’', '«([^»\\n]+)»']
    .map((quoted) => `${BEFORE_QUOTE}${quoted}${AFTER_QUOTE}`)
    .join('|'),
  'gmu',
);
/**
 * A word that is written like the name of something: a path, an address, an id. Other words are in every
 * text, and a number is one of something, of what is not known.
 */
const IS_NAME = /[/@:_#~\d]|.\../u;
const IS_NUMBER = /^[\d.,:/-]*$/;
/** It is one of something, of what is not known. */
export const isNumber = (text: string): boolean => IS_NUMBER.test(text.trim());
const PAIRS: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}', '<': '>' };
const MARKS_AT_END = /[.,:;!?…]+$/u;

/** A word without the brackets around it and the marks of a sentence behind it. */
function bareWord(written: string): string {
  for (let word = written; ; ) {
    const closing = PAIRS[word[0] ?? ''];
    const opening = Object.keys(PAIRS).find((one) => PAIRS[one] === word.at(-1));
    let next = word.replace(MARKS_AT_END, '');
    if (closing !== undefined && word.endsWith(closing)) next = word.slice(1, -1);
    else if (closing !== undefined && !word.includes(closing)) next = word.slice(1);
    else if (opening !== undefined && !word.includes(opening)) next = word.slice(0, -1);
    if (next === word) return word;
    word = next;
  }
}

/** What somebody who writes this has said as a whole; `words`: single ones too. */
export function saidIn(text: string, words: boolean): ReadonlySet<string> {
  const said = new Set([text, text.trim()]);
  for (const line of text.split(/\r?\n/)) said.add(line.trim());
  // What stands in quotes is said as one: its words are not.
  const rest = text.replace(QUOTED, (_, ...groups: unknown[]) => {
    const inside = groups.find((one) => typeof one === 'string' && one !== '');
    if (typeof inside === 'string' && inside.trim() === inside) said.add(inside);
    return ' ';
  });
  for (const word of words ? rest.split(/\s+/u) : []) {
    const bare = bareWord(word);
    if (IS_NAME.test(bare) && !IS_NUMBER.test(bare)) said.add(bare);
  }
  said.delete('');
  return said;
}
