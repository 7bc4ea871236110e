// Computes the rights of a chain of blocks, without time and policy.
//
// INVARIANT: a child never has more than its parent. Every block must allow a right, so that an
// appended block can only remove rights. No code computes an intersection of globs.
import { lastSegment, literalPrefix, matchGlob } from '../../base/index.ts';
import { type CapabilityCatalog, SCOPE_FIELDS } from '../grants/capability-catalog.ts';
import { describeNeed, formatPermission, permissionFor } from '../grants/denial.ts';
import {
  companionsOf,
  type Grant,
  grantHolds,
  grantName,
  grantsCover,
  isSystemGrant,
  type Need,
  needProblem,
  type Scope,
} from '../grants/grant.ts';
import { type ItemFilters, listName, refusingList } from '../grants/item-filter.ts';
import type { TokenBlock } from './token-block.ts';

/** An early answer for people and hooks. Enforcement does not use it, because every call is checked by itself. */
export interface StartCheck {
  /** Grants without any right of that name, or without an overlapping scope. */
  missing: Grant[];
  /** Grants that exist in part, or whose overlap only a call can decide. They are worth a warning. */
  partial: Grant[];
}

type Fit = 'none' | 'partial' | 'full';
const RANK: Record<Fit, number> = { none: 0, partial: 1, full: 2 };

/** Compares two globs. `src/**` covers a glob that stays below `src/`. The actual call decides all other cases. */
function globFit(needed: string, pattern: string): Fit {
  if (needed === pattern || pattern === '**') return 'full';
  const isLiteral = !/[*?]/.test(needed);
  if (isLiteral && matchGlob(pattern, needed)) return 'full';
  const [want, have] = [literalPrefix(needed), literalPrefix(pattern)];
  if (pattern === `${have}**` && have.endsWith('/') && want.startsWith(have)) return 'full';
  const overlaps = want.startsWith(have) || have.startsWith(want);
  return overlaps ? 'partial' : 'none';
}

/** Compares two globs of ids. One without `/`, over last segments, may overlap with any glob over full ids. */
function idFit(needed: string, pattern: string): Fit {
  if (needed === pattern) return 'full';
  if (pattern.includes('/') === needed.includes('/')) return globFit(needed, pattern);
  if (!/[*?]/.test(pattern)) return /[*?]/.test(needed) ? 'partial' : 'none';
  if (pattern.includes('/')) return globFit(needed, pattern);
  return globFit(lastSegment(needed), pattern) === 'none' ? 'none' : 'partial';
}

function fieldFit(
  field: keyof Scope,
  needed: string | undefined,
  pattern: string | undefined,
): Fit {
  if (pattern === undefined) return 'full';
  if (needed === undefined) return 'partial';
  if (field === 'subtree') return pattern === 'any' || pattern === needed ? 'full' : 'none';
  if (field === 'id') return idFit(needed, pattern);
  return field === 'host'
    ? globFit(needed.toLowerCase(), pattern.toLowerCase())
    : globFit(needed, pattern);
}

function scopeFit(needed: Scope = {}, present: Scope = {}): Fit {
  return SCOPE_FIELDS.map((field) => fieldFit(field, needed[field], present[field])).reduce(
    (worst, fit) => (RANK[fit] < RANK[worst] ? fit : worst),
  );
}

/** Returns the needed grants that are missing or partial. A grant in neither list is present in full. */
export function missingAtStart(
  needed: readonly Grant[],
  present: readonly Grant[],
  catalog: CapabilityCatalog,
): StartCheck {
  const result: StartCheck = { missing: [], partial: [] };
  for (const grant of needed) {
    const best = present
      .filter(
        (candidate) =>
          candidate.capability === grant.capability ||
          grantHolds(candidate, grant.capability, catalog),
      )
      .map((candidate) => scopeFit(grant.scope, candidate.scope))
      .reduce((high, fit) => (RANK[fit] > RANK[high] ? fit : high), 'none' as Fit);
    if (best === 'none') result.missing.push(grant);
    if (best === 'partial') result.partial.push(grant);
  }
  return result;
}

