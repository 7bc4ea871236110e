import { expect, test } from 'vitest';
import { createRedactor } from '../../base/index.ts';
import { EMPTY } from '../../flow/index.ts';
import { packMarks } from '../thread/conversation.ts';
import { aboutEnd } from './about-run.ts';

const SECRET = 'sk-0123456789abcdef0123456789abcdef';

function endOf(text: string): string {
  const { text: mask } = createRedactor([SECRET]);
  const ports = { watch: { mask: (_id: string, said: string) => mask(said) } };
  const result = { thread_id: 't', outputs: {}, text, marks: packMarks(EMPTY) };
  return aboutEnd(ports as never, result as never);
}

test.each([0, 1, 7, 20, 34])(
  'no part of a secret is searched, wherever a cut goes (%i)',
  (shift) => {
    for (const length of [100, 16_384, 65_536, 200_000]) {
      for (const text of [
        `${'x'.repeat(length - shift)}${SECRET} end`,
        `${'x'.repeat(shift)}${SECRET.repeat(Math.ceil(length / SECRET.length))} end`,
      ]) {
        const found = endOf(text);
        for (let at = 0; at + 8 <= SECRET.length; at++)
          expect(found).not.toContain(SECRET.slice(at, at + 8));
      }
    }
  },
);

test('the beginning of a long text is searched', () => {
  const found = endOf(`first words ${'x '.repeat(100_000)}`);
  expect(found.startsWith('first words x')).toBe(true);
  expect(found.length).toBeLessThan(20_000);
});
