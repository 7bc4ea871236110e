// What a person approved for a thread, added to its rights: the chain is minted anew with the
// approvals beside what its blocks hold.
//
// INVARIANT: right = declared AND (parent OR approval). An approval stands in every block above its
// thread, where it takes the place of what those do not hold, and in no block below it; the thread's
// own block stays what its directive declares, unless the person said that it may go beyond that.
import {
  type Clock,
  createRecent,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
  systemRandom,
} from '../../base/index.ts';
import type { CapabilityCatalog } from '../grants/capability-catalog.ts';
import { type Ceiling, capRefusal, ceilingGlobs, ceilingHolds } from '../grants/ceiling.ts';
import { denied, tokenRefused } from '../grants/denial.ts';
import {
  companionsOf,
  type Grant,
  grantGlobs,
  MAX_REMEMBERED,
  type Need,
  needText,
} from '../grants/grant.ts';
import type { KeyPair } from '../keys/key.ts';
import {
  chainApprovals,
  chainLacks,
  chainMisses,
  chainNames,
  chainPasses,
  chainRefusal,
  type Explanation,
  explainChain,
  type StartCheck,
  type TokenChain,
} from './chain-rights.ts';
import { attenuateToken, type CapabilityToken, mintToken } from './token.ts';
import {
  type ApprovedGrant,
  leastBudget,
  type TokenBlock,
  type TokenBudget,
} from './token-block.ts';

export interface ApprovedRight {
  /** The approval whose uses are counted. */
  approval: string;
  /** Whom it was given to; threads below it may declare it too. */
  thread: string;
  grant: Grant;
  /** Milliseconds since 1970. */
  expires?: number;
  /** The person gave it although the directive does not declare it. */
  beyond?: boolean;
}

/** The approvals that count in one block of a chain. */
function approvedIn(
  blocks: readonly TokenBlock[],
  index: number,
  rights: readonly ApprovedRight[],
): ApprovedGrant[] {
  const here = blocks[index]?.thread;
  return rights.flatMap(({ approval, thread, grant, beyond = false }) => {
    const isBelow = blocks.findIndex((block) => block.thread === thread) > index;
    return isBelow || (beyond && here === thread) ? [{ ...grant, approval }] : [];
  });
}

/** `blocks` of a token that was verified; the new one lasts as long as all that it stands on. */
export function widenToken(
  root: KeyPair,
  blocks: readonly TokenBlock[],
  rights: readonly ApprovedRight[],
  random: RandomBytes = systemRandom,
): Outcome<CapabilityToken> {
  const ends = rights.flatMap(({ expires }) => expires ?? []);
  let made: Outcome<CapabilityToken> = fail('invalid_input', 'a token needs a block');
  for (const [index, block] of blocks.entries()) {
    const { v: _, nonce: __, core = false, approval, ...rest } = block;
    const approved = approvedIn(blocks, index, rights);
    const content = {
      ...rest,
      exp: Math.min(rest.exp, ...ends),
      ...(approved.length > 0 && { approved }),
    };
    const marks = { core, random, ...(approval !== undefined && { approval }) };
    made =
      index === 0
        ? mintToken(root, content, marks)
        : made.ok
          ? attenuateToken(made.output, content, random)
          : made;
    if (!made.ok) return made;
  }
  return made;
}

// A token whose signatures and shape are good: what its chain allows, as long as it is neither
// expired nor revoked, below the operator's ceilings.

