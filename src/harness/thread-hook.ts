// A hook runs a directive of its own, in a thread of its own.
import { fail, isObject, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Descriptor } from '../flow/index.ts';
import { MAX_HOOK_NESTING } from './action.ts';
import { unpackCost } from './cost.ts';
import { hookLimitsLeft } from './hook-reserve.ts';
import { type Prepared, prepareThread } from './prepare-thread.ts';
import { scriptOutputs } from './script-outputs.ts';
import { scriptRequest } from './script-thread.ts';
import type { ThreadContext } from './thread-context.ts';
import type { ThreadResult, World } from './world.ts';

/** Where a new thread stands. */
export interface Place {
  parent?: ThreadContext;
  kind?: 'thread' | 'hook';
  /** Made from the directive's name and the time when absent. */
  id?: string;
  runner?: string;
  detached?: boolean;
  /** What its inputs and its first message carry; a person's words when absent. */
  marks?: Descriptor;
  /** A reservation made up front for it. */
  drawFrom?: string;
}

/** How a prepared directive becomes a thread and runs to its end. */
export type RunPrepared = (
  world: World,
  prepared: Prepared,
  place: Place,
  signal: AbortSignal,
  message: string,
) => Promise<Outcome<ThreadResult>>;

/** Verdicts have fields that a directive need not declare. */
const withExtra = (outputs: JsonObject): JsonObject => {
  const { extra, ...declared } = outputs;
  return isObject(extra) ? { ...extra, ...declared } : outputs;
};

/** What only computes has its time limit all the same. */
function withinTime({ clock }: World, { limits, item }: Prepared): () => Outcome<null> {
  const ends = clock.monotonic() + Number(limits.duration?.value ?? 0n);
  return () =>
    limits.duration === undefined || clock.monotonic() < ends
      ? ok(null)
      : fail('duration_exceeded', `the script of \`${item.id}\` took longer than its limit`);
}

/**
 * A script that only computes needs no thread: it has no effect, costs nothing and leaves no row.
 * Undefined: it is none, or it wants more than that and has done nothing yet.
 */
async function compute(
  thread: ThreadContext,
  prepared: Prepared,
): Promise<Outcome<Json> | undefined> {
  const { world, conversation, signal } = thread;
  const { script } = prepared.directive.process;
  if (!script) return undefined;
  const request = scriptRequest(world, prepared, script, conversation.marks());
  const answer = await world.script({ ...request, signal, gate: withinTime(world, prepared) });
  if (answer.needsThread) return undefined;
  const outputs = scriptOutputs(prepared.directive, answer);
  return outputs.ok ? ok(withExtra(outputs.output)) : outputs;
}

/** Own limits, narrowed rights, nesting bounded. */
export const createHookRunner =
  (run: RunPrepared) =>
  async (thread: ThreadContext, name: string, inputs: JsonObject): Promise<Outcome<Json>> => {
    const { world } = thread;
    const prepared = await prepareThread(
      world,
      { directive: name, inputs },
      hookLimitsLeft(thread),
    );
    if (!prepared.ok) return prepared;
    const computed = await compute(thread, prepared.output);
    if (computed) return computed;
    if (thread.nesting >= MAX_HOOK_NESTING) {
      return fail('hook_failed', `hooks are nested deeper than ${MAX_HOOK_NESTING}`);
    }
    const place: Place = { parent: thread, kind: 'hook' };
    if (thread.hookReserve !== undefined) place.drawFrom = thread.hookReserve;
    const ran = await run(world, prepared.output, place, thread.signal, '');
    if (!ran.ok) return ran;
    const { status, reason, outputs, cost } = ran.output;
    countHook(thread, cost);
    return status === 'completed'
      ? ok(outputs)
      : fail('hook_failed', `hook thread ended ${status}: ${reason}`);
  };

/** Counted apart, with what its own hooks used. */
function countHook({ meter }: ThreadContext, packed: JsonObject): void {
  const cost = unpackCost(packed);
  if (!cost.ok) return;
  meter.countHook(cost.output);
  meter.countHook(cost.output.hooks);
}
