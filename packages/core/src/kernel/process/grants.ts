// Makes the rights that belong to a program and not to its caller: its declared grants, without rights that
// policies deny and without closed paths. INVARIANT: the program never has a right that was not granted,
// and a policy can always deny a grant. Both are checked every time.
import { fail, matchGlob } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';

export interface ProcessGrants {
  /** Globs over paths of the project. A path that may be written may be read. */
  readonly read: readonly string[];
  readonly write: readonly string[];
  /** True grants all of the network. */
  readonly network: boolean;
}

const covers = (globs: readonly string[], path: string): boolean =>
  globs.some((glob) => matchGlob(glob, path));

/** Returns the rights of the process, the same for every caller. */
export function verifierOfGrants(
  { read, write, network }: ProcessGrants,
  policy: Verifier,
): Verifier {
  const isGranted = (capability: string, path: string): boolean => {
    if (capability === 'fs.write') return covers(write, path);
    if (capability === 'fs.read') return covers(read, path) || covers(write, path);
    // The declaration of the grants names the program.
    return capability.startsWith('net.') ? network : /^(process\.spawn|fs\.exec)$/.test(capability);
  };
  const verify: Verifier = (need) => {
    const path = need.scope?.path ?? '';
    if (isGranted(need.capability, path)) return policy(need);
    return fail('permission_denied', `\`${need.capability}\` is not granted to this program`, {
      // The caller may have the right; the program lacks it.
      missing: '',
      rule: 'grants',
      attempted: path,
    });
  };
  const globs = policy.globs;
  return globs ? Object.assign(verify, { globs: () => [...read, ...write, ...globs()] }) : verify;
}
