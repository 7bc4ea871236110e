// Handles the verb `help` of a thread: `stuck`, `escalate`, `checkpoint`, `compact`. The first two can park the thread
// with the call open; the answer of a person becomes the call's result. A person can approve a right for a number of uses
// and some time. A right that the directive does not declare needs an explicit approval.
import {
  type Failure,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import type { Approval, NewApproval } from '../../store/index.ts';
import {
  capsOn,
  createCeilingVerifier,
  describeNeed,
  formatPermission,
  type Grant,
  grantProblem,
  isSystemGrant,
  missingAtStart,
  normalizeCapability,
  permissionFor,
  type Scope,
} from '../../trust/index.ts';
import { raiseError } from '../hooks/raise-checkpoint.ts';
import { packMarks } from '../thread/conversation.ts';
import { makeApprovalId } from '../thread/opening.ts';
import { recordSnapshot } from '../thread/restore.ts';
import { DEFERRED_TURNS, MAX_FOCUS } from '../thread/room.ts';
import type { HarnessPorts, RightsHolder, Thread } from '../thread/thread.ts';
import { isInForce, rightOf } from './approved-rights.ts';
import { type ApprovalRequester, askedFor } from './ask-about-call.ts';
import { declaredRights } from './thread-token.ts';

interface HelpSignal {
  action: string;
  reason: string;
  /** With `escalate`: the missing right. `tool.bash` means the right to call that tool. */
  capability?: string;
  scope?: JsonObject;
  /** With `escalate` in a hook: the new limits that it would name in `context.limits`. */
  limits?: JsonObject;
}

type Question = Pick<NewApproval, 'binding' | 'shown'> & {
  kind: 'question' | 'capability' | 'limit';
};

/** Returns the thread that a request is about: the one that a hook serves, if it runs here. */
const servedBy = (thread: RightsHolder): RightsHolder =>
  (thread.place.kind === 'hook' &&
    thread.ports.threads.live.get(thread.place.parent ?? '')?.thread) ||
  thread;

const shownAsker = (thread: RightsHolder): JsonObject => ({
  directive: servedBy(thread).place.directive.name,
  ...(thread.place.kind === 'hook' && { hook: thread.place.directive.name }),
});

type RightRequest = Required<Pick<HelpSignal, 'capability'>> & Pick<HelpSignal, 'scope'>;

/** Returns the grant of a request. A refusal names tools by their last segment, so that name is accepted too. */
function requestedGrant({ library }: HarnessPorts, request: RightRequest): Outcome<Grant> {
  const { catalog } = library.capabilities();
  const scope = (request.scope ?? {}) as Scope;
  const capability = normalizeCapability(request.capability);
  const isTool = capability.startsWith('tool.') && !catalog.get(capability);
  if (!isTool) {
    return ok({ capability, ...(Object.keys(scope).length > 0 && { scope }) });
  }
  const found = library.find('tool', scope.id ?? capability.slice('tool.'.length));
  return found.ok ? ok({ capability: 'tool.execute', scope: { id: found.output.id } }) : found;
}

/** Fails for a right that no approval can give. */
function refusal(ports: HarnessPorts, grant: Grant): Outcome<null> {
  const { catalog } = ports.library.capabilities();
  const name = `\`${grant.capability}\``;
  if (grant.capability.includes('*')) {
    return fail('invalid_input', `${name} is not a single capability; name the missing one`);
  }
  const problem = grantProblem(grant, catalog);
  if (problem !== undefined) return fail('invalid_input', problem);
  const { subtree: _, ...elsewhere } = grant.scope ?? {};
  if (isSystemGrant({ ...grant, scope: elsewhere }, catalog)) {
    return fail('permission_denied', `${name} is for signed core items and cannot be approved`, {
      missing: grant.capability,
    });
  }
  const ceilings = ports.policies().policy.ceilings();
  const remaining = createCeilingVerifier(ceilings, catalog).holds(grant.capability);
  // A ceiling can allow the name and forbid the whole scope. An approval would have no effect then.
  const taken = ceilings
    .flatMap((ceiling) => capsOn(ceiling, grant, catalog))
    .find(({ extent }) => extent === 'whole');
  if (!remaining.ok || !taken) return remaining;
  return fail('permission_denied', `the policy ${taken.message}; an approval does not lift it`, {
    missing: '',
    rule: 'policy',
  });
}

function declaredOf(
  { place: { directive }, ports }: RightsHolder,
  grant: Grant,
): Outcome<'yes' | 'no' | 'in part'> {
  const declared = declaredRights(ports, directive);
  if (!declared.ok) return declared;
  const { catalog } = ports.library.capabilities();
  const { missing, partial } = missingAtStart([grant], declared.output.grants, catalog);
  return ok(missing.length > 0 ? 'no' : partial.length > 0 ? 'in part' : 'yes');
}

/** True if the thread has the right, by its directive or by an approval. */
function hasRight(
  { ports, rights: { approved }, place: { id } }: RightsHolder,
  grant: Grant,
): boolean {
  const token = ports.tokens.verify(approved.auth(), id);
  if (!token.ok) return false;
  const { missing, partial } = token.output.missingAtStart([grant]);
  return missing.length + partial.length === 0;
}

/** The part of a thread that asks a person for a right. */
type RightRequester = ApprovalRequester & RightsHolder;

/** Returns the request for the right, or the answer if the thread has the right already. */
function capabilityQuestion(
  thread: RightRequester,
  request: RightRequest,
  reason: string,
): Outcome<{ held: Json } | Question> {
  const grantResult = requestedGrant(thread.ports, request);
  if (!grantResult.ok) return grantResult;
  const grant = grantResult.output;
  const possible = refusal(thread.ports, grant);
  if (!possible.ok) return possible;
  const served = servedBy(thread);
  const declared = declaredOf(served, grant);
  if (!declared.ok) return declared;
  const { capability, scope = {} } = grant;
  if (declared.output === 'yes' && hasRight(served, grant)) {
    return ok({ held: { decision: 'held', capability, scope: { ...scope } } });
  }
  const permission = permissionFor(grant);
  return ok({
    kind: 'capability',
    binding: {
      capability,
      scope: { ...scope },
      call: thread.control.currentCall,
      ...askedFor(thread.place).hook,
    },
    shown: {
      action: 'escalate',
      question: reason,
      ...shownAsker(thread),
      capability,
      scope: { ...scope },
      declared: declared.output,
      ...(permission && { line: formatPermission(permission) }),
    },
  });
}

const ANSWER_TEXTS: Readonly<Record<string, string>> = {
  denied: 'a person denied it; continue without it, or report what cannot be done',
  expired: 'the request expired; ask again if it is still needed',
};

/** Adds an approved right and returns the answer for the model. */
function capabilityAnswer({ place, rights }: RightsHolder, approval: Approval): Outcome<Json> {
  const { id, state, why = '', who = '', uses, expires, shown } = approval;
  const right = rightOf(approval);
  if (!right) return ok({ decision: state, message: ANSWER_TEXTS[state] ?? '', why, who });
  if (!isInForce(approval)) {
    const message = `directive \`${plainText(shown.directive ?? '')}\` does not declare it; a person must approve that the thread goes beyond its directive`;
    return ok({ decision: 'approved', in_force: false, message, why, who });
  }
  // The thread that a hook serves adds the right, after the hook has answered.
  const isHook = place.kind === 'hook';
  if (!isHook) rights.approved.add(approval);
  const holder = isHook ? `thread \`${approval.thread ?? ''}\`` : 'you';
  return ok({
    decision: 'approved',
    in_force: true,
    approval: id,
    uses,
    ...(expires !== undefined && { expires: new Date(expires).toISOString() }),
    message: `${holder} may now use ${describeNeed(right.grant)}; it counts for exactly this`,
    why,
    who,
  });
}

/** Returns the request of a help call. The same request in a later call finds the same answer. */
function questionOf(
  thread: RightRequester,
  { action, reason, capability, scope, limits }: HelpSignal,
): Outcome<Question | { held: Json }> {
  const call = thread.control.currentCall;
  const { hook } = askedFor(thread.place);
  if (action === 'escalate' && limits) {
    if (thread.place.kind !== 'hook') {
      const message =
        'a thread cannot raise its own limits; a hook can at a limit, or a person who resumes the thread';
      return fail('invalid_input', message);
    }
    const preview = { action, question: reason, ...shownAsker(thread), limits };
    return ok({ kind: 'limit', binding: { limits, call, ...hook }, shown: preview });
  }
  if (action === 'escalate' && capability) {
    return capabilityQuestion(thread, { capability, ...(scope && { scope }) }, reason);
  }
  return ok({
    kind: 'question',
    binding: { action, reason, call, ...hook },
    shown: { action, question: reason, ...shownAsker(thread) },
  });
}

/** Creates the request and parks the thread with the call open. */
async function ask(
  { journal, ports, place, control }: ApprovalRequester,
  { action, reason }: HelpSignal,
  question: Question,
): Promise<Outcome<Json>> {
  const { owner } = askedFor(place);
  const expires = ports.clock.now() + ports.policies().policy.approvalMs;
  const id = makeApprovalId(ports.random);
  const request: NewApproval = { id, ...question, expires, ...owner };
  const data = { kind: question.kind, state: 'pending', approval: request.id, action } as const;
  const committed = await journal.commit({ type: 'approval', data }, { ask: [request] });
  if (!committed.ok) return committed;
  // An identical request that is still pending is returned instead of a new one.
  const approval = committed.output.approvals[0]?.id ?? id;
  const status = action === 'stuck' ? 'needs_input' : 'waiting';
  control.ending = { status, reason: reason || `approval ${approval} is pending` };
  return fail('approval_pending', `approval request \`${approval}\` is pending`, { approval });
}

async function stuck(
  thread: Thread,
  signal: HelpSignal,
  question: Question,
): Promise<Outcome<Json>> {
  const { reason } = signal;
  const message = reason === '' ? 'the model says that it is stuck' : `stuck: ${reason}`;
  const failed = fail('stuck', message, { reason });
  const call = thread.control.currentCall;
  await raiseError(thread, failed, 'help', { isTold: true, call });
  const { ending } = thread.control;
  // The hook has asked a person and answers later.
  if (ending && thread.hooks.pending.size > 0) return failed;
  if (!ending) return ok({ action: 'stuck', message: 'noted; go on' });
  return ending.status === 'needs_input' ? await ask(thread, signal, question) : failed;
}

/** A hook must decide even if no person can approve its request, so the refusal is an answer. */
const notAsked = ({ error: { code, detail } }: Failure): Json => ({
  decision: 'refused',
  code,
  message: detail.message,
  why: '',
  who: '',
});

/**
 * Sends the thread its own request to make room, which it handles before its next turn. The signal has a key, so a
 * call that is repeated after a crash asks once.
 */
async function askForRoom(
  {
    ports,
    place,
    talk,
    budget,
    control,
    journal,
  }: Pick<Thread, 'ports' | 'place' | 'talk' | 'budget' | 'control' | 'journal'>,
  { reason }: HelpSignal,
): Promise<Outcome<Json>> {
  const { room, conversation } = talk;
  const refuse = (message: string): Outcome<Json> => ok({ status: 'refused', message });
  if (budget.limits.context_compact.value === 'off') return refuse('compaction is off');
  if (room.request) return refuse('a pass is already requested');
  if (journal.turn - room.lastTurn < DEFERRED_TURNS)
    return refuse('the last pass was less than five turns ago');
  const focus = reason !== '' && { focus: reason.slice(0, MAX_FOCUS) };
  const payload = { ...focus, own: true, marks: packMarks(conversation.ownMarks()) };
  const key = `compact:${control.currentCall}`;
  const signal = { thread: place.id, kind: 'compact', payload, key, by: 'model' };
  const sent = await ports.store.signal(signal);
  if (!sent.ok) return sent;
  await journal.listen();
  return ok({ status: 'accepted', message: 'older turns become a summary before your next turn' });
}

export async function helpSignal(thread: Thread, signal: HelpSignal): Promise<Outcome<Json>> {
  if (signal.action === 'checkpoint') return await recordSnapshot(thread, signal.reason);
  if (signal.action === 'compact') return await askForRoom(thread, signal);
  const asking = questionOf(thread, signal);
  if (!asking.ok) return thread.place.kind === 'hook' ? ok(notAsked(asking)) : asking;
  const question = asking.output;
  if ('held' in question) return ok(question.held);
  // The latest answer to the same request counts.
  const { binding } = question;
  const { thread: asker } = askedFor(thread.place);
  const found = await thread.ports.store.approvals({ thread: asker, binding });
  if (!found.ok) return found;
  const before = found.output.at(-1);
  if (before && before.state !== 'pending') {
    if (question.kind === 'capability') return capabilityAnswer(thread, before);
    const { answer, decided, why = '', who = '' } = before;
    // An answer from before the expiry stays valid, however late the thread resumes.
    const isLate = before.state === 'expired' && decided !== undefined;
    const state = isLate ? 'approved' : before.state;
    const message = question.kind === 'limit' ? ANSWER_TEXTS[state] : undefined;
    const fields = { ...(answer !== undefined && { answer }), ...(message && { message }) };
    return ok({ decision: state, ...fields, why, who });
  }
  return before || signal.action === 'escalate'
    ? await ask(thread, signal, question)
    : await stuck(thread, signal, question);
}
