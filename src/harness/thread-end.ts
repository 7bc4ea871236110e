// How a run ends: what the model's last words are worth, and what is recorded.
import type { Json } from '../base/index.ts';
import type { ModelReply } from '../llm/index.ts';
import { isEnded, type ThreadStatus } from '../store/index.ts';
import { packMarks } from './conversation.ts';
import { packCost } from './cost.ts';
import type { Ending } from './loop.ts';
import { finalOutputs, missingOutputs, resultText } from './outputs.ts';
import type { ThreadContext } from './thread-context.ts';
import type { ThreadResult } from './world.ts';

const MAX_REMINDERS = 2;

/** A reply without calls ends the run; when it owes outputs, the model is asked for them first. */
export function finalEnding(thread: ThreadContext, reply: ModelReply): Ending | undefined {
  const text = reply.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  // It meant to call something and has been told why that failed: that was not its last word.
  const unread = reply.broken?.discarded_partial ?? [];
  if (unread.length + (reply.bad_arguments ?? []).length > 0) return undefined;
  const outputs = finalOutputs(thread.directive, text);
  if (outputs?.ok) return { status: 'completed', reason: '', text, outputs: outputs.output };
  const owed = missingOutputs(thread.directive, undefined);
  if (owed.length === 0) return { status: 'completed', reason: '', text };
  const why = outputs ? outputs.error.detail.message : `the outputs ${owed.join(', ')} are missing`;
  if (thread.reminders >= MAX_REMINDERS)
    return { status: 'failed', reason: why, text, code: 'invalid_input' };
  thread.reminders += 1;
  thread.tell(
    `[harness] ${why}; return them with execute {"item_type":"directive","item_id":"${thread.directive.name}","action":"return","parameters":{…}}`,
    { reminder: true },
  );
  return undefined;
}

/** What was set aside for it: free with its end, in the same commit. */
const setApart = ({ hookReserve, detached, drawFrom }: ThreadContext): string[] => [
  ...(hookReserve === undefined ? [] : [hookReserve]),
  ...(detached && drawFrom !== undefined ? [drawFrom] : []),
];

/** What is not an end leaves nothing of the thread in this process: its row and journal are all. */
export function finish(thread: ThreadContext, ending: Ending, epoch: number): ThreadResult {
  const { world, id, log, meter, directive, conversation } = thread;
  const cost = packCost(meter.read());
  const text = resultText(directive, ending.status === 'completed', ending.text);
  const result: ThreadResult = {
    thread_id: id,
    status: ending.status,
    outputs: ending.outputs ?? {},
    text,
    reason: ending.reason,
    cost,
    ...(ending.code ? { code: ending.code } : {}),
    marks: packMarks(ending.marks ?? conversation.ownMarks()),
  };
  const status = ending.status as ThreadStatus;
  if (isEnded(status)) {
    const end = { status, reason: ending.reason, cost };
    const settle = setApart(thread).map((key) => ({ key, actual: {} }));
    log.note('thread_end', end, { status, cost, settle, result: result as unknown as Json });
  } else log.append([], { status, cost });
  const lost = log.lost();
  world.store.release(id, epoch);
  // INVARIANT: an end that is not in the registry is none; whoever resumes the thread finds it.
  return lost ? { ...result, status: 'interrupted', reason: lost.error.detail.message } : result;
}
