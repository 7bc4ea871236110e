import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
  verify as verifyBytes,
} from 'node:crypto';
import {
  createRecent,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
  systemRandom,
} from '../../base/index.ts';

export const toBase64Url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');

/** Reads only the spelling that `toBase64Url` writes, so that two texts never mean the same bytes. Else undefined. */
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

/** Joins parts. A length precedes each part, so that two lists of parts never have the same bytes. */
export function frame(tag: string, ...parts: readonly Uint8Array[]): Buffer {
  const pieces: Uint8Array[] = [Buffer.from(`${tag}\0`)];
  for (const part of parts) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    pieces.push(length, part);
  }
  return Buffer.concat(pieces);
}

/** An Ed25519 key. Its id is a digest of the public key, so no other key can have it. */
export interface PublicKeyRecord {
  id: string;
  /** The 32 bytes of the public key in base64url. */
  key: string;
}

export interface KeyPair {
  readonly id: string;
  /** The 32 bytes of the public key in base64url. */
  readonly publicKey: string;
  sign(bytes: Uint8Array): Uint8Array;
  /** Returns the secret as PKCS #8 PEM. No other member of this object contains it. */
  exportPrivate(): string;
}

export const KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;
// The bytes before the 32 bytes of an Ed25519 key in DER.
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const MAX_PEM = 1000;

/** Returns 128 bits of a digest in hex, which has no leading dash and no case. */
export function keyIdOf(publicKey: string): Outcome<string> {
  const raw = fromBase64Url(publicKey, KEY_BYTES);
  if (!raw) return fail('invalid_input', 'a public key is 32 bytes in base64url');
  return ok(digestId(raw));
}

const digestId = (raw: Uint8Array): string =>
  sha256('kernmantle/key-id/v1\0', raw).toString('hex').slice(0, 32);

const MAX_KNOWN = 1000;
const publicKeys = createRecent<string, KeyObject>(MAX_KNOWN);

/** Returns undefined if the bytes are not a key. Keys are cached, because parsing one takes half a verification. */
function readPublicKey(raw: Uint8Array): KeyObject | undefined {
  const name = toBase64Url(raw);
  const before = publicKeys.get(name);
  if (before) return before;
  try {
    const key = Buffer.concat([SPKI_PREFIX, raw]);
    return publicKeys.set(name, createPublicKey({ key, format: 'der', type: 'spki' }));
  } catch {
    return undefined;
  }
}

/** Cache of signatures that this process made, each as a digest of key, bytes and signature. */
const signedHere = createRecent<string, true>(MAX_KNOWN);

/** INVARIANT: key and signature always have a fixed length, so that no two triples have the same bytes. */
const signatureName = (publicKey: Uint8Array, bytes: Uint8Array, signature: Uint8Array): string =>
  toBase64Url(sha256('kernmantle/signature/v1\0', publicKey, signature, bytes));

/** Returns false for an invalid signature. A signature that this process made is not computed again. */
export function verifySignature(
  publicKey: Uint8Array,
  bytes: Uint8Array,
  signature: Uint8Array,
): boolean {
  if (publicKey.length !== KEY_BYTES || signature.length !== SIGNATURE_BYTES) return false;
  if (signedHere.get(signatureName(publicKey, bytes, signature))) return true;
  const key = readPublicKey(publicKey);
  return key !== undefined && verifyBytes(null, bytes, key, signature);
}

function pairOf(key: KeyObject): KeyPair {
  // JWK gives the public key at once; DER would take as long as a signature.
  const publicKey = key.export({ format: 'jwk' }).x ?? '';
  // The bytes are copied, because a slice of a pool would keep the whole pool in memory.
  const raw = new Uint8Array(Buffer.from(publicKey, 'base64url'));
  return Object.freeze({
    id: digestId(raw),
    publicKey,
    sign(bytes: Uint8Array) {
      const signature = signBytes(null, bytes, key);
      signedHere.set(signatureName(raw, bytes, signature), true);
      return signature;
    },
    exportPrivate: () => key.export({ format: 'pem', type: 'pkcs8' }).toString(),
  });
}

/**
 * Cache of key pairs by a digest of the seed. It adds no risk, because this process also has the root key,
 * which can mint every token.
 */
const pairs = createRecent<string, KeyPair>(MAX_KNOWN);
const seedName = (seed: Uint8Array): string => toBase64Url(sha256('kernmantle/seed/v1\0', seed));

/**
 * Returns the key pair of a seed. Throws unless the seed has 32 bytes. The cache makes the verification of a
 * new token fast.
 */
export function keyPairFromSeed(seed: Uint8Array): KeyPair {
  if (seed.length !== KEY_BYTES) throw new RangeError(`a seed has ${KEY_BYTES} bytes`);
  const name = seedName(seed);
  const before = pairs.get(name);
  if (before) return before;
  const key = Buffer.concat([PKCS8_PREFIX, seed]);
  return pairs.set(name, pairOf(createPrivateKey({ key, format: 'der', type: 'pkcs8' })));
}

/** Returns a new key with its seed. Node creates one three times faster than it parses a seed. */
export function generateSeed(random: RandomBytes): { seed: Uint8Array; publicKey: string } {
  if (random !== systemRandom) {
    const seed = random(KEY_BYTES);
    return { seed, publicKey: keyPairFromSeed(seed).publicKey };
  }
  const { privateKey } = generateKeyPairSync('ed25519');
  const seed = Buffer.from(privateKey.export({ format: 'jwk' }).d ?? '', 'base64url');
  const { publicKey } = pairs.set(seedName(seed), pairOf(privateKey));
  return { seed, publicKey };
}

export const generateKeyPair = (random: RandomBytes = systemRandom): KeyPair =>
  keyPairFromSeed(random(KEY_BYTES));

/** Reads the text of `exportPrivate`. No message contains a part of the text. */
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
