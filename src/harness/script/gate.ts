// Asked before every operation of a script: a stop is seen even by one that never does a step.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Ending } from '../loop.ts';
import { deadlineFault, obeySignals, timeLeft } from '../thread/interruption.ts';
import type { Thread } from '../thread/thread.ts';

/** How often a script that only computes looks whether somebody has said something. */
const LOOK_MS = 50;

/** What a script gets once its thread is to end; nothing in it can catch that. */
export const STOPPED: Failure = fail('cancelled', 'the thread was stopped');

function look(thread: Thread): Ending | undefined {
  if (!thread.journal.isHeld()) {
    return { status: 'interrupted', reason: 'this process no longer holds the thread' };
  }
  const told = obeySignals(thread);
  if (told || timeLeft(thread) > 0) return told;
  const { error } = deadlineFault(thread, STOPPED);
  return { status: 'limit', reason: error.detail.message, code: error.code };
}

export function createGate(thread: Thread): () => Outcome<null> {
  const { clock } = thread.ports;
  let looked = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    if (!thread.control.ending && now - looked > LOOK_MS) {
      looked = now;
      thread.control.ending = look(thread);
    }
    return thread.control.ending ? STOPPED : ok(null);
  };
}
