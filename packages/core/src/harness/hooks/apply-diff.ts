// Applies a unified diff that a model wrote. Models often get line numbers wrong, so a hunk goes where its old
// lines are. The diff is refused unless each hunk fits in exactly one place.
import { fail, type Outcome, ok } from '../../base/index.ts';

/** One hunk of a diff. Messages quote its `head`. */
interface Hunk {
  before: string[];
  after: string[];
  head: string;
}

const MAX_DIFF = 256 * 1024;

function readHunks(diff: string): Outcome<Hunk[]> {
  const hunks: Hunk[] = [];
  for (const line of diff.replaceAll('\r\n', '\n').replace(/\n$/, '').split('\n')) {
    const hunk = hunks.at(-1);
    const [mark, rest] = [line.slice(0, 1), line.slice(1)];
    if (line.startsWith('@@')) hunks.push({ before: [], after: [], head: line });
    else if (!hunk || line.startsWith('\\')) continue;
    else if (mark === '-') hunk.before.push(rest);
    else if (mark === '+') hunk.after.push(rest);
    else if (mark === ' ' || line === '') {
      hunk.before.push(rest);
      hunk.after.push(rest);
    } else
      return fail('invalid_input', `line \`${line.slice(0, 80)}\` is not part of a unified diff`);
  }
  return ok(hunks);
}

function placesOf(lines: readonly string[], block: readonly string[]): number[] {
  const places: number[] = [];
  for (let at = 0; at + block.length <= lines.length; at++) {
    if (block.every((line, index) => lines[at + index] === line)) places.push(at);
  }
  return places;
}

/** Returns the changed text. Fails if a hunk fits nowhere or in two places. */
export function applyDiff(text: string, diff: string): Outcome<string> {
  if (diff.length > MAX_DIFF)
    return fail('invalid_input', 'the diff is longer than 256 KB; propose a smaller change');
  const hunks = readHunks(diff);
  if (!hunks.ok) return hunks;
  let lines = text.split('\n');
  for (const { before, after, head } of hunks.output) {
    const places = placesOf(lines, before);
    const [at] = places;
    if (at === undefined || before.length === 0 || places.length > 1) {
      const why = places.length > 1 ? 'fits in more than one place' : 'does not fit anywhere';
      return fail('invalid_input', `the hunk \`${head.slice(0, 80)}\` ${why}`);
    }
    lines = [...lines.slice(0, at), ...after, ...lines.slice(at + before.length)];
  }
  return ok(lines.join('\n'));
}
