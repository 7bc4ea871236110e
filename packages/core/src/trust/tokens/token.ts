// Capability tokens are chains of blocks. The root key of the harness signs the first block, and the key that
// a block names signs the next one. The owner of the last private key can append a block, but cannot remove
// one, because that key fits only the end of the chain.
import { fail, type Outcome, ok, type RandomBytes, systemRandom } from '../../base/index.ts';
import {
  frame,
  fromBase64Url,
  generateSeed,
  KEY_BYTES,
  type KeyPair,
  keyPairFromSeed,
  SIGNATURE_BYTES,
  toBase64Url,
} from '../keys/key.ts';
import { type TokenBlock, writeBlock } from './token-block.ts';

/** A signed body, the public key for the next block, and the signature over both. */
export interface TokenLink {
  readonly body: string;
  readonly next: Uint8Array;
  readonly signature: Uint8Array;
}

/** The end of a chain: the private key for the next block, or the signature that closed it. */
type TokenProof =
  | { readonly kind: 'key'; readonly seed: Uint8Array }
  | { readonly kind: 'seal'; readonly signature: Uint8Array };

/** A secret. The proof is not enumerable, so printing or spreading a token does not show it. */
export interface CapabilityToken {
  readonly root: string;
  readonly links: readonly TokenLink[];
  readonly sealed: boolean;
  readonly proof: TokenProof;
}

/** The content of a block from the caller. `mintToken` and `attenuateToken` add version, nonce and marks. */
type BlockContent = Omit<TokenBlock, 'v' | 'nonce' | 'core' | 'approval'>;

interface MintOptions {
  /** True for a signed item of the core, whose system-only capabilities count. */
  core?: boolean;
  /** Id of the approval by a person for which this token is minted. */
  approval?: string;
  random?: RandomBytes;
}

const PREFIX = 'kmt1';
const BLOCK_TAG = 'kernmantle/capability-token/block/v1';
const SEAL_TAG = 'kernmantle/capability-token/seal/v1';
const MAX_BLOCKS = 32;
export const MAX_TOKEN = 1024 * 1024;

const indexBytes = (index: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(index);
  return bytes;
};

/**
 * Returns the bytes that the signature of a block covers. `previous` is the signature of the block before,
 * and for block 0 the root key.
 */
export const signedBytes = (
  index: number,
  previous: Uint8Array,
  body: string,
  next: Uint8Array,
): Buffer => frame(BLOCK_TAG, indexBytes(index), previous, Buffer.from(body), next);

/** Returns the bytes that a seal covers: the last link and, through its signature, all links before. */
export const sealedBytes = (count: number, { body, next, signature }: TokenLink): Buffer =>
  frame(SEAL_TAG, indexBytes(count), Buffer.from(body), next, signature);

function makeToken(root: string, links: readonly TokenLink[], proof: TokenProof): CapabilityToken {
  const token = { root, links: Object.freeze([...links]), sealed: proof.kind === 'seal' };
  Object.defineProperty(token, 'proof', { value: proof, enumerable: false });
  return Object.freeze(token) as CapabilityToken;
}

function appendLink(
  root: string,
  links: readonly TokenLink[],
  signer: KeyPair,
  previous: Uint8Array,
  block: TokenBlock,
  random: RandomBytes,
): Outcome<CapabilityToken> {
  const index = links.length;
  if (index >= MAX_BLOCKS) return fail('invalid_input', `a token has at most ${MAX_BLOCKS} blocks`);
  const body = writeBlock(block, index);
  if (!body.ok) return body;
  const { seed, publicKey } = generateSeed(random);
  const next = Buffer.from(publicKey, 'base64url');
  const signature = signer.sign(signedBytes(index, previous, body.output, next));
  const link: TokenLink = { body: body.output, next, signature };
  return ok(makeToken(root, [...links, link], { kind: 'key', seed }));
}

const nonceOf = (random: RandomBytes): string => toBase64Url(random(16));