export type TokenChain = readonly TokenBlock[];

/** The decision of one block, for a person who reads `explain`. */
export interface Explanation {
  block: number;
  allowed: boolean;
  reason: string;
}

/** True if system-only capabilities count: only in block 0, and only for a signed core item. */
const mayHoldSystem = (block: TokenBlock, index: number): boolean =>
  index === 0 && block.core === true;

/** Returns the grants of a block with its approvals. The use of an approval is counted at the call. */
const grantsOf = ({ caps, approved }: TokenBlock): readonly Grant[] =>
  approved ? [...caps, ...approved] : caps;

const scopeText = ({ scope }: Grant): string =>
  Object.entries(scope ?? {})
    .map(([field, glob]) => ` ${field}=${glob}`)
    .join('');

/** Maximum number of displayed names per block. It bounds the comparison of every name with every grant. */
const MAX_NAMED = 300;

export class ChainRights {
  readonly #blocks: TokenChain;
  readonly #catalog: CapabilityCatalog;

  constructor(blocks: TokenChain, catalog: CapabilityCatalog) {
    this.#blocks = blocks;
    this.#catalog = catalog;
  }

  #allows(block: TokenBlock, index: number, need: Need): boolean {
    if (this.#catalog.isSystem(need.capability) && !mayHoldSystem(block, index)) return false;
    // Only core items, or a person's approval, give a right over threads outside of the own subtree.
    const everyThread = need.scope?.subtree === 'any';
    if (everyThread && index === 0 && !block.core && block.approval === undefined) return false;
    return grantsCover(block.caps, need, this.#catalog);
  }

  /** Returns why the chain refuses this need, with a remedy. Undefined if it allows it. */
  refusal(need: Need): string | undefined {
    const problem = needProblem(need, this.#catalog);
    if (problem !== undefined) return `${describeNeed(need)} is refused: ${problem}`;
    if (this.#blocks.length === 0)
      return `${describeNeed(need)} is refused: the token has no block`;
    for (const [index, block] of this.#blocks.entries()) {
      if (!this.#allows(block, index, need)) {
        return `${describeNeed(need)} ${this.#lackOf(index, need)}`;
      }
    }
    return undefined;
  }

  /** Returns the line that would grant the need, with its directive. Undefined if no line helps. */
  remedy(need: Need): string | undefined {
    const isWhole = needProblem(need, this.#catalog) === undefined;
    const index = isWhole
      ? this.#blocks.findIndex((block, at) => !this.#allows(block, at, need))
      : this.#lacking(need.capability);
    return index === -1 ? undefined : this.#lineFor(index, need);
  }

  /** Returns why the chain has no grant of that name. Undefined if it has one. */
  lack(capability: string): string | undefined {
    const catalog = this.#catalog;
    if (!catalog.get(capability)) return `\`${capability}\` is not a capability`;
    if (this.#blocks.length === 0) return 'the token has no block';
    const failing = this.#lacking(capability);
    return failing === -1
      ? undefined
      : `\`${capability}\` ${this.#lackOf(failing, { capability })}`;
  }

  /** Returns the index of the first block without this name, or -1. */
  #lacking(capability: string): number {
    const catalog = this.#catalog;
    const isSystem = catalog.isSystem(capability);
    return this.#blocks.findIndex(
      (block, index) =>
        (isSystem && !mayHoldSystem(block, index)) ||
        !grantsOf(block).some((grant) => grantHolds(grant, capability, catalog)),
    );
  }

  #lineFor(index: number, need: Need): string | undefined {
    const { thread, directive } = this.#blocks[index] as TokenBlock;
    const isSystem = this.#catalog.isSystem(need.capability);
    const permission = isSystem ? undefined : permissionFor(need);
    const whose = directive === undefined ? `thread \`${thread}\`` : `directive \`${directive}\``;
    return permission && `add \`${formatPermission(permission)}\` to the permissions of ${whose}`;
  }

  #lackOf(index: number, need: Need): string {
    const thread = this.#blocks[index]?.thread ?? '';
    const add = this.#lineFor(index, need) ?? 'only signed core items have it';
    return index < this.#blocks.length - 1
      ? `is not granted to \`${thread}\`, and a child never has more than its parent: ${add}`
      : `is not granted: ${add}`;
  }

  /**
   * Returns the approvals that each allow this need in all refusing blocks. INVARIANT: an approval never
   * gives a system-only capability, and never counts in a block that does not name it.
   */
  approvals(need: Need): string[] {
    const catalog = this.#catalog;
    if (catalog.isSystem(need.capability) || needProblem(need, catalog) !== undefined) return [];
    const refusing = this.#blocks.filter((block, index) => !this.#allows(block, index, need));
    const [first = [], ...others] = refusing.map(({ approved = [] }) =>
      approved
        .filter((grant) => grantsCover([grant], need, catalog))
        .map(({ approval }) => approval),
    );
    return [...new Set(first)].filter((id) => others.every((ids) => ids.includes(id)));
  }

  /** Returns the first list of any block that excludes this item. Undefined if the item passes all lists. */
  listAgainst(use: keyof ItemFilters, category: string, id: string): string | undefined {
    for (const { filters } of this.#blocks) {
      const filter = filters?.[use];
      const list = filter && refusingList(filter, category, id);
      if (list !== undefined) return listName(use, list);
    }
    return undefined;
  }

  /** Returns the rights that a child with these grants would lack. A grant that one block lacks is missing. */
  misses(needed: readonly Grant[]): StartCheck {
    const checks = this.#blocks.map((block) =>
      missingAtStart(needed, grantsOf(block), this.#catalog),
    );
    const missing = needed.filter((grant) => checks.some((check) => check.missing.includes(grant)));
    const partial = needed.filter(
      (grant) => !missing.includes(grant) && checks.some((check) => check.partial.includes(grant)),
    );
    return { missing, partial };
  }

  /** Returns the names, as conditions use them, of rights that every block has at least in part. */
  names(): string[] {
    const isInEvery = (grant: Grant) =>
      this.#blocks.every(
        (block, index) =>
          (!isSystemGrant(grant, this.#catalog) || mayHoldSystem(block, index)) &&
          missingAtStart([grant], grantsOf(block), this.#catalog).missing.length === 0,
      );
    const candidates = this.#blocks.flatMap((block) => grantsOf(block).slice(0, MAX_NAMED));
    return [...new Set(candidates.filter(isInEvery).map(grantName))];
  }

  #whyNot(block: TokenBlock, index: number, { capability }: Need): string {
    if (this.#catalog.isSystem(capability) && !mayHoldSystem(block, index)) {
      const where = index > 0 ? 'in the first block' : 'for signed core items';
      return `\`${capability}\` is system-only and counts ${where} alone`;
    }
    const present = block.caps.filter((grant) => grantHolds(grant, capability, this.#catalog));
    if (present.length === 0) return `has no \`${capability}\``;
    const names = present.slice(0, 5).map((grant) => `\`${grant.capability}${scopeText(grant)}\``);
    return `has only ${names.join(', ')}${present.length > 5 ? ' and more' : ''}`;
  }

  /** Returns for each block, as text for people, whether it allows the need. */
  explain(need: Need): Explanation[] {
    const problem = needProblem(need, this.#catalog);
    return this.#blocks.map((block, index) => {
      if (problem !== undefined) return { block: index, allowed: false, reason: problem };
      const refused = companionsOf(need).find((part) => !this.#allows(block, index, part));
      const reason = refused ? this.#whyNot(block, index, refused) : `allows ${describeNeed(need)}`;
      return { block: index, allowed: !refused, reason: `thread \`${block.thread}\` ${reason}` };
    });
  }
}
