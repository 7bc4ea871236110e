// Answers questions about a verified token, and adds approvals of a person to the rights of a thread: the
// chain is minted again with the approvals in its blocks.
//
// INVARIANT: right = declared AND (parent OR approval), always. An approval is in every block above its
// thread, where it replaces missing grants, and in no block below. The thread's own block keeps the rights
// that its directive declares, unless the person allowed more.
import {
  type Clock,
  createRecent,
  type Failure,
  fail,
  type Outcome,
  ok,
  type RandomBytes,
  systemRandom,
} from '../../base/index.ts';
import type { CapabilityCatalog } from '../grants/capability-catalog.ts';
import { type Ceiling, capRefusal, ceilingGlobs, ceilingHolds } from '../grants/ceiling.ts';
import { denied, describeNeed, tokenRefused } from '../grants/denial.ts';
import {
  companionsOf,
  type Grant,
  grantGlobs,
  MAX_REMEMBERED,
  type Need,
  needText,
} from '../grants/grant.ts';
import { listRefusal, missingInList } from '../grants/item-filter.ts';
import { isProtectedPath } from '../grants/scope-match.ts';
import type { KeyPair } from '../keys/key.ts';
import { ChainRights, type Explanation, type StartCheck, type TokenChain } from './chain-rights.ts';
import { attenuateToken, type CapabilityToken, mintToken } from './token.ts';
import {
  type ApprovedGrant,
  leastBudget,
  type TokenBlock,
  type TokenBudget,
} from './token-block.ts';

export interface ApprovedRight {
  /** Id of the approval whose uses are counted. */
  approval: string;
  /** The thread that received the approval. Its descendants may declare the right too. */
  thread: string;
  grant: Grant;
  /** Time in milliseconds since 1970 from which on the approval does not count. Absent: no such time. */
  expires?: number;
  /** True if the person allowed a right that the directive does not declare. Absent: false. */
  beyond?: boolean;
}

/** Returns the approvals that count in one block of a chain. */
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

/** Mints the chain of a verified token again, with approvals. It expires at the earliest time of its parts. */
export function widenToken(
  root: KeyPair,
  blocks: readonly TokenBlock[],
  rights: readonly ApprovedRight[],
  random: RandomBytes = systemRandom,
): Outcome<CapabilityToken> {
  const ends = rights.flatMap(({ expires }) => expires ?? []);
  let token: CapabilityToken | undefined;
  for (const [index, block] of blocks.entries()) {
    const { v: _, nonce: __, core = false, approval, ...rest } = block;
    const approved = approvedIn(blocks, index, rights);
    const content = {
      ...rest,
      exp: Math.min(rest.exp, ...ends),
      ...(approved.length > 0 && { approved }),
    };
    const marks = { core, random, ...(approval !== undefined && { approval }) };
    const widened = token
      ? attenuateToken(token, content, random)
      : mintToken(root, content, marks);
    if (!widened.ok) return widened;
    token = widened.output;
  }
  return token ? ok(token) : fail('invalid_input', 'a token needs a block');
}

/** State outside of a token that can remove its rights, such as time, revocations and ceilings. */
export interface TokenWorld {
  clock: Pick<Clock, 'now'>;
  catalog: CapabilityCatalog;
  /** True for a revoked thread and its descendants. */
  isRevoked?(thread: string): boolean;
  /** False for a thread that was not found or has ended. Absent: every thread with a valid token counts. */
  isKnownThread?(thread: string): boolean;
  /** Counts one use of an approval, once per token. Absent: approvals in a token do not count. */
  useApproval?(use: { approval: string; thread: string; token: string }): Outcome<null>;
  /** The operator's policies, which cap every token. */
  ceilings?: readonly Ceiling[];
}

type ListedKind = 'directive' | 'tool' | 'knowledge';

interface RefusedNeed {
  readonly need: Need;
  /** Parts of the need that the chain does not grant. */
  readonly missing: readonly Need[];
  readonly message: string;
  readonly attempted?: string | undefined;
  readonly rule?: string;
}

/** True if no grant of any directive can cover this need, so that no grant is missing. */
const isClosed = ({ capability, scope }: Need): boolean =>
  capability === 'fs.write' && isProtectedPath(scope?.path ?? '');

