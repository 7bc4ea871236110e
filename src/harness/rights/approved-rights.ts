// What people approved for a thread beyond what it holds. Its token stays as it is; a call that is made
// while something is approved gets one of its own, minted for this call from the thread's blocks and
// the approvals. INVARIANT: a use is counted in the registry and noted in the journal before the right
// is exercised, once a call; nothing but a person's decision ever comes in here.
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import type { Approval, ApprovalState } from '../../store/index.ts';
import { type ApprovedRight, encodeToken, type Scope, widenToken } from '../../trust/index.ts';
import type { ApprovalNote, JournalEvent } from '../thread/journal-event.ts';
import type { Change } from '../thread/journal-writer.ts';
import type { ApprovedRights, TakenUse, Thread } from '../thread/thread.ts';

/** More calls than these are never at work at once. */
const MAX_MINTED = 64;

type GivenRight = Extract<ApprovalNote, { state: 'approved' }>;

const scopeOf = (value: Json | undefined): { scope?: Scope } =>
  isObject(value) && Object.keys(value).length > 0 ? { scope: value } : {};

/** Undefined: no approval of a capability, or one that was not given. */
export function rightOf({ id, thread, kind, state, binding, expires, answer }: Approval) {
  if (kind !== 'capability' || (state !== 'approved' && state !== 'used')) return undefined;
  const grant = { capability: plainText(binding.capability), ...scopeOf(binding.scope) };
  const right: ApprovedRight = { approval: id, thread: thread ?? '', grant };
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
async function fromRegistry({ ports }: Thread, id: string): Promise<ApprovedRight[]> {
  const approvals = await ports.store.approvals({ thread: id, state: 'approved' });
  return (approvals.ok ? approvals.output : []).flatMap((one) => rightOf(one) ?? []);
}

interface Taken {
  readonly use: TakenUse;
  isExercised: boolean;
}

/** What a call carries besides its thread's own rights. */
interface CallUses {
  readonly taken: ReadonlyMap<string, Taken>;
  /** Used up or over, and why: said when the call would need it. */
  readonly refused: ReadonlyMap<string, Failure>;
}

export function createApproved(self: () => Thread): ApprovedRights {
  const held = new Map<string, ApprovedRight>();
  /** Of ancestors that do not run here, as the registry had them when they were last asked for. */
  const above = new Map<string, readonly ApprovedRight[]>();
  /** Uses that were taken with the intent of a call, by the call. */
  const uses = new Map<string, CallUses>();
  /** Taken by a process that was lost, for calls without a result. */
  const left = new Map<string, Set<string>>();
  /** Tokens of calls, the newest last: which call each was minted for. */
  const minted = new Map<string, string>();

  const rightsOf = (id: string): readonly ApprovedRight[] =>
    self().ports.threads.live.get(id)?.thread.rights.approved.own() ?? above.get(id) ?? [];
  function inForce(): ApprovedRight[] {
    const { place, ports } = self();
    const now = ports.clock.now();
    const all = [...held.values(), ...place.chain.slice(1).flatMap(rightsOf)];
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
    minted.set(token, call);
    const [oldest] = minted.keys();
    if (minted.size > MAX_MINTED && oldest !== undefined) minted.delete(oldest);
  }

  return {
    own: () => [...held.values()],
    add(approval) {
      const right = rightOf(approval);
      if (!right || held.has(right.approval)) return;
      self().journal.note({ type: 'approval', data: packed(right, approval.who ?? '') });
      held.set(right.approval, right);
    },
    restore(note) {
      if (note.state === 'approved') held.set(note.approval, unpacked(note, self().place.id));
      if (note.state !== 'used') return;
      left.set(note.call_id, (left.get(note.call_id) ?? new Set()).add(note.approval));
    },
    restoreResult: (call) => void left.delete(call),
    leftFor: (call) => [...(left.get(call) ?? [])],
    async load() {
      const thread = self();
      for (const id of thread.place.chain.slice(1)) {
        if (!thread.ports.threads.live.get(id)) above.set(id, await fromRegistry(thread, id));
      }
    },
    takeable: () => (held.size === 0 && self().place.parent === undefined ? [] : inForce()),
    taken(call, given, refused) {
      left.delete(call);
      const taken = new Map(
        given.map((use) => [use.approval, { use, isExercised: false }] as const),
      );
      if (taken.size + refused.size > 0) uses.set(call, { taken, refused });
    },
    auth(call) {
      const { rights, ports, place } = self();
      const own = call === undefined ? undefined : uses.get(call);
      const carries = ({ approval }: ApprovedRight): boolean =>
        call === undefined ||
        own?.taken.has(approval) === true ||
        own?.refused.has(approval) === true;
      const extra = inForce().filter(carries);
      if (extra.length === 0) return rights.own.auth;
      const token = mint(extra);
      if (!token.ok) return rights.own.auth;
      const verified = ports.tokens.verify(token.output, place.id);
      if (!verified.ok) return rights.own.auth;
      if (call !== undefined) remember(verified.output.hash, call);
      return token.output;
    },
    use(approval, token) {
      const own = uses.get(minted.get(token) ?? '');
      const refused = own?.refused.get(approval);
      if (refused) return refused;
      const one = own?.taken.get(approval);
      if (!one) return fail('permission_denied', `approval \`${approval}\` is not for this call`);
      one.isExercised = true;
      return ok(null);
    },
    unused(call) {
      const own = uses.get(call);
      uses.delete(call);
      // What is used up or over is held no more.
      for (const approval of own?.refused.keys() ?? []) held.delete(approval);
      const idle = [...(own?.taken.values() ?? [])].filter((one) => !one.isExercised);
      return idle.map(({ use }) => use);
    },
  };
}

/** What stands in the journal about a use. */
const useNote = (
  { approval, binding, uses_left }: TakenUse,
  call: string,
  state: 'used' | 'returned',
): JournalEvent => ({
  type: 'approval',
  data: {
    kind: 'capability',
    state,
    approval,
    call_id: call,
    capability: plainText(binding.capability),
    scope: isObject(binding.scope) ? binding.scope : {},
    uses_left: state === 'used' ? uses_left : uses_left + 1,
  },
});

const REFUSALS: Readonly<Record<Exclude<ApprovalState, 'approved'>, string>> = {
  pending: 'nobody has answered yet',
  denied: 'was denied',
  expired: 'has expired',
  used: 'was used as often as allowed',
};

function refusal({ approval }: ApprovedRight, row: Approval | undefined): Failure {
  const state = row === undefined || row.state === 'approved' ? 'used' : row.state;
  const message = `approval \`${approval}\`: ${REFUSALS[state]}`;
  return fail(`approval_${state}`, message, { approval, state });
}

interface Planned {
  rows: Approval[];
  refused: Map<string, Failure>;
}

/** Which of the rights in force can be used once more; the others with the reason why not. */
async function planUses(
  { ports, rights }: Thread,
  refused: Map<string, Failure>,
): Promise<Planned> {
  const rows: Approval[] = [];
  for (const right of rights.approved.takeable()) {
    if (refused.has(right.approval)) continue;
    const found = await ports.store.approvals({ id: right.approval });
    const [row] = found.ok ? found.output : [];
    if (row?.state === 'approved') rows.push(row);
    else refused.set(right.approval, refusal(right, row));
  }
  return { rows, refused };
}

const useOf = ({ id, binding, uses }: Approval): TakenUse => ({
  approval: id,
  binding,
  uses_left: uses - 1,
});

/** As the registry is asked for it. */
const asked = ({ approval, binding }: TakenUse) => ({ approval, binding });

/** A call that a lost process began has its uses already. */
async function usesLeft({ ports, rights }: Thread, call: string): Promise<TakenUse[]> {
  const uses: TakenUse[] = [];
  for (const id of rights.approved.leftFor(call)) {
    const found = await ports.store.approvals({ id });
    // Its row counts without this use already.
    uses.push(
      ...(found.ok ? found.output : []).map((row) => useOf({ ...row, uses: row.uses + 1 })),
    );
  }
  return uses;
}

/**
 * The intent of a call, together with one use of every approval that its token will carry; those that are
 * used up or over are gone without. INVARIANT: counted before the right is exercised, once a call; a
 * crash loses a use and never gives one too many.
 */
export async function commitIntent(
  thread: Thread,
  call: string,
  event: JournalEvent,
): Promise<Outcome<null>> {
  const { journal, rights } = thread;
  const before = await usesLeft(thread, call);
  if (before.length > 0 || rights.approved.takeable().length === 0) {
    rights.approved.taken(call, before, new Map());
    journal.note(event);
    return ok(null);
  }
  const known = new Map<string, Failure>();
  for (;;) {
    const { rows, refused } = await planUses(thread, known);
    const uses = rows.map(useOf);
    const notes = uses.map((use) => useNote(use, call, 'used'));
    const change = uses.length > 0 ? { use: uses.map(asked) } : {};
    const done = await journal.commit([event, ...notes], change);
    if (done.ok) {
      rights.approved.taken(call, uses, refused);
      return ok(null);
    }
    // Somebody else was quicker: without that one.
    const { approval } = done.error.detail;
    if (typeof approval !== 'string' || known.has(approval)) return done;
    known.set(approval, done);
  }
}

export interface GivenBack {
  readonly events: readonly JournalEvent[];
  readonly change: Pick<Change, 'back'>;
}

/** What a call took and did not exercise goes back, with its result. */
export function givenBack({ rights }: Thread, call: string): GivenBack {
  const unused = rights.approved.unused(call);
  const back = unused.map((use) => ({ ...asked(use), back: true as const }));
  return {
    events: unused.map((use) => useNote(use, call, 'returned')),
    change: back.length === 0 ? {} : { back },
  };
}
