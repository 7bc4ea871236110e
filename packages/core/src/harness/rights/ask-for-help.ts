// What a model can say to those who run it: `stuck`, `escalate`, `checkpoint`. The first two may need
// a person; then the thread waits with the call open, in no process, and the answer becomes the
// call's result when it goes on.
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
import { makeApprovalId } from '../thread/opening.ts';
import { recordSnapshot } from '../thread/restore.ts';
import type { Thread } from '../thread/thread.ts';
import { isInForce, rightOf } from './approved-rights.ts';
import { askedFor } from './ask-about-call.ts';
import { declaredRights } from './thread-token.ts';

interface HelpSignal {
  action: string;
  reason: string;
  /** With `escalate`: the right that is missing; `tool.bash` stands for the right to call that tool. */
  capability?: string;
  scope?: JsonObject;
  /** With `escalate`, of a hook: the ceilings it would name in `context.limits`. */
  limits?: JsonObject;
}

type Question = Pick<NewApproval, 'binding' | 'shown'> & {
  kind: 'question' | 'capability' | 'limit';
};

/** The thread that a question is about: that which a hook serves, as long as it runs here. */
const servedBy = (thread: Thread): Thread =>
  (thread.place.kind === 'hook' &&
    thread.ports.threads.live.get(thread.place.parent ?? '')?.thread) ||
  thread;

const shownAsker = (thread: Thread): JsonObject => ({
  directive: servedBy(thread).place.directive.name,
  ...(thread.place.kind === 'hook' && { hook: thread.place.directive.name }),
});

// A right: what exactly a person is asked, and what the answer is worth. The person may give it for
// fewer or more uses and for a time; a right that the directive does not declare takes a person who says
// that it may go beyond that.

type Wish = Required<Pick<HelpSignal, 'capability'>> & Pick<HelpSignal, 'scope'>;

/** A refusal names tools by their last segment; asking for them so is understood. */
function named({ ports }: Thread, wish: Wish): Outcome<Grant> {
  const { catalog } = ports.library.capabilities();
  const scope = (wish.scope ?? {}) as Scope;
  const capability = normalizeCapability(wish.capability);
  const isTool = capability.startsWith('tool.') && !catalog.get(capability);
  if (!isTool) {
    return ok({ capability, ...(Object.keys(scope).length > 0 && { scope }) });
  }
  const found = ports.library.find('tool', scope.id ?? capability.slice('tool.'.length));
  return found.ok ? ok({ capability: 'tool.execute', scope: { id: found.output.id } }) : found;
}

/** What no person can give here, because neither could they give it otherwise. */
function refusal({ ports }: Thread, grant: Grant): Outcome<null> {
  const { catalog } = ports.library.capabilities();
  const name = `\`${grant.capability}\``;
  if (grant.capability.includes('*')) {
    return fail('invalid_input', `${name} is no single capability; name the one that is missing`);
  }
  const problem = grantProblem(grant, catalog);
  if (problem !== undefined) return fail('invalid_input', problem);
  const { subtree: _, ...elsewhere } = grant.scope ?? {};
  if (isSystemGrant({ ...grant, scope: elsewhere }, catalog)) {
    return fail('permission_denied', `${name} is for signed core items; nobody can approve it`, {
      missing: grant.capability,
    });
  }
  const ceilings = ports.policies().policy.ceilings();
  const left = createCeilingVerifier(ceilings, catalog).holds(grant.capability);
  // A ceiling may leave the name and take the whole scope: an approval would not count there.
  const taken = ceilings
    .flatMap((ceiling) => capsOn(ceiling, grant, catalog))
    .find(({ extent }) => extent === 'whole');
  if (!left.ok || !taken) return left;
  return fail('permission_denied', `the policy ${taken.message}; an approval does not lift it`, {
    missing: '',
    rule: 'policy',
  });
}

/** How much of it the directive declares. */
function declaredOf(
  { place: { directive }, ports }: Thread,
  grant: Grant,
): Outcome<'yes' | 'no' | 'in part'> {
  const declared = declaredRights(ports, directive);
  if (!declared.ok) return declared;
  const { catalog } = ports.library.capabilities();
  const { missing, partial } = missingAtStart([grant], declared.output.grants, catalog);
  return ok(missing.length > 0 ? 'no' : partial.length > 0 ? 'in part' : 'yes');
}

/** Nothing to ask for: the thread has it, by itself or because it was approved. */
function isHeld({ ports, rights: { approved }, place: { id } }: Thread, grant: Grant): boolean {
  const token = ports.tokens.verify(approved.auth(), id);
  if (!token.ok) return false;
  const { missing, partial } = token.output.missingAtStart([grant]);
  return missing.length + partial.length === 0;
}

