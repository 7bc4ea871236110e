// The package's own items count as signed by the package: a list made at build says what each file
// was. The list is data, so that a test can see whether it is current.
import { getOwn, parseJson } from '../base/index.ts';
import { readInside } from './inside.ts';
import type { SignatureState } from './item.ts';
import { sha256Hex } from './signature-line.ts';

/** Path relative to the bundle -> sha256 of the file, in hex. */
export type BundleDigests = Readonly<Record<string, string>>;

const MAX_LIST_BYTES = 4 * 1024 * 1024;

/** The list that lies in a bundle; empty when there is none, so nothing counts as shipped. */
export function readBundleDigests(root: string): BundleDigests {
  const read = readInside(root, 'digests.json', MAX_LIST_BYTES);
  const parsed = read && 'text' in read ? parseJson(read.text) : undefined;
  if (!parsed?.ok || typeof parsed.output !== 'object' || parsed.output === null) return {};
  const entries = Object.entries(parsed.output).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(entries) as BundleDigests;
}

export function judgeBundled(digests: BundleDigests, path: string, text: string): SignatureState {
  const listed = getOwn(digests, path);
  if (listed === undefined) {
    return { state: 'unsigned', reason: 'it is not on the digest list of the bundle' };
  }
  return listed === sha256Hex(text)
    ? { state: 'bundle' }
    : { state: 'changed', reason: 'it is not what the package was built with' };
}
