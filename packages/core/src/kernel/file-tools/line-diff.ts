// Computes the difference between two texts as a unified diff for people. Texts that differ in too many
// lines have no diff.
import { masked } from '../../base/index.ts';

const [CONTEXT, MAX_EDITS, MAX_SHOWN, MAX_WIDTH] = [3, 1000, 200, 500];
const NO_NEWLINE = '\n\\ No newline at end of file';

/** A last line without its line end differs from the same line with it. */
function linesOf(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  const last = lines.pop() ?? '';
  return last === '' ? lines : [...lines, `${last}${NO_NEWLINE}`];
}

interface Edit {
  readonly sign: ' ' | '-' | '+';
  readonly line: string;
}

/** Returns the fewest deletions and insertions (Myers), or undefined if there are more than `MAX_EDITS`. */
function shortestEdit(a: readonly string[], b: readonly string[]): Edit[] | undefined {
  const trace: Int32Array[] = [];
  const most = Math.min(a.length + b.length, MAX_EDITS);
  const furthest = new Int32Array(2 * most + 3);
  const isDown = (v: Int32Array, k: number, d: number): boolean =>
    k === -d || (k !== d && (v[most + k] ?? 0) < (v[most + k + 2] ?? 0));
  for (let d = 0; d <= most; d++) {
    trace.push(furthest.slice());
    for (let k = -d; k <= d; k += 2) {
      let x = isDown(furthest, k, d)
        ? (furthest[most + k + 2] ?? 0)
        : (furthest[most + k] ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest[most + k + 1] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trace, most, isDown);
    }
  }
  return undefined;
}

function walkBack(
  a: readonly string[],
  b: readonly string[],
  trace: readonly Int32Array[],
  most: number,
  isDown: (v: Int32Array, k: number, d: number) => boolean,
): Edit[] {
  const edits: Edit[] = [];
  let [x, y] = [a.length, b.length];
  for (let d = trace.length - 1; d >= 0; d--) {
    const v = trace[d] ?? new Int32Array(0);
    const k = x - y;
    const before = isDown(v, k, d) ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : (v[most + before + 1] ?? 0);
    const fromY = d === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) edits.push({ sign: ' ', line: a[(y--, --x)] ?? '' });
    if (d === 0) break;
    if (x === fromX) edits.push({ sign: '+', line: b[--y] ?? '' });
    else edits.push({ sign: '-', line: a[--x] ?? '' });
  }
  return edits.toReversed();
}

/** Shows control characters and marks that change the direction of writing as visible text. */
const plain = (line: string): string =>
  line
    .slice(0, MAX_WIDTH)
    .replace(/(?!\n\\ No)[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, (char) =>
      char === '\t' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ) + (line.length > MAX_WIDTH ? ' …' : '');

/** Returns ranges of neighbouring edits, with the lines around them. */
function hunksOf(edits: readonly Edit[]): [number, number][] {
  const hunks: [number, number][] = [];
  for (const [at, { sign }] of edits.entries()) {
    if (sign === ' ') continue;
    const [from, to] = [Math.max(0, at - CONTEXT), Math.min(edits.length, at + CONTEXT + 1)];
    const last = hunks.at(-1);
    if (last && from <= last[1]) last[1] = to;
    else hunks.push([from, to]);
  }
  return hunks;
}

const countOf = (edits: readonly Edit[], sign: Edit['sign']): number =>
  edits.filter((edit) => edit.sign !== sign).length;

interface LineDiff {
  /** Number of lines of the old text. */
  readonly from: number;
  readonly to: number;
  /** Number of added lines. Absent: the texts differ in too many lines. */
  readonly added?: number;
  readonly removed?: number;
  /** The diff, at most 200 lines, with known secrets masked. */
  readonly diff?: string;
}

export function lineDiff(before: string, after: string): LineDiff {
  const [a, b] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  const most = Math.min(a.length, b.length) - start;
  while (end < most && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const sizes = { from: a.length, to: b.length };
  const edits = shortestEdit(a.slice(start, a.length - end), b.slice(start, b.length - end));
  if (!edits) return sizes;
  const skipped = Math.max(0, start - CONTEXT);
  const around = (lines: string[]): Edit[] => lines.map((line) => ({ sign: ' ', line }));
  const near = [
    ...around(a.slice(skipped, start)),
    ...edits,
    ...around(a.slice(a.length - end, a.length - end + CONTEXT)),
  ];
  const lines = hunksOf(near).flatMap(([from, to]) => {
    const [ahead, hunk] = [near.slice(0, from), near.slice(from, to)];
    const [left, right] = [countOf(hunk, '+'), countOf(hunk, '-')];
    const oldAt = skipped + countOf(ahead, '+') + (left > 0 ? 1 : 0);
    const newAt = skipped + countOf(ahead, '-') + (right > 0 ? 1 : 0);
    const head = `@@ -${oldAt},${left} +${newAt},${right} @@`;
    return [head, ...hunk.map(({ sign, line }) => `${sign}${plain(line)}`)];
  });
  const more = lines.length - MAX_SHOWN;
  const diffLines =
    more > 0 ? [...lines.slice(0, MAX_SHOWN - 1), `… ${more + 1} more lines`] : lines;
  const added = edits.filter(({ sign }) => sign === '+').length;
  const removed = edits.filter(({ sign }) => sign === '-').length;
  return { ...sizes, added, removed, diff: masked(diffLines.join('\n')) };
}
