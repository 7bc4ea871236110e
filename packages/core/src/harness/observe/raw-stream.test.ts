import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRedactor, plainText } from '../../base/index.ts';
import { createEventRedactor } from './event-redactor.ts';

const SECRET = 'k3y-9f8e7d6c5b4a3210';
const delta = (index: number, text: string) =>
  JSON.stringify({ type: 'content_block_delta', index, delta: { type: 'text_delta', text } });

/** A text cut at any places. */
const pieces = fc
  .tuple(fc.string({ maxLength: 30 }), fc.string({ maxLength: 30 }), fc.array(fc.nat(80)))
  .map(([before, after, cuts]) => {
    const text = `${before}${SECRET}${after}`;
    const at = [...new Set(cuts.filter((cut) => cut < text.length))].sort((a, b) => a - b);
    return { text, parts: [0, ...at].map((from, i) => text.slice(from, at[i])) };
  });

test('a secret is found however a text was cut, and nothing else is lost', () => {
  fc.assert(
    fc.property(pieces, pieces, (one, other) => {
      const events = createEventRedactor(createRedactor([SECRET]));
      const shown = ['', ''];
      for (let at = 0; at < Math.max(one.parts.length, other.parts.length); at++) {
        for (const [index, { parts }] of [one, other].entries()) {
          const data = events.data(delta(index, parts[at] ?? '')) as { delta: { text: string } };
          shown[index] += data.delta.text;
        }
      }
      for (const [place, text] of Object.entries(events.rest())) {
        const index = place.startsWith('#1') ? 1 : 0;
        shown[index] = `${shown[index]}${plainText(text)}`;
      }
      const clean = createRedactor([SECRET]);
      expect(shown).toEqual([clean.text(one.text), clean.text(other.text)]);
      expect(shown.join()).not.toContain(SECRET);
    }),
  );
});

test('what is no JSON is a text', () => {
  const events = createEventRedactor(createRedactor([SECRET]));
  expect(events.data('[DONE]')).toBe('[DONE]');
  expect(events.data(`x ${SECRET}`)).not.toContain(SECRET);
});
