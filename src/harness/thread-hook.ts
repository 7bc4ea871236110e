// A hook runs a directive of its own, in a thread of its own.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Descriptor } from '../flow/index.ts';
import { type Prepared, prepareThread } from './prepare-thread.ts';
import { returnScript } from './return-script.ts';
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

/** Own limits, narrowed rights, nesting bounded. */
export const createHookRunner =
  (run: RunPrepared) =>
  async (thread: ThreadContext, name: string, inputs: JsonObject): Promise<Outcome<Json>> => {
    const { world } = thread;
    const prepared = await prepareThread(world, { directive: name, inputs });
    if (!prepared.ok) return prepared;
    const script = prepared.output.directive.process.script;
    if (script) return returnScript(script.text, prepared.output.inputs);
    if (thread.nesting >= 2) return fail('hook_failed', 'hooks are nested deeper than 2');
    const ran = await run(
      world,
      prepared.output,
      { parent: thread, kind: 'hook' },
      thread.signal,
      '',
    );
    if (!ran.ok) return ran;
    return ran.output.status === 'completed'
      ? ok(ran.output.outputs)
      : fail('hook_failed', `hook thread ended ${ran.output.status}: ${ran.output.reason}`);
  };
