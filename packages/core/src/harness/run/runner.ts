// Which loop runs a thread. `safety` is the loop with everything on, `plain` the same without hooks;
// a program registers its own. Rights, deadline, registry, records and children are the harness's in
// every case: a runner only says what is done in between.
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
import { outOfTime } from '../children/children.ts';
import type { Ending } from '../loop.ts';
import { STOPS_WAIT, watchForInterruption } from '../thread/interruption.ts';
import type { Runner } from '../thread/ports.ts';
import type { Interruptible, Thread, ThreadsPort } from '../thread/thread.ts';

const SHIPPED: readonly string[] = ['safety', 'plain'];
/** Hooks are what the plain loop goes without. */
export const hasHooks = (runner = 'safety'): boolean => runner !== 'plain';

/** The loops that leave a journal of what they did. */
export const hasShippedRunner = (runner: string): boolean => SHIPPED.includes(runner);

/** Returns the registered runner of this name, or `undefined` for the runners of the harness. */
export const ownRunner = ({ runners = {} }: ThreadsPort, name: string): Runner | undefined =>
  Object.hasOwn(runners, name) && !SHIPPED.includes(name) ? runners[name] : undefined;

export function knownRunner(threads: ThreadsPort, name: string): Outcome<null> {
  const names = [...SHIPPED, ...Object.keys(threads.runners ?? {})];
  if (names.includes(name)) return ok(null);
  const hint = didYouMean(name, names) ?? `registered are: ${names.join(', ')}`;
  return fail('not_found', `there is no runner \`${name}\`; ${hint}`, { runners: names });
}

const outputsOf = (directive: Directive, given: Json): Outcome<JsonObject> =>
  isObject(given)
    ? checkOutputs(directive, given)
    : fail('invalid_input', 'its outputs are no object');

export async function runOwn(
  thread: Interruptible & Pick<Thread, 'place'>,
  runner: Runner,
): Promise<Ending> {
  const { id, directive, inputs } = thread.place;
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
  try {
    const { signal } = interruption;
    const done = await runner({ thread_id: id, directive: directive.name, inputs, signal });
    if (interruption.cause() === 'duration') return outOfTime(thread, 'its runner');
    // The requeue stopped the runner. The next owner of the lease calls it again.
    const { leaving } = thread.control;
    if (leaving && !done.ok) return leaving;
    const checked = done.ok ? outputsOf(directive, done.output) : done;
    return checked.ok
      ? { status: 'completed', reason: '', outputs: checked.output }
      : { status: 'failed', reason: checked.error.detail.message, code: checked.error.code };
  } finally {
    interruption.release();
  }
}
