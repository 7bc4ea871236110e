import { generateKeyPairSync, sign } from 'node:crypto';
import { seededRandom } from '@kernmantle/test-support/trust';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ItemStatement, signStatement, verifyStatement } from './item-statement.ts';
import { fromBase64Url, generateKeyPair, importKeyPair, keyIdOf, verifySignature } from './key.ts';

const key = generateKeyPair(seededRandom(1));
const other = generateKeyPair(seededRandom(2));
const statement: ItemStatement = {
  kind: 'tool',
  id: 'shell/bash',
  version: '1.0.0',
  sha256: 'ab'.repeat(32),
  rights: 'cd'.repeat(32),
  created: '2026-01-01T00:00:00.000Z',
  key: key.id,
};

test('a key comes back from its private text', () => {
  const again = importKeyPair(key.exportPrivate());
  expect(again.ok && again.output.id).toBe(key.id);
  expect(again.ok && again.output.publicKey).toBe(key.publicKey);
});

test('a key pair shows nothing of its private half', () => {
  const shown = JSON.stringify(key);
  const secret = key.exportPrivate().split('\n')[1] ?? '';
  expect(secret).not.toBe('');
  expect(shown).not.toContain(secret);
  expect(Object.keys(key).sort()).toEqual(['exportPrivate', 'id', 'publicKey', 'sign']);
});

test('the id is a digest of the key', () => {
  expect(keyIdOf(key.publicKey)).toEqual({ ok: true, output: key.id });
  expect(key.id).toMatch(/^[0-9a-f]{32}$/);
  expect(key.id).not.toBe(other.id);
  expect(keyIdOf('short').ok).toBe(false);
});

test('garbage and keys of other kinds are refused without repeating them', () => {
  const rsa = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const pem = rsa.export({ format: 'pem', type: 'pkcs8' }).toString();
  for (const text of ['', 'x', pem, key.exportPrivate().slice(0, 60), 'y'.repeat(100_000)]) {
    const read = importKeyPair(text);
    expect(!read.ok && read.error.code).toBe('invalid_input');
    if (!read.ok && text.length > 20)
      expect(read.error.detail.message).not.toContain(text.slice(30, 50));
  }
});

test('bytes have one spelling', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const bytes = fromBase64Url(text);
      if (bytes) expect(bytes.toString('base64url')).toBe(text);
    }),
  );
  expect(fromBase64Url('AB')).toBeUndefined();
  expect(fromBase64Url('AA==')).toBeUndefined();
  expect(fromBase64Url('+/==')).toBeUndefined();
});

test('a signed statement verifies with its key only', () => {
  const signature = signStatement(statement, key);
  expect(verifyStatement(statement, signature, key.publicKey)).toBe(true);
  expect(verifyStatement(statement, signature, other.publicKey)).toBe(false);
});

test('no field of a statement can be changed, added or left out', () => {
  const signature = signStatement(statement, key);
  for (const field of Object.keys(statement) as (keyof ItemStatement)[]) {
    const changed = { ...statement, [field]: `${statement[field]}x` };
    expect(verifyStatement(changed, signature, key.publicKey)).toBe(false);
    const { [field]: _, ...rest } = statement;
    expect(verifyStatement(rest as ItemStatement, signature, key.publicKey)).toBe(false);
  }
  const more = { ...statement, note: 'x' } as ItemStatement;
  expect(verifyStatement(more, signature, key.publicKey)).toBe(false);
});

test('a signature has one spelling and no bit of it can be changed', () => {
  const signature = signStatement(statement, key);
  expect(verifyStatement(statement, `${signature}==`, key.publicKey)).toBe(false);
  const bytes = Buffer.from(signature, 'base64url');
  for (let bit = 0; bit < 512; bit++) {
    const flipped = Buffer.from(bytes);
    flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
    expect(verifyStatement(statement, flipped.toString('base64url'), key.publicKey)).toBe(false);
  }
});

test('signing for another key is a mistake of the caller', () => {
  expect(() => signStatement(statement, other)).toThrow(TypeError);
});

test('verification answers garbage with no', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (signature, publicKey) => {
      expect(verifyStatement(statement, signature, key.publicKey)).toBe(false);
      expect(verifyStatement(statement, signature, publicKey)).toBe(false);
    }),
  );
});

test('what was signed here is known, and nothing that differs from it in one bit', () => {
  const raw = Buffer.from(key.publicKey, 'base64url');
  const flip = (bytes: Uint8Array, bit: number): Buffer => {
    const flipped = Buffer.from(bytes);
    const at = (bit >> 3) % flipped.length;
    flipped[at] = (flipped[at] as number) ^ (1 << (bit & 7));
    return flipped;
  };
  const texts = fc.uint8Array({ minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(texts, fc.nat(), fc.nat(2), fc.uint8Array(), (bytes, bit, part, more) => {
      const signature = key.sign(bytes);
      const parts: [Uint8Array, Uint8Array, Uint8Array] = [raw, bytes, signature];
      expect(verifySignature(...parts)).toBe(true);
      parts[part] = flip(parts[part] as Uint8Array, bit);
      expect(verifySignature(...parts)).toBe(false);
      // The same bytes, cut elsewhere.
      const joined = Buffer.concat([signature, bytes]);
      expect(verifySignature(raw, joined.subarray(63), joined.subarray(0, 63))).toBe(false);
      expect(verifySignature(raw, Buffer.concat([bytes, more]), signature)).toBe(more.length === 0);
    }),
  );
});

test('what somebody else signed with the same key is checked and holds', () => {
  const bytes = Buffer.from('elsewhere');
  const signature = sign(null, bytes, key.exportPrivate());
  const raw = Buffer.from(key.publicKey, 'base64url');
  expect(verifySignature(raw, bytes, signature)).toBe(true);
  expect(verifySignature(Buffer.from(other.publicKey, 'base64url'), bytes, signature)).toBe(false);
});
