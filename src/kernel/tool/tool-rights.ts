import { fail, getOwn, type Outcome, ok } from '../../base/index.ts';
import type { Item } from '../../items/index.ts';
import type { Authority } from '../call.ts';
import type { PlannedNeed, PrimitiveCall } from '../primitive.ts';
import { PROGRAM } from '../primitives/program-tools.ts';
import { hasPatterns } from './parameters.ts';
import type { Plan, PlannedTool } from './plan.ts';

/** Refuses an item whose signature is broken or by a key nobody trusts. */
export function checkSignature(item: Item): Outcome<null> {
  const { state, reason = '' } = item.signature;
  if (state === 'changed') {
    return fail(
      'signature_invalid',
      `${item.kind} \`${item.id}\` was changed after it was signed${reason && `: ${reason}`}; review it and sign it again`,
      { [item.kind]: item.id },
    );
  }
  if (state === 'untrusted') {
    return fail(
      'signature_invalid',
      `${item.kind} \`${item.id}\` is signed by a key that is not trusted${reason && `: ${reason}`}; see \`km trust --help\``,
      { [item.kind]: item.id },
    );
  }
  return ok(null);
}

// The capability gate of a tool call: what is asked before anything of the call is known but its
// tool, action and parameters. The primitive asks again, with the real path, host or id.

export interface SignaturePolicy {
  /** `unsigned: allow` in a policy that is itself signed or at user level. */
  allowsUnsigned: boolean;
  /**
   * Is it of the tier `read`? All an unsigned item may reach, whoever calls it: no change, no
   * egress, nothing started. A name nobody declared is not.
   */
  isRead(capability: string): boolean;
}

const waysOut = (file: string): string =>
  `sign it (\`km sign ${file}\`) or set \`unsigned: allow\` in the user-level policy`;

/** The first link that is not signed, when that matters. */
export const unsignedLink = (plan: Plan, policy: SignaturePolicy): PlannedTool | undefined =>
  policy.allowsUnsigned
    ? undefined
    : plan.links.find((link) => link.signature.state === 'unsigned');

/** What an unsigned chain may not use, with the reason; undefined when nothing is held against it. */
export function unsignedRefusal(
  plan: Plan,
  policy: SignaturePolicy,
): ((capability: string) => Outcome<null> | undefined) | undefined {
  const unsigned = unsignedLink(plan, policy);
  if (!unsigned) return undefined;
  return (capability) =>
    policy.isRead(capability)
      ? undefined
      : fail(
          'permission_denied',
          `tool \`${unsigned.id}\` is not signed, so it may not use \`${capability}\`: ${waysOut(unsigned.file)}`,
          { missing: capability, attempted: plan.leaf.id, unsigned: unsigned.id },
        );
}

/** Narrows an authority to what an unsigned chain may do. */
export function restrictUnsigned(
  authority: Authority,
  plan: Plan,
  policy: SignaturePolicy,
): Authority {
  const refuse = unsignedRefusal(plan, policy);
  if (!refuse) return authority;
  return {
    ...authority,
    check: (need: PlannedNeed) => refuse(need.capability) ?? authority.check(need),
    holds: (capability) => refuse(capability) ?? authority.holds(capability),
  };
}

/**
 * An unsigned link is handed nothing of the environment: it may not send it anywhere, but what it
 * answers goes to a model or a client, and an encoding hides a secret from every filter.
 */
export function refuseSecrets(plan: Plan, policy: SignaturePolicy): Outcome<null> {
  const unsigned = unsignedLink(plan, policy);
  const [name] = plan.env;
  if (!unsigned || name === undefined) return ok(null);
  return fail(
    'permission_denied',
    `tool \`${unsigned.id}\` is not signed, so its chain may not read \`${name}\` from the environment: ${waysOut(unsigned.file)}`,
    { missing: `env.${name}`, attempted: plan.leaf.id, unsigned: unsigned.id },
  );
}

/**
 * Parameters are checked in this process, before the gate: regular expressions of a schema that
 * nobody vouches for are not run.
 */
export function refusePatterns(plan: Plan, policy: SignaturePolicy): Outcome<null> {
  const link = plan.links.find((each) => !checkSignature(each).ok) ?? unsignedLink(plan, policy);
  if (!link || !hasPatterns(plan.schema)) return ok(null);
  return fail(
    'permission_denied',
    `tool \`${link.id}\` is not signed, so the \`pattern\` in its schema is not used: ${waysOut(link.file)}`,
    { missing: 'pattern', attempted: plan.leaf.id, unsigned: link.id },
  );
}

/** May this tool be called at all? Its id, its effect, and a grant of every name it requires. */
export function gateTool(plan: Plan, authority: Authority): Outcome<null> {
  for (const link of plan.links) {
    const signature = checkSignature(link);
    if (!signature.ok) return signature;
  }
  const id = plan.leaf.id;
  const signed = plan.leaf.signature.state !== 'unsigned';
  if (!authority.sees('tool', plan.leaf.category, id)) {
    return fail('permission_denied', `tool \`${id}\` is not among the items this thread may use`);
  }
  const effect = authority.allowsEffect(plan.effect);
  if (!effect.ok) return effect;
  const called = authority.check({ capability: 'tool.execute', scope: { id }, signed });
  if (!called.ok) return called;
  const missing = plan.requires.filter((name) => !authority.holds(name).ok);
  const [first] = missing;
  if (first === undefined) return ok(null);
  const refusal = authority.holds(first);
  if (refusal.ok) return refusal;
  return fail('permission_denied', refusal.error.detail.message, {
    ...refusal.error.detail,
    missing: first,
    missing_all: missing,
    attempted: id,
  });
}

/** From the most trusted to the least. INVARIANT: a chain is worth what its weakest link is. */
const SOURCES = ['bundle', 'installed', 'user', 'project'] as const;

function sourceOf({ leaf, links }: Plan): PrimitiveCall['tool']['source'] {
  if (leaf.file.startsWith(PROGRAM)) return 'program';
  return SOURCES.findLast((source) => links.some((link) => link.source === source)) ?? 'project';
}

/** What a primitive is told about the tool. An unsigned chain runs in the strictest sandbox. */
export function toolFacts(plan: Plan, policy: SignaturePolicy): PrimitiveCall['tool'] {
  const { leaf, tool } = plan;
  // The module belongs to the link that names it, which need not be the leaf.
  const owner = plan.links.find((link) => getOwn(link.tool?.config, 'module')) ?? leaf;
  return {
    id: leaf.id,
    dir: owner.file.replace(/[^/\\]*$/, ''),
    source: sourceOf(plan),
    requires: plan.requires,
    effect: plan.effect,
    sandbox: unsignedLink(plan, policy) ? 'strict' : tool.sandbox,
    env: [...plan.env],
  };
}
