// What a chain of blocks allows, apart from time and policy.
//
// INVARIANT: a child never holds more than its parent. A right is the conjunction of all blocks, so
// appending one can only take away; nothing ever computes an intersection of globs.
import type { CapabilityCatalog } from './catalog.ts';
import { describeNeed, permissionLine } from './denial.ts';
import {
  companionsOf,
  type Grant,
  grantHolds,
  grantName,
  grantsAllow,
  isSystemGrant,
  type Need,
  needProblem,
} from './grant.ts';
import { filterAllows, type ItemFilters } from './item-filter.ts';
import { missingAtStart, type StartCheck } from './start-check.ts';
import type { TokenBlock } from './token-block.ts';

export type Chain = readonly TokenBlock[];

/** One line per block of what `explain` says. */
export interface Explanation {
  block: number;
  allowed: boolean;
  reason: string;
}

/** System-only capabilities count in block 0 alone, and there only for a signed core item. */
const mayHoldSystem = (block: TokenBlock, index: number): boolean =>
  index === 0 && block.core === true;

function blockAllows(block: TokenBlock, index: number, need: Need, catalog: CapabilityCatalog) {
  if (catalog.isSystem(need.capability) && !mayHoldSystem(block, index)) return false;
  // Threads outside the own subtree: for core items, or because a person approved it.
  const everyThread = need.scope?.subtree === 'any';
  if (everyThread && index === 0 && !block.core && block.approval === undefined) return false;
  return grantsAllow(block.caps, need, catalog);
}

/** What a block holds by itself and by approvals; the use of one is counted when it is made. */
const heldBy = ({ caps, approved }: TokenBlock): readonly Grant[] =>
  approved ? [...caps, ...approved] : caps;

const blockHolds = (block: TokenBlock, index: number, name: string, catalog: CapabilityCatalog) =>
  (!catalog.isSystem(name) || mayHoldSystem(block, index)) &&
  heldBy(block).some((grant) => grantHolds(grant, name, catalog));

/**
 * The approvals each of which would let this need through the blocks that refuse it by themselves.
 * INVARIANT: no approval gives a system-only capability, and none counts in a block that does not
 * name it.
 */
export function chainApprovals(chain: Chain, need: Need, catalog: CapabilityCatalog): string[] {
  if (catalog.isSystem(need.capability) || needProblem(need, catalog) !== undefined) return [];
  const refusing = chain.filter((block, index) => !blockAllows(block, index, need, catalog));
  const lists = refusing.map(({ approved = [] }) =>
    approved.filter((grant) => grantsAllow([grant], need, catalog)).map(({ approval }) => approval),
  );
  const [first = [], ...others] = lists;
  return [...new Set(first)].filter((id) => others.every((ids) => ids.includes(id)));
}

function remedy(chain: Chain, index: number, need: Need, catalog: CapabilityCatalog): string {
  const { thread, directive } = chain[index] as TokenBlock;
  const line = permissionLine(need, catalog.isSystem(need.capability));
  const whose = directive === undefined ? `thread \`${thread}\`` : `directive \`${directive}\``;
  const add =
    line === undefined
      ? 'only signed core items hold it'
      : `add \`${line}\` to the permissions of ${whose}`;
  return index < chain.length - 1
    ? `is not granted to \`${thread}\`, and a child never holds more than its parent: ${add}`
    : `is not granted: ${add}`;
}

/** Why the chain refuses this one need, and what to do; undefined when it allows it. */
export function chainRefusal(
  chain: Chain,
  need: Need,
  catalog: CapabilityCatalog,
): string | undefined {
  const problem = needProblem(need, catalog);
  if (problem !== undefined) return `${describeNeed(need)} is refused: ${problem}`;
  if (chain.length === 0) return `${describeNeed(need)} is refused: there is no block`;
  const failing = chain.findIndex((block, index) => !blockAllows(block, index, need, catalog));
  return failing === -1
    ? undefined
    : `${describeNeed(need)} ${remedy(chain, failing, need, catalog)}`;
}

/** Why nothing of that name is held; undefined when something is. */
export function chainLacks(
  chain: Chain,
  capability: string,
  catalog: CapabilityCatalog,
): string | undefined {
  if (!catalog.get(capability)) return `\`${capability}\` is no capability`;
  if (chain.length === 0) return 'there is no block';
  const failing = chain.findIndex((block, i) => !blockHolds(block, i, capability, catalog));
  return failing === -1
    ? undefined
    : `\`${capability}\` ${remedy(chain, failing, { capability }, catalog)}`;
}

/** Do the lists of every block let this item through? */
export const chainPasses = (
  chain: Chain,
  use: keyof ItemFilters,
  category: string,
  id: string,
): boolean =>
  chain.every(({ filters }) => {
    const filter = filters?.[use];
    return filter === undefined || filterAllows(filter, category, id);
  });

/** What a child that wants this would miss: missing in one block is missing. */
export function chainMisses(
  chain: Chain,
  wanted: readonly Grant[],
  catalog: CapabilityCatalog,
): StartCheck {
  const checks = chain.map((block) => missingAtStart(wanted, heldBy(block), catalog));
  const missing = wanted.filter((grant) => checks.some((check) => check.missing.includes(grant)));
  const partial = wanted.filter(
    (grant) => !missing.includes(grant) && checks.some((check) => check.partial.includes(grant)),
  );
  return { missing, partial };
}

/** More are never shown; comparing each with each stays small. */
const MAX_NAMED = 300;

/** Names of what every block holds at least in part, as conditions see them. */
export function chainNames(chain: Chain, catalog: CapabilityCatalog): string[] {
  const isHeld = (grant: Grant) =>
    chain.every(
      (block, index) =>
        (!isSystemGrant(grant, catalog) || mayHoldSystem(block, index)) &&
        missingAtStart([grant], heldBy(block), catalog).missing.length === 0,
    );
  const candidates = chain.flatMap((block) => heldBy(block).slice(0, MAX_NAMED));
  return [...new Set(candidates.filter(isHeld).map(grantName))];
}

const shownScope = ({ scope }: Grant): string =>
  Object.entries(scope ?? {})
    .map(([field, glob]) => ` ${field}=${glob}`)
    .join('');

function whyNot(block: TokenBlock, index: number, need: Need, catalog: CapabilityCatalog): string {
  if (catalog.isSystem(need.capability) && !mayHoldSystem(block, index)) {
    const where = index > 0 ? 'in the first block' : 'for signed core items';
    return `\`${need.capability}\` is system-only and counts ${where} alone`;
  }
  const held = block.caps.filter((grant) => grantHolds(grant, need.capability, catalog));
  if (held.length === 0) return `holds no \`${need.capability}\``;
  const shown = held.slice(0, 5).map((grant) => `\`${grant.capability}${shownScope(grant)}\``);
  return `holds only ${shown.join(', ')}${held.length > 5 ? ' and more' : ''}`;
}

/** Block by block, for people. */
export function explainChain(chain: Chain, need: Need, catalog: CapabilityCatalog): Explanation[] {
  const problem = needProblem(need, catalog);
  return chain.map((block, index) => {
    if (problem !== undefined) return { block: index, allowed: false, reason: problem };
    const refused = companionsOf(need).find((part) => !blockAllows(block, index, part, catalog));
    const reason = refused
      ? whyNot(block, index, refused, catalog)
      : `allows ${describeNeed(need)}`;
    return { block: index, allowed: !refused, reason: `thread \`${block.thread}\` ${reason}` };
  });
}
