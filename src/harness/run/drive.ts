// Drives a thread through the loop while its lease is renewed.
import type { ModelReply, ToolCallBlock } from '../../llm/index.ts';
import { endFamily, tellParent } from '../children/children.ts';
import { waitForChildren } from '../children/wait.ts';
import { raiseWarnings } from '../hooks/raise-checkpoint.ts';
import { type Ending, runLoop } from '../loop.ts';
import { runScriptThread } from '../script/run-script-thread.ts';
import { runSteps } from '../step/steps.ts';
import type { Recorded } from '../thread/journal-event.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { obeySignals } from '../thread/signals.ts';
import type { Thread } from '../thread/thread.ts';
import { runTurn } from '../turn/turn.ts';
import { checkStart } from './check-start.ts';
import { finalEnding, finish } from './finish.ts';
import { ownLoop } from './runner.ts';

export const LEASE_MS = 30_000;

function loopPorts(thread: Thread) {
  const between = async (): Promise<Ending | undefined> => {
    if (thread.control.ending) return thread.control.ending;
    thread.ports.threads.live.leases.beat();
    const { held, called } = thread.journal.pulse(thread.control.lastSignal);
    if (!held) return { status: 'interrupted', reason: 'this process no longer holds the thread' };
    const told = called ? obeySignals(thread) : undefined;
    if (told) return told;
    await raiseWarnings(thread);
    return thread.control.ending;
  };
  return {
    between,
    turn: () => runTurn(thread),
    pending: () => thread.talk.conversation.pending(),
    perform: (calls: readonly ToolCallBlock[]) => runSteps(thread, calls, between),
    final: async (reply: ModelReply): Promise<Ending | undefined> => finalEnding(thread, reply),
  };
}

/** The lease is renewed while the loop runs; whoever lost it is stopped where it is. */
function keepLease(
  { journal, control: { interruptions }, ports }: Thread,
  since: number,
): () => void {
  const { leases } = ports.threads.live;
  // Many may be set off at once, and those before this one wait meanwhile.
  leases.beat();
  return leases.keep(() => {
    if (journal.renew(LEASE_MS)) return;
    for (const interruption of interruptions) interruption.check();
  }, since);
}

/** Signals come from any process; what is in interruption looks at them as soon as they are there. */
const listen = ({ ports, place: { id }, control: { interruptions } }: Thread): (() => void) =>
  ports.store.onSignal((thread) => {
    if (thread === id) for (const interruption of interruptions) interruption.check();
  });

/** A runner of the program, the directive's script, or turns of a model. */
async function loopOf(thread: Thread, history: readonly Recorded[]): Promise<Ending> {
  const own = ownLoop(thread);
  if (own) return await own();
  const loop = loopPorts(thread);
  const { script } = thread.place.directive.process;
  return script
    ? await runScriptThread(thread, script, history, loop.between)
    : await runLoop(loop);
}

/** What a bug leaves behind is a failed thread, not a lost one. */
async function runToEnding(thread: Thread, history: readonly Recorded[]): Promise<Ending> {
  try {
    const denied = thread.journal.turn === 0 ? await checkStart(thread) : undefined;
    const ending = denied ?? (await loopOf(thread, history));
    return await endFamily(
      thread,
      thread.control.stopped ? (thread.control.ending ?? ending) : ending,
      waitForChildren,
    );
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const failed: Ending = { status: 'failed', reason, code: 'internal_error' };
    return await endFamily(thread, failed, waitForChildren).catch(() => failed);
  }
}

/** The lease that a thread is run with, and when it began by the clock of `live.leases`. */
export interface HeldLease {
  epoch: number;
  since: number;
}

/**
 * Never rejects. While it runs, the thread can be found, awaited and stopped in `world.live`. A script
 * is handed back what it did before, as `history` has it.
 */
export async function drive(
  thread: Thread,
  { epoch, since }: HeldLease,
  history: readonly Recorded[] = [],
): Promise<ThreadResult> {
  const {
    ports,
    place: { id },
    control: { signal },
  } = thread;
  const ends = [keepLease(thread, since), listen(thread)];
  let resolve: (result: ThreadResult) => void = () => {};
  const done = new Promise<ThreadResult>((settle) => {
    resolve = settle;
  });
  const whenStopped = (): void => {
    thread.control.ending ??= { status: 'interrupted', reason: 'its caller stopped it' };
    thread.control.stopped = true;
  };
  if (signal.aborted) whenStopped();
  signal.addEventListener('abort', whenStopped);
  ports.threads.live.add({ thread, done });
  const result = finish(thread, await runToEnding(thread, history), epoch);
  signal.removeEventListener('abort', whenStopped);
  ports.threads.live.remove(id);
  for (const end of ends) end();
  tellParent(thread, result);
  resolve(result);
  return result;
}
