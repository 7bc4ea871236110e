// Draws comments and messages to read without the code: `node scripts/house/draw.mjs SEED [--count 40] [FOLDER]`.
// The same seed over the same sources draws the same sentences.
import { parseArgs } from 'node:util';
import { commentsOf, readSources } from './walls.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { count: { type: 'string', default: '40' } },
});
const [seed = '1', folder = 'packages'] = positionals;

/** Returns numbers from 0 to 1 that depend on the seed alone (mulberry32). */
function numbersFrom(start) {
  let state = start >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A quoted text with at least four words behind `fail(`, `message:`, `hint:` or a function that reports. */
const MESSAGE =
  /\b(?:fail|fault|refuse|deny|warn|problem|finding|note|error)\w*\(\s*(?:[^()'"`\n]*,\s*)?(?:'[a-z_]+',\s*)?(['"`])((?:(?!\1)[^\\]|\\.){15,}?)\1|\b(?:message|hint|remedy|text|description|label):\s*(['"`])((?:(?!\3)[^\\]|\\.){15,}?)\3/g;

function messagesOf({ path, text }) {
  return [...text.matchAll(MESSAGE)].flatMap((match) => {
    const words = match[2] ?? match[4];
    const line = text.slice(0, match.index).split('\n').length;
    return words.split(/\s+/).length >= 4 ? [{ path, line, lines: [words] }] : [];
  });
}

const { files } = readSources(process.cwd());
const chosen = files.filter(({ path }) => path.startsWith(folder));
const random = numbersFrom(Number(seed));
for (const { title, all } of [
  {
    title: 'comments',
    all: chosen.flatMap(commentsOf).filter(({ lines }) => lines.length > 0),
  },
  { title: 'messages', all: chosen.flatMap(messagesOf) },
]) {
  console.log(`\n${title}: ${values.count} of ${all.length}, seed ${seed}`);
  for (let left = Number(values.count); left > 0 && all.length > 0; left--) {
    const [{ path, line, lines }] = all.splice(Math.floor(random() * all.length), 1);
    console.log(`\n${path}:${line}\n  ${lines.join('\n  ')}`);
  }
}