export interface VerifiedToken {
  /** For the audit and for caches; says nothing about the token. */
  readonly hash: string;
  readonly blocks: readonly TokenBlock[];
  /** The earliest of all blocks. */
  readonly expires: number;
  /** Thread and project of the last block: who acts, and where. */
  readonly thread: string;
  readonly project: string;
  /** The smallest of all blocks, field by field. */
  readonly budget: TokenBudget;
  /** Neither expired nor revoked, now. */
  current(): Outcome<null>;
  /** May this actual call be made? `attempted` names the tool in the refusal. */
  check(need: Need, attempted?: string): Outcome<null>;
  /** Is anything of that name held, whatever its scope? Asked before the scope can be known. */
  holds(capability: string): Outcome<null>;
  /** Do the lists over categories and names let this item be seen and used? */
  sees(kind: 'directive' | 'tool' | 'knowledge', category: string, id: string): boolean;
  /** May this directive be started as a child thread? */
  maySpawn(category: string, id: string): Outcome<null>;
  /** What a child that wants this would miss. */
  missingAtStart(wanted: readonly Grant[]): StartCheck;
  /** Block by block, for people. */
  explain(need: Need): Explanation[];
  /** Names for `permissions.granted`. */
  granted(): string[];
  /** Every glob over paths, in its blocks and in the ceilings. */
  globs(): string[];
}

export interface TokenWorld {
  clock: Pick<Clock, 'now'>;
  catalog: CapabilityCatalog;
  /** A revoked thread takes its descendants with it. */
  isRevoked?(thread: string): boolean;
  /** Absent: every thread that the root key vouches for is known. */
  isKnownThread?(thread: string): boolean;
  /**
   * Counts one use of an approval that the token names; once per token, whatever is asked of it.
   * Absent: approvals in a token count for nothing.
   */
  useApproval?(use: { approval: string; thread: string; token: string }): Outcome<null>;
  /** The operator's policies: they cap every token. */
  ceilings?: readonly Ceiling[];
}

/** Every thread whose revocation ends this token. */
function lineageOf(chain: TokenChain): Set<string> {
  const parent = chain[0]?.parent;
  const threads = chain.map((block) => block.thread);
  return new Set(parent === undefined ? threads : [parent, ...threads]);
}

/** Is the token good now? Asked at every question, because it is held for long. */
function createWatch(chain: TokenChain, expires: number, world: TokenWorld): () => Outcome<null> {
  const [lineage, thread] = [lineageOf(chain), chain.at(-1)?.thread ?? ''];
  return () => {
    // Written so that a clock that answers no number denies.
    if (!(world.clock.now() < expires)) return tokenRefused('expired', 'it has expired');
    for (const name of lineage) {
      if (world.isRevoked?.(name)) {
        return tokenRefused('revoked', `thread \`${name}\` was revoked`);
      }
    }
    return world.isKnownThread?.(thread) === false
      ? tokenRefused('thread', `thread \`${thread}\` is unknown or has ended`)
      : ok(null);
  };
}

type Rights = Pick<VerifiedToken, 'check' | 'holds' | 'sees' | 'maySpawn'>;

/** Lets a need through on an approval; the reasons of those that are used up or too old otherwise. */
function createApproved(chain: TokenChain, token: string, { catalog, useApproval }: TokenWorld) {
  const isApproved = chain.some(({ approved }) => approved !== undefined);
  const thread = chain.at(-1)?.thread ?? '';
  return (need: Need): true | string[] => {
    if (!isApproved || !useApproval) return [];
    const reasons: string[] = [];
    for (const approval of chainApprovals(chain, need, catalog)) {
      const used = useApproval({ approval, thread, token });
      if (used.ok) return true;
      reasons.push(used.error.detail.message);
    }
    return reasons;
  };
}

/** No refusal: an approval was used, and its uses are counted. */
const BY_APPROVAL = '';

