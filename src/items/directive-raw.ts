// Where raw elements end. `<when>` may hold `a < b`, a script `<file.md>`, a template anything at all,
// so their text is not markup: it runs to the closing tag.
import { decodeEntities, type Piece } from './directive-entities.ts';
import type { Finder } from './directive-finder.ts';

const MARKS =
  /<(\/(?:when|script|template|example|raw|hook|guard|hooks|guards|process|directive)|when)\s*>/g;
// A `<when>` whose end is missing must not swallow the hooks after it.
const WHEN_BARRIERS = ['/hook', '/guard', '/hooks', '/guards', '/directive', 'when'];

export interface RawText {
  readonly piece: Piece;
  /** Just before the closing tag, or where reading goes on when there is none. */
  readonly end: number;
}

export interface RawReader {
  /** The text of the raw element that was opened just before `from`. */
  read(name: string, from: number, decode: boolean): RawText;
}

export function createRawReader(text: string, start: number, find: Finder): RawReader {
  // INVARIANT: one pass over the file, however many raw elements it holds.
  const marks = new Map<string, number[]>();
  MARKS.lastIndex = start;
  for (let match = MARKS.exec(text); match !== null; match = MARKS.exec(text)) {
    const [name, list] = [match[1] as string, marks.get(match[1] as string)];
    if (list) list.push(match.index);
    else marks.set(name, [match.index]);
  }

  /** The first mark of that name at or after `from`. */
  function next(name: string, from: number): number | undefined {
    const list = marks.get(name) ?? [];
    let [low, high] = [0, list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((list[middle] as number) < from) low = middle + 1;
      else high = middle;
    }
    return list[low];
  }

  function closer(name: string, from: number): number | undefined {
    const end = next(`/${name}`, from);
    if (end === undefined || name !== 'when') return end;
    return WHEN_BARRIERS.some((barrier) => (next(barrier, from) ?? text.length) < end)
      ? undefined
      : end;
  }

  /** Where a raw element that is never closed is taken to end: a condition with its line. */
  function giveUp(name: string, from: number): number {
    const [tag, line] = [find('</', from), name === 'when' ? find('\n', from) : -1];
    return Math.min(tag === -1 ? text.length : tag, line === -1 ? text.length : line);
  }

  const verbatim = (from: number, end: number): Piece => ({
    kind: 'text',
    text: text.slice(from, end),
    at: from,
  });

  return {
    read(name, from, decode) {
      const cdata = /\s*<!\[CDATA\[/y;
      cdata.lastIndex = from;
      if (cdata.test(text)) {
        const close = find(']]>', cdata.lastIndex);
        const end = close === -1 ? undefined : closer(name, close);
        if (end !== undefined) return { piece: verbatim(cdata.lastIndex, close), end };
      }
      const end = closer(name, from);
      const stop = end ?? giveUp(name, from);
      const piece = decode ? decodeEntities(text.slice(from, stop), from) : verbatim(from, stop);
      return { piece, end: stop };
    },
  };
}
