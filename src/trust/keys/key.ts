import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign as signBytes,
  verify as verifyBytes,
} from 'node:crypto';
import { fail, type Outcome, ok, type RandomBytes, systemRandom } from '../../base/index.ts';

export const toBase64Url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');

/** Only the one spelling that `toBase64Url` writes: two texts never mean the same bytes. */
export function fromBase64Url(text: string, length?: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (length !== undefined && bytes.length !== length) return undefined;
  return bytes.toString('base64url') === text ? bytes : undefined;
}

export const sha256 = (...parts: (string | Uint8Array)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** A length before each part, so that no two lists of parts give the same bytes. */
export function frame(tag: string, ...parts: readonly Uint8Array[]): Buffer {
  const pieces: Uint8Array[] = [Buffer.from(`${tag}\0`)];
  for (const part of parts) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    pieces.push(length, part);
  }
  return Buffer.concat(pieces);
}

// Ed25519 keys. A key id is a digest of the public key, so an id cannot be claimed for another key.

export interface PublicKeyRecord {
  id: string;
  /** The 32 bytes in base64url. */
  key: string;
}

export interface KeyPair {
  readonly id: string;
  /** The 32 bytes in base64url. */
  readonly publicKey: string;
  sign(bytes: Uint8Array): Uint8Array;
  /** PKCS #8 PEM: a secret. Nothing else of this object shows it. */
  exportPrivate(): string;
}

export const KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;
// What stands before the 32 bytes of an Ed25519 key in DER.
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const MAX_PEM = 1000;

/** 128 bits of a digest, in hex: no leading dash, no case. */
export function keyIdOf(publicKey: string): Outcome<string> {
  const raw = fromBase64Url(publicKey, KEY_BYTES);
  if (!raw) return fail('invalid_input', 'a public key is 32 bytes in base64url');
  return ok(digestId(raw));
}

const digestId = (raw: Uint8Array): string =>
  sha256('kernmantle/key-id/v1\0', raw).toString('hex').slice(0, 32);

/** Undefined when the bytes are no key. */
export function readPublicKey(raw: Uint8Array): KeyObject | undefined {
  try {
    const key = Buffer.concat([SPKI_PREFIX, raw]);
    return createPublicKey({ key, format: 'der', type: 'spki' });
  } catch {
    return undefined;
  }
}

/** In base64url. As JWK it is there at once; DER has to be written first, which takes as long as a signature. */
const publicOf = (key: KeyObject): string => createPublicKey(key).export({ format: 'jwk' }).x ?? '';

function pairOf(key: KeyObject): KeyPair {
  const publicKey = publicOf(key);
  return Object.freeze({
    id: digestId(Buffer.from(publicKey, 'base64url')),
    publicKey,
    sign: (bytes: Uint8Array) => signBytes(null, bytes, key),
    exportPrivate: () => key.export({ format: 'pem', type: 'pkcs8' }).toString(),
  });
}

/** Throws unless the seed has 32 bytes. */
export function keyPairFromSeed(seed: Uint8Array): KeyPair {
  if (seed.length !== KEY_BYTES) throw new RangeError(`a seed has ${KEY_BYTES} bytes`);
  const key = Buffer.concat([PKCS8_PREFIX, seed]);
  return pairOf(createPrivateKey({ key, format: 'der', type: 'pkcs8' }));
}

const MAX_KNOWN = 1000;
/** By a digest of the seed: nothing in here is a secret. */
const known = new Map<string, string>();

/** Who mints a token makes this key, and who verifies it soon after makes it again. */
export function publicKeyFromSeed(seed: Uint8Array): string {
  const name = sha256('kernmantle/seed/v1\0', seed).toString('base64url');
  const before = known.get(name);
  if (before !== undefined) return before;
  const { publicKey } = keyPairFromSeed(seed);
  known.set(name, publicKey);
  const [oldest] = known.keys();
  if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
  return publicKey;
}

export const generateKeyPair = (random: RandomBytes = systemRandom): KeyPair =>
  keyPairFromSeed(random(KEY_BYTES));

/** Reads what `exportPrivate` wrote. The text never appears in a message. */
export function importKeyPair(text: string): Outcome<KeyPair> {
  if (text.length > MAX_PEM || !text.startsWith('-----BEGIN PRIVATE KEY-----')) {
    return fail('invalid_input', 'not a private key: a PKCS #8 PEM text is expected');
  }
  try {
    const key = createPrivateKey({ key: text, format: 'pem', type: 'pkcs8' });
    if (key.asymmetricKeyType === 'ed25519') return ok(pairOf(key));
  } catch {
    return fail('invalid_input', 'the private key is damaged');
  }
  return fail('invalid_input', 'the private key is not an Ed25519 key');
}

export function verifySignature(key: KeyObject, bytes: Uint8Array, signature: Uint8Array): boolean {
  return signature.length === SIGNATURE_BYTES && verifyBytes(null, bytes, key, signature);
}