function createRights(
  chain: TokenChain,
  hash: string,
  current: () => Outcome<null>,
  granted: () => string[],
  world: TokenWorld,
): Rights {
  const { catalog, ceilings = [] } = world;
  const approved = createApproved(chain, hash, world);
  // Blocks, ceilings and catalogue stay what they are: what they allow once they allow always. Time,
  // revocations and the uses of an approval are asked about every time.
  const allowed = createRecent<string, true>(MAX_REMEMBERED);

  function refusalOf(need: Need): string | undefined {
    const refusal = chainRefusal(chain, need, catalog);
    const capped = capRefusal(ceilings, need, catalog);
    if (refusal === undefined) return capped;
    // The ceilings come before an approval: none is used up for what they refuse.
    const by = capped === undefined ? approved(need) : [];
    return by === true ? BY_APPROVAL : [refusal, ...by].join('; ');
  }

  const refuse = (missing: readonly Need[], message: string, attempted?: string) =>
    denied({ missing, granted: granted(), message, ...(attempted !== undefined && { attempted }) });

  function check(need: Need, attempted?: string): Outcome<null> {
    const valid = current();
    const text = needText(need);
    if (!valid.ok || allowed.get(text)) return valid;
    const parts = companionsOf(need);
    const refusals = parts.map(refusalOf);
    const message = refusals.find(Boolean);
    if (message !== undefined) {
      return refuse(
        parts.filter((_, at) => refusals[at]),
        message,
        attempted,
      );
    }
    if (!refusals.includes(BY_APPROVAL)) allowed.set(text, true);
    return valid;
  }

  function holds(capability: string): Outcome<null> {
    const valid = current();
    const text = `holds ${capability}`;
    if (!valid.ok || allowed.get(text)) return valid;
    const lack = chainLacks(chain, capability, catalog);
    if (lack !== undefined) return refuse([{ capability }], lack);
    if (!ceilings.every((ceiling) => ceilingHolds(ceiling, capability, catalog))) {
      return refuse([{ capability }], `the policy leaves nothing of \`${capability}\``);
    }
    allowed.set(text, true);
    return valid;
  }

  function maySpawn(category: string, id: string): Outcome<null> {
    const need: Need = { capability: 'spawn.thread' };
    const held = check(need, id);
    if (!held.ok) return held;
    const passes = (use: 'spawn' | 'directives') => chainPasses(chain, use, category, id);
    if (passes('spawn') && passes('directives')) return ok(null);
    const message = `directive \`${id}\` may not be spawned: the lists of \`<orchestration>\` or \`<directives>\` leave it out`;
    return refuse([need], message, id);
  }

  return {
    check,
    holds,
    maySpawn,
    sees(kind, category, id) {
      if (!current().ok) return false;
      // Tools are named one by one in `tool.execute`; no list is about them.
      if (kind === 'tool') return true;
      return chainPasses(chain, kind === 'directive' ? 'directives' : 'knowledge', category, id);
    },
  };
}

/** `blocks` are frozen and there is at least one. */
export function createVerifiedToken(
  hash: string,
  blocks: TokenChain,
  world: TokenWorld,
): VerifiedToken {
  const { catalog } = world;
  const last = blocks.at(-1) as TokenBlock;
  const expires = Math.min(...blocks.map((block) => block.exp));
  const current = createWatch(blocks, expires, world);
  // Blocks do not change, so neither do the names; but few tokens are ever asked.
  let names: readonly string[] | undefined;
  const granted = () => [...(names ??= chainNames(blocks, catalog))];
  return Object.freeze({
    hash,
    blocks: Object.freeze([...blocks]),
    expires,
    thread: last.thread,
    project: last.project,
    budget: Object.freeze(leastBudget(blocks.map((block) => block.budget))),
    current,
    ...createRights(blocks, hash, current, granted, world),
    missingAtStart: (wanted: readonly Grant[]) => chainMisses(blocks, wanted, catalog),
    explain(need: Need) {
      const valid = current();
      const lines = explainChain(blocks, need, catalog);
      if (valid.ok) return lines;
      return lines.map((line) => ({
        ...line,
        allowed: false,
        reason: valid.error.detail.message,
      }));
    },
    granted,
    globs: () => [
      ...grantGlobs(blocks.flatMap(({ caps, approved = [] }) => [...caps, ...approved])),
      ...ceilingGlobs(world.ceilings ?? []),
    ],
  });
}
