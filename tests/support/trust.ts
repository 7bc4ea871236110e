// Shared by the tests of this room: the shipped catalogue and a clock that does not advance.
import { readFileSync } from 'node:fs';
import { parseYaml } from '@kernmantle/core/base';
import {
  type CapabilityCatalog,
  createCapabilityCatalog,
  readCapabilities,
} from '../../packages/core/src/trust/grants/capability-catalog.ts';
import { keyPairFromSeed } from '../../packages/core/src/trust/keys/key.ts';
import {
  type CapabilityToken,
  decodeToken,
  encodeToken,
  sealedBytes,
} from '../../packages/core/src/trust/tokens/token.ts';

export function bundleCatalog(): CapabilityCatalog {
  const file = new URL('../../bundle/config/capabilities.yaml', import.meta.url);
  const { infos, problems } = readCapabilities(parseYaml(readFileSync(file, 'utf8')).value);
  const catalog = createCapabilityCatalog(infos);
  if (problems.length > 0 || !catalog.ok) throw new Error(JSON.stringify({ problems, catalog }));
  return catalog.output;
}

export const NOW = Date.UTC(2026, 0, 1);

/** Returns a random source. The same seed gives the same bytes. */
export function seededRandom(seed: number): (count: number) => Uint8Array {
  let state = seed >>> 0;
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state >>> 24;
    });
}

/** Returns the token without the key that appends a block, with the same permissions. */
export function sealToken(token: CapabilityToken): CapabilityToken {
  const last = token.links.at(-1);
  if (token.proof.kind !== 'key' || !last) return token;
  const signer = keyPairFromSeed(token.proof.seed);
  const signature = signer.sign(sealedBytes(token.links.length, last));
  const sealed = { ...token, sealed: true, proof: { kind: 'seal' as const, signature } };
  const read = decodeToken(encodeToken(sealed));
  if (!read.ok) throw new Error(read.error.detail.message);
  return read.output;
}
