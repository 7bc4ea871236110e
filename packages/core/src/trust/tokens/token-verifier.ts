// Verifies capability tokens. Signatures and shapes are checked once per token, and the result is cached by
// hash. Time, revocation and grants are checked at every use.
import { createRecent, type Outcome, ok } from '../../base/index.ts';
import type { CapabilityCatalog } from '../grants/capability-catalog.ts';
import { tokenRefused } from '../grants/denial.ts';
import { grantProblem, grantsAllow } from '../grants/grant.ts';
import {
  fromBase64Url,
  KEY_BYTES,
  keyIdOf,
  keyPairFromSeed,
  type PublicKeyRecord,
  sha256,
  toBase64Url,
  verifySignature,
} from '../keys/key.ts';
import {
  type CapabilityToken,
  decodeToken,
  MAX_TOKEN,
  sealedBytes,
  signedBytes,
  type TokenLink,
} from './token.ts';
import { readBlock, type TokenBlock } from './token-block.ts';
import { type TokenWorld, VerifiedToken } from './verified-token.ts';

export interface TokenVerifierPorts extends TokenWorld {
  /** Trusted keys of block 0. During an exchange of root keys there are several. */
  roots: readonly PublicKeyRecord[];
  audience: string;
  /** Real path of the project's root. */
  project: string;
  cacheSize?: number;
}

export type TokenVerifier = ReturnType<typeof createTokenVerifier>;

const CACHE_SIZE = 1000;

function verifyLinks(links: readonly TokenLink[], root: Uint8Array): boolean {
  let [signer, previous] = [root, root];
  for (const [index, { body, next, signature }] of links.entries()) {
    if (!verifySignature(signer, signedBytes(index, previous, body, next), signature)) return false;
    [signer, previous] = [next, signature];
  }
  return true;
}

/**
 * INVARIANT: a chain is always accepted only up to its true end. Without this check, removing the last
 * block would restore the rights that it removed.
 */
function verifyEnd({ links, proof }: CapabilityToken): boolean {
  const last = links.at(-1);
  if (!last) return false;
  if (proof.kind === 'key') {
    return keyPairFromSeed(proof.seed).publicKey === toBase64Url(last.next);
  }
  return verifySignature(last.next, sealedBytes(links.length, last), proof.signature);
}

function readBlocks(links: readonly TokenLink[]): Outcome<TokenBlock[]> {
  const blocks: TokenBlock[] = [];
  for (const [index, link] of links.entries()) {
    const block = readBlock(link.body, index);
    if (!block.ok) return tokenRefused('malformed', block.error.detail.message);
    blocks.push(block.output);
  }
  return ok(blocks);
}

/** True if a block may enter another project. Each earlier block must have the right. */
function mayEnter(project: string, before: readonly TokenBlock[], catalog: CapabilityCatalog) {
  const need = { capability: 'project.use', scope: { path: project } };
  return before.every((block) => grantsAllow(block.caps, need, catalog));
}

function lineageProblem(
  blocks: readonly TokenBlock[],
  ports: TokenVerifierPorts,
): [string, string] | undefined {
  for (const [index, block] of blocks.entries()) {
    const before = blocks[index - 1];
    if (block.aud !== ports.audience) return ['audience', `block ${index} is for another audience`];
    const grants = block.approved ? [...block.caps, ...block.approved] : block.caps;
    const bad = grants.map((grant) => grantProblem(grant, ports.catalog)).find(Boolean);
    if (bad !== undefined) return ['capability', `block ${index}: ${bad}`];
    if (!before) continue;
    if (block.thread !== before.thread && block.parent !== before.thread) {
      return [
        'thread',
        `block ${index} belongs to a thread that is not a child of \`${before.thread}\``,
      ];
    }
    if (
      block.project !== before.project &&
      !mayEnter(block.project, blocks.slice(0, index), ports.catalog)
    ) {
      return ['project', `block ${index} enters a project without \`project.use\``];
    }
  }
  return blocks.at(-1)?.project === ports.project
    ? undefined
    : ['project', 'it is for another project'];
}

export function createTokenVerifier(ports: TokenVerifierPorts) {
  const { cacheSize = CACHE_SIZE } = ports;
  const cache = createRecent<string, VerifiedToken>(Math.ceil(cacheSize / 2));
  /** The last text with its token, because a thread presents the same one at every call. */
  let latest: { text: string; token: VerifiedToken } | undefined;
  const roots = new Map<string, Uint8Array>();
  for (const { key } of ports.roots) {
    const [id, raw] = [keyIdOf(key), fromBase64Url(key, KEY_BYTES)];
    // A record with an invalid key is ignored.
    if (id.ok && raw) roots.set(id.output, raw);
  }

  function verifyFresh(text: string, hash: string): Outcome<VerifiedToken> {
    const token = decodeToken(text);
    if (!token.ok) return tokenRefused('malformed', token.error.detail.message);
    const root = roots.get(token.output.root);
    if (!root) return tokenRefused('root', 'its root key is not trusted');
    const genuine = verifyLinks(token.output.links, root) && verifyEnd(token.output);
    if (!genuine) return tokenRefused('signature', 'a signature is not valid');
    const blocks = readBlocks(token.output.links);
    if (!blocks.ok) return blocks;
    const problem = lineageProblem(blocks.output, ports);
    if (problem) return tokenRefused(...problem);
    return ok(new VerifiedToken(hash, blocks.output, ports));
  }

  function verifyText(text: string): Outcome<VerifiedToken> {
    const hash = toBase64Url(sha256('kernmantle/token-hash/v1\0', text));
    const cached = cache.get(hash);
    if (cached) return ok(cached);
    const token = verifyFresh(text, hash);
    if (token.ok && cacheSize > 0) cache.set(hash, token.output);
    return token;
  }

  return {
    /** Verifies a token. With `thread`, the presenting thread, a token of another thread is refused. Never throws. */
    verify(text: string, thread?: string): Outcome<VerifiedToken> {
      if (typeof text !== 'string' || text.length > MAX_TOKEN) {
        return tokenRefused('malformed', 'it is not a text, or it is too long');
      }
      const token = latest?.text === text ? ok(latest.token) : verifyText(text);
      if (!token.ok) return token;
      if (cacheSize > 0) latest = { text, token: token.output };
      if (thread !== undefined && token.output.thread !== thread) {
        return tokenRefused('thread', `it belongs to another thread than \`${thread}\``);
      }
      const current = token.output.current();
      return current.ok ? token : current;
    },
  };
}
