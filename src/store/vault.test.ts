import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { aThread, codeOf, makeStore, must, type TestStore } from '../../tests/support/registry.ts';
import { createRedactor, type Json } from '../base/index.ts';
import { createVault, deriveVaultKey } from './vault.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore();
  must(place.store.createThread(aThread('a')));
});
afterEach(() => place.remove());

const SECRET = 'canary-7f3a "quoted"';
const redactor = createRedactor([SECRET, '98765432']);
const key = deriveVaultKey('private key of the user');
const open = (thread = 'a') => createVault({ secrets: place.store.secrets, thread, key });

const forms = [
  SECRET,
  encodeURIComponent(SECRET),
  Buffer.from(SECRET).toString('hex'),
  Buffer.from(`xx${SECRET}yy`).toString('base64'),
  JSON.stringify(SECRET),
];
const value: Json = { a: `key=${SECRET}`, [SECRET]: forms, n: 98765432, m: 98765, x: null };

test('a journal shows references, and another process of this user puts the secrets back', () => {
  const { store, file } = place;
  const hidden = must(must(open()).hide(value, redactor));
  must(store.append('a', 0, 0, [{ type: 'intent', data: { hidden } }]));
  expect(JSON.stringify(hidden)).not.toContain('canary');
  const read = must(store.read('a'))[0]?.data['hidden'] as Json;
  expect(must(must(open()).reveal(read))).toEqual(value);
  for (const part of [file, `${file}-wal`]) {
    const bytes = readFileSync(part, 'latin1');
    for (const form of ['canary', '98765432', Buffer.from('canary').toString('hex')]) {
      expect(bytes).not.toContain(form);
    }
  }
});

test('the same secret is stored once', () => {
  const vault = must(open());
  const first = must(vault.hide(`a ${SECRET}`, redactor));
  expect(must(vault.hide(`a ${SECRET}`, redactor))).toBe(first);
  expect(must(place.store.secrets.load('a'))).toHaveLength(1);
  expect(must(open()).texts()).toEqual([SECRET]);
});

test('a text that imitates a reference stays that text', () => {
  const vault = must(open());
  const reference = must(vault.hide(SECRET, redactor)) as string;
  const imitated: Json = { seen: `the file said ${reference}`, [reference]: reference };
  const hidden = must(vault.hide(imitated, redactor));
  expect(must(vault.reveal(hidden))).toEqual(imitated);
  expect(JSON.stringify(must(vault.reveal(hidden)))).not.toContain('canary');
});

test('another key, thread or number opens nothing', () => {
  const { store } = place;
  must(must(open()).hide(SECRET, redactor));
  const other = createVault({ secrets: store.secrets, thread: 'a', key: deriveVaultKey('other') });
  expect(codeOf(other)).toBe('permission_denied');
  const [sealed] = must(store.secrets.load('a'));
  must(store.secrets.keep('b', { number: 1, sealed: sealed?.sealed ?? new Uint8Array() }));
  expect(codeOf(open('b'))).toBe('permission_denied');
  must(store.secrets.keep('c', { number: 1, sealed: new Uint8Array(3) }));
  expect(codeOf(open('c'))).toBe('permission_denied');
  expect(codeOf(createVault({ secrets: store.secrets, thread: 'd', key: new Uint8Array(5) }))).toBe(
    'invalid_input',
  );
});

test('a reference to nothing is a failure, and so is a second holder who seals', () => {
  const [first, second] = [must(open()), must(open())];
  const reference = must(first.hide(SECRET, redactor)) as string;
  expect(codeOf(first.reveal(reference.replace(' 1}', ' 7}')))).toBe('internal_error');
  expect(codeOf(second.hide('98765432', redactor))).toBe('conflict');
});

test('secrets are put away before a commit, not inside one that may be undone', () => {
  const vault = must(open());
  expect(codeOf(place.store.together(() => vault.hide(SECRET, redactor)))).toBe('internal_error');
  must(vault.hide(SECRET, redactor));
  expect(must(place.store.secrets.load('a'))).toHaveLength(1);
});

test('whatever is hidden comes back as it was', () => {
  const vault = must(open());
  const text = fc.oneof(fc.string(), fc.constantFrom(...forms), fc.constant('{secret x 1}'));
  const anything = fc.letrec<{ json: Json }>((tie) => ({
    json: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.constantFrom<Json>(98765432, 1, true, null),
      fc.array(tie('json'), { maxLength: 4 }),
      fc.dictionary(text, tie('json'), { maxKeys: 4 }).map((given) => ({ ...given })),
    ),
  })).json;
  fc.assert(
    fc.property(anything, (given) => {
      const hidden = must(vault.hide(given, redactor));
      expect(JSON.stringify(hidden)).not.toContain('canary');
      expect(must(vault.reveal(hidden))).toEqual(given);
    }),
  );
});
