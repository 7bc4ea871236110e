// Rights that belong to a program and not to whoever uses it: what is written beside its name, less what
// policies deny and what is closed to everybody. INVARIANT: nothing is held that was not granted, and
// nothing that was granted is held against a policy: both are asked, every time.
import { fail, matchGlob } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';

export interface ProcessGrants {
  /** Globs over paths of the project. What may be written may be read. */
  readonly read: readonly string[];
  readonly write: readonly string[];
  /** All of it, or none. */
  readonly network: boolean;
}

const covers = (globs: readonly string[], path: string): boolean =>
  globs.some((glob) => matchGlob(glob, path));

/** Rights of the process itself, whoever speaks to it. */
export function verifierOfGrants(
  { read, write, network }: ProcessGrants,
  policy: Verifier,
): Verifier {
  const isGranted = (capability: string, path: string): boolean => {
    if (capability === 'fs.write') return covers(write, path);
    if (capability === 'fs.read') return covers(read, path) || covers(write, path);
    // Which program is started stands beside what it is granted.
    return capability.startsWith('net.') ? network : /^(process\.spawn|fs\.exec)$/.test(capability);
  };
  const verify: Verifier = (need) => {
    const path = need.scope?.path ?? '';
    if (isGranted(need.capability, path)) return policy(need);
    return fail('permission_denied', `\`${need.capability}\` is not among what it is granted`, {
      // The grants of a program are not those of its caller, who may hold it.
      missing: '',
      rule: 'grants',
      attempted: path,
    });
  };
  const known = policy.globs;
  return known ? Object.assign(verify, { globs: () => [...read, ...write, ...known()] }) : verify;
}
