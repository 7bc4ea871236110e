// What people and parents say to a running thread, obeyed between steps. Every signal is an event
// with who sent it; the last one that was read is remembered in the journal.
import { isObject, plainText } from '../base/index.ts';
import { describe } from '../flow/index.ts';
import { packMarks } from './conversation.ts';
import type { Ending } from './loop.ts';
import type { ThreadContext } from './thread-context.ts';

const FROM_PERSON = describe({ taint: ['src:user'] });

/** Injected words go in; a pause, an end or a kill is the run's ending. */
export function obeySignals(thread: ThreadContext): Ending | undefined {
  const { world, id, log, conversation } = thread;
  const signals = world.store.signals(id, thread.lastSignal);
  if (!signals.ok) return undefined;
  for (const { id: number, kind, payload, by } of signals.output) {
    thread.lastSignal = number;
    const text = isObject(payload) ? plainText(payload.content ?? payload.message) : '';
    log.note('signal', { kind, by, id: number });
    if (text !== '') {
      log.note('injected_message', { text, marks: packMarks(FROM_PERSON), by });
      conversation.user(text, FROM_PERSON);
    }
    if (kind === 'pause') return { status: 'paused', reason: text || `paused by ${by}` };
    if (kind === 'terminate')
      return { status: 'terminated', reason: text || `terminated by ${by}` };
    if (kind === 'kill') return { status: 'killed', reason: `killed by ${by}` };
  }
  return undefined;
}
