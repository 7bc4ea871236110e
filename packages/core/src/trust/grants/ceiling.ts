// Ceilings are the rights of the operator's policies. Every ceiling must allow a right. Inside of a thread
// ceilings only restrict the token. Outside of threads they are the only rights.
import { createRecent, matchGlob, type Outcome, ok } from '../../base/index.ts';
import type { CapabilityCatalog } from './capability-catalog.ts';
import { denied, describeNeed } from './denial.ts';
import {
  companionsOf,
  type Grant,
  grantDenies,
  grantGlobs,
  grantHolds,
  grantName,
  grantsCover,
  MAX_REMEMBERED,
  type Need,
  needProblem,
  needText,
  type Scope,
} from './grant.ts';

export interface Ceiling {
  /** Allowed rights. Absent: all that are not system-only. An entry without a scope covers every scope. */
  allow?: Grant[];
  /** Denials, which win over every `allow`. */
  deny?: Grant[];
  /** How the user reverts a denial that cannot be removed from its file. Absent: it can be removed. */
  undo?: string;
  /** Reason of every refusal by a ceiling that allows nothing because of a mistake. Absent: no mistake. */
  closed?: string;
}

/** Returns why a ceiling refuses a valid need. Undefined if every ceiling allows it. */
export function capRefusal(
  ceilings: readonly Ceiling[],
  need: Need,
  catalog: CapabilityCatalog,
): string | undefined {
  const { closed } = ceilings.find((ceiling) => ceiling.closed !== undefined) ?? {};
  if (closed !== undefined) return closed;
  for (const { allow, deny = [], undo } of ceilings) {
    if (deny.some((entry) => grantDenies(entry, need, catalog))) {
      return `the policy denies ${describeNeed(need)}; ${undo ?? 'remove it from `capabilities.deny` to allow it'}`;
    }
    if (allow && !grantsCover(allow, need, catalog, 'ceiling')) {
      return `the policy does not allow ${describeNeed(need)}; add it to \`capabilities.allow\` to allow it`;
    }
  }
  return undefined;
}

/** True if this ceiling allows any scope of that capability. */
export function ceilingHolds(
  ceiling: Ceiling,
  capability: string,
  catalog: CapabilityCatalog,
): boolean {
  const { allow, deny = [], closed } = ceiling;
  if (closed !== undefined) return false;
  const deniedWhole = deny.some(
    (entry) =>
      Object.keys(entry.scope ?? {}).length === 0 && grantHolds(entry, capability, catalog, 'deny'),
  );
  return (
    !deniedWhole &&
    (allow === undefined ||
      allow.some((grant) => grantHolds(grant, capability, catalog, 'ceiling')))
  );
}

/** Returns the text before the first wildcard and after the last one. */
const ends = (glob: string): [string, string] => [
  /^[^*?]*/.exec(glob)?.[0] ?? '',
  /[^*?]*$/.exec(glob)?.[0] ?? '',
];

const mayMeet = (one: string, other: string): boolean => {
  const [[head, tail], [otherHead, otherTail]] = [ends(one), ends(other)];
  const isAlong = (a: string, b: string, along: (long: string, short: string) => boolean) =>
    along(a, b) || along(b, a);
  return (
    isAlong(head, otherHead, (long, short) => long.startsWith(short)) &&
    isAlong(tail, otherTail, (long, short) => long.endsWith(short))
  );
};

type Extent = 'whole' | 'part' | 'none';

/**
 * Returns which part of a grant an entry of a ceiling covers. If it is unclear whether two globs
 * overlap, they count as overlapping, because the result is for people.
 */
function extentOf(entry: Grant, { capability, scope }: Grant, catalog: CapabilityCatalog): Extent {
  if (!grantHolds(entry, capability, catalog, 'deny')) return 'none';
  let extent: Extent = 'whole';
  for (const [field, pattern = ''] of Object.entries(entry.scope ?? {})) {
    const entryPattern = scope?.[field as keyof Scope];
    if (entryPattern !== undefined && !mayMeet(pattern, entryPattern)) return 'none';
    if (
      entryPattern === undefined ||
      !(pattern === entryPattern || matchGlob(pattern, entryPattern))
    )
      extent = 'part';
  }
  return extent;
}

