// What a person approved for a thread, added to its rights: the chain is minted anew with the
// approvals beside what its blocks hold.
//
// INVARIANT: right = declared AND (parent OR approval). An approval stands in every block above its
// thread, where it takes the place of what those do not hold, and in no block below it; the thread's
// own block stays what its directive declares, unless the person said that it may go beyond that.
import { fail, type Outcome, type RandomBytes, systemRandom } from '../base/index.ts';
import type { Grant } from './grant.ts';
import type { KeyPair } from './key.ts';
import { attenuateToken, type CapabilityToken, mintToken } from './token.ts';
import type { ApprovedGrant, TokenBlock } from './token-block.ts';

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
