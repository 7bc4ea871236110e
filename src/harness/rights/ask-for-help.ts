// What a model can say to those who run it: `stuck`, `escalate`, `checkpoint`. The first two may need
// a person; then the thread waits with the call open, in no process, and the answer becomes the
// call's result when it goes on.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { NewApproval } from '../../store/index.ts';
import { raiseError } from '../hooks/raise-checkpoint.ts';
import { makeApprovalId } from '../thread/opening.ts';
import type { Thread } from '../thread/thread.ts';
import { capabilityAnswer, capabilityQuestion } from './ask-capability.ts';

export interface HelpSignal {
  action: string;
  reason: string;
  /** With `escalate`: the right that is missing. */
  capability?: string;
  scope?: JsonObject;
}

type Question = Pick<NewApproval, 'binding' | 'shown'> & { kind: 'question' | 'capability' };

/** One open call, one question: asking again finds the answer. A right is asked for by its name. */
function questionOf(
  thread: Thread,
  { action, reason, capability, scope }: HelpSignal,
): Outcome<Question | { held: Json }> {
  if (action === 'escalate' && capability) {
    return capabilityQuestion(thread, { capability, ...(scope && { scope }) }, reason);
  }
  return ok({
    kind: 'question',
    binding: { action, reason, call: thread.control.currentCall },
    shown: { action, question: reason, directive: thread.place.directive.name },
  });
}

/** Leaves the call open and the thread at rest until somebody answers. */
async function ask(
  { journal, ports, control }: Thread,
  { action, reason }: HelpSignal,
  question: Question,
): Promise<Outcome<Json>> {
  const asked: NewApproval = { id: makeApprovalId(ports.random), ...question };
  const data = { kind: question.kind, state: 'pending', approval: asked.id, action } as const;
  const done = await journal.commit({ type: 'approval', data }, { ask: [asked] });
  if (!done.ok) return done;
  // What is asked already and still open is answered with the row that stands.
  const id = done.output.approvals[0]?.id ?? asked.id;
  const status = action === 'stuck' ? 'needs_input' : 'waiting';
  control.ending = { status, reason: reason || `waits for approval ${id}` };
  return fail('approval_pending', `nobody has answered \`${id}\` yet`, { approval: id });
}

async function stuck(
  thread: Thread,
  signal: HelpSignal,
  question: Question,
): Promise<Outcome<Json>> {
  const { reason } = signal;
  const message = reason === '' ? 'the model says that it is stuck' : `stuck: ${reason}`;
  const failed = fail('stuck', message, { reason });
  await raiseError(thread, failed, 'help', { isTold: true });
  const { ending } = thread.control;
  if (!ending) return ok({ action: 'stuck', message: 'noted; go on' });
  return ending.status === 'needs_input' ? await ask(thread, signal, question) : failed;
}

/** Its number is known when it is written. */
async function snapshot({ journal }: Thread, { reason }: HelpSignal): Promise<Outcome<Json>> {
  const noted = await journal.commit({ type: 'snapshot', data: { reason } }, {});
  return noted.ok ? ok({ action: 'checkpoint', snapshot: noted.output.seq }) : noted;
}

export async function helpSignal(thread: Thread, signal: HelpSignal): Promise<Outcome<Json>> {
  if (signal.action === 'checkpoint') return await snapshot(thread, signal);
  const wanted = questionOf(thread, signal);
  if (!wanted.ok) return wanted;
  const question = wanted.output;
  if ('held' in question) return ok(question.held);
  // The same question again finds the latest answer.
  const { binding } = question;
  const found = await thread.ports.store.approvals({ thread: thread.place.id, binding });
  if (!found.ok) return found;
  const before = found.output.at(-1);
  if (before && before.state !== 'pending') {
    if (question.kind === 'capability') return capabilityAnswer(thread, before);
    const { state, answer, why = '', who = '' } = before;
    return ok({ decision: state, ...(answer !== undefined && { answer }), why, who });
  }
  return before || signal.action === 'escalate'
    ? await ask(thread, signal, question)
    : await stuck(thread, signal, question);
}
