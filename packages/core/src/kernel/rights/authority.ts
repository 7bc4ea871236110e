// Makes the rights of a caller from its source: a capability token inside of a thread, or the operator's
// policy for the surface of the call. Both answer the same questions.
import { createRecentPairs, type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { ClosedFiles, ComposedPolicy, GuardSet } from '../../flow/index.ts';
import type { ItemKind } from '../../items/index.ts';
import {
  type CapabilityCatalog,
  createCeilingVerifier,
  listRefusal,
  missingInList,
  type VerifiedToken,
} from '../../trust/index.ts';
import type { Authority } from '../call.ts';
import type { Verifier } from '../primitive.ts';

/** Cache by policy and capability catalog. Both objects are replaced whenever anything changes. */
const cache = createRecentPairs<
  ComposedPolicy | string,
  { catalog: CapabilityCatalog; authority: Authority }
>(32);

/**
 * Returns the rights outside of a thread: the ceilings of every policy level for this surface, all of
 * which must allow.
 */
export function policyAuthority(
  policy: ComposedPolicy,
  surface: string,
  catalog: CapabilityCatalog,
): Authority {
  const before = cache.get(policy, surface);
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
            `on the surface \`${surface}\` only tools with effect ${effects.join(', ') || 'none'} may be called, but this tool has effect \`${effect}\`; see \`surfaces\` in the policy`,
            { missing: `effect.${effect}`, surface },
          ),
  };
  cache.set(policy, surface, { catalog, authority });
  return authority;
}

/** Folder names of the kinds of items that have lists over categories. */
const FILTERED = ['directives', 'knowledge'] as const;

const ofTokens = new WeakMap<VerifiedToken, Authority>();

/** Returns the rights inside of a thread: the token decides, including its expiry and revocation. */
export function tokenAuthority(token: VerifiedToken): Authority {
  const before = ofTokens.get(token);
  if (before) return before;
  const authority: Authority = {
    subject: `token:${token.hash}`,
    check: token.check,
    holds: token.holds,
    sees: token.sees,
    listAgainst: token.listAgainst,
    globs: () => token.globs(),
    granted: () => token.granted(),
    uses: token.budget.uses,
    filtered: FILTERED.filter((kind) => token.blocks.some(({ filters }) => filters?.[kind])),
    allowsEffect: token.current,
    allowsDirective: token.current,
  };
  ofTokens.set(token, authority);
  return authority;
}

/**
 * Refuses an item that a list over categories and names excludes. `missing` names the entry that an allow
 * list lacks, never a capability. It is empty for a deny list.
 */
export function leftOut(
  authority: Authority,
  kind: ItemKind,
  { category, id }: { readonly category: string; readonly id: string },
  message: string,
): Failure {
  const list = authority.listAgainst?.(kind, category, id);
  const missing = list === undefined ? [] : missingInList(list).map(({ capability }) => capability);
  const text = list === undefined ? message : `${message}: ${listRefusal(list)}`;
  return fail('permission_denied', text, {
    missing: missing[0] ?? '',
    missing_all: missing,
    rule: list ?? 'lists',
    attempted: `${kind}:${id}`,
    granted: [...(authority.granted?.() ?? [])],
    scope: { category, id },
  });
}

/** Returns the verifier for a primitive. */
export function verifierOf(authority: Authority): Verifier {
  const { check, globs } = authority;
  if (check.globs === globs) return check;
  const verify: Verifier = (need) => authority.check(need);
  return globs ? Object.assign(verify, { globs }) : verify;
}

/** Returns the authority without the capabilities that `refusal` refuses. */
export const without = (
  authority: Authority,
  refusal: (capability: string) => Outcome<null> | undefined,
): Authority => ({
  ...authority,
  check: (need) => refusal(need.capability) ?? authority.check(need),
  holds: (capability) => refusal(capability) ?? authority.holds(capability),
});

/**
 * Returns the authority for requests to a model. The setting `models` of policies decides whether a model
 * may be called, so that closing the network to tools does not close models. INVARIANT: an unsigned chain
 * never gets more rights by this, because it is restricted afterwards.
 */
export function forModels(authority: Authority): Authority {
  const isOpen = (name: string): boolean => name === 'net.http' || name === 'tool.execute';
  return {
    ...authority,
    check: (need) => (isOpen(need.capability) ? ok(null) : authority.check(need)),
    holds: (name) => (isOpen(name) ? ok(null) : authority.holds(name)),
  };
}

/** Restricts the authority to these names. Calls of tools stay open, because each is judged itself. */
export function restrictTo(authority: Authority, only: readonly string[] | undefined): Authority {
  if (only === undefined) return authority;
  return without(authority, (capability) =>
    capability === 'tool.execute' || only.includes(capability)
      ? undefined
      : fail(
          'permission_denied',
          `the calling tool does not declare \`${capability}\`; add it to its \`requires\``,
          // The thread may have the right, but the tool must declare it.
          { missing: '', rule: 'requires' },
        ),
  );
}

const FILES: ReadonlyMap<string, 'r' | 'w'> = new Map([
  ['fs.read', 'r'],
  ['fs.write', 'w'],
]);

function withoutFiles(
  authority: Authority,
  { refusal, globs }: ClosedFiles,
  isProcess: boolean,
): Authority {
  const ownGlobs = authority.globs;
  return {
    ...authority,
    check(need) {
      const [mode, path] = [FILES.get(need.capability), need.scope?.path];
      if (!mode || path === undefined) return authority.check(need);
      const why = refusal(mode, path, isProcess);
      if (why === undefined) return authority.check(need);
      return fail('permission_denied', why, { missing: '', rule: 'policy', attempted: path });
    },
    ...(ownGlobs && { globs: () => [...ownGlobs(), ...globs] }),
  };
}

/** Returns the authority without the files that policies of the caller close. */
export const underPolicies = (
  authority: Authority,
  { locked }: GuardSet,
  isProcess: boolean,
): Authority =>
  locked.list.reduce(
    (rest, { closes }) => (closes ? withoutFiles(rest, closes, isProcess) : rest),
    authority,
  );

/** A tool that reads may start a process, which is judged by what it reads and does. */
const LOOKED_WITH: ReadonlySet<string> = new Set(['process.spawn', 'fs.exec', 'kernel.execute']);

const TOKEN = 'make a token that may do more with `km web token add --role steer`';

/**
 * Returns the authority of a caller that may only read. It refuses to start, steer, write or send, and
 * every tool that does.
 */
export function readOnly(authority: Authority, catalog: CapabilityCatalog): Authority {
  const refuse = (what: string): Failure =>
    fail('permission_denied', `this client may only read, which excludes \`${what}\`; ${TOKEN}`, {
      missing: what,
    });
  const narrowed = without(authority, (capability) =>
    catalog.get(capability)?.tier === 'read' || LOOKED_WITH.has(capability)
      ? undefined
      : refuse(capability),
  );
  const allowsEffect: Authority['allowsEffect'] = (effect) =>
    effect === 'read' ? authority.allowsEffect(effect) : refuse(`effect.${effect}`);
  return { ...narrowed, allowsEffect };
}