/**
 * Returns which entries of this ceiling restrict a grant, completely or in part. It is for people to
 * read before any call.
 */
export function capsOn(
  { allow, deny = [], closed }: Ceiling,
  grant: Grant,
  catalog: CapabilityCatalog,
): { extent: 'whole' | 'part'; message: string }[] {
  if (closed !== undefined) return [{ extent: 'whole', message: closed }];
  const caps = deny.flatMap((entry) => {
    const extent = extentOf(entry, grant, catalog);
    return extent === 'none' ? [] : [{ extent, message: `denies ${describeNeed(entry)}` }];
  });
  const extents = (allow ?? []).map((entry) => ({
    entry,
    extent: extentOf(entry, grant, catalog),
  }));
  if (!allow || extents.some(({ extent }) => extent === 'whole')) return caps;
  const parts = extents.filter(({ extent }) => extent === 'part');
  const only = parts.map(({ entry }) => describeNeed(entry)).join(', ');
  return parts.length === 0
    ? [...caps, { extent: 'whole', message: `does not allow \`${grantName(grant)}\`` }]
    : [...caps, { extent: 'part', message: `allows only ${only}` }];
}

/** Returns every glob over paths in the entries of these ceilings, for any right. */
export const ceilingGlobs = (ceilings: readonly Ceiling[]): string[] =>
  grantGlobs(ceilings.flatMap(({ allow = [], deny = [] }) => [...allow, ...deny]));

/**
 * Checks calls without a token. INVARIANT: a policy never gives a system-only right, because such a right
 * depends on the signer of an item.
 */
export function createCeilingVerifier(ceilings: readonly Ceiling[], catalog: CapabilityCatalog) {
  const granted = () =>
    [...new Set(ceilings.flatMap(({ allow }) => allow?.map(grantName) ?? []))].slice(0, 200);
  const refuse = (need: Need, message: string) =>
    denied({ missing: [need], granted: granted(), message });
  // Ceilings and catalog are immutable, so an allowed need stays allowed.
  const allowed = createRecent<string, true>(MAX_REMEMBERED);
  const refusalOf = (need: Need): string | undefined => {
    const problem = needProblem(need, catalog);
    if (problem !== undefined) return problem;
    return catalog.isSystem(need.capability)
      ? `${describeNeed(need)} is system-only: only signed core items have it`
      : capRefusal(ceilings, need, catalog);
  };
  /** Checks an actual call. Fails with `permission_denied` if a ceiling refuses a part of its need. */
  const check = (need: Need): Outcome<null> => {
    const text = needText(need);
    if (allowed.get(text)) return ok(null);
    for (const part of companionsOf(need)) {
      const refusal = refusalOf(part);
      if (refusal !== undefined) return refuse(part, refusal);
    }
    allowed.set(text, true);
    return ok(null);
  };
  /** Checks whether any scope of the capability is allowed. Callers use it before they have the scope. */
  const holds = (capability: string): Outcome<null> => {
    const need = { capability };
    if (!catalog.get(capability)) return refuse(need, `\`${capability}\` is not a capability`);
    const granted =
      !catalog.isSystem(capability) &&
      ceilings.every((ceiling) => ceilingHolds(ceiling, capability, catalog));
    const closed = ceilings.find((ceiling) => ceiling.closed !== undefined)?.closed;
    const reason = catalog.isSystem(capability)
      ? `\`${capability}\` is system-only; call a tool of the bundle instead`
      : `the policy allows no scope of \`${capability}\``;
    const message = closed ?? reason;
    return granted ? ok(null) : refuse(need, message);
  };
  return Object.assign(check, { holds, granted, globs: () => ceilingGlobs(ceilings) });
}
