import { type Outcome, ok, systemClock } from '../base/index.ts';
import { type SignedFile, signItem } from '../items/index.ts';
import type { Runtime } from '../runtime.ts';
import type { KeyPair } from '../trust/index.ts';

/** The user's key, made when there is none, and trusted here unless it was revoked. */
export function ownKey(runtime: Runtime): Outcome<KeyPair> {
  const key = runtime.keys.signingKey();
  if (!key.ok) return key;
  const { id, publicKey } = key.output;
  const known = runtime.trustStore.list();
  if (!known.ok) return known;
  if (!known.output.some((entry) => entry.id === id)) {
    const added = runtime.trustStore.add({ id, key: publicKey, name: 'me' });
    if (!added.ok) return added;
  }
  return key;
}

/** Signs file by file; the first that cannot be signed ends it, those before stay signed. */
export function signFiles(runtime: Runtime, files: readonly string[]): Outcome<SignedFile[]> {
  const key = ownKey(runtime);
  if (!key.ok) return key;
  const signed: SignedFile[] = [];
  for (const file of files) {
    const done = signItem(file, key.output, systemClock, runtime.library.roots());
    if (!done.ok) return done;
    signed.push(done.output);
  }
  return ok(signed);
}
