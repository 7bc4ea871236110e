// Keeps rights that people approved for a thread beyond its own. The thread's token does not change. A call gets a
// token of its own, minted from the thread's blocks and the approvals. INVARIANT: a use is always counted in the
// store and recorded in the journal before the right is exercised, and at most once per call. Only a person's
// decision adds a right here.
import {
  type Failure,
  fail,
  getOwn,
  type Outcome,
  objectAt,
  ok,
  plainText,
} from '../../base/index.ts';
import type { ApprovalNote, JournalEvent } from '../../journal/index.ts';
import type { Answer, Approval, ApprovalState, Store } from '../../store/index.ts';
import { type ApprovedRight, encodeToken, widenToken } from '../../trust/index.ts';
import type { ApprovedRights, RightsHolder, TakenUse, Thread } from '../thread/thread.ts';

/** Upper bound of calls that run at the same time. */
const MAX_MINTED = 64;

type RightNote = Extract<ApprovalNote, { state: 'approved' }>;

const rightFrom = (
  thread: string,
  { approval, capability, scope = {}, expires, beyond }: Omit<RightNote, 'kind' | 'state' | 'by'>,
): ApprovedRight => ({
  approval,
  thread,
  grant: { capability, ...(Object.keys(scope).length > 0 && { scope }) },
  ...(expires !== undefined && { expires }),
  ...(beyond && { beyond }),
});

/** Returns the right of an approval, and `undefined` unless a capability was approved. */
export function rightOf(row: Approval): ApprovedRight | undefined {
  const { id: approval, thread = '', kind, state, binding, expires, answer } = row;
  if (kind !== 'capability' || (state !== 'approved' && state !== 'used')) return undefined;
  return rightFrom(thread, {
    approval,
    capability: plainText(binding.capability),
    scope: objectAt(binding, 'scope'),
    ...(expires !== undefined && { expires }),
    ...(getOwn(answer, 'beyond') === true && { beyond: true }),
  });
}

async function fromRegistry(store: Store, id: string): Promise<ApprovedRight[]> {
  const approvals = await store.approvals({ thread: id, state: 'approved' });
  return (approvals.ok ? approvals.output : []).flatMap((one) => rightOf(one) ?? []);
}

/** Mints a token for one call: the thread's own rights and these. */
function mint({ ports, rights, place }: RightsHolder, more: readonly ApprovedRight[]) {
  const [base, key] = [ports.tokens.verify(rights.own.auth, place.id), ports.tokens.key()];
  if (!base.ok) return base;
  if (!key.ok) return key;
  const token = widenToken(key.output, base.output.blocks, more);
  if (!token.ok) return token;
  const auth = encodeToken(token.output);
  const verified = ports.tokens.verify(auth, place.id);
  return verified.ok ? ok({ auth, hash: verified.output.hash }) : verified;
}

/** Approvals that a call uses beside its thread's own rights. */
interface CallUses {
  readonly taken: ReadonlyMap<string, { readonly use: TakenUse; isExercised: boolean }>;
  /** Approvals that cannot be used, with the refusal for a call that needs one. */
  readonly refused: ReadonlyMap<string, Failure>;
}

/** Rights of a thread whose use its journal records. */
type RecordedRights = RightsHolder & Pick<Thread, 'journal'>;

export function createApproved(self: () => RecordedRights): ApprovedRights {
  const rights = new Map<string, ApprovedRight>();
  /** Rights of ancestors that do not run here, as the store had them at the last read. */
  const above = new Map<string, readonly ApprovedRight[]>();
  /** Uses that each call took with its intent. */
  const uses = new Map<string, CallUses>();
  /** Approvals that a lost process took, by open call. */
  const lostUses = new Map<string, readonly string[]>();
  /** Call of each minted token, the newest last. */
  const minted = new Map<string, string>();

  const rightsOf = (id: string): readonly ApprovedRight[] =>
    self().ports.threads.live.get(id)?.thread.rights.approved.own() ?? above.get(id) ?? [];
  function inForce(): readonly ApprovedRight[] {
    const { place, ports } = self();
    if (rights.size === 0 && place.parent === undefined) return [];
    const now = ports.clock.now();
    const all = [...rights.values(), ...place.chain.slice(1).flatMap(rightsOf)];
    return all.filter(({ expires = Number.POSITIVE_INFINITY }) => expires > now);
  }
  function remember(token: string, call: string): void {
    minted.set(token, call);
    const [oldest] = minted.keys();
    if (minted.size > MAX_MINTED && oldest !== undefined) minted.delete(oldest);
  }

  return {
    own: () => [...rights.values()],
    add(approval) {
      const right = rightOf(approval);
      if (!right || rights.has(right.approval)) return;
      const { thread: _, grant, ...terms } = right;
      const fields = { kind: 'capability', state: 'approved', ...terms, ...grant } as const;
      const data = { ...fields, by: approval.who ?? '' } as RightNote;
      self().journal.note({ type: 'approval', data });
      rights.set(right.approval, right);
    },
    restore(note) {
      if (note.state === 'approved') rights.set(note.approval, rightFrom(self().place.id, note));
      if (note.state !== 'used' || note.kind !== 'capability') return;
      lostUses.set(note.call_id, [...(lostUses.get(note.call_id) ?? []), note.approval]);
    },
    startOver() {
      rights.clear();
      lostUses.clear();
    },
    restoreResult: (call) => void lostUses.delete(call),
    leftFor: (call) => lostUses.get(call) ?? [],
    async load() {
      const { ports, place } = self();
      for (const id of place.chain.slice(1)) {
        if (!ports.threads.live.get(id)) above.set(id, await fromRegistry(ports.store, id));
      }
    },
    takeable: inForce,
    taken(call, list, refused) {
      lostUses.delete(call);
      const taken = new Map(list.map((use) => [use.approval, { use, isExercised: false }]));
      if (taken.size + refused.size > 0) uses.set(call, { taken, refused });
    },
    auth(call) {
      const own = call === undefined ? undefined : uses.get(call);
      if (call !== undefined && !own) return self().rights.own.auth;
      const extra = inForce().filter(
        ({ approval }) => !own || own.taken.has(approval) || own.refused.has(approval),
      );
      const token = extra.length > 0 ? mint(self(), extra) : undefined;
      if (!token?.ok) return self().rights.own.auth;
      if (call !== undefined) remember(token.output.hash, call);
      return token.output.auth;
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
      if (!own) return [];
      uses.delete(call);
      // Rights of refused approvals are dropped.
      for (const approval of own.refused.keys()) rights.delete(approval);
      return [...own.taken.values()].flatMap(({ use, isExercised }) => (isExercised ? [] : [use]));
    },
  };
}

