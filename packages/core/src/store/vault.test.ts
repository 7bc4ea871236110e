import { codeOf, must } from '@kernmantle/test-support/registry';
import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { createRedactor, type Json } from '../base/index.ts';
import { deriveVaultKey } from '../trust/index.ts';
import type { Sealed } from './port.ts';
import { createVault, type Vault } from './vault.ts';

const SECRET = 'canary-7f3a "quoted"';
const redactor = createRedactor([SECRET, '98765432']);
const key = deriveVaultKey('private key of the user');
/** What the registry has of the thread. */
let sealed: Sealed[] = [];
beforeEach(() => {
  sealed = [];
});
const open = (thread = 'a') => createVault({ sealed, thread, key });
/** As the commit does that refers to them. */
function keep(vault: Vault): void {
  sealed.push(...vault.unkept());
  vault.kept(vault.unkept());
}

const forms = [
  SECRET,
  encodeURIComponent(SECRET),
  Buffer.from(SECRET).toString('hex'),
  Buffer.from(`xx${SECRET}yy`).toString('base64'),
  JSON.stringify(SECRET),
];
const value: Json = { a: `key=${SECRET}`, [SECRET]: forms, n: 98765432, m: 98765, x: null };

test('a journal shows references, and another process of this user puts the secrets back', () => {
  const vault = must(open());
  const hidden = must(vault.hide(value, redactor));
  keep(vault);
  expect(must(must(open()).reveal(hidden))).toEqual(value);
  const stored = `${JSON.stringify(hidden)}${sealed.map((one) => Buffer.from(one.sealed).toString('latin1')).join('')}`;
  for (const form of ['canary', '98765432', Buffer.from('canary').toString('hex')]) {
    expect(stored).not.toContain(form);
  }
});

test('the same secret is sealed once, and waits until its commit is there', () => {
  const vault = must(open());
  const first = must(vault.hide(`a ${SECRET}`, redactor));
  expect(must(vault.hide(`a ${SECRET}`, redactor))).toBe(first);
  expect(vault.unkept()).toHaveLength(1);
  // Refused: it rides with the next one.
  expect(vault.unkept()).toHaveLength(1);
  keep(vault);
  expect(vault.unkept()).toEqual([]);
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
  const vault = must(open());
  must(vault.hide(SECRET, redactor));
  keep(vault);
  const other = createVault({ sealed, thread: 'a', key: deriveVaultKey('other') });
  expect(codeOf(other)).toBe('permission_denied');
  expect(codeOf(open('b'))).toBe('permission_denied');
  sealed = [{ number: 1, sealed: new Uint8Array(3) }];
  expect(codeOf(open('a'))).toBe('permission_denied');
  expect(codeOf(createVault({ sealed: [], thread: 'd', key: new Uint8Array(5) }))).toBe(
    'invalid_input',
  );
});

test('a reference to nothing is a failure', () => {
  const vault = must(open());
  const reference = must(vault.hide(SECRET, redactor)) as string;
  expect(codeOf(vault.reveal(reference.replace(' 1}', ' 7}')))).toBe('internal_error');
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