/** Returns a new chain of one block, which the root key signs. Fails for a block that no verifier would accept. */
export function mintToken(
  root: KeyPair,
  content: BlockContent,
  options: MintOptions = {},
): Outcome<CapabilityToken> {
  const { core = false, approval, random = systemRandom } = options;
  const block: TokenBlock = {
    ...content,
    v: 1,
    nonce: nonceOf(random),
    ...(core && { core: true }),
    ...(approval !== undefined && { approval }),
  };
  const rootKey = Buffer.from(root.publicKey, 'base64url');
  return appendLink(root.id, [], root, rootKey, block, random);
}

/**
 * Returns the chain with one more block. INVARIANT: this can never add rights, whatever the block
 * contains, because every block must allow a call.
 */
export function attenuateToken(
  token: CapabilityToken,
  content: BlockContent,
  random: RandomBytes = systemRandom,
): Outcome<CapabilityToken> {
  const last = token.links.at(-1);
  if (token.proof.kind !== 'key' || !last) {
    return fail('invalid_input', 'a sealed capability token cannot be narrowed further');
  }
  const signer = keyPairFromSeed(token.proof.seed);
  const block: TokenBlock = { ...content, v: 1, nonce: nonceOf(random) };
  return appendLink(token.root, token.links, signer, last.signature, block, random);
}

/** Returns `kmt1.ROOT.BODY.KEY.SIGNATURE…` with `k.SEED` or `s.SIGNATURE` at the end, all base64url. */
export function encodeToken(token: CapabilityToken): string {
  const { proof } = token;
  const links = token.links.flatMap(({ body, next, signature }) => [
    toBase64Url(Buffer.from(body)),
    toBase64Url(next),
    toBase64Url(signature),
  ]);
  const end =
    proof.kind === 'key' ? ['k', toBase64Url(proof.seed)] : ['s', toBase64Url(proof.signature)];
  return [PREFIX, token.root, ...links, ...end].join('.');
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readLink(body: string, next: string, signature: string): TokenLink | undefined {
  const [text, key, signed] = [
    fromBase64Url(body),
    fromBase64Url(next, KEY_BYTES),
    fromBase64Url(signature, SIGNATURE_BYTES),
  ];
  if (!text || !key || !signed) return undefined;
  try {
    return { body: utf8.decode(text), next: key, signature: signed };
  } catch {
    return undefined;
  }
}

function readProof(kind: string | undefined, text: string): TokenProof | undefined {
  const bytes = fromBase64Url(text, kind === 'k' ? KEY_BYTES : SIGNATURE_BYTES);
  if (!bytes) return undefined;
  if (kind === 'k') return { kind: 'key', seed: bytes };
  return kind === 's' ? { kind: 'seal', signature: bytes } : undefined;
}

/**
 * Reads exactly the text that `encodeToken` writes. Checks only the form, because a verifier checks the
 * signatures. Never throws.
 */
export function decodeToken(text: string): Outcome<CapabilityToken> {
  const refuse = (why: string) => fail('invalid_input', `not a capability token: ${why}`);
  if (typeof text !== 'string' || text.length > MAX_TOKEN) return refuse('it is too long');
  const parts = text.split('.', 3 * MAX_BLOCKS + 5);
  const count = (parts.length - 4) / 3;
  if (parts[0] !== PREFIX) return refuse('its version is not supported');
  if (!Number.isInteger(count) || count < 1 || count > MAX_BLOCKS)
    return refuse('parts are missing');
  const root = parts[1] ?? '';
  if (!/^[0-9a-f]{32}$/.test(root)) return refuse('it names no root key');
  const links: TokenLink[] = [];
  for (let at = 2; links.length < count; at += 3) {
    const [body = '', next = '', signature = ''] = parts.slice(at, at + 3);
    const link = readLink(body, next, signature);
    if (!link) return refuse(`block ${links.length} is damaged`);
    links.push(link);
  }
  const proof = readProof(parts.at(-2), parts.at(-1) ?? '');
  return proof ? ok(makeToken(root, links, proof)) : refuse('its end is damaged');
}