/** Adds the rights that people approved for a hook of this thread, and records them for a replay. */
export async function takeGranted(
  { ports, place, rights }: RightsHolder,
  hook: string,
): Answer<null> {
  if (ports.replay) return ok(null);
  const found = await ports.store.approvals({ thread: place.id, limit: 1000 });
  if (!found.ok) return found;
  for (const row of found.output) {
    if (row.binding.hook === hook && isInForce(row)) rights.approved.add(row);
  }
  return ok(null);
}

/** True if the right is declared, or a person approved that it goes beyond the directive. */
export function isInForce(row: Approval): boolean {
  const right = rightOf(row);
  return right !== undefined && (row.shown.declared !== 'no' || right.beyond === true);
}

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
    scope: objectAt(binding, 'scope'),
    uses_left: state === 'used' ? uses_left : uses_left + 1,
  },
});

const REFUSALS: Readonly<Record<Exclude<ApprovalState, 'approved'>, string>> = {
  pending: 'is pending',
  denied: 'was denied',
  expired: 'has expired',
  used: 'was used as often as allowed',
};

function refusal({ approval }: ApprovedRight, row: Approval | undefined): Failure {
  const state = row === undefined || row.state === 'approved' ? 'used' : row.state;
  const message = `approval \`${approval}\` ${REFUSALS[state]}`;
  return fail(`approval_${state}`, message, { approval, state });
}

/** Returns one use of each right that has uses left. The other rights are added to `refused`. */
async function planUses(
  store: Store,
  rights: readonly ApprovedRight[],
  refused: Map<string, Failure>,
): Promise<TakenUse[]> {
  const uses: TakenUse[] = [];
  for (const right of rights) {
    if (refused.has(right.approval)) continue;
    const found = await store.approvals({ id: right.approval });
    const [row] = found.ok ? found.output : [];
    if (row?.state === 'approved') uses.push(useOf(row, row.uses - 1));
    else refused.set(right.approval, refusal(right, row));
  }
  return uses;
}

const useOf = ({ id, binding }: Approval, uses_left: number): TakenUse => ({
  approval: id,
  binding,
  uses_left,
});

const useKey = ({ approval, binding }: TakenUse) => ({ approval, binding });

/** Returns the uses that a lost process took for this call. The store has counted them. */
async function usesLeft(store: Store, approvals: readonly string[]): Promise<TakenUse[]> {
  const found = await Promise.all(approvals.map((id) => store.approvals({ id })));
  return found.flatMap((rows) => (rows.ok ? rows.output.map((row) => useOf(row, row.uses)) : []));
}

/**
 * Records the intent of a call with one use of every approval that its token will carry. Approvals that cannot be
 * used are dropped. INVARIANT: a use is always counted before the right is exercised, and at most once per
 * call. A crash can lose a use; it never adds one.
 */
export async function commitIntent(
  { ports, journal, rights }: RecordedRights,
  call: string,
  event: JournalEvent,
): Promise<Outcome<null>> {
  const lost = rights.approved.leftFor(call);
  const before = lost.length > 0 ? await usesLeft(ports.store, lost) : [];
  if (before.length > 0 || rights.approved.takeable().length === 0) {
    if (lost.length > 0) rights.approved.taken(call, before, new Map());
    journal.note(event, {}, 'hold');
    return ok(null);
  }
  const refused = new Map<string, Failure>();
  for (;;) {
    const uses = await planUses(ports.store, rights.approved.takeable(), refused);
    const notes = uses.map((use) => useNote(use, call, 'used'));
    const change = uses.length > 0 ? { use: uses.map(useKey) } : {};
    const committed = await journal.commit([event, ...notes], change);
    if (committed.ok) {
      rights.approved.taken(call, uses, refused);
      return ok(null);
    }
    // Another call took the last use of this approval, so this call continues without it.
    const { approval } = committed.error.detail;
    if (typeof approval !== 'string' || refused.has(approval)) return committed;
    refused.set(approval, committed);
  }
}

/** Returns the events and the change that return unexercised uses, for the commit of the result. */
export const returnedUses = (unused: readonly TakenUse[], call: string) => ({
  events: unused.map((use) => useNote(use, call, 'returned')),
  change: { back: unused.map((use) => ({ ...useKey(use), back: true as const })) },
});
