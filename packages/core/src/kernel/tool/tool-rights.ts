import {
  type Failure,
  fail,
  getOwn,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import type { Scope } from '../../trust/index.ts';
import type { Authority } from '../call.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { leftOut, without } from '../rights/authority.ts';
import type { Plan, PlannedTool } from './plan.ts';

/**
 * The policy for unsigned items. The gate of a tool call uses it before the primitive checks the
 * resolved scope.
 */
export interface SignaturePolicy {
  /** True for `unsigned: allow` in a policy that is signed or at user level. */
  allowsUnsigned: boolean;
  /**
   * True for a capability of the tier `read`, the only tier that an unsigned item may use: no change, no
   * egress, no process. False for an unknown name.
   */
  isRead(capability: string): boolean;
}

const WAYS_OUT = 'sign it, or set `unsigned: allow` in the user-level policy';

/** The thread may have the right, so `missing` is empty: a signature is missing. */
const refuseUnsigned = ({ leaf }: Plan, { id, file }: PlannedTool, effect: string): Failure =>
  fail('permission_denied', `tool \`${id}\` is not signed, so ${effect}: ${WAYS_OUT}`, {
    missing: '',
    rule: 'unsigned',
    attempted: leaf.id,
    unsigned: id,
    file,
  });

/** Called for every call of an unsigned chain, because a policy may have changed. */
export type AskSignatures = () => SignaturePolicy;

/** Returns the first unsigned link, unless the policy allows unsigned items. */
export const unsignedLink = (plan: Plan, ask: AskSignatures): PlannedTool | undefined =>
  plan.unsigned === undefined || ask().allowsUnsigned ? undefined : plan.unsigned;

/**
 * Returns a check of the capabilities that an unsigned chain may not use. Undefined if the chain has no
 * restriction.
 */
export function unsignedRefusal(
  plan: Plan,
  ask: AskSignatures,
): ((capability: string) => Outcome<null> | undefined) | undefined {
  const unsigned = unsignedLink(plan, ask);
  if (!unsigned) return undefined;
  const { isRead } = ask();
  return (capability) =>
    isRead(capability)
      ? undefined
      : refuseUnsigned(plan, unsigned, `it may not use \`${capability}\``);
}

/** Narrows an authority to the capabilities of an unsigned chain. */
export function restrictUnsigned(authority: Authority, plan: Plan, ask: AskSignatures): Authority {
  const refuse = plan.unsigned && unsignedRefusal(plan, ask);
  return refuse ? without(authority, refuse) : authority;
}

/**
 * Refuses variables for an unsigned link. It may not send them, but its answer goes to a model or a
 * client, and an encoding hides a secret from every filter.
 */
export function refuseSecrets(plan: Plan, unsigned: PlannedTool | undefined): Outcome<null> {
  const [name] = plan.env;
  if (!unsigned || name === undefined) return OK;
  return refuseUnsigned(plan, unsigned, `its chain may not read \`${name}\` from the environment`);
}

/**
 * Refuses regular expressions in an unsigned schema, because parameters are checked in this process
 * before the gate.
 */
export function refusePatterns(plan: Plan, ask: AskSignatures): Outcome<null> {
  const link = plan.hasPatterns ? (plan.broken?.link ?? unsignedLink(plan, ask)) : undefined;
  if (!link) return OK;
  return refuseUnsigned(plan, link, 'the `pattern` in its schema is not used');
}

/** Checks whether the tool may be called: its id, its effect, and a grant for every required name. */
export function gateTool(
  plan: Plan,
  authority: Authority,
  parameters: JsonObject = {},
  isOfDirectives = false,
): Outcome<null> {
  if (plan.broken) return plan.broken.failure;
  const { category, isSigned: signed } = plan;
  const { id } = plan.leaf;
  if (!authority.sees('tool', category, id)) {
    const message = `tool \`${id}\` is not among the items this thread may use`;
    return leftOut(authority, 'tool', { category, id }, message);
  }
  const effect = isOfDirectives
    ? authority.allowsDirective(true)
    : authority.allowsEffect(plan.effect);
  // A tool that only reads is judged by its effect if no directive may start.
  const allowed = effect.ok || !isOfDirectives ? effect : authority.allowsEffect(plan.effect);
  if (!allowed.ok) return allowed;
  const called = authority.check({ capability: 'tool.execute', scope: { id }, signed });
  if (!called.ok) return called;
  for (const name of plan.requires) {
    const granted = authority.holds(name);
    if (granted.ok) continue;
    // A capability that the caller has and a rule refuses is not missing.
    const missing = plan.requires.filter((other) => {
      const answer = authority.holds(other);
      return !answer.ok && answer.error.detail.missing !== '';
    });
    // If the scope is known, the refusal and its hint name it.
    const scope = scopeOf(plan, name, parameters);
    const exact = scope ? authority.check({ capability: name, scope }) : granted;
    const { detail } = exact.ok ? granted.error : exact.error;
    return fail('permission_denied', detail.message, {
      ...detail,
      missing: missing.includes(name) ? name : '',
      missing_all: missing,
      attempted: id,
    });
  }
  return OK;
}

/** A plain path inside of the project. Other paths are judged after they were resolved. */
const IS_PLAIN = /^(?![./~])(?!.*(?:^|\/)\.\.?(?:\/|$))[^\\:*?[\]{}\u0000-\u001f]+$/;

/** Returns the scope that the parameters name for this capability. Undefined if they name none. */
function scopeOf(
  { roles, op }: Plan,
  capability: string,
  parameters: JsonObject,
): Scope | undefined {
  const valueOf = (role: string): string =>
    [...roles].flatMap(([name, one]) => {
      const value = one === role ? getOwn(parameters, name) : undefined;
      return typeof value === 'string' ? [value] : [];
    })[0] ?? '';
  if (/^fs\.(read|write|exec)$/.test(capability)) {
    const path = valueOf('path');
    return IS_PLAIN.test(path) ? { path } : undefined;
  }
  if (!capability.startsWith('net.')) return undefined;
  const url = valueOf('destination');
  const host = URL.canParse(url) ? new URL(url).hostname : plainText(op.metadata?.host ?? '');
  return host === '' || host.includes(':') ? undefined : { host };
}

const OK: Outcome<null> = ok(null);

/** Returns the facts about the tool for its primitive. An unsigned chain runs in the strictest sandbox. */
export const toolFacts = (plan: Plan, ask: AskSignatures): PrimitiveCall['tool'] =>
  unsignedLink(plan, ask) ? plan.strictFacts : plan.facts;
