// What is under way can be called off: by the deadline, by whoever steers the thread, and when the
// lease is lost. Whatever is in flight sees one signal; afterwards the cause is known.
import { type Failure, fail } from '../../base/index.ts';
import { limitEvent } from '../limits/limit.ts';
import type { ThreadContext } from './thread.ts';

export type CalledOff = 'duration' | 'signal' | 'lost';

export interface Flight {
  readonly signal: AbortSignal;
  cause(): CalledOff | undefined;
  /** Somebody said something to the thread, or its lease is gone: is that a reason to stop? */
  look(): void;
  /** Ends the timer. */
  land(): void;
}

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
export function timeLeft({ limits, meter }: ThreadContext): number {
  const max = limits.duration?.value;
  return max === undefined ? LONGEST_TIMER : Math.max(0, Number(max) - meter.read().duration_ms);
}

function isStopped(thread: ThreadContext, stops: ReadonlySet<string>): boolean {
  const waiting = thread.world.store.signals(thread.id, thread.lastSignal);
  return waiting.ok && waiting.output.some(({ kind }) => stops.has(kind));
}

export function takeOff(thread: ThreadContext, stops: ReadonlySet<string>): Flight {
  const controller = new AbortController();
  let cause: CalledOff | undefined;
  const callOff = (why: CalledOff): void => {
    cause ??= why;
    controller.abort();
  };
  const timer = setTimeout(() => callOff('duration'), Math.min(timeLeft(thread), LONGEST_TIMER));
  // By hand: a combined signal costs weak references on both sides, for every step.
  const stop = (): void => controller.abort(thread.signal.reason);
  if (thread.signal.aborted) stop();
  else thread.signal.addEventListener('abort', stop, { once: true });
  const flight: Flight = {
    signal: controller.signal,
    cause: () => cause,
    look() {
      const { held, called } = thread.log.pulse(thread.lastSignal);
      if (!held) callOff('lost');
      else if (called && isStopped(thread, stops)) callOff('signal');
    },
    land() {
      clearTimeout(timer);
      thread.signal.removeEventListener('abort', stop);
      thread.flights.delete(flight);
    },
  };
  thread.flights.add(flight);
  thread.log.flush();
  // What was said just before is not told again.
  flight.look();
  return flight;
}

/** As the limit it is: hooks may raise it, and without one the run stops. */
export function deadlineFault(thread: ThreadContext, { error }: Failure): Failure {
  const max = thread.limits.duration?.value ?? 0n;
  const used = BigInt(Math.ceil(thread.meter.read().duration_ms));
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
