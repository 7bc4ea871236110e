import { EMPTY } from '@kernmantle/core/flow';
import { play } from '@kernmantle/test-support/script-world';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLive, type LiveCount } from './live.ts';

function live(count: LiveCount = { open: 0 }) {
  const shown: string[] = [];
  const whole: string[] = [];
  const output = createLive(
    count,
    (piece) => shown.push(piece),
    (text) => whole.push(text),
  );
  return { ...output, shown, whole };
}

test('the pieces that are shown are the text and one line break, however it is cut', () => {
  const piece = fc.string({ unit: fc.constantFrom('a', ' ', '\n', '\r\n', 'é') });
  fc.assert(
    fc.property(fc.array(piece), fc.boolean(), (pieces, isAlone) => {
      const one = live({ open: isAlone ? 0 : 1 });
      for (const text of pieces) one.push(text);
      const text = pieces.join('').trimEnd();
      expect(one.end(EMPTY)).toBe(text === '' ? undefined : text);
      const shown = one.shown.join('').replaceAll('\r\n', '\n');
      expect(shown).toBe(text === '' ? '' : `${text}\n`.replaceAll('\r\n', '\n'));
      expect(one.whole).toEqual(text === '' ? [] : [text]);
    }),
  );
});

test('a line is shown when it is there, also when its end comes by itself', () => {
  const one = live();
  one.push('one\n');
  one.push('two');
  one.push('\n');
  expect(one.shown).toEqual(['one\n', 'two', '\n']);
});

test('of several at work each shows whole lines', () => {
  const count = { open: 0 };
  const [one, two] = [live(count), live(count)];
  one.push('a');
  two.push('b');
  one.push('1\nc');
  expect([one.shown, two.shown]).toEqual([['a1\n'], []]);
});

/** Returns the pieces that an observer receives in order, and the document. */
async function watched(script: string): Promise<{ seen: string; text: string; fault: string }> {
  const seen: string[] = [];
  const { text, fault } = await play(script, {
    onOutput: (piece) => seen.push(piece),
    onEffect({ kind, text: said, isShown }) {
      if (/^(?:show|run)$/.test(kind) && !isShown) seen.push(`${said}\n`);
    },
  });
  return { seen: seen.join(''), text, fault };
}

test.each([
  ['run {echo a} with { stream: true }', 'a\n'],
  ['run sh { echo a } with { stream: true }', 'a\n'],
  ['run js { console.log("a"); console.log("b") } with { stream: true }', 'a\nb\n'],
  ['exe @f() = sh { echo a }\nrun @f() with { stream: true }\nshow "z"', 'a\nz\n'],
  ['exe @f() = sh { echo a } with { stream: true }\nshow @f()\nrun @f()', 'a\na\n'],
  ['exe @f() = sh { echo {"a": 1} }\nshow @f() with { stream: true }', '{"a": 1}\n'],
  ['exe @f() = llm "hi there"\nshow @f() with { stream: true }', 'model: hi there\n'],
  ['exe @f() = llm "hi there" with { stream: true }\nvar @x = @f()', 'model: hi there\n'],
  ['var @x = run {echo a} with { stream: true }\nshow @x', 'a\na\n'],
  ['exe @f() = js { console.log("a"); return 5 }\nshow @f() with { stream: true }', 'a\n5\n'],
  ['for @x in [1, 2] => run {echo @x} with { stream: true }', '1\n2\n'],
  ['run {echo a} with { stream: true, pipeline: [@upper] }', 'a\nA\n'],
  ['run {echo a} with { stream: false }', 'a\n'],
  ['run stream {echo a}', 'a\n'],
  ['run stream sh { echo a }', 'a\n'],
  ['exe @f() = stream sh { echo a }\nshow @f()\nrun @f()', 'a\na\n'],
  ['exe @f() = sh { echo a }\nrun stream @f()', 'a\n'],
  ['exe @f() = sh { echo a }\nstream @f()\nif true [ stream @f() ]', 'a\na\n'],
  ['stream js { console.log("a") }', 'a\n'],
  ['var @x = stream js { console.log("a") }\nshow @x', 'a\na\n'],
])('what was shown as it came is not printed again: %s', async (script, expected) => {
  expect(await watched(script)).toEqual({ seen: expected, text: expected, fault: '' });
});

test('a model answers in pieces', async () => {
  const pieces: string[] = [];
  const script = 'exe @f() = llm "hi there"\nshow @f() with { stream: true }';
  await play(script, { onOutput: (piece) => pieces.push(piece) });
  expect(pieces).toEqual(['model:', ' hi', ' there', '\n']);
});

test('in markdown `/stream` is a statement where something that runs follows, and text elsewhere', async () => {
  const seen: string[] = [];
  const script = '/exe @f() = sh { echo a }\n/stream @f()\n/stream of words\n';
  const { text, fault } = await play(script, {
    mode: 'markdown',
    onOutput: (piece) => seen.push(piece),
  });
  expect({ text, fault, seen }).toEqual({
    text: 'a\n/stream of words\n',
    fault: '',
    seen: ['a\n'],
  });
});
