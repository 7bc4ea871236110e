// Finishes a run: reads the result from the last reply of the model, and records the end of the thread.
import { isObject, type JsonObject } from '../../base/index.ts';
import type { Descriptor } from '../../flow/index.ts';
import type { ModelReply } from '../../llm/index.ts';
import { isEnded } from '../../store/index.ts';
import { RESTS } from '../children/children.ts';
import { packCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { packMarks } from '../thread/conversation.ts';
import { RETURN_OUTPUT } from '../thread/permitted-tools.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { tell } from '../thread/talk.ts';
import type { Lineage, Thread } from '../thread/thread.ts';
import { aboutEnd } from './about-run.ts';
import { finalOutputs, missingOutputs, resultText } from './final-outputs.ts';
import { hasShippedRunner } from './runner.ts';

const MAX_REMINDERS = 2;

/** Returns the ending for a reply without calls. `undefined`: outputs are missing, and the model is asked first. */
export function finalEnding(
  thread: Pick<Thread, 'place' | 'talk' | 'journal'>,
  reply: ModelReply,
): Ending | undefined {
  const text = reply.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  // The reply contains calls that could not be read. The model gets the reason and replies again.
  const unread = reply.broken?.discarded_partial ?? [];
  if (unread.length + (reply.bad_arguments ?? []).length > 0) return undefined;
  const { directive } = thread.place;
  const { words, resolve } = lastText(thread, text);
  const outputs = finalOutputs(directive, text, resolve);
  if (outputs?.ok) return { status: 'completed', reason: '', ...words, outputs: outputs.output };
  const owed = missingOutputs(directive);
  if (owed.length === 0) return { status: 'completed', reason: '', ...words };
  const why = outputs ? outputs.error.detail.message : `the outputs ${owed.join(', ')} are missing`;
  if (thread.talk.reminders >= MAX_REMINDERS)
    return { status: 'failed', reason: why, ...words, code: 'invalid_input' };
  thread.talk.reminders += 1;
  const way = directive.agent
    ? RETURN_OUTPUT
    : `execute {"item_type":"directive","item_id":"${directive.name}","action":"return","parameters":{…}}`;
  tell(thread, `[harness] ${why}; return them with ${way}`, { reminder: true }, words.marks);
  return undefined;
}

/** Replaces the references in the last reply by their values, because people and the parent read it. */
function lastText({ talk: { conversation, references } }: Pick<Thread, 'talk'>, written: string) {
  const own = conversation.ownMarks();
  const resolved = references?.resolve(written, own);
  // The run ends here, so the model cannot repair a reference that does not exist.
  const words = resolved?.ok
    ? { text: resolved.output.text, marks: resolved.output.meta.descriptor }
    : { text: written };
  const resolve = (outputs: JsonObject): JsonObject => {
    const found = references?.resolve(outputs, own);
    return found?.ok && isObject(found.output.data) ? found.output.data : outputs;
  };
  return { words, resolve };
}

/** Returns the marks of a result. The reason for another ending can quote data that the model has not read. */
const marksAtEnd = ({ conversation }: Thread['talk'], status: Ending['status']): Descriptor =>
  status === 'completed' ? conversation.ownMarks() : conversation.allMarks();

/**
 * Ends or parks the thread. A parked thread leaves nothing in this process.
 * Returns `undefined` if a signal arrived before it could park. The caller handles that signal first.
 */
export async function finish(thread: Thread, ending: Ending): Promise<ThreadResult | undefined> {
  const { ports, place, journal, budget, talk, hooks } = thread;
  const cost = packCost(budget.meter.read());
  const text = resultText(place.directive, ending.status === 'completed', ending.text);
  const { status, reason, code } = ending;
  const result: ThreadResult = {
    thread_id: place.id,
    status,
    outputs: ending.outputs ?? {},
    text,
    reason,
    cost,
    ...(code && { code }),
    marks: packMarks(ending.marks ?? marksAtEnd(talk, status)),
  };
  // The end of the run releases the reservations of the thread.
  const aside = [hooks.reserve, place.detached ? budget.drawFrom : undefined];
  const settle = aside.flatMap((key) => (key === undefined ? [] : [{ key, actual: {} }]));
  // INVARIANT: the end of a thread is the last event of its journal. A stop that comes now is too late.
  if (isEnded(status)) thread.control.ending ??= ending;
  const end = isEnded(status)
    ? await journal.commit(
        { type: 'thread_end', data: { status, reason, ...(code && { code }), cost } },
        { status, cost, settle, result: { ...result }, search: aboutEnd(ports, result) },
      )
    : await journal.commit([], {
        status,
        cost,
        release: await releaseOf(thread, status),
        ...untilSignal(place, status),
      });
  if (!end.ok && end.error.code === 'signalled') return undefined;
  // INVARIANT: an ended thread is always released after its transcript is written. A sweep of the store
  // finds ended threads that were not released and completes their transcripts.
  await ports.watch.written?.(place.id);
  ports.watch.done?.(place.id);
  if (!end.ok || isEnded(status)) {
    await ports.store.release({ thread: place.id, epoch: journal.epoch });
  }
  // INVARIANT: a thread whose end could not be committed has never ended. A resume tries again.
  return end.ok ? result : { ...result, status: 'interrupted', reason: end.error.detail.message };
}

/**
 * Returns the time of the next resume. A thread that was lost or that another process continues is resumed at once.
 * A thread that waits for a person is resumed when its request expires, a hook with the thread that it serves.
 */
async function releaseOf(
  { ports, place, control }: Pick<Thread, 'ports' | 'place' | 'control'>,
  status: Ending['status'],
): Promise<true | { wake: number }> {
  if (place.kind === 'hook' || ports.replay) return true;
  // No step ended the run: its lease expired here, and the store still accepted the last commit.
  const isLost = control.ending === undefined;
  if (status === 'interrupted') {
    return control.leaving || isLost ? { wake: ports.clock.now() } : true;
  }
  if (status !== 'waiting' && status !== 'needs_input') return true;
  const open = await ports.store.approvals({ thread: place.id, state: 'pending' });
  const times = (open.ok ? open.output : []).flatMap(({ expires }) => expires ?? []);
  return times.length > 0 ? { wake: Math.min(...times) } : true;
}

/** Only the loop can continue where it stopped. A script starts again, so it parks and is resumed. */
const untilSignal = (
  { plan, directive, runner }: Lineage,
  status: Ending['status'],
): { quiet?: true } =>
  RESTS.has(status) && !plan && !directive.process.script && hasShippedRunner(runner)
    ? { quiet: true }
    : {};
