// Edits the line of a chat: several rows, a history, completion, and pastes. A long paste is one character of the text,
// so that it is shown as a label and sent as an attachment, unless the person takes it for their own words.
import type { Key } from 'node:readline';
import type { Attachment } from '@kernmantle/core/harness';
import type { Cursor } from '../terminal/screen.ts';
import { visible } from '../terminal/terminal.ts';
import { widthOf } from '../threads/status-text.ts';

const [MAX_ROWS, MAX_CHARACTERS, MAX_PASTE] = [3, 400, 1_000_000];
/** The first of the characters that stand for pastes. They are of the private use area, and no key types them. */
const FIRST_PASTE = 0xe000;
const RESERVED = /[\ue000-\uf8ff]/g;
const graphemes = new Intl.Segmenter();
const split = (text: string): string[] =>
  Array.from(graphemes.segment(text), ({ segment }) => segment);

interface Paste {
  readonly text: string;
  isOwn: boolean;
}

/** Candidates for the word before the cursor, and the start of this word. */
export interface Completion {
  readonly from: number;
  readonly candidates: readonly string[];
}

interface EditorPorts {
  readonly history: readonly string[];
  complete(before: string): Completion | undefined;
}

/** A line that the person sends: the text for the model, the text for the history, and the pastes. */
interface TypedLine {
  readonly text: string;
  readonly attach: readonly Attachment[];
}

const rowsIn = (text: string): number => text.replace(/\n$/, '').split('\n').length;