const VALID = ok(null);
/** Takes the place of a refusal if an approval allows the need and its use was counted. */
const BY_APPROVAL = '';

export class VerifiedToken {
  /** Hash of the token for the audit and for caches. It reveals no part of the token. */
  readonly hash: string;
  readonly blocks: TokenChain;
  /** The earliest expiry of all blocks. */
  readonly expires: number;
  /** Thread of the last block, which is the actor. `project` is its project. */
  readonly thread: string;
  readonly project: string;
  /** The smallest value of each field over all blocks. */
  readonly budget: TokenBudget;
  readonly #world: TokenWorld;
  readonly #chain: ChainRights;
  /** Every thread whose revocation ends this token. */
  readonly #lineage: ReadonlySet<string>;
  // Blocks, ceilings and catalog are immutable, so an allowed need stays allowed. Time, revocations and
  // uses of approvals are checked every time.
  readonly #allowed = createRecent<string, true>(MAX_REMEMBERED);
  // Names are computed on demand, because few tokens need them. Blocks are immutable.
  #names: readonly string[] | undefined;

  /** Expects frozen blocks, at least one. */
  constructor(hash: string, blocks: TokenChain, world: TokenWorld) {
    const [first, last] = [blocks[0], blocks.at(-1)] as [TokenBlock, TokenBlock];
    this.hash = hash;
    this.blocks = Object.freeze([...blocks]);
    this.expires = Math.min(...blocks.map((block) => block.exp));
    this.thread = last.thread;
    this.project = last.project;
    this.budget = Object.freeze(leastBudget(blocks.map((block) => block.budget)));
    this.#world = world;
    this.#chain = new ChainRights(this.blocks, world.catalog);
    this.#lineage = new Set([first.parent ?? first.thread, ...blocks.map(({ thread }) => thread)]);
    Object.freeze(this);
  }

  // Some checks are bound functions, so that callers can pass each of them without the object.

  /** Fails if the token has expired or was revoked. Every other check calls it, because a token is used for long. */
  readonly current = (): Outcome<null> => {
    const { clock, isRevoked, isKnownThread } = this.#world;
    // A clock that returns no number gives a refusal.
    if (!(clock.now() < this.expires)) return tokenRefused('expired', 'it has expired');
    for (const name of this.#lineage) {
      if (isRevoked?.(name)) return tokenRefused('revoked', `thread \`${name}\` was revoked`);
    }
    return isKnownThread?.(this.thread) === false
      ? tokenRefused('thread', `thread \`${this.thread}\` was not found or has ended`)
      : VALID;
  };

  /** Checks an actual call. `attempted` names the tool in the refusal. */
  readonly check = (need: Need, attempted?: string): Outcome<null> => {
    const valid = this.current();
    const text = needText(need);
    if (!valid.ok || this.#allowed.get(text)) return valid;
    const missing: Need[] = [];
    let [message, isLasting, isRefused] = ['', true, false];
    for (const part of companionsOf(need)) {
      const refusal = this.#refusalOf(part);
      if (refusal === BY_APPROVAL) isLasting = false;
      else if (refusal !== undefined) {
        isRefused = true;
        message ||= refusal;
        // No right is missing if the chain grants the need and a ceiling refuses it, or if no grant could cover it.
        const isLacking = !isClosed(part) && this.#chain.refusal(part) !== undefined;
        if (isLacking) missing.push(part);
      }
    }
    if (isRefused) {
      const rule = isClosed(need) && 'closed_place';
      return this.#refuse({ missing, message, attempted, need, ...(rule && { rule }) });
    }
    if (isLasting) this.#allowed.set(text, true);
    return valid;
  };

  #refusalOf(need: Need): string | undefined {
    const { catalog, ceilings = [] } = this.#world;
    const refusal = this.#chain.refusal(need);
    const capped = capRefusal(ceilings, need, catalog);
    if (refusal === undefined) return capped;
    // Ceilings are checked before approvals, so that a call that a ceiling refuses uses no approval.
    const by = capped === undefined ? this.#useApproval(need) : [];
    return by === true ? BY_APPROVAL : [refusal, ...by].join('; ');
  }

