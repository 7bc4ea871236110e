// What a model can say to those who run it: `stuck`, `escalate`, `checkpoint`. The first two may need
// a person; then the thread waits with the call open, in no process, and the answer becomes the
// call's result when it goes on.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Approval } from '../store/index.ts';
import { raiseError } from './thread-checkpoint.ts';
import type { ThreadContext } from './thread-context.ts';

export interface HelpSignal {
  action: string;
  reason: string;
}

/** One open call, one question: asking again finds the answer. */
const bindingOf = ({ currentCall }: ThreadContext, { action, reason }: HelpSignal): JsonObject => ({
  action,
  reason,
  call: currentCall,
});

function answerOf({ state, answer, why = '', who = '' }: Approval): Json {
  return { decision: state, ...(answer === undefined ? {} : { answer }), why, who };
}

/** Leaves the call open and the thread at rest until somebody answers. */
function ask(thread: ThreadContext, signal: HelpSignal): Outcome<Json> {
  const asked = thread.world.store.approvals.ask({
    thread: thread.id,
    kind: 'question',
    binding: bindingOf(thread, signal),
    shown: { action: signal.action, question: signal.reason, directive: thread.directive.name },
  });
  if (!asked.ok) return asked;
  const { id, state } = asked.output;
  thread.log.note('approval', { approval: id, kind: 'question', action: signal.action, state });
  const status = signal.action === 'stuck' ? 'needs_input' : 'waiting';
  thread.ending = { status, reason: signal.reason || `waits for approval ${id}` };
  return fail('approval_pending', `nobody has answered \`${id}\` yet`, { approval: id });
}

async function stuck(thread: ThreadContext, signal: HelpSignal): Promise<Outcome<Json>> {
  const { reason } = signal;
  const message = reason === '' ? 'the model says that it is stuck' : `stuck: ${reason}`;
  await raiseError(thread, fail('stuck', message, { reason }), 'help', { isTold: true });
  if (!thread.ending) return ok({ action: 'stuck', message: 'noted; go on' });
  if (thread.ending.status !== 'needs_input') return fail('stuck', message, { reason });
  return ask(thread, signal);
}

function snapshot({ log }: ThreadContext, { reason }: HelpSignal): Outcome<Json> {
  const noted = log.note('snapshot', { reason, at: log.seq() });
  return noted.ok ? ok({ action: 'checkpoint', snapshot: log.seq() }) : noted;
}

export async function helpSignal(
  thread: ThreadContext,
  signal: HelpSignal,
): Promise<Outcome<Json>> {
  if (signal.action === 'checkpoint') return snapshot(thread, signal);
  const before = thread.world.store.approvals.find(thread.id, bindingOf(thread, signal));
  if (!before.ok) return before;
  if (before.output && before.output.state !== 'pending') return ok(answerOf(before.output));
  return before.output || signal.action === 'escalate'
    ? ask(thread, signal)
    : await stuck(thread, signal);
}
