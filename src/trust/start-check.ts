// What a child asks for against what its parent holds, before either has run: an early answer for
// people and hooks. Enforcement never relies on it; every call is judged on its own.
import { literalPrefix, matchGlob } from '../base/index.ts';
import type { CapabilityCatalog } from './catalog.ts';
import { type Grant, grantHolds, type Scope } from './grant.ts';

export interface StartCheck {
  /** Nothing of that name is held, or no scope that could overlap. */
  missing: Grant[];
  /** Held in part, or so that only the actual call can tell: worth a warning. */
  partial: Grant[];
}

type Fit = 'none' | 'partial' | 'full';
const RANK: Record<Fit, number> = { none: 0, partial: 1, full: 2 };

/** `src/**` covers whatever stays below `src/`; everything else is left to the actual call. */
function globFit(wanted: string, held: string): Fit {
  if (wanted === held || held === '**') return 'full';
  const isLiteral = !/[*?]/.test(wanted);
  if (isLiteral && matchGlob(held, wanted)) return 'full';
  const [want, have] = [literalPrefix(wanted), literalPrefix(held)];
  if (held === `${have}**` && have.endsWith('/') && want.startsWith(have)) return 'full';
  const overlaps = want.startsWith(have) || have.startsWith(want);
  return overlaps ? 'partial' : 'none';
}

/** A glob without `/` over last segments and one over full ids may meet anywhere. */
function idFit(wanted: string, held: string): Fit {
  if (wanted === held) return 'full';
  if (held.includes('/') === wanted.includes('/')) return globFit(wanted, held);
  if (!/[*?]/.test(held)) return /[*?]/.test(wanted) ? 'partial' : 'none';
  return held.includes('/')
    ? globFit(wanted, held)
    : globFit(wanted.slice(wanted.lastIndexOf('/') + 1), held) === 'none'
      ? 'none'
      : 'partial';
}

function fieldFit(field: keyof Scope, wanted: string | undefined, held: string | undefined): Fit {
  if (held === undefined) return 'full';
  if (wanted === undefined) return 'partial';
  if (field === 'subtree') return held === 'any' || held === wanted ? 'full' : 'none';
  if (field === 'id') return idFit(wanted, held);
  return field === 'host'
    ? globFit(wanted.toLowerCase(), held.toLowerCase())
    : globFit(wanted, held);
}

function scopeFit(wanted: Scope = {}, held: Scope = {}): Fit {
  const fields = ['path', 'id', 'host', 'method', 'subtree'] as const;
  return fields
    .map((field) => fieldFit(field, wanted[field], held[field]))
    .reduce((worst, fit) => (RANK[fit] < RANK[worst] ? fit : worst), 'full');
}

/** Sorts what is wanted into missing and partly held; what is in neither is held in full. */
export function missingAtStart(
  wanted: readonly Grant[],
  held: readonly Grant[],
  catalog: CapabilityCatalog,
): StartCheck {
  const result: StartCheck = { missing: [], partial: [] };
  for (const grant of wanted) {
    const best = held
      .filter((candidate) =>
        candidate.capability === grant.capability
          ? true
          : grantHolds(candidate, grant.capability, catalog),
      )
      .map((candidate) => scopeFit(grant.scope, candidate.scope))
      .reduce((high, fit) => (RANK[fit] > RANK[high] ? fit : high), 'none' as Fit);
    if (best === 'none') result.missing.push(grant);
    if (best === 'partial') result.partial.push(grant);
  }
  return result;
}
