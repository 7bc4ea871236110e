// What a caller may do, made from what speaks for it: a capability token inside a thread, or the
// operator's policy for the surface the call came in on. Both answer the same questions.
import { isAbsolute, join, relative, resolve } from 'node:path';
import {
  type Clock,
  createLooks,
  createRecentPairs,
  fail,
  isInside,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { ComposedPolicy } from '../../flow/index.ts';
import {
  type CapabilityCatalog,
  createCeilingVerifier,
  type VerifiedToken,
} from '../../trust/index.ts';
import type { Authority } from '../call.ts';
import type { Verifier } from '../primitive.ts';
import { realOf } from './project-path.ts';

/** By policy and surface: both, and the catalogue, are replaced as a whole when anything changes. */
const known = createRecentPairs<
  ComposedPolicy | string,
  { catalog: CapabilityCatalog; authority: Authority }
>(32);

/** Outside a thread: the ceilings of every policy level for this surface, all of which must allow. */
export function policyAuthority(
  policy: ComposedPolicy,
  surface: string,
  catalog: CapabilityCatalog,
): Authority {
  const before = known.get(policy, surface);
  if (before?.catalog === catalog) return before.authority;
  const verifier = createCeilingVerifier(policy.ceilings(surface), catalog);
  const effects = policy.effects(surface);
  const authority: Authority = {
    subject: `policy:${surface}`,
    check: verifier,
    holds: verifier.holds,
    sees: () => true,
    globs: verifier.globs,
    allowsDirective(signed) {
      const access = policy.directives(surface);
      if (access === 'all' || (access === 'signed' && signed)) return ok(null);
      return fail(
        'permission_denied',
        `on the surface \`${surface}\` ${access === 'none' ? 'no directives' : 'only signed directives'} may be started; sign it, or see \`surfaces\` in the policy`,
        { missing: `directives.${access === 'none' ? 'any' : 'unsigned'}`, surface },
      );
    },
    allowsEffect: (effect) =>
      effects.includes(effect)
        ? ok(null)
        : fail(
            'permission_denied',
            `on the surface \`${surface}\` only tools with effect ${effects.join(', ') || 'none'} may be called, this one is \`${effect}\`; see \`surfaces\` in the policy`,
            { missing: `effect.${effect}`, surface },
          ),
  };
  known.set(policy, surface, { catalog, authority });
  return authority;
}

const ofTokens = new WeakMap<VerifiedToken, Authority>();

/** Inside a thread: the token decides, its expiry and revocation included. */
export function tokenAuthority(token: VerifiedToken): Authority {
  const before = ofTokens.get(token);
  if (before) return before;
  const authority: Authority = {
    subject: `token:${token.hash}`,
    check: token.check,
    holds: token.holds,
    sees: token.sees,
    globs: () => token.globs(),
    allowsEffect: token.current,
    allowsDirective: token.current,
  };
  ofTokens.set(token, authority);
  return authority;
}

/** For a primitive, which asks and need not know who answers. */
export function verifierOf(authority: Authority): Verifier {
  const { check, globs } = authority;
  if (check.globs === globs) return check;
  const verify: Verifier = (need) => authority.check(need);
  return globs ? Object.assign(verify, { globs }) : verify;
}

/** The same without the capabilities that are refused. */
export const without = (
  authority: Authority,
  refusal: (capability: string) => Outcome<null> | undefined,
): Authority => ({
  ...authority,
  check: (need) => refusal(need.capability) ?? authority.check(need),
  holds: (capability) => refusal(capability) ?? authority.holds(capability),
});

/** Held to these names, and to calling tools at all, which are then judged themselves. */
export function heldTo(authority: Authority, only: readonly string[] | undefined): Authority {
  if (only === undefined) return authority;
  return without(authority, (capability) =>
    capability === 'tool.execute' || only.includes(capability)
      ? undefined
      : fail(
          'permission_denied',
          `the tool that does this does not require \`${capability}\`; add it to its \`requires\``,
          { missing: capability },
        ),
  );
}

// Places that no right over files reaches, whoever holds it and however the path is written: the
// user's own folder with its keys (a project may be the home folder), and the project's items, also
// where `.ai` is a link to a folder with another name.

interface ClosedPlaces {
  /** Real path of the project. */
  project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  home: string;
}

/**
 * Takes the closed places out of every right over files. Where they are is looked at every 20 ms at
 * most: searching a project asks about thousands of files. The same authority gives the same answer.
 */
export function createKeepOut(
  { project, home }: ClosedPlaces,
  clock: Clock,
): (authority: Authority) => Authority {
  const looks = createLooks(clock);
  const listed = { home, items: join(project, '.ai') };
  let real = { home: '', items: '', isHomeNear: true };
  const known = new WeakMap<Authority, Authority>();

  function places() {
    if (looks.isRecent()) return real;
    looks.begin();
    // What is not there yet has no link that leads to it either.
    const now = realOf(listed.home) ?? listed.home;
    const items = realOf(listed.items) ?? listed.items;
    const isHomeNear =
      now === real.home ? real.isHomeNear : isInside(now, project) || isInside(project, now);
    real = { home: now, items, isHomeNear };
    return real;
  }
  function refusal(capability: string, path: string): string | undefined {
    const { home: own, items, isHomeNear } = places();
    // Scopes of files are relative to the project and already free of links.
    if (capability === 'fs.read' && !isHomeNear && !isAbsolute(path)) return undefined;
    const place = resolve(project, path);
    if (isInside(place, own)) return 'is in the folder that holds your keys';
    return capability === 'fs.write' && isInside(place, items)
      ? 'is where the items of the project are; they change through `execute`'
      : undefined;
  }
  const closed = (): string[] => {
    const { home: own, items } = places();
    return [own, items]
      .filter((place) => isInside(project, place))
      .map((place) => `${relative(project, place)}/**`);
  };
  return (authority) => {
    const before = known.get(authority);
    if (before) return before;
    const { globs } = authority;
    const check: Verifier = (need) => {
      const allowed = authority.check(need);
      const path = need.scope?.path;
      if (!allowed.ok || path === undefined || !need.capability.startsWith('fs.')) return allowed;
      const reason = refusal(need.capability, path);
      if (reason === undefined) return allowed;
      return fail('permission_denied', `\`${path}\` ${reason}`, {
        missing: need.capability,
        attempted: path,
      });
    };
    if (globs) check.globs = () => [...globs(), ...closed()];
    const made: Authority = { ...authority, check, ...(check.globs && { globs: check.globs }) };
    known.set(authority, made);
    return made;
  };
}
