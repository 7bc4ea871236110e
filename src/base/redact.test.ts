import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../tests/support/soak.ts';
import type { Json } from './outcome.ts';
import { createRedactor } from './redact.ts';

const SECRET = 'sk-live/Zürich+"42"\\x';
const redactor = createRedactor([SECRET]);

const percent = (text: string) => Buffer.from(text).toString('hex').replace(/../g, '%$&');

test.each([
  ['plain', SECRET],
  ['in JSON', JSON.stringify({ key: SECRET })],
  ['in JSON in JSON', JSON.stringify(JSON.stringify({ key: SECRET }))],
  ['in a URL', `https://x.org/?key=${encodeURIComponent(SECRET)}&a=1`],
  ['in a form', new URLSearchParams({ key: SECRET }).toString()],
  [
    'in a URL, lower case',
    encodeURIComponent(SECRET).replace(/%../g, (part) => part.toLowerCase()),
  ],
  ['as percent escapes', percent(SECRET)],
  ['as hex', Buffer.from(SECRET).toString('hex')],
  ['as upper hex', Buffer.from(SECRET).toString('hex').toUpperCase()],
  ['as base64', Buffer.from(SECRET).toString('base64')],
  ['as base64url', Buffer.from(SECRET).toString('base64url')],
  ['in HTML', SECRET.replaceAll('"', '&quot;')],
])('%s: nothing of it is left', (_, text) => {
  const shown = redactor.text(`before ${text} after`);
  expect(shown).toMatch(/^before .* after$/s);
  expect(shown).not.toContain('live');
  expect(shown).not.toContain(Buffer.from('live').toString('hex'));
  expect(shown.length).toBeLessThan(`before ${text} after`.length);
  expect(shown).toContain('[secret]');
});

test('base64 hides it at every alignment and across broken lines', () => {
  for (let before = 0; before < 60; before++) {
    const encoded = Buffer.from(`${'x'.repeat(before)}${SECRET}${'y'.repeat(50)}`).toString(
      'base64',
    );
    for (const width of [64, 76, 7]) {
      const wrapped = encoded.replace(new RegExp(`.{${width}}`, 'g'), '$&\r\n');
      const left = redactor.text(wrapped).replace('[secret]', '').replace(/\s/g, '');
      expect(Buffer.from(left, 'base64').toString()).not.toContain('live');
      expect(redactor.text(wrapped)).toContain('[secret]');
    }
  }
});

test('keys, numbers and deep values are looked through, and nothing else changes', () => {
  const numbers = createRedactor(['12345678', 'hunter2hunter2']);
  const value = { hunter2hunter2: [12345678, 1234, true, null, { a: 'x hunter2hunter2 y' }] };
  expect(numbers.json(value)).toEqual({
    '[secret]': ['[secret]', 1234, true, null, { a: 'x [secret] y' }],
  });
});

test('the mask never shows a secret by itself', () => {
  for (const secret of ['secret', '[secret]', 'hidden', '****', 'cret]']) {
    expect(createRedactor([secret]).text(`a ${secret} b`)).not.toContain(secret);
  }
});

test('lines of a key and pieces of a long value are hidden too', () => {
  const pem = `-----BEGIN KEY-----\n${'MIIEvQIBADANBgkqhkiG9w0B\n'.repeat(3)}-----END KEY-----`;
  expect(createRedactor([pem]).text('  line: MIIEvQIBADANBgkqhkiG9w0B')).toBe('  line: [secret]');
  const long = Array.from({ length: 3000 }, (_, index) => index.toString(36)).join('');
  const shown = createRedactor([long]).text(`<${long}>`);
  expect(shown.replaceAll('[secret]', '')).toBe('<>');
});

test('nothing known, nothing changed', () => {
  const idle = createRedactor(['', 'abc']);
  expect(idle.isIdle).toBe(true);
  expect(idle.text('abc')).toBe('abc');
  const stream = idle.stream();
  expect(stream.push('abc') + stream.end()).toBe('abc');
});

const alphabet = fc.constantFrom('a', 'b', 'c', '"', '\\', '/', ' ', 'é', '\n', '%', '+');
const secretText = fc.string({ unit: alphabet, minLength: 4, maxLength: 10 });

test('however a text is cut, the result is the same and holds no secret', () => {
  fc.assert(
    fc.property(
      fc.array(secretText, { minLength: 1, maxLength: 3 }),
      fc.array(fc.oneof(fc.nat(2), fc.string({ unit: alphabet, maxLength: 8 }))),
      fc.array(fc.integer({ min: 1, max: 5 })),
      (secrets, parts, cuts) => {
        const text = parts
          .map((part) => (typeof part === 'string' ? part : (secrets[part % secrets.length] ?? '')))
          .join('');
        const hidden = createRedactor(secrets);
        const whole = hidden.text(text);
        const stream = hidden.stream();
        let [pieces, at] = ['', 0];
        for (let index = 0; at < text.length; index++) {
          const size = cuts[index % Math.max(1, cuts.length)] ?? 3;
          pieces += stream.push(text.slice(at, at + size));
          at += size;
        }
        expect(pieces + stream.end()).toBe(whole);
        for (const secret of secrets) expect(whole).not.toContain(secret);
        expect(hidden.text(whole)).toBe(whole);
      },
    ),
    { numRuns: runs(500) },
  );
});

test('a text without secrets comes out as it went in, whatever was held back', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: alphabet, maxLength: 6 })), (chunks) => {
      const stream = createRedactor(['zzzz-secret']).stream();
      const out = chunks.map((chunk) => stream.push(chunk)).join('') + stream.end();
      expect(out).toBe(chunks.join(''));
    }),
  );
});

test('what is replaced can be put back', () => {
  const found: string[] = [];
  const text = `a ${SECRET} b ${Buffer.from(SECRET).toString('hex')} c`;
  const hidden = redactor.replace(text, (part) => `<${found.push(part) - 1}>`);
  expect(hidden.replace(/<(\d+)>/g, (_, index: string) => found[Number(index)] ?? '')).toBe(text);
});

test('a value is clean exactly when hiding changes nothing in it, and then it is not copied', () => {
  const secret = 's3cret-value';
  const redactor = createRedactor([secret, '123456']);
  const leaf = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.constantFrom(secret, `a ${secret} b`, Buffer.from(secret).toString('base64'), 123456, null),
  );
  const { tree } = fc.letrec<{ tree: Json }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      leaf,
      fc.array(tie('tree'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom('a', 'b', secret, 'c'), tie('tree'), { maxKeys: 3 }),
    ),
  }));
  fc.assert(
    fc.property(tree, (value) => {
      const hidden = redactor.json(value);
      expect(redactor.isClean(value)).toBe(JSON.stringify(hidden) === JSON.stringify(value));
      if (redactor.isClean(value)) expect(hidden).toBe(value);
      expect(redactor.isClean(hidden)).toBe(true);
    }),
  );
});
