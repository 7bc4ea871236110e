// What people approved for a thread beyond what it holds. Its token stays as it is; a call that is made
// while something is approved gets one of its own, minted for this call from the thread's blocks and
// the approvals. INVARIANT: a use is counted in the registry and noted in the journal before the right
// is exercised, once a call; nothing but a person's decision ever comes in here.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import type { Approval } from '../../store/index.ts';
import { type ApprovedRight, encodeToken, type Scope, widenToken } from '../../trust/index.ts';
import type { ApprovalNote } from '../thread/journal-event.ts';
import type { ApprovedRights, Thread } from '../thread/thread.ts';

/** More calls than these are never at work at once. */
const MAX_MINTED = 64;

type GivenRight = Extract<ApprovalNote, { state: 'approved' }>;

const scopeOf = (value: Json | undefined): { scope?: Scope } =>
  isObject(value) && Object.keys(value).length > 0 ? { scope: value } : {};

/** Undefined: no approval of a capability, or one that was not given. */
export function rightOf({ id, thread, kind, state, binding, expires, answer }: Approval) {
  if (kind !== 'capability' || (state !== 'approved' && state !== 'used')) return undefined;
  const grant = { capability: plainText(binding.capability), ...scopeOf(binding.scope) };
  const right: ApprovedRight = { approval: id, thread, grant };
  if (expires !== undefined) right.expires = expires;
  if (getOwn(answer, 'beyond') === true) right.beyond = true;
  return right;
}

const packed = ({ approval, grant, expires, beyond }: ApprovedRight, by: string): GivenRight => ({
  kind: 'capability',
  state: 'approved',
  approval,
  capability: grant.capability,
  ...(grant.scope && { scope: { ...grant.scope } }),
  ...(expires !== undefined && { expires }),
  ...(beyond === true && { beyond: true }),
  by,
});

function unpacked({ approval, capability, scope, expires, beyond }: GivenRight, thread: string) {
  const right: ApprovedRight = { approval, thread, grant: { capability, ...scopeOf(scope) } };
  if (expires !== undefined) right.expires = expires;
  if (beyond) right.beyond = beyond;
  return right;
}

/** Of a thread that does not run here. */
function fromRegistry({ ports }: Thread, id: string): ApprovedRight[] {
  const approvals = ports.store.approvals.list({ thread: id, state: 'approved' });
  return (approvals.ok ? approvals.output : []).flatMap((one) => rightOf(one) ?? []);
}

export function createApproved(self: () => Thread): ApprovedRights {
  const held = new Map<string, ApprovedRight>();
  /** Tokens of calls, the newest last: which call each was minted for, and what it has used. */
  const minted = new Map<string, { call: string; used: Set<string> }>();
  const above = new Map<string, readonly ApprovedRight[]>();

  function rightsOf(id: string): readonly ApprovedRight[] {
    const thread = self();
    const live = thread.ports.threads.live.get(id);
    if (live) return live.thread.rights.approved.own();
    const before = above.get(id) ?? fromRegistry(thread, id);
    above.set(id, before);
    return before;
  }
  function inForce(): ApprovedRight[] {
    const {
      place: { chain },
      ports,
    } = self();
    const now = ports.clock.now();
    const all = [...held.values(), ...chain.slice(1).flatMap(rightsOf)];
    return all.filter(({ expires = Number.POSITIVE_INFINITY }) => expires > now);
  }
  function mint(rights: readonly ApprovedRight[]): Outcome<string> {
    const {
      ports,
      rights: { own },
      place: { id },
    } = self();
    const [base, key] = [ports.tokens.verify(own.auth, id), ports.tokens.key()];
    if (!base.ok) return base;
    if (!key.ok) return key;
    const token = widenToken(key.output, base.output.blocks, rights);
    return token.ok ? ok(encodeToken(token.output)) : token;
  }
  function remember(token: string, call: string): void {
    minted.set(token, { call, used: new Set() });
    const [oldest] = minted.keys();
    if (minted.size > MAX_MINTED && oldest !== undefined) minted.delete(oldest);
  }
  function count(id: string, call: string): Outcome<null> {
    const { ports, journal } = self();
    const asked = ports.store.approvals.get(id);
    if (!asked.ok) return asked;
    const spent = ports.store.approvals.use(id, asked.output.binding);
    if (!spent.ok) return spent;
    const { capability, scope } = asked.output.binding;
    return journal.note({
      type: 'approval',
      data: {
        kind: 'capability',
        state: 'used',
        approval: id,
        call_id: call,
        capability: plainText(capability),
        scope: isObject(scope) ? scope : {},
        uses_left: spent.output.uses,
      },
    });
  }

  return {
    own: () => [...held.values()],
    add(approval) {
      const right = rightOf(approval);
      if (!right) return fail('permission_denied', `approval \`${approval.id}\` gives no right`);
      if (held.has(right.approval)) return ok(null);
      const { who = '' } = approval;
      const noted = self().journal.note({ type: 'approval', data: packed(right, who) });
      if (noted.ok) held.set(right.approval, right);
      return noted;
    },
    restore(note) {
      if (note.state === 'approved') held.set(note.approval, unpacked(note, self().place.id));
    },
    auth(call) {
      const {
        rights: { own: rights },
        ports,
        place: { id },
      } = self();
      const extra = held.size === 0 && self().place.parent === undefined ? [] : inForce();
      if (extra.length === 0) return rights.auth;
      const token = mint(extra);
      if (!token.ok) return rights.auth;
      const verified = ports.tokens.verify(token.output, id);
      if (!verified.ok) return rights.auth;
      if (call !== undefined) remember(verified.output.hash, call);
      return token.output;
    },
    use(approval, token) {
      const at = minted.get(token);
      if (!at) return fail('permission_denied', `approval \`${approval}\` is not for this call`);
      if (at.used.has(approval)) return ok(null);
      const counted = count(approval, at.call);
      if (counted.ok) at.used.add(approval);
      else held.delete(approval);
      return counted;
    },
  };
}
