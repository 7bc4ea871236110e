// Drives a thread through the loop while its lease is renewed.
import type { ModelReply, ToolCallBlock } from '../llm/index.ts';
import { type Ending, runLoop } from './loop.ts';
import { raiseWarnings } from './thread-checkpoint.ts';
import type { ThreadContext } from './thread-context.ts';
import { finalEnding, finish } from './thread-end.ts';
import { obeySignals } from './thread-signals.ts';
import { runSteps } from './thread-step.ts';
import { runTurn } from './thread-turn.ts';
import type { ThreadResult, World } from './world.ts';

export const LEASE_MS = 30_000;
const RENEW_MS = 10_000;

function portsOf(thread: ThreadContext) {
  const between = async (): Promise<Ending | undefined> => {
    if (thread.ending) return thread.ending;
    if (!thread.log.isHeld())
      return { status: 'interrupted', reason: 'another process holds the thread' };
    const told = obeySignals(thread);
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

/** The lease is renewed while the loop runs; a thread whose process is gone is found by its end. */
function keepLease(world: World, id: string, epoch: number): () => void {
  const timer = setInterval(() => world.store.renew(id, epoch, LEASE_MS), RENEW_MS);
  timer.unref();
  return () => clearInterval(timer);
}

export async function drive(thread: ThreadContext, epoch: number): Promise<ThreadResult> {
  const release = keepLease(thread.world, thread.id, epoch);
  try {
    return finish(thread, await runLoop(portsOf(thread)), epoch);
  } finally {
    release();
  }
}