  /** Returns true if an approval allows the need. Otherwise returns why approvals are used up or expired. */
  #useApproval(need: Need): true | string[] {
    const { useApproval } = this.#world;
    const reasons: string[] = [];
    if (!useApproval) return reasons;
    for (const approval of this.#chain.approvals(need)) {
      const used = useApproval({ approval, thread: this.thread, token: this.hash });
      if (used.ok) return true;
      reasons.push(used.error.detail.message);
    }
    return reasons;
  }

  /** Returns the refusal. If no right is missing, its rule is `policy` unless the caller passes another. */
  #refuse({ missing, message, attempted, need, rule }: RefusedNeed): Failure {
    const remedy = missing[0] && this.#chain.remedy(missing[0]);
    return denied({
      missing,
      ...(remedy !== undefined && { remedy }),
      granted: this.granted(),
      message,
      attempted: attempted ?? describeNeed(missing[0] ?? need).replaceAll('`', ''),
      ...((rule !== undefined || missing.length === 0) && { rule: rule ?? 'policy' }),
    });
  }

  /** Checks for a grant of that name with any scope. Callers use it before they have the scope. */
  readonly holds = (capability: string): Outcome<null> => {
    const valid = this.current();
    const text = `holds ${capability}`;
    if (!valid.ok || this.#allowed.get(text)) return valid;
    const { catalog, ceilings = [] } = this.#world;
    const lack = this.#chain.lack(capability);
    const need = { capability };
    if (lack !== undefined) return this.#refuse({ missing: [need], message: lack, need });
    if (!ceilings.every((ceiling) => ceilingHolds(ceiling, capability, catalog))) {
      const message = `the policy allows no scope of \`${capability}\``;
      return this.#refuse({ missing: [], message, need });
    }
    this.#allowed.set(text, true);
    return valid;
  };

  /** Returns true if the lists of categories and names let the thread see and use this item. */
  readonly sees = (kind: ListedKind, category: string, id: string): boolean =>
    // Grants of `tool.execute` name the tools, and no list excludes a tool.
    this.current().ok && (kind === 'tool' || this.listAgainst(kind, category, id) === undefined);

  /** Returns the list that excludes this item, such as `directives.allow_categories`. Undefined if it passes. */
  readonly listAgainst = (kind: ListedKind, category: string, id: string): string | undefined =>
    kind === 'tool'
      ? undefined
      : this.#chain.listAgainst(kind === 'directive' ? 'directives' : kind, category, id);

  /** Checks whether the thread may start this directive as a child thread. */
  maySpawn(category: string, id: string): Outcome<null> {
    const need: Need = { capability: 'spawn.thread' };
    const allowed = this.check(need, id);
    if (!allowed.ok) return allowed;
    const list =
      this.#chain.listAgainst('spawn', category, id) ??
      this.#chain.listAgainst('directives', category, id);
    if (list === undefined) return allowed;
    const message = `directive \`${id}\` may not be spawned: ${listRefusal(list)}`;
    const missing = missingInList(list);
    return this.#refuse({ missing, message, attempted: id, need, rule: list });
  }

  missingAtStart(needed: readonly Grant[]): StartCheck {
    return this.#chain.misses(needed);
  }

  /**
   * Returns for each block, as text for people, whether it allows the need. An expired or revoked token
   * allows nothing.
   */
  explain(need: Need): Explanation[] {
    const valid = this.current();
    const lines = this.#chain.explain(need);
    if (valid.ok) return lines;
    const reason = valid.error.detail.message;
    return lines.map((line) => ({ ...line, allowed: false, reason }));
  }

  /** Returns the names of all rights for `permissions.granted`. */
  granted(): string[] {
    this.#names ??= this.#chain.names();
    return [...this.#names];
  }

  /** Returns every glob over paths in the blocks and the ceilings. */
  globs(): string[] {
    const grants = this.blocks.flatMap(({ caps, approved = [] }) => [...caps, ...approved]);
    return [...grantGlobs(grants), ...ceilingGlobs(this.#world.ceilings ?? [])];
  }
}
