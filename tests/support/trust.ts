// What the tests of this room share: the shipped catalogue and a clock that stands still.
import { readFileSync } from 'node:fs';
import { parseYaml } from '../../src/base/index.ts';
import {
  type CapabilityCatalog,
  createCapabilityCatalog,
  readCapabilities,
} from '../../src/trust/grants/capability-catalog.ts';

export function bundleCatalog(): CapabilityCatalog {
  const file = new URL('../../bundle/config/capabilities.yaml', import.meta.url);
  const { infos, problems } = readCapabilities(parseYaml(readFileSync(file, 'utf8')).value);
  const catalog = createCapabilityCatalog(infos);
  if (problems.length > 0 || !catalog.ok) throw new Error(JSON.stringify({ problems, catalog }));
  return catalog.output;
}

export const NOW = Date.UTC(2026, 0, 1);

/** The same bytes for the same seed. */
export function seededRandom(seed: number): (count: number) => Uint8Array {
  let state = seed >>> 0;
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state >>> 24;
    });
}
