import { isSoak, runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from './outcome.ts';
import { createRedactor } from './redact.ts';
import { createLetterMatcher, createMatcher } from './text-matcher.ts';

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

/** Writes a character as HTML does: a number with leading zeros, or its name if it has one. */
const inHtml = (text: string, zeros: number, end: string) =>
  Array.from(text, (char) => `&#${'0'.repeat(zeros)}${char.codePointAt(0)}${end}`).join('');
const NAMED = new Map(
  '-hyphen _lowbar .period /sol +plus "quot !excl =equals @commat :colon |VerticalLine {lcub'
    .split(' ')
    .map((entry) => [entry.slice(0, 1), entry.slice(1)]),
);
const named = (text: string) => text.replace(/[-_./+"!=@:|{]/g, (char) => `&${NAMED.get(char)};`);
const PUNCTUATED = 'a-b_c.d/e+f"g!h=i@j:k|l{m';

/** Lengths of the pieces that a text is cut into. Small pieces of a long text take seconds. */
function sizesFor({ length }: string): readonly number[] {
  if (length > 5000) return [64, 500];
  return isSoak || length < 1000 ? [1, 2, 3, 7, 64] : [7, 64];
}

test.each([
  ['numbers with zeros', inHtml(PUNCTUATED, 8, ';')],
  ['numbers without a semicolon', inHtml(PUNCTUATED, 0, '')],
  ['numbers with zeros, without a semicolon', inHtml(PUNCTUATED, 5, '')],
  ['numbers with zeros out of sight', inHtml(PUNCTUATED, 70, ';')],
  ['numbers with thousands of zeros', inHtml(PUNCTUATED, 2000, '')],
  [
    'hex with zeros',
    inHtml(PUNCTUATED, 0, ';').replace(
      /#(\d+)/g,
      (_, code) => `#X${Number(code).toString(16).padStart(90, '0')}`,
    ),
  ],
  ['names', named(PUNCTUATED)],
  ['another name of a minus', PUNCTUATED.replace('-', '&dash;')],
  ['braces', Array.from(PUNCTUATED, (char) => `\\u{${char.charCodeAt(0).toString(16)}}`).join('')],
  [
    'braces with zeros',
    Array.from(
      PUNCTUATED,
      (char) => `\\u{${char.charCodeAt(0).toString(16).padStart(80, '0')}}`,
    ).join(''),
  ],
  [
    'braces in JSON',
    Array.from(PUNCTUATED, (char) => `\\\\U{${char.charCodeAt(0).toString(16)}}`).join(''),
  ],
  [
    'percent and u',
    Array.from(PUNCTUATED, (char) => `%u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join(
      '',
    ),
  ],
  [
    'percent and u, escaped again',
    Array.from(
      PUNCTUATED,
      (char) => `%25U${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ).join(''),
  ],
  ['a mixture', 'a&hyphen;b&#95c\\u{2e}d%u002fe&plus;f&quotg!h=i@j:k&vert;l&lcub;m'],
])('%s: nothing of it is left, in one piece or in many', (_, text) => {
  const hidden = createRedactor([PUNCTUATED]);
  const whole = `before ${text} after`;
  expect(hidden.text(whole)).toBe('before [secret] after');
  for (const size of sizesFor(whole)) {
    const parts = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
    const stream = hidden.stream();
    expect(parts.map((part) => stream.push(part)).join('') + stream.end(), `${size}`).toBe(
      'before [secret] after',
    );
    const follower = hidden.follow();
    const shown = [...parts.flatMap((part) => follower.push(part)), ...follower.end()];
    expect(shown.join(''), `${size}`).toBe('before [secret] after');
  }
});

test('what only looks like an escape stays as it is', () => {
  for (const text of [
    '?a=1&num=2&period=3',
    '&#;',
    '&#x;',
    '\\u{}',
    '\\u{110000}',
    '%u12',
    '&nosuch;',
    '&#00000000000000000000000',
  ]) {
    const stream = redactor.stream();
    expect(Array.from(text, (char) => stream.push(char)).join('') + stream.end()).toBe(text);
    expect(redactor.text(text)).toBe(text);
  }
});

test.each([4, 8, 40, 300])('a secret of %i times the same letter is hidden', (length) => {
  const hidden = createRedactor(['a'.repeat(length)]);
  const long = 'a'.repeat(20_000);
  expect(hidden.text(`${long} b ${long}`)).toBe('[secret] b [secret]');
});

test.each([
  ['one letter', 'a'],
  ['two letters', 'ab'],
  ['three letters', 'abc'],
])('few places are looked at of a pattern that repeats %s', (_, part) => {
  const pattern = part.repeat(40);
  const text = `x${part.repeat(100_000)}x`;
  for (const matcher of [createMatcher([pattern]), createLetterMatcher([pattern])]) {
    let [places, first, last] = [0, text.length, 0];
    matcher.find(text, (start, end) => {
      places += 1;
      [first, last] = [Math.min(first, start), Math.max(last, end)];
      return true;
    });
    // Two at most for each step of a window.
    expect(places).toBeLessThan(text.length / 10);
    expect([first, last]).toEqual([1, text.length - 1]);
  }
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

const ALNUM = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'.split('');
const WRITTEN_AS = {
  base64: (text: string) => Buffer.from(text).toString('base64'),
  base64url: (text: string) => Buffer.from(text).toString('base64url'),
  'padded base64url': (text: string) =>
    Buffer.from(text).toString('base64').replaceAll('+', '-').replaceAll('/', '_'),
  'base64 without padding': (text: string) =>
    Buffer.from(text).toString('base64').replaceAll('=', ''),
};

test.each(Object.entries(WRITTEN_AS))(
  '%s: the secret is hidden to its last bit, with its padding, and nothing else',
  (_, write) => {
    const beside = fc.string({ unit: fc.constantFrom('~', '?', '>', '{'), maxLength: 4 });
    const secrets = fc.uniqueArray(fc.constantFrom(...ALNUM), { minLength: 9, maxLength: 24 });
    fc.assert(
      fc.property(
        beside,
        secrets,
        beside,
        fc.integer({ min: 1, max: 9 }),
        (left, own, right, size) => {
          const secret = own.join('');
          const text = write(left + secret + right);
          const first = Math.ceil((left.length * 8) / 6);
          const last = Math.ceil(((left.length + secret.length) * 8) / 6);
          const rest = right === '' ? '' : text.slice(last);
          const expected = `<${text.slice(0, first)}[secret]${rest}> and`;
          const hidden = createRedactor([secret]);
          const whole = `<${text}> and`;
          expect(hidden.text(whole)).toBe(expected);
          const stream = hidden.stream();
          const parts = whole.match(new RegExp(`.{1,${size}}`, 'g')) ?? [];
          expect(parts.map((part) => stream.push(part)).join('') + stream.end()).toBe(expected);
          const escaped = whole.replaceAll('=', '%3D');
          expect(hidden.text(escaped)).toBe(expected.replaceAll('=', '%3D'));
        },
      ),
      { numRuns: runs(60, 3000) },
    );
  },
);

test('what follows base64 of a secret and holds no bits of it stays', () => {
  const hidden = createRedactor(['hunter2hunter2']);
  const encoded = Buffer.from('hunter2hunter2').toString('base64');
  expect(hidden.text(`key=${encoded}== more`)).toBe('key=[secret]= more');
  expect(hidden.text(`${encoded.slice(0, -2)}! no`)).toBe('[secret]! no');
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
    { numRuns: runs(100, 5000) },
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

const KEY = 'sk-canary-Q7f3a9ZxW0pLm';
const key = createRedactor([KEY]);
const everyChar = (text: string, write: (hex: string) => string) =>
  text.replace(/[^]/g, (char) => write(char.charCodeAt(0).toString(16)));
const wrapped = (text: string, width: number, end: string) =>
  text.replace(new RegExp(`.{${width}}`, 'g'), (line) => line + end);
const hexOf = (between: string) => Buffer.from(KEY).toString('hex').match(/../g)?.join(between);
const base64 = Buffer.from(`user:${KEY}:x`).toString('base64');

test.each([
  ['every character a percent escape', everyChar(KEY, (hex) => `%${hex}`)],
  ['in upper case', everyChar(KEY, (hex) => `%${hex.toUpperCase()}`)],
  ['every character a percent escape twice', everyChar(KEY, (hex) => `%25${hex}`)],
  ['every character a percent escape three times', everyChar(KEY, (hex) => `%2525${hex}`)],
  [
    'percent escapes of percent escapes',
    everyChar(
      everyChar(KEY, (hex) => `%${hex}`),
      (hex) => `%${hex}`,
    ),
  ],
  ['every character as in JSON', everyChar(KEY, (hex) => `\\u00${hex}`)],
  ['as in JSON within JSON', everyChar(KEY, (hex) => `\\\\u00${hex}`)],
  ['as in a program', everyChar(KEY, (hex) => `\\x${hex}`)],
  ['as entities', everyChar(KEY, (hex) => `&#x${hex};`)],
  ['some of it escaped', KEY.replace('-', '%2d').replace('Q', '\\u0051').replace('a', '&#97;')],
  ['base64 in lines', wrapped(base64, 19, '\n')],
  ['base64 in lines within JSON', JSON.stringify(wrapped(base64, 19, '\r\n'))],
  ['base64 in a URL', encodeURIComponent(base64)],
  ['hex with blanks', hexOf(' ')],
  ['hex with colons', hexOf(':')],
  ['hex as a list', `0x${hexOf(', 0x')}`],
  ['hex in lines of pairs', hexOf('\n')],
  ['two halves in two lines', `${KEY.slice(0, 9)}\n${KEY.slice(9)}`],
  ['in many lines', wrapped(KEY, 3, '\r\n')],
  ['in upper case letters', KEY.toUpperCase()],
])('%s: nothing of it comes out, whole or in pieces', (_, text = '') => {
  expect(key.text(`<< ${text} >>`)).toMatch(/^<< [^ ]*\[secret\][^ ]* >>$/);
  expect(key.isClean(text)).toBe(false);
  const stream = key.stream();
  const pieces = (`<< ${text} >>`.match(/[^]{1,3}/g) ?? []).map((part) => stream.push(part));
  expect(pieces.join('') + stream.end()).toBe(key.text(`<< ${text} >>`));
});

const turned = (text: string) => Array.from(text).reverse().join('');
const base64Of = (text: string) => Buffer.from(text).toString('base64');
const wide = (text: string) => Buffer.from(text, 'utf16le');
const mixed = (text: string) =>
  text.replace(/[a-z]/gi, (char, at: number) => (at % 2 ? char.toUpperCase() : char.toLowerCase()));

test.each([
  ['in mixed case', mixed(KEY)],
  ['mixed case as in JSON', everyChar(mixed(KEY), (hex) => `\\u00${hex}`)],
  ['mixed case as percent escapes', everyChar(mixed(KEY), (hex) => `%${hex}`)],
  ['mixed case as entities', everyChar(mixed(KEY), (hex) => `&#x${hex};`)],
  ['spelt out', KEY.split('').join(' ')],
  ['spelt out with dashes', KEY.split('').join(' - ')],
  ['as a list', JSON.stringify(KEY.split(''))],
  ['a program that joins it', `"${KEY.slice(0, 7)}" + "${KEY.slice(7)}"`],
  ['other separators', KEY.replace('nar', 'n-a_r').replaceAll('-', '/')],
  ['without its separators', KEY.replaceAll('-', '')],
  ['lines with an indent', wrapped(KEY, 4, '\n    ')],
  ['written lines with an indent', wrapped(mixed(KEY), 4, '\\n\\t')],
  ['turned round', turned(KEY)],
  ['turned round and spelt out', turned(KEY).split('').join('.')],
  ['turned round as base64', base64Of(turned(KEY))],
  ['base64 turned round', turned(base64Of(KEY))],
  ['turned round as hex', Buffer.from(turned(KEY)).toString('hex')],
  ['hex turned round', turned(Buffer.from(KEY).toString('hex'))],
  ['base64 with blanks', wrapped(base64, 4, ' ')],
  ['base64 twice', base64Of(base64Of(KEY))],
  ['base64 twice, further in', base64Of(`ab ${base64Of(`user:${KEY}:x`)} `)],
  ['base64 twice, in lines', base64Of(wrapped(base64Of(`u:${KEY}`), 200, '\n'))],
  [
    'base64url of base64url',
    Buffer.from(Buffer.from(KEY).toString('base64url')).toString('base64url'),
  ],
  ['two bytes a character', wide(KEY).toString('latin1')],
  ['two bytes a character, high first', wide(KEY).swap16().toString('latin1')],
  [
    'two bytes a character as percent escapes',
    everyChar(wide(KEY).toString('latin1'), (hex) => `%${hex.padStart(2, '0')}`),
  ],
  ['two bytes a character as hex', wide(KEY).toString('hex')],
  ['two bytes a character as hex, high first', wide(KEY).swap16().toString('hex')],
  ['two bytes a character as a dump', wide(KEY).toString('hex').replace(/../g, '$& ')],
  ['two bytes a character as base64', wide(KEY).toString('base64')],
  ['two bytes a character as base64, high first', wide(KEY).swap16().toString('base64')],
  ['two bytes a character as base64, further in', wide(`ab ${KEY} c`).toString('base64')],
  [
    'two bytes a character as base64url in lines',
    wrapped(wide(KEY).toString('base64url'), 19, '\n'),
  ],
])('%s: it is found, whole or in pieces', (_, text) => {
  const shown = key.text(`<< ${text} >>`);
  expect(shown).toContain('[secret]');
  // At most what is no part of it is left: brackets, padding, what stood before or after.
  expect(shown.length).toBeLessThan(`<< ${text} >>`.length / 2 + 20);
  expect(key.isClean(text)).toBe(false);
  const stream = key.stream();
  const pieces = (`<< ${text} >>`.match(/[^]{1,3}/g) ?? []).map((part) => stream.push(part));
  expect(pieces.join('') + stream.end()).toBe(shown);
});

test.each([
  ['in a URL, twice', encodeURIComponent(encodeURIComponent(SECRET))],
  [
    'in a URL, twice and in lower case',
    encodeURIComponent(encodeURIComponent(SECRET)).toLowerCase(),
  ],
  ['in a URL as base64', base64Of(encodeURIComponent(SECRET))],
  ['in a URL as base64, further in', base64Of(`https://x.org/?k=${encodeURIComponent(SECRET)}`)],
  ['in a URL twice as base64', base64Of(encodeURIComponent(encodeURIComponent(SECRET)))],
])('what has to be escaped is found %s', (_, text) => {
  const shown = redactor.text(`<< ${text} >>`);
  expect(shown).toContain('[secret]');
  expect(shown).not.toContain('live');
  expect(Buffer.from(shown.replaceAll('[secret]', ''), 'base64').toString()).not.toContain('live');
});

test('encoded in any way, one after the other, and cut anywhere, the result is the same', () => {
  const ways: ((text: string) => string)[] = [
    (text) => text,
    (text) => base64Of(text),
    (text) => wide(text).toString('base64'),
    (text) => wide(text).swap16().toString('base64'),
    (text) => wide(text).toString('hex'),
    (text) => everyChar(text, (hex) => `%25${hex.padStart(2, '0')}`),
    (text) => everyChar(text, (hex) => `%${hex.padStart(2, '0')}`),
    (text) => everyChar(text, (hex) => `%u${hex.padStart(4, '0')}`),
    (text) => everyChar(text, (hex) => `\\u{${hex}}`),
    (text) => everyChar(text, (hex) => `&#x${hex}`),
    (text) => everyChar(text, (hex) => `&#${'0'.repeat(9)}${Number.parseInt(hex, 16)}`),
    (text) => turned(text),
  ];
  fc.assert(
    fc.property(
      fc.string({
        unit: fc.constantFrom('a', 'B', 'c', '1', '-', 'z'),
        minLength: 10,
        maxLength: 16,
      }),
      fc.constantFrom(...ways),
      fc.string({ unit: fc.constantFrom('a', ' ', '%', '2', '5', 'x'), maxLength: 8 }),
      fc.integer({ min: 1, max: 9 }),
      (secret, way, around, size) => {
        fc.pre((secret.match(/[a-z0-9]/gi) ?? []).length >= 8);
        const hidden = createRedactor([secret]);
        const whole = `${around} ${way(secret)} ${around}`;
        expect(hidden.isClean(whole)).toBe(false);
        const stream = hidden.stream();
        let pieces = '';
        for (let at = 0; at < whole.length; at += size) {
          pieces += stream.push(whole.slice(at, at + size));
        }
        expect(pieces + stream.end()).toBe(hidden.text(whole));
      },
    ),
    { numRuns: runs(100, 5000) },
  );
});

test('other forms need eight letters or digits, the secret itself four characters', () => {
  const short = createRedactor(['Ab-1', 'Qrst-789']);
  expect(short.text('Ab-1 ab-1 1-bA A b 1')).toBe('[secret] ab-1 1-bA A b 1');
  expect(short.text('Qrst-789 qrst789')).toBe('[secret] qrst789');
  expect(createRedactor(['Qrst-7890']).text('q r s t 7 8 9 0')).toBe('[secret]');
});

test('spelt in any way and cut anywhere, the result is the same', () => {
  const noise = fc.constantFrom('', '', ' ', '-', '", "', '\n', '\\n', '. ', '%20', 'é');
  const letter = fc.constantFrom('a', 'B', 'c', '1', '2');
  fc.assert(
    fc.property(
      fc.string({ unit: letter, minLength: 8, maxLength: 14 }),
      fc.array(noise, { minLength: 14, maxLength: 14 }),
      fc.string({ unit: fc.constantFrom('a', 'b', '1', ' ', '\\', 'n', '%', '6'), maxLength: 12 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 9 }),
      (secret, between, around, isTurned, size) => {
        const hidden = createRedactor([secret]);
        const letters = Array.from(isTurned ? turned(secret) : secret);
        const spelt = letters.map((char, at) => char + (between[at] ?? '')).join('');
        const whole = `${around} ${mixed(spelt).replaceAll('\\N', '\\n')} ${around}`;
        expect(hidden.isClean(whole)).toBe(false);
        const stream = hidden.stream();
        let pieces = '';
        for (let at = 0; at < whole.length; at += size) {
          pieces += stream.push(whole.slice(at, at + size));
        }
        expect(pieces + stream.end()).toBe(hidden.text(whole));
        expect(hidden.isClean(around)).toBe(hidden.text(around) === around);
      },
    ),
    { numRuns: runs(100, 5000) },
  );
});

test('ordinary text is not held back, and nothing is hidden in it', () => {
  const prose =
    'The quick brown fox\n  "jumps" 100% over C:\\new\\x &amp; 0x20 0x21 2026-11-15 de ad be ef\n';
  const stream = key.stream();
  expect(stream.push(prose)).toBe(prose);
  expect(key.text(prose)).toBe(prose);
});

const parts = fc.constantFrom(
  ...'abc%\\"&;u0x6n1#:'.split(''),
  '\n',
  'é',
  '😀',
  '%61',
  '\\u0062',
  '&#99;',
  '61 62',
  '&#97',
  '&#x0061',
  '&#x',
  '&#',
  '&#0000000000000000000000000',
  '&dash;',
  '&das',
  '&lt',
  '\\u{61}',
  '\\u{',
  '{',
  '}',
  '%u0061',
  '%u00',
);
const text = fc.array(parts, { maxLength: 24 }).map((list) => list.join(''));

test('escapes may be cut anywhere, and a text is clean exactly when nothing is hidden in it', () => {
  const secret = fc.array(parts, { minLength: 4, maxLength: 8 }).map((list) => list.join(''));
  fc.assert(
    fc.property(
      secret,
      text,
      text,
      fc.integer({ min: 1, max: 7 }),
      (value, before, after, size) => {
        const hidden = createRedactor([value]);
        const whole = before + value + after;
        expect(hidden.text(whole)).not.toContain(value);
        const stream = hidden.stream();
        let pieces = '';
        for (let at = 0; at < whole.length; at += size)
          pieces += stream.push(whole.slice(at, at + size));
        expect(pieces + stream.end()).toBe(hidden.text(whole));
        for (const each of [before, after]) {
          expect(hidden.isClean(each)).toBe(hidden.text(each) === each);
        }
      },
    ),
    // The first half of a character, behind what would be a secret with a break in it.
    { numRuns: runs(150, 1000), examples: [['na😀aa', 'n\\', '', 1]] },
  );
});

test('bytes that are no text come out as they went in', () => {
  const bytes = createRedactor(['pässwörd', KEY], { areBytes: true });
  const given = Buffer.concat([
    Buffer.from('a pässwörd '),
    Buffer.from([0xff, 0, 0xc3]),
    Buffer.from(KEY),
  ]);
  const stream = bytes.stream();
  let shown = '';
  for (const byte of given.toString('latin1')) shown += stream.push(byte);
  shown += stream.end();
  expect(shown).toBe(`a [secret] ${String.fromCharCode(0xff, 0, 0xc3)}[secret]`);
});

test('of a secret that goes on over several texts nothing is seen', () => {
  const { push, end } = key.follow();
  expect(push('{"text":"no secret"}')).toEqual(['{"text":"no secret"}']);
  expect(push(`a ${KEY} b ${KEY.slice(0, 8)}`)).toEqual([]);
  expect(push(KEY.slice(8, 12))).toEqual([]);
  expect(push(`${KEY.slice(12)} and more}`)).toEqual(['a [secret] b [secret]', '', ' and more}']);
  expect(push(`${KEY}}`)).toEqual(['[secret]}']);
  // Text that is not a secret comes out unchanged, and so does the rest at the end.
  expect(push(KEY.slice(0, 8))).toEqual([]);
  expect(push('}')).toEqual([KEY.slice(0, 8), '}']);
  expect(push(KEY.slice(0, 8))).toEqual([]);
  expect(end()).toEqual([KEY.slice(0, 8)]);
});

test('however texts follow each other, each comes out once and no secret survives', () => {
  const letters = fc.constantFrom('a', 'b', '1', '-', ' ', '}', '\n', '\\u0061');
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', 'b', '1', '-'), minLength: 4, maxLength: 12 }),
      fc.array(fc.string({ unit: letters, maxLength: 6 }), { maxLength: 8 }),
      fc.integer({ min: 1, max: 11 }),
      (secret, around, cut) => {
        const half = Math.floor(around.length / 2);
        const parts = [secret.slice(0, cut), secret.slice(cut)];
        const texts = [...around.slice(0, half), ...parts, ...around.slice(half)];
        const { push, end } = createRedactor([secret]).follow();
        const shown = [...texts.flatMap((text) => [...push(text)]), ...end()];
        expect(shown).toHaveLength(texts.length);
        expect(shown.join('')).not.toContain(secret);
      },
    ),
    { numRuns: runs(100, 5000) },
  );
});

test.each([
  ['+\\éé ', '+éé'],
  ['é" a', 'é"+a'],
  ['a\naé', 'aaé'],
])('%j is hidden when it stands as %j, also in a text without escapes', (secret, written) => {
  expect(createRedactor([secret]).text(`<${written}>`)).toBe('<[secret]>');
});

test('a secret that is cut within an escape goes on after it', () => {
  const secret = 'rive-0123456789abcdef';
  const { push } = createRedactor([secret]).follow();
  expect(push('riv\\n')).toEqual([]);
  expect(push('e-0123456789abcdef}')).toEqual(['[secret]', '}']);
  const stream = createRedactor([secret]).stream();
  const shown = stream.push('riv\\n') + stream.push('e-0123456789abcdef}') + stream.end();
  expect(shown).toBe('[secret]}');
});

test('a long text is passed on in large pieces, whatever comes after it', () => {
  const stream = key.stream();
  const long = 'line of output\n'.repeat(20_000);
  const first = stream.push(long + KEY.slice(0, 5));
  expect(first).toBe(long);
  expect(stream.push(`${KEY.slice(5)} end`) + stream.end()).toBe('[secret] end');
});

test('the way bytes are cut does not matter, and no secret survives', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), minLength: 6, maxLength: 9 });
  const piece = fc.oneof(fc.string({ unit: fc.constantFrom('a', 'b', 'é', ' ') }), letters);
  fc.assert(
    fc.property(
      fc.array(letters, { minLength: 1, maxLength: 3 }),
      fc.array(piece, { maxLength: 12 }),
      fc.integer({ min: 1, max: 9 }),
      (secrets, pieces, size) => {
        const bytes = Buffer.from(pieces.join('')).toString('latin1');
        const hidden = createRedactor(secrets, { areBytes: true });
        const stream = hidden.stream();
        let shown = '';
        for (let at = 0; at < bytes.length; at += size) {
          shown += stream.push(bytes.slice(at, at + size));
        }
        shown += stream.end();
        expect(shown).toBe(hidden.text(bytes));
        const text = Buffer.from(shown, 'latin1').toString();
        for (const secret of secrets) expect(text).not.toContain(secret);
      },
    ),
  );
});

test('every list of secrets has its own redactor, however many there are', () => {
  for (let round = 0; round < 2; round++) {
    for (let count = 0; count < 40; count++) {
      const [own, other] = [`secret-${count}!`, `secret-${(count + 1) % 40}!`];
      expect(createRedactor([own]).text(`${own} ${other}`)).toBe(`[secret] ${other}`);
    }
  }
  expect(createRedactor(['long-a', 'long-b']).text('long-a","long-b')).toBe('[secret]","[secret]');
  expect(createRedactor(['long-a","long-b']).text('long-a')).toBe('long-a');
});

test('any secret is found wherever it stands, and what is not one stays', () => {
  const secret = fc.oneof(
    fc.string({ minLength: 4, maxLength: 40 }),
    fc.base64String({ minLength: 8, maxLength: 40 }),
    fc.constantFrom('sk-abcQdefghijk', 'aaaaaaaaaaaaaaa', 'QZXJQZXJQZXJ', 'eeee'),
  );
  fc.assert(
    fc.property(secret, fc.string(), fc.string(), fc.nat(20), (value, before, after, cut) => {
      const hidden = createRedactor([value]);
      expect(hidden.isClean(before + value + after)).toBe(false);
      expect(hidden.text(before + value + after)).not.toContain(value);
      // The beginning or the end of a secret alone is not one.
      for (const part of [value.slice(0, cut), value.slice(cut)]) {
        expect(hidden.isClean(part)).toBe(hidden.text(part) === part);
      }
    }),
    { numRuns: runs(100, 500) },
  );
});
