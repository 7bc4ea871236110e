// Chooses the loop that runs a thread. `safety` is the whole loop, `plain` the same loop without hooks, and a program
// can register its own. The harness manages rights, deadline, store, events and children for every runner.
import {
  didYouMean,
  fail,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { Directive } from '../../items/index.ts';
import { checkOutputs } from '../../kernel/index.ts';
import type { ThreadRow } from '../../store/index.ts';
import { outOfTime } from '../children/children.ts';
import type { Ending } from '../loop.ts';
import { STOPS_WAIT, watchForInterruption } from '../thread/interruption.ts';
import type { Runner } from '../thread/ports.ts';
import type { HarnessPorts, Interruptible, Thread, ThreadsPort } from '../thread/thread.ts';

/** Runner of a conversation that a person holds. It runs as `safety` does, and lists find it by this name. */
export const CHAT = 'chat';
/** Runner of a conversation in another program's editor, by the Agent Client Protocol. It runs as `chat` does. */
export const ACP = 'acp';
/** Runner of `km replay --model`. It asks a model and executes nothing. No spawn can name it. */
export const COMPARE = 'compare';
const SPAWNED: readonly string[] = ['safety', 'plain'];
const SHIPPED: readonly string[] = [...SPAWNED, CHAT, ACP];

/** True for a runner with hooks. The plain loop and a comparison have none. */
export const hasHooks = (runner = 'safety'): boolean => runner !== 'plain' && runner !== COMPARE;

/** True for the runners of the harness, which record every step in the journal. */
export const hasShippedRunner = (runner: string): boolean => SHIPPED.includes(runner);

/** Fails for a thread whose steps are not in its journal, and for a thread of another project. */
export function hasOwnJournal(
  ports: Pick<HarnessPorts, 'identity' | 'project'>,
  { id, runner, project }: ThreadRow,
  act: 'fork' | 'replay',
): Outcome<null> {
  if (!hasShippedRunner(runner)) {
    const message = `thread \`${id}\` ran on \`${runner}\`, whose work is not in its journal`;
    return fail('invalid_input', message, { thread: id });
  }
  const identity = ports.identity?.();
  if (identity && !identity.ok) return identity;
  if (project === (identity?.output.project ?? ports.project)) return ok(null);
  const message = `thread \`${id}\` belongs to \`${project}\`; ${act} it there`;
  return fail('invalid_input', message, { thread: id });
}

/** Returns the registered runner of this name, or `undefined` for the runners of the harness. */
export const ownRunner = ({ runners = {} }: ThreadsPort, name: string): Runner | undefined =>
  Object.hasOwn(runners, name) && !SHIPPED.includes(name) ? runners[name] : undefined;

export function knownRunner(threads: ThreadsPort, name: string): Outcome<null> {
  const names = [...SPAWNED, ...Object.keys(threads.runners ?? {})];
  if (names.includes(name)) return ok(null);
  const hint = didYouMean(name, names) ?? `use one of: ${names.join(', ')}`;
  return fail('not_found', `runner \`${name}\` not found; ${hint}`, { runners: names });
}

const outputsOf = (directive: Directive, outputs: Json): Outcome<JsonObject> =>
  isObject(outputs)
    ? checkOutputs(directive, outputs)
    : fail('invalid_input', 'the outputs of the runner must be an object');

export async function runOwn(
  thread: Interruptible & Pick<Thread, 'place'>,
  runner: Runner,
): Promise<Ending> {
  const { id, directive, inputs } = thread.place;
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
  try {
    const { signal } = interruption;
    const outcome = await runner({ thread_id: id, directive: directive.name, inputs, signal });
    if (interruption.cause() === 'duration') return outOfTime(thread, 'its runner');
    // The requeue stopped the runner. The next owner of the lease calls it again.
    const { leaving } = thread.control;
    if (leaving && !outcome.ok) return leaving;
    const checked = outcome.ok ? outputsOf(directive, outcome.output) : outcome;
    return checked.ok
      ? { status: 'completed', reason: '', outputs: checked.output }
      : { status: 'failed', reason: checked.error.detail.message, code: checked.error.code };
  } finally {
    interruption.release();
  }
}
