// What a caller may do, made from what speaks for it: a capability token inside a thread, or the
// operator's policy for the surface the call came in on. Both answer the same questions.
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

/** Kinds of items that lists over categories are about, by the names of their folders. */
const FILTERED = ['directives', 'knowledge'] as const;

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
 * Refuses an item that a list over categories and names leaves out. What is missing is an entry of an
 * allow list, never a capability; a deny list misses nothing.
 */
export function leftOut(
  authority: Authority,
  kind: ItemKind,
  { category, id }: { readonly category: string; readonly id: string },
  message: string,
): Failure {
  const list = authority.listAgainst?.(kind, category, id);
  const missing = list === undefined ? [] : missingInList(list).map(({ capability }) => capability);
  const said = list === undefined ? message : `${message}: ${listRefusal(list)}`;
  return fail('permission_denied', said, {
    missing: missing[0] ?? '',
    missing_all: missing,
    rule: list ?? 'lists',
    attempted: `${kind}:${id}`,
    granted: [...(authority.granted?.() ?? [])],
    scope: { category, id },
  });
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

/**
 * For requests to a model: whether one may be asked is said of the model (`models` in a policy), so
 * that closing the network to tools closes nothing else. INVARIANT: of no use to an unsigned chain,
 * which is restricted after this.
 */
export function forModels(authority: Authority): Authority {
  const isOpen = (name: string): boolean => name === 'net.http' || name === 'tool.execute';
  return {
    ...authority,
    check: (need) => (isOpen(need.capability) ? ok(null) : authority.check(need)),
    holds: (name) => (isOpen(name) ? ok(null) : authority.holds(name)),
  };
}

/** Held to these names, and to calling tools at all, which are then judged themselves. */
export function heldTo(authority: Authority, only: readonly string[] | undefined): Authority {
  if (only === undefined) return authority;
  return without(authority, (capability) =>
    capability === 'tool.execute' || only.includes(capability)
      ? undefined
      : fail(
          'permission_denied',
          `the tool that does this does not require \`${capability}\`; add it to its \`requires\``,
          // The thread may hold it: the tool is what has to name it.
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
  const known = authority.globs;
  return {
    ...authority,
    check(need) {
      const [mode, path] = [FILES.get(need.capability), need.scope?.path];
      if (!mode || path === undefined) return authority.check(need);
      const why = refusal(mode, path, isProcess);
      if (why === undefined) return authority.check(need);
      return fail('permission_denied', why, { missing: '', rule: 'policy', attempted: path });
    },
    ...(known && { globs: () => [...known(), ...globs] }),
  };
}

/** The same without the files that policies of whoever calls close. */
export const underPolicies = (
  authority: Authority,
  { locked }: GuardSet,
  isProcess: boolean,
): Authority =>
  locked.list.reduce(
    (rest, { closes }) => (closes ? withoutFiles(rest, closes, isProcess) : rest),
    authority,
  );

/** A tool that reads may start a process; what that sees and does is judged besides. */
const LOOKED_WITH: ReadonlySet<string> = new Set(['process.spawn', 'fs.exec', 'kernel.execute']);

const TOKEN = '`km web token add --role steer` makes a token for a client that may do more';

/** Of whoever may only look: nothing is started, steered, written or sent, and no tool called that does. */
export function forViewer(authority: Authority, catalog: CapabilityCatalog): Authority {
  const refuse = (what: string): Failure =>
    fail('permission_denied', `this client may only look, which excludes \`${what}\`; ${TOKEN}`, {
      missing: what,
    });
  const looks = without(authority, (capability) =>
    catalog.get(capability)?.tier === 'read' || LOOKED_WITH.has(capability)
      ? undefined
      : refuse(capability),
  );
  const allowsEffect: Authority['allowsEffect'] = (effect) =>
    effect === 'read' ? authority.allowsEffect(effect) : refuse(`effect.${effect}`);
  return { ...looks, allowsEffect };
}
