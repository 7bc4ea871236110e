// Writes and reads a file that moves a user's keys to another machine. It contains the root key of
// capability tokens, which also seals secrets of a registry, and the public half of the signing key. A
// passphrase seals it. A file with one changed byte is refused.
import { createCipheriv, createDecipheriv, scryptSync } from 'node:crypto';
import { fail, getOwn, type Outcome, ok, parseJson, type RandomBytes } from '../../base/index.ts';
import {
  fromBase64Url,
  importKeyPair,
  type KeyPair,
  keyIdOf,
  type PublicKeyRecord,
  toBase64Url,
} from './key.ts';

interface KeyParcel {
  tokens: KeyPair;
  /** The sender's public key, which the recipient trusts for items. */
  signer: PublicKeyRecord;
}

const FORM = 'kernmantle-keys-1';
const MAX_TEXT = 8192;
const MIN_PASSPHRASE = 12;
/** Cost of the key derivation: each guess of a passphrase takes 64 MB and about a quarter of a second. */
const COST = 2 ** 16;
const [SALT_BYTES, NONCE_BYTES, TAG_BYTES] = [16, 12, 16];

const sealingKey = (passphrase: string, salt: Uint8Array, cost: number): Buffer =>
  scryptSync(passphrase.normalize('NFC'), salt, 32, { N: cost, r: 8, p: 1, maxmem: 2 ** 28 });

const written = (salt: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): string => {
  const [a, b, c] = [salt, nonce, sealed].map(toBase64Url);
  return `${JSON.stringify({ form: FORM, salt: a, nonce: b, sealed: c }, undefined, 2)}\n`;
};

export function sealKeys(
  { tokens, signer }: KeyParcel,
  passphrase: string,
  random: RandomBytes,
  cost = COST,
): Outcome<string> {
  if (passphrase.length < MIN_PASSPHRASE) {
    return fail('invalid_input', `the passphrase needs at least ${MIN_PASSPHRASE} characters`);
  }
  const [salt, nonce] = [random(SALT_BYTES), random(NONCE_BYTES)];
  const cipher = createCipheriv('aes-256-gcm', sealingKey(passphrase, salt, cost), nonce);
  cipher.setAAD(Buffer.from(FORM));
  const inside = JSON.stringify({ tokens: tokens.exportPrivate(), signer: signer.key });
  const sealed = Buffer.concat([cipher.update(inside), cipher.final(), cipher.getAuthTag()]);
  return ok(written(salt, nonce, sealed));
}

const damaged = (why: string): Outcome<never> =>
  fail('invalid_input', `the file of exported keys is not valid: ${why}`);

function unseal(
  sealed: Buffer,
  key: Buffer,
  nonce: Uint8Array,
): { tokens: string; signer: string } | undefined {
  const decipher = createDecipheriv('aes-256-gcm', key, nonce);
  decipher.setAAD(Buffer.from(FORM));
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    const inside = Buffer.concat([
      decipher.update(sealed.subarray(0, -TAG_BYTES)),
      decipher.final(),
    ]);
    const read = parseJson(inside.toString('utf8'));
    const [tokens, signer] = read.ok
      ? [getOwn(read.output, 'tokens'), getOwn(read.output, 'signer')]
      : [];
    return typeof tokens === 'string' && typeof signer === 'string'
      ? { tokens, signer }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Reads a file that `sealKeys` wrote. No message contains the text of a key. */
export function openKeys(text: string, passphrase: string, cost = COST): Outcome<KeyParcel> {
  const read = text.length > MAX_TEXT ? undefined : parseJson(text);
  if (!read?.ok || getOwn(read.output, 'form') !== FORM) return damaged('it has another format');
  const bytes = ['salt', 'nonce', 'sealed'].map((name) => {
    const part = getOwn(read.output, name);
    return (typeof part === 'string' ? fromBase64Url(part) : undefined) ?? Buffer.alloc(0);
  });
  const [salt, nonce, sealed] = bytes;
  const isWhole =
    salt?.length === SALT_BYTES &&
    nonce?.length === NONCE_BYTES &&
    (sealed?.length ?? 0) > TAG_BYTES;
  if (!isWhole || !salt || !nonce || !sealed) return damaged('parts are missing');
  // Bytes have one text only, so every change is detected.
  if (written(salt, nonce, sealed) !== text) return damaged('it was changed');
  const inside = unseal(sealed, sealingKey(passphrase, salt, cost), nonce);
  if (!inside) {
    return fail('permission_denied', 'the passphrase is wrong, or the file was changed');
  }
  const tokens = importKeyPair(inside.tokens);
  if (!tokens.ok) return damaged('the private key is missing');
  const id = keyIdOf(inside.signer);
  if (!id.ok) return damaged('the public key is missing');
  return ok({ tokens: tokens.output, signer: { id: id.output, key: inside.signer } });
}