/** The question, ready for the queue; or the answer when there is nothing to ask. */
function capabilityQuestion(
  thread: Thread,
  wish: Wish,
  reason: string,
): Outcome<{ held: Json } | Question> {
  const wanted = named(thread, wish);
  if (!wanted.ok) return wanted;
  const grant = wanted.output;
  const possible = refusal(thread, grant);
  if (!possible.ok) return possible;
  const served = servedBy(thread);
  const declared = declaredOf(served, grant);
  if (!declared.ok) return declared;
  const { capability, scope = {} } = grant;
  if (declared.output === 'yes' && isHeld(served, grant)) {
    return ok({ held: { decision: 'held', capability, scope: { ...scope } } });
  }
  const permission = permissionFor(grant);
  return ok({
    kind: 'capability',
    binding: {
      capability,
      scope: { ...scope },
      call: thread.control.currentCall,
      ...askedFor(thread).hook,
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

const SAID: Readonly<Record<string, string>> = {
  denied: 'a person said no; go on without it, or say what cannot be done',
  expired: 'nobody answered in time; ask again if it is still needed',
};

/** What the model is told, and from now on the right. */
function capabilityAnswer(thread: Thread, approval: Approval): Outcome<Json> {
  const { id, state, why = '', who = '', uses, expires, shown } = approval;
  const right = rightOf(approval);
  if (!right) return ok({ decision: state, message: SAID[state] ?? '', why, who });
  if (!isInForce(approval)) {
    const message = `directive \`${plainText(shown.directive ?? '')}\` does not declare it, and nobody said that the thread may go beyond its directive`;
    return ok({ decision: 'approved', in_force: false, message, why, who });
  }
  // What a hook asked for is taken by the thread that it serves, when it has answered.
  const isHook = thread.place.kind === 'hook';
  if (!isHook) thread.rights.approved.add(approval);
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

/** One open call, one question: asking again finds the answer. A right is asked for by its name. */
function questionOf(
  thread: Thread,
  { action, reason, capability, scope, limits }: HelpSignal,
): Outcome<Question | { held: Json }> {
  const call = thread.control.currentCall;
  const { hook } = askedFor(thread);
  if (action === 'escalate' && limits) {
    if (thread.place.kind !== 'hook') {
      const message =
        'limits are raised by a hook at a limit, or by a person who resumes the thread';
      return fail('invalid_input', message);
    }
    const shown = { action, question: reason, ...shownAsker(thread), limits };
    return ok({ kind: 'limit', binding: { limits, call, ...hook }, shown });
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

/** Leaves the call open and the thread at rest until somebody answers. */
async function ask(
  thread: Thread,
  { action, reason }: HelpSignal,
  question: Question,
): Promise<Outcome<Json>> {
  const { journal, ports, control } = thread;
  const { owner } = askedFor(thread);
  const expires = ports.clock.now() + ports.policies().policy.approvalMs;
  const id = makeApprovalId(ports.random);
  const asked: NewApproval = { id, ...question, expires, ...owner };
  const data = { kind: question.kind, state: 'pending', approval: asked.id, action } as const;
  const done = await journal.commit({ type: 'approval', data }, { ask: [asked] });
  if (!done.ok) return done;
  // What is asked already and still open is answered with the row that stands.
  const approval = done.output.approvals[0]?.id ?? id;
  const status = action === 'stuck' ? 'needs_input' : 'waiting';
  control.ending = { status, reason: reason || `waits for approval ${approval}` };
  return fail('approval_pending', `nobody has answered \`${approval}\` yet`, { approval });
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
  // A hook asks somebody, and answers later.
  if (ending && thread.hooks.pending.size > 0) return failed;
  if (!ending) return ok({ action: 'stuck', message: 'noted; go on' });
  return ending.status === 'needs_input' ? await ask(thread, signal, question) : failed;
}

/** A hook has to decide all the same: that nobody could give it is an answer. */
const notAsked = ({ error: { code, detail } }: Failure): Json => ({
  decision: 'refused',
  code,
  message: detail.message,
  why: '',
  who: '',
});

export async function helpSignal(thread: Thread, signal: HelpSignal): Promise<Outcome<Json>> {
  if (signal.action === 'checkpoint') return await recordSnapshot(thread, signal.reason);
  const wanted = questionOf(thread, signal);
  if (!wanted.ok) return thread.place.kind === 'hook' ? ok(notAsked(wanted)) : wanted;
  const question = wanted.output;
  if ('held' in question) return ok(question.held);
  // The same question again finds the latest answer.
  const { binding } = question;
  const { thread: asker } = askedFor(thread);
  const found = await thread.ports.store.approvals({ thread: asker, binding });
  if (!found.ok) return found;
  const before = found.output.at(-1);
  if (before && before.state !== 'pending') {
    if (question.kind === 'capability') return capabilityAnswer(thread, before);
    const { answer, decided, why = '', who = '' } = before;
    // What was answered in time stays answered, however late the thread goes on.
    const isLate = before.state === 'expired' && decided !== undefined;
    const state = isLate ? 'approved' : before.state;
    const message = question.kind === 'limit' ? SAID[state] : undefined;
    const told = { ...(answer !== undefined && { answer }), ...(message && { message }) };
    return ok({ decision: state, ...told, why, who });
  }
  return before || signal.action === 'escalate'
    ? await ask(thread, signal, question)
    : await stuck(thread, signal, question);
}
