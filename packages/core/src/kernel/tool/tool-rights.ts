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

/** The capability gate of a tool call. The primitive asks again, with the real path, host or id. */
export interface SignaturePolicy {
  /** `unsigned: allow` in a policy that is itself signed or at user level. */
  allowsUnsigned: boolean;
  /**
   * Is it of the tier `read`? All an unsigned item may reach, whoever calls it: no change, no
   * egress, nothing started. A name nobody declared is not.
   */
  isRead(capability: string): boolean;
}

const WAYS_OUT = 'sign it, or set `unsigned: allow` in the user-level policy';

/** The thread may hold the right, so `missing` is empty: a signature is absent. */
const refuseUnsigned = ({ leaf }: Plan, { id, file }: PlannedTool, effect: string): Failure =>
  fail('permission_denied', `tool \`${id}\` is not signed, so ${effect}: ${WAYS_OUT}`, {
    missing: '',
    rule: 'unsigned',
    attempted: leaf.id,
    unsigned: id,
    file,
  });

/** Asked at every call whose chain is not signed: a policy may have changed meanwhile. */
export type AskSignatures = () => SignaturePolicy;

/** The first link that is not signed, when that matters. */
export const unsignedLink = (plan: Plan, ask: AskSignatures): PlannedTool | undefined =>
  plan.unsigned === undefined || ask().allowsUnsigned ? undefined : plan.unsigned;

/** What an unsigned chain may not use, with the reason; undefined when nothing is held against it. */
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

/** Narrows an authority to what an unsigned chain may do. */
export function restrictUnsigned(authority: Authority, plan: Plan, ask: AskSignatures): Authority {
  const refuse = plan.unsigned && unsignedRefusal(plan, ask);
  return refuse ? without(authority, refuse) : authority;
}

/**
 * An unsigned link is handed nothing of the environment: it may not send it anywhere, but what it
 * answers goes to a model or a client, and an encoding hides a secret from every filter.
 */
export function refuseSecrets(plan: Plan, unsigned: PlannedTool | undefined): Outcome<null> {
  const [name] = plan.env;
  if (!unsigned || name === undefined) return OK;
  return refuseUnsigned(plan, unsigned, `its chain may not read \`${name}\` from the environment`);
}

/**
 * Parameters are checked in this process, before the gate: regular expressions of a schema that
 * nobody vouches for are not run.
 */
export function refusePatterns(plan: Plan, ask: AskSignatures): Outcome<null> {
  const link = plan.hasPatterns ? (plan.broken?.link ?? unsignedLink(plan, ask)) : undefined;
  if (!link) return OK;
  return refuseUnsigned(plan, link, 'the `pattern` in its schema is not used');
}

/** May this tool be called at all? Its id, its effect, and a grant of every name it requires. */
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
  // Where no directive may be started, what only looks is a tool like others.
  const allowed = effect.ok || !isOfDirectives ? effect : authority.allowsEffect(plan.effect);
  if (!allowed.ok) return allowed;
  const called = authority.check({ capability: 'tool.execute', scope: { id }, signed });
  if (!called.ok) return called;
  for (const name of plan.requires) {
    const held = authority.holds(name);
    if (held.ok) continue;
    // A name that is held and refused by a rule is not missing.
    const missing = plan.requires.filter((other) => {
      const asked = authority.holds(other);
      return !asked.ok && asked.error.detail.missing !== '';
    });
    // Where it is known what it would be for, the refusal and the line that helps say so.
    const scope = scopeOf(plan, name, parameters);
    const exact = scope ? authority.check({ capability: name, scope }) : held;
    const { detail } = exact.ok ? held.error : exact.error;
    return fail('permission_denied', detail.message, {
      ...detail,
      missing: missing.includes(name) ? name : '',
      missing_all: missing,
      attempted: id,
    });
  }
  return OK;
}

/** A plain path from the project; others are judged where they lead. */
const IS_PLAIN = /^(?![./~])(?!.*(?:^|\/)\.\.?(?:\/|$))[^\\:*?[\]{}\u0000-\u001f]+$/;

/** What a right of this name is wanted for, as far as the parameters tell. */
function scopeOf(
  { roles, op }: Plan,
  capability: string,
  parameters: JsonObject,
): Scope | undefined {
  const given = (role: string): string =>
    [...roles].flatMap(([name, one]) => {
      const value = one === role ? getOwn(parameters, name) : undefined;
      return typeof value === 'string' ? [value] : [];
    })[0] ?? '';
  if (/^fs\.(read|write|exec)$/.test(capability)) {
    const path = given('path');
    return IS_PLAIN.test(path) ? { path } : undefined;
  }
  if (!capability.startsWith('net.')) return undefined;
  const url = given('destination');
  const host = URL.canParse(url) ? new URL(url).hostname : plainText(op.metadata?.host ?? '');
  return host === '' || host.includes(':') ? undefined : { host };
}

const OK: Outcome<null> = ok(null);

/** What a primitive is told about the tool. An unsigned chain runs in the strictest sandbox. */
export const toolFacts = (plan: Plan, ask: AskSignatures): PrimitiveCall['tool'] =>
  unsignedLink(plan, ask) ? plan.strictFacts : plan.facts;