export function createEditor({ history, complete }: EditorPorts) {
  let line: string[] = [];
  let at = 0;
  /** Position in the history, counted from its end. 0 is the line that is typed now. */
  let back = 0;
  let draft: string[] = [];
  let hint = '';
  const pastes: Paste[] = [];

  const pasteOf = (character: string): Paste | undefined =>
    pastes[character.charCodeAt(0) - FIRST_PASTE];
  const insert = (text: string): void => {
    const more = split(text);
    line.splice(at, 0, ...more);
    at += more.length;
  };
  const remove = (from: number, to: number): void => {
    line.splice(from, to - from);
    at = from;
  };
  const rowStart = (): number => line.lastIndexOf('\n', at - 1) + (at === 0 ? 0 : 1);
  const rowEnd = (): number => {
    const end = line.indexOf('\n', at);
    return end === -1 ? line.length : end;
  };
  function wordStart(): number {
    let from = at;
    while (from > 0 && /\s/.test(line[from - 1] ?? '')) from -= 1;
    while (from > 0 && !/\s/.test(line[from - 1] ?? '')) from -= 1;
    return from;
  }
  function wordEnd(): number {
    let to = at;
    while (to < line.length && /\s/.test(line[to] ?? '')) to += 1;
    while (to < line.length && !/\s/.test(line[to] ?? '')) to += 1;
    return to;
  }
  function replace(text: readonly string[]): void {
    line = [...text];
    at = line.length;
  }
  /** Moves by one row, or at the first and last row through the history. */
  function moveRow(by: -1 | 1): void {
    const column = at - rowStart();
    if (by < 0 && rowStart() > 0) {
      at = rowStart() - 1;
      at = Math.min(rowStart() + column, at);
    } else if (by > 0 && rowEnd() < line.length) {
      at = rowEnd() + 1;
      at = Math.min(at + column, rowEnd());
    } else if (back - by >= 0 && back - by <= history.length) {
      if (back === 0) draft = line;
      back -= by;
      replace(back === 0 ? draft : split(history.at(-back) ?? ''));
    }
  }
  function tab(): void {
    const found = complete(line.slice(0, at).join(''));
    const [first = '', ...more] = found?.candidates ?? [];
    if (!found || first === '') return;
    const shared = more.reduce((prefix, one) => {
      let length = 0;
      while (length < prefix.length && prefix[length] === one[length]) length += 1;
      return prefix.slice(0, length);
    }, first);
    const typed = line.slice(found.from, at).join('');
    const whole = more.length === 0 && !first.endsWith('/') ? `${first} ` : shared;
    if (whole.length > typed.length) {
      remove(found.from, at);
      insert(whole);
    } else if (more.length > 0) hint = [first, ...more].slice(0, 12).join('  ');
  }
  const MOVES: Readonly<Record<string, () => void>> = {
    left: () => void (at = Math.max(0, at - 1)),
    right: () => void (at = Math.min(line.length, at + 1)),
    home: () => void (at = rowStart()),
    end: () => void (at = rowEnd()),
    up: () => moveRow(-1),
    down: () => moveRow(1),
    backspace: () => remove(Math.max(0, at - 1), at),
    delete: () => void line.splice(at, 1),
    tab,
    enter: () => insert('\n'),
    'ctrl-a': () => void (at = rowStart()),
    'ctrl-e': () => void (at = rowEnd()),
    'ctrl-b': () => void (at = Math.max(0, at - 1)),
    'ctrl-f': () => void (at = Math.min(line.length, at + 1)),
    'ctrl-p': () => moveRow(-1),
    'ctrl-n': () => moveRow(1),
    'ctrl-d': () => void line.splice(at, 1),
    'ctrl-h': () => remove(Math.max(0, at - 1), at),
    'ctrl-k': () => void line.splice(at, rowEnd() - at),
    'ctrl-u': () => remove(rowStart(), at),
    'ctrl-w': () => remove(wordStart(), at),
    'meta-backspace': () => remove(wordStart(), at),
    'meta-b': () => void (at = wordStart()),
    'meta-f': () => void (at = wordEnd()),
    'ctrl-left': () => void (at = wordStart()),
    'ctrl-right': () => void (at = wordEnd()),
    'meta-return': () => insert('\n'),
  };

  function clear(): void {
    [line, at, back, hint] = [[], 0, 0, ''];
    pastes.length = 0;
  }
  const labelOf = ({ text, isOwn }: Paste): string =>
    `[pasted ${rowsIn(text)} ${rowsIn(text) === 1 ? 'line' : 'lines'}${isOwn ? ', own words' : ''}]`;

  return {
    isEmpty: () => line.length === 0,
    clear,
    /** Applies a key. Returns true if the key sends the line. */
    key(text: string | undefined, { name = '', ctrl, meta }: Key): boolean {
      hint = '';
      const id = `${ctrl ? 'ctrl-' : ''}${meta ? 'meta-' : ''}${name}`;
      const move = Object.hasOwn(MOVES, id) ? MOVES[id] : undefined;
      if (id === 'return') {
        if (line[at - 1] !== '\\') return true;
        remove(at - 1, at);
        insert('\n');
      } else if (move) move();
      else if (text !== undefined && !ctrl && !meta && text >= ' ' && text !== '\u007f')
        insert(text.replace(RESERVED, ''));
      return false;
    },
    /** Inserts a paste. A long one becomes a label. Returns false if it is too long for a line. */
    paste(raw: string): boolean {
      const text = raw.replace(/\r\n?/g, '\n').replace(RESERVED, '');
      if (text.length > MAX_PASTE) return false;
      if (rowsIn(text) > MAX_ROWS || text.length > MAX_CHARACTERS) {
        insert(String.fromCharCode(FIRST_PASTE + pastes.push({ text, isOwn: false }) - 1));
      } else insert(text);
      return true;
    },
    /** Makes the newest paste of the line the person's own words. Returns false if there is none. */
    own(): boolean {
      const newest = line.findLast((one) => pasteOf(one) !== undefined);
      const paste = newest === undefined ? undefined : pasteOf(newest);
      if (paste) paste.isOwn = true;
      return paste !== undefined;
    },
    text: () => line.join(''),
    /** Replaces the text after `own` was typed. */
    replace: (text: string) => replace(split(text)),
    /** Returns the line with its pastes: own ones as text, the others as attachments. */
    take(): TypedLine {
      const attach: Attachment[] = [];
      const words = line.map((one) => {
        const paste = pasteOf(one);
        if (!paste) return one;
        if (paste.isOwn) return paste.text;
        const name = `pasted-${attach.length + 1}.txt`;
        attach.push({ data: Buffer.from(paste.text), mime: 'text/plain', name, paste: true });
        return `[pasted ${rowsIn(paste.text)} lines: ${name}]`;
      });
      clear();
      return { text: words.join(''), attach };
    },
    /** Returns the rows of the line and the position of the cursor, at most `height` rows around it. */
    view(columns: number, height: number): { rows: string[]; cursor: Cursor; hint: string } {
      const room = Math.max(4, columns - 3);
      const rows: string[] = [''];
      let [width, cursor]: [number, Cursor] = [0, { row: 0, column: 0 }];
      for (const [index, one] of [...line, ''].entries()) {
        const paste = pasteOf(one);
        const text = paste ? labelOf(paste) : one === '\t' ? '  ' : visible(one);
        const cells = one === '\n' ? 0 : widthOf(text);
        if (width + cells > room) {
          rows.push('');
          width = 0;
        }
        if (index === at) cursor = { row: rows.length - 1, column: width };
        if (one === '\n') {
          rows.push('');
          width = 0;
        } else {
          rows[rows.length - 1] += text;
          width += cells;
        }
      }
      const from = Math.max(0, Math.min(cursor.row - height + 1, rows.length - height));
      const part = rows.slice(from, from + height);
      return { rows: part, cursor: { ...cursor, row: cursor.row - from }, hint };
    },
  };
}
