// What a model can say to those who run it: `stuck`, `escalate`, `checkpoint`. The first two may need
// a person; then the thread waits with the call open, in no process, and the answer becomes the
// call's result when it goes on.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { Approval, NewApproval } from '../../store/index.ts';
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

interface Question {
  kind: 'question' | 'capability';
  binding: JsonObject;
  shown: JsonObject;
}

/** One open call, one question: asking again finds the answer. */
const bindingOf = (
  { control: { currentCall } }: Thread,
  { action, reason }: HelpSignal,
): JsonObject => ({
  action,
  reason,
  call: currentCall,
});

function answerOf({ state, answer, why = '', who = '' }: Approval): Json {
  return { decision: state, ...(answer === undefined ? {} : { answer }), why, who };
}

const questionOf = (thread: Thread, signal: HelpSignal): Question => ({
  kind: 'question',
  binding: bindingOf(thread, signal),
  shown: { action: signal.action, question: signal.reason, directive: thread.place.directive.name },
});

/** Leaves the call open and the thread at rest until somebody answers. */
async function ask(thread: Thread, signal: HelpSignal, question: Question): Promise<Outcome<Json>> {
  const { journal, ports, control } = thread;
  const asked: NewApproval = { id: makeApprovalId(ports.random), ...question };
  const { kind } = question;
  const data = { kind, state: 'pending', approval: asked.id, action: signal.action } as const;
  const done = await journal.commit({ type: 'approval', data }, { ask: [asked] });
  if (!done.ok) return done;
  // What is asked already and still open is answered with the row that stands.
  const id = done.output.approvals[0]?.id ?? asked.id;
  const status = signal.action === 'stuck' ? 'needs_input' : 'waiting';
  control.ending = { status, reason: signal.reason || `waits for approval ${id}` };
  return fail('approval_pending', `nobody has answered \`${id}\` yet`, { approval: id });
}

/** The same question again finds the latest answer. */
async function askedBefore(
  thread: Thread,
  binding: JsonObject,
): Promise<Outcome<Approval | undefined>> {
  const filter = { thread: thread.place.id, binding };
  const found = await thread.ports.store.approvals(filter);
  return found.ok ? ok(found.output.at(-1)) : found;
}

async function stuck(thread: Thread, signal: HelpSignal): Promise<Outcome<Json>> {
  const { reason } = signal;
  const message = reason === '' ? 'the model says that it is stuck' : `stuck: ${reason}`;
  await raiseError(thread, fail('stuck', message, { reason }), 'help', { isTold: true });
  if (!thread.control.ending) return ok({ action: 'stuck', message: 'noted; go on' });
  if (thread.control.ending.status !== 'needs_input') return fail('stuck', message, { reason });
  return await ask(thread, signal, questionOf(thread, signal));
}

/** A right is asked for by its name, so that the answer can be one. */
async function askRight(
  thread: Thread,
  signal: HelpSignal,
  capability: string,
): Promise<Outcome<Json>> {
  const { reason, scope } = signal;
  const question = capabilityQuestion(thread, { capability, ...(scope && { scope }) }, reason);
  if (!question.ok) return question;
  if ('held' in question.output) return ok(question.output.held);
  const { binding, shown } = question.output;
  const before = await askedBefore(thread, binding);
  if (!before.ok) return before;
  return before.output && before.output.state !== 'pending'
    ? capabilityAnswer(thread, before.output)
    : await ask(thread, signal, { kind: 'capability', binding, shown });
}

/** Its number is known when it is written. */
async function snapshot({ journal }: Thread, { reason }: HelpSignal): Promise<Outcome<Json>> {
  const noted = await journal.commit({ type: 'snapshot', data: { reason } }, {});
  return noted.ok ? ok({ action: 'checkpoint', snapshot: noted.output.seq }) : noted;
}

export async function helpSignal(thread: Thread, signal: HelpSignal): Promise<Outcome<Json>> {
  const { action, capability } = signal;
  if (action === 'checkpoint') return await snapshot(thread, signal);
  if (action === 'escalate' && capability) return await askRight(thread, signal, capability);
  const before = await askedBefore(thread, bindingOf(thread, signal));
  if (!before.ok) return before;
  if (before.output && before.output.state !== 'pending') return ok(answerOf(before.output));
  return before.output || action === 'escalate'
    ? await ask(thread, signal, questionOf(thread, signal))
    : await stuck(thread, signal);
}
