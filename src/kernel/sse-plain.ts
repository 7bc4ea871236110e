// The short way for what most streams consist of: at most an `event` line, one `data` line, a blank
// line, in this order. Everything else is left to the framing library, which also decides what an
// event is: this file only ever takes what both would read the same.
import type { StreamEvent } from './sink.ts';

/** An `event` line with a value, if any, and the beginning of a `data` line, with its blank. */
const HEADER = /(?:event:(?: |(?! ))([^\n]+)\n)?data: ?/y;
const [LF, BLANK] = [10, 32];
/** How often a text may be searched in vain, as a whole, before its rest is given up. */
const MAX_SEARCHES = 4;

/** A copy. A part of a text is compared slowly, and keeps the whole text alive. */
const ownText = (text: string): string => Buffer.from(text).toString();

/**
 * Delivers plain events and answers where it stopped: at the end of the last one it took. `from` must
 * be where an event begins, and the text without CR. An event longer than `maxEvent` is not taken.
 */
export type ReadPlain = (text: string, from: number) => number;

export function createPlainReader(
  onEvent: (event: StreamEvent) => void,
  maxEvent: number,
): ReadPlain {
  // Most events begin like the one before: then nothing but the data is looked at, and the name is
  // the same string again.
  let header = 'data: ';
  let hasBlank = true;
  let name: string | undefined;

  /** Does an event begin here that can be taken? Its header is remembered. */
  const learn = (text: string, at: number): boolean => {
    HEADER.lastIndex = at;
    const found = HEADER.exec(text);
    if (found === null || (found[1]?.length ?? 0) > maxEvent) return false;
    header = ownText(found[0]);
    hasBlank = header.endsWith(' ');
    name = found[1] && ownText(found[1]);
    return true;
  };

  return (text, from) => {
    let at = from;
    let searchable = MAX_SEARCHES * text.length;
    // The last character is never read beyond: compiled code is thrown away when that happens.
    const last = text.length - 1;
    while (at < last) {
      // Twice as fast as `startsWith`, but it looks further when it does not match.
      const found = text.indexOf(header, at);
      if (found !== at) {
        searchable -= (found < 0 ? text.length : found) - at;
        if (searchable < 0 || !learn(text, at)) break;
      }
      let start = at + header.length;
      // After a blank that belongs to the header, a second one belongs to the data.
      if (!hasBlank && start < last && text.charCodeAt(start) === BLANK) start++;
      const end = text.indexOf('\n', start);
      if (end < 0 || end === last || text.charCodeAt(end + 1) !== LF) break;
      if (end - start > maxEvent) break;
      const data = text.slice(start, end);
      onEvent(name === undefined ? { data } : { event: name, data });
      at = end + 2;
    }
    return at;
  };
}
