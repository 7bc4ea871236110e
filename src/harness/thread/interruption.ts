// What is under way can be called off: by the deadline, by whoever steers the thread, and when the
// lease is lost. Whatever is under way sees one signal; afterwards the cause is known.
import { type Failure, fail } from '../../base/index.ts';
import type { MaybePromise } from '../../flow/index.ts';
import { limitEvent } from '../limits/limit.ts';
import type { Ending } from '../loop.ts';
import type { CalledOff, Interruption, Thread } from './thread.ts';

/** While the model speaks nothing is lost by stopping it; a tool at work is only killed. */
export const STOPS_STREAM: ReadonlySet<string> = new Set([
  'interrupt',
  'pause',
  'terminate',
  'kill',
]);
export const STOPS_TOOL: ReadonlySet<string> = new Set(['kill']);

const LONGEST_TIMER = 2 ** 31 - 1;

/** Milliseconds until the deadline; what was used so far is what the meter says. */
export function timeLeft({ budget: { limits, meter } }: Thread): number {
  const max = limits.duration?.value;
  if (max === undefined) return LONGEST_TIMER;
  return Math.min(LONGEST_TIMER, Math.max(0, Number(max) - meter.read().duration_ms));
}

/**
 * Just before an effect: what was noted is in the store, the lease was looked at, and what was said until
 * now has been heard. Whoever gets it looks at `cause` first. Nothing is waited for when the commit of a
 * moment ago has said all that.
 */
export function watchForInterruption(
  thread: Thread,
  stops: ReadonlySet<string>,
): MaybePromise<Interruption> {
  const { control, journal, budget } = thread;
  const controller = new AbortController();
  let cause: CalledOff | undefined;
  const callOff = (why: CalledOff): void => {
    cause ??= why;
    controller.abort();
  };
  const timer = budget.limits.duration && setTimeout(callOff, timeLeft(thread), 'duration');
  // By hand: a combined signal costs weak references on both sides, for every step.
  const stop = (): void => controller.abort(control.signal.reason);
  if (control.signal.aborted) stop();
  else control.signal.addEventListener('abort', stop, { once: true });
  const interruption: Interruption = {
    signal: controller.signal,
    cause: () => cause,
    check() {
      if (!journal.isHeld()) callOff('lost');
      else if (journal.signals().some(({ kind }) => stops.has(kind))) callOff('signal');
    },
    release() {
      clearTimeout(timer);
      control.signal.removeEventListener('abort', stop);
      control.interruptions.delete(interruption);
    },
  };
  control.interruptions.add(interruption);
  const checked = (): Interruption => {
    interruption.check();
    return interruption;
  };
  const confirmed = journal.confirm();
  return typeof confirmed === 'boolean' ? checked() : confirmed.then(checked);
}

/** As the limit it is: hooks may raise it, and without one the run stops. */
export function deadlineFault(thread: Thread, { error }: Failure): Failure {
  const max = thread.budget.limits.duration?.value ?? 0n;
  const used = BigInt(Math.ceil(thread.budget.meter.read().duration_ms));
  const current = used > max ? used : max;
  const event = limitEvent('duration', current, max);
  return fail(
    event.code,
    `limit \`duration\` reached: ${event.current} of ${event.max} seconds; what was under way was stopped`,
    {
      ...error.detail,
      limit: 'duration',
      current: event.current,
      max: event.max,
      needed: String(current + 1n),
    },
  );
}

/** Ends it from outside; what is under way is broken off. The first reason counts. */
export function stopThread({ control }: Thread, ending: Ending): void {
  control.ending ??= ending;
  control.stopped = true;
  control.stopping.abort();
}
