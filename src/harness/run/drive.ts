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
import type { ThreadContext } from '../thread/thread.ts';
import { runTurn } from '../turn/turn.ts';
import { checkStart } from './check-start.ts';
import { finalEnding, finish } from './finish.ts';
import { ownLoop } from './runner.ts';

export const LEASE_MS = 30_000;

function portsOf(thread: ThreadContext) {
  const between = async (): Promise<Ending | undefined> => {
    if (thread.ending) return thread.ending;
    thread.world.live.leases.beat();
    const { held, called } = thread.log.pulse(thread.lastSignal);
    if (!held) return { status: 'interrupted', reason: 'this process no longer holds the thread' };
    const told = called ? obeySignals(thread) : undefined;
    if (told) return told;
    await raiseWarnings(thread);
    return thread.ending;
  };
  return {
    between,
    turn: () => runTurn(thread),
    pending: () => thread.conversation.pending(),
    perform: (calls: readonly ToolCallBlock[]) => runSteps(thread, calls, between),
    final: async (reply: ModelReply): Promise<Ending | undefined> => finalEnding(thread, reply),
  };
}

/** The lease is renewed while the loop runs; whoever lost it is stopped where it is. */
function keepLease({ log, flights, world }: ThreadContext, since: number): () => void {
  const { leases } = world.live;
  // Many may be set off at once, and those before this one wait meanwhile.
  leases.beat();
  return leases.keep(() => {
    if (log.renew(LEASE_MS)) return;
    for (const flight of flights) flight.look();
  }, since);
}

/** Signals come from any process; what is in flight looks at them as soon as they are there. */
const listen = ({ world, id, flights }: ThreadContext): (() => void) =>
  world.store.onSignal((thread) => {
    if (thread === id) for (const flight of flights) flight.look();
  });

/** A runner of the program, the directive's script, or turns of a model. */
async function loopOf(thread: ThreadContext, history: readonly Recorded[]): Promise<Ending> {
  const own = ownLoop(thread);
  if (own) return await own();
  const ports = portsOf(thread);
  const { script } = thread.directive.process;
  return script
    ? await runScriptThread(thread, script, history, ports.between)
    : await runLoop(ports);
}

/** What a bug leaves behind is a failed thread, not a lost one. */
async function runToEnding(thread: ThreadContext, history: readonly Recorded[]): Promise<Ending> {
  try {
    const denied = thread.log.turn === 0 ? await checkStart(thread) : undefined;
    const ending = denied ?? (await loopOf(thread, history));
    return await endFamily(
      thread,
      thread.stopped ? (thread.ending ?? ending) : ending,
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
  thread: ThreadContext,
  { epoch, since }: HeldLease,
  history: readonly Recorded[] = [],
): Promise<ThreadResult> {
  const { world, id, signal } = thread;
  const ends = [keepLease(thread, since), listen(thread)];
  let resolve: (result: ThreadResult) => void = () => {};
  const done = new Promise<ThreadResult>((settle) => {
    resolve = settle;
  });
  const whenStopped = (): void => {
    thread.ending ??= { status: 'interrupted', reason: 'its caller stopped it' };
    thread.stopped = true;
  };
  if (signal.aborted) whenStopped();
  signal.addEventListener('abort', whenStopped);
  world.live.add({ thread, done });
  const result = finish(thread, await runToEnding(thread, history), epoch);
  signal.removeEventListener('abort', whenStopped);
  world.live.remove(id);
  for (const end of ends) end();
  tellParent(thread, result);
  resolve(result);
  return result;
}
