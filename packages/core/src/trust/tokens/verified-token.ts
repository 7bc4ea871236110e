// What a person approved for a thread, added to its rights: the chain is minted anew with the
// approvals beside what its blocks hold.
//
// INVARIANT: right = declared AND (parent OR approval). An approval stands in every block above its
// thread, where it takes the place of what those do not hold, and in no block below it; the thread's
// own block stays what its directive declares, unless the person said that it may go beyond that.
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
    const made = token ? attenuateToken(token, content, random) : mintToken(root, content, marks);
    if (!made.ok) return made;
    token = made.output;
  }
  return token ? ok(token) : fail('invalid_input', 'a token needs a block');
}

/** A verified token allows what its chain allows, unless it expired, was revoked, or a ceiling is lower. */
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

type ListedKind = 'directive' | 'tool' | 'knowledge';

interface RefusedNeed {
  readonly need: Need;
  /** Parts of the need that the chain does not grant. */
  readonly missing: readonly Need[];
  readonly message: string;
  readonly attempted?: string | undefined;
  readonly rule?: string;
}

/** No grant of any directive covers this, so none is missing. */
const isClosed = ({ capability, scope }: Need): boolean =>
  capability === 'fs.write' && isProtectedPath(scope?.path ?? '');

const VALID = ok(null);
/** No refusal: an approval was used, and its uses are counted. */
const BY_APPROVAL = '';

export class VerifiedToken {
  /** For the audit and for caches; says nothing about the token. */
  readonly hash: string;
  readonly blocks: TokenChain;
  /** The earliest of all blocks. */
  readonly expires: number;
  /** Thread and project of the last block: who acts, and where. */
  readonly thread: string;
  readonly project: string;
  /** The smallest of all blocks, field by field. */
  readonly budget: TokenBudget;
  readonly #world: TokenWorld;
  readonly #chain: ChainRights;
  /** Every thread whose revocation ends this token. */
  readonly #lineage: ReadonlySet<string>;
  // Blocks, ceilings and catalogue stay what they are: what they allow once they allow always. Time,
  // revocations and the uses of an approval are asked about every time.
  readonly #allowed = createRecent<string, true>(MAX_REMEMBERED);
  // Blocks do not change, so neither do the names; but few tokens are ever asked.
  #names: readonly string[] | undefined;

  /** `blocks` are frozen and there is at least one. */
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

  // The four questions of every call are functions of their own: whoever holds them need not hand
  // them on through others.

  /** Neither expired nor revoked, now. Asked at every question, because it is held for long. */
  readonly current = (): Outcome<null> => {
    const { clock, isRevoked, isKnownThread } = this.#world;
    // Written so that a clock that answers no number denies.
    if (!(clock.now() < this.expires)) return tokenRefused('expired', 'it has expired');
    for (const name of this.#lineage) {
      if (isRevoked?.(name)) return tokenRefused('revoked', `thread \`${name}\` was revoked`);
    }
    return isKnownThread?.(this.thread) === false
      ? tokenRefused('thread', `thread \`${this.thread}\` is unknown or has ended`)
      : VALID;
  };

  /** May this actual call be made? `attempted` names the tool in the refusal. */
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
        // The chain may hold it, and a ceiling refuses it: then nothing is missing. No grant reaches `.ai`.
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
    // The ceilings come before an approval: none is used up for what they refuse.
    const by = capped === undefined ? this.#useApproval(need) : [];
    return by === true ? BY_APPROVAL : [refusal, ...by].join('; ');
  }

  /** Lets a need through on an approval; the reasons of those that are used up or too old otherwise. */
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

  /** A rule refuses if the chain misses nothing: a policy, unless `rule` is given. */
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

  /** Is anything of that name held, whatever its scope? Asked before the scope can be known. */
  readonly holds = (capability: string): Outcome<null> => {
    const valid = this.current();
    const text = `holds ${capability}`;
    if (!valid.ok || this.#allowed.get(text)) return valid;
    const { catalog, ceilings = [] } = this.#world;
    const lack = this.#chain.lack(capability);
    const need = { capability };
    if (lack !== undefined) return this.#refuse({ missing: [need], message: lack, need });
    if (!ceilings.every((ceiling) => ceilingHolds(ceiling, capability, catalog))) {
      const message = `the policy leaves nothing of \`${capability}\``;
      return this.#refuse({ missing: [], message, need });
    }
    this.#allowed.set(text, true);
    return valid;
  };

  /** Do the lists over categories and names let this item be seen and used? */
  readonly sees = (kind: ListedKind, category: string, id: string): boolean =>
    // Tools are named one by one in `tool.execute`; no list is about them.
    this.current().ok && (kind === 'tool' || this.listAgainst(kind, category, id) === undefined);

  /** The list that leaves this item out, as `directives.allow_categories`. */
  readonly listAgainst = (kind: ListedKind, category: string, id: string): string | undefined =>
    kind === 'tool'
      ? undefined
      : this.#chain.listAgainst(kind === 'directive' ? 'directives' : kind, category, id);

  /** May this directive be started as a child thread? */
  maySpawn(category: string, id: string): Outcome<null> {
    const need: Need = { capability: 'spawn.thread' };
    const held = this.check(need, id);
    if (!held.ok) return held;
    const list =
      this.#chain.listAgainst('spawn', category, id) ??
      this.#chain.listAgainst('directives', category, id);
    if (list === undefined) return held;
    const message = `directive \`${id}\` may not be spawned: ${listRefusal(list)}`;
    const missing = missingInList(list);
    return this.#refuse({ missing, message, attempted: id, need, rule: list });
  }

  missingAtStart(wanted: readonly Grant[]): StartCheck {
    return this.#chain.misses(wanted);
  }

  /** Block by block, for people. */
  explain(need: Need): Explanation[] {
    const valid = this.current();
    const lines = this.#chain.explain(need);
    if (valid.ok) return lines;
    const reason = valid.error.detail.message;
    return lines.map((line) => ({ ...line, allowed: false, reason }));
  }

  /** Names for `permissions.granted`. */
  granted(): string[] {
    this.#names ??= this.#chain.names();
    return [...this.#names];
  }

  /** Every glob over paths, in its blocks and in the ceilings. */
  globs(): string[] {
    const held = this.blocks.flatMap(({ caps, approved = [] }) => [...caps, ...approved]);
    return [...grantGlobs(held), ...ceilingGlobs(this.#world.ceilings ?? [])];
  }
}
