// The operator's policies as caps: a right is what every ceiling leaves of it. Ceilings never give
// anything by themselves inside a thread; outside of threads they are all there is.
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
  /** Absent: everything that is not system-only. An entry without a scope stands for all of it. */
  allow?: Grant[];
  /** Wins over every `allow`. */
  deny?: Grant[];
  /** How a denial is taken back, where nobody can remove it. */
  undo?: string;
  /** Why nothing at all is left, where that is a mistake and no decision: said in every refusal. */
  closed?: string;
}

/** Why a ceiling refuses a need that has no problem of its own; undefined when none does. */
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

/** Does this ceiling leave anything of that name? */
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

// What a ceiling takes of a grant before anything is called. Both are globs, so this is for people to
// read: where it is not clear whether two of them meet, they are said to.

/** What stands before the first wildcard and after the last one. */
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

/** How much of a grant an entry of a ceiling speaks of. */
function extentOf(entry: Grant, { capability, scope }: Grant, catalog: CapabilityCatalog): Extent {
  if (!grantHolds(entry, capability, catalog, 'deny')) return 'none';
  let extent: Extent = 'whole';
  for (const [field, pattern = ''] of Object.entries(entry.scope ?? {})) {
    const held = scope?.[field as keyof Scope];
    if (held !== undefined && !mayMeet(pattern, held)) return 'none';
    if (held === undefined || !(pattern === held || matchGlob(pattern, held))) extent = 'part';
  }
  return extent;
}

/** What this ceiling takes of a grant: all of it, or part, and by which of its entries. */
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
  const left = (allow ?? []).map((entry) => ({ entry, extent: extentOf(entry, grant, catalog) }));
  if (!allow || left.some(({ extent }) => extent === 'whole')) return caps;
  const parts = left.filter(({ extent }) => extent === 'part');
  const only = parts.map(({ entry }) => describeNeed(entry)).join(', ');
  return parts.length === 0
    ? [...caps, { extent: 'whole', message: `does not allow \`${grantName(grant)}\`` }]
    : [...caps, { extent: 'part', message: `allows only ${only}` }];
}

/** Every glob over paths, whichever right it belongs to. */
export const ceilingGlobs = (ceilings: readonly Ceiling[]): string[] =>
  grantGlobs(ceilings.flatMap(({ allow = [], deny = [] }) => [...allow, ...deny]));

/**
 * Judges calls that come without a token. INVARIANT: system-only rights follow from who signed an
 * item, so no policy ever gives one here, whatever it lists.
 */
export function createCeilingVerifier(ceilings: readonly Ceiling[], catalog: CapabilityCatalog) {
  const granted = () =>
    [...new Set(ceilings.flatMap(({ allow }) => allow?.map(grantName) ?? []))].slice(0, 200);
  const refuse = (need: Need, message: string) =>
    denied({ missing: [need], granted: granted(), message });
  // Neither ceilings nor catalogue change: what they allow once they allow always.
  const allowed = createRecent<string, true>(MAX_REMEMBERED);
  const refusalOf = (need: Need): string | undefined => {
    const problem = needProblem(need, catalog);
    if (problem !== undefined) return problem;
    return catalog.isSystem(need.capability)
      ? `${describeNeed(need)} is system-only: only signed core items hold it`
      : capRefusal(ceilings, need, catalog);
  };
  /** May this actual call be made? */
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
  /** Is anything of that name left, whatever its scope? Asked before the scope can be known. */
  const holds = (capability: string): Outcome<null> => {
    const need = { capability };
    if (!catalog.get(capability)) return refuse(need, `\`${capability}\` is no capability`);
    const held =
      !catalog.isSystem(capability) &&
      ceilings.every((ceiling) => ceilingHolds(ceiling, capability, catalog));
    const closed = ceilings.find((ceiling) => ceiling.closed !== undefined)?.closed;
    const left = catalog.isSystem(capability)
      ? `\`${capability}\` is for the core alone; call a tool of the bundle that does this for you`
      : `the policy leaves nothing of \`${capability}\``;
    const message = closed ?? left;
    return held ? ok(null) : refuse(need, message);
  };
  return Object.assign(check, { holds, granted, globs: () => ceilingGlobs(ceilings) });
}
