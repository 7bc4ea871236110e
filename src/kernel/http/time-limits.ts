// Everything that can stop a call from outside, as one thing: the caller's abort and the four time
// limits. `connect`, `first_byte` and `idle` follow one another; `total` runs all along.
import {
  type Clock,
  type Failure,
  fail,
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';

/** Calls back once after `ms`; the answer cancels. */
export type Timer = (ms: number, callback: () => void) => () => void;

/**
 * Not before what has arrived meanwhile was looked at: in a busy process the timer may be served before
 * the very event it waited for, which is there already.
 */
export const systemTimer: Timer = (ms, callback) => {
  let last: NodeJS.Immediate | undefined;
  const handle = setTimeout(() => {
    last = setImmediate(callback);
  }, ms);
  return () => {
    clearTimeout(handle);
    clearImmediate(last);
  };
};

export type WaitPhase = 'connect' | 'first_byte' | 'idle';
export type Timeouts = Readonly<Record<WaitPhase | 'total', number>>;

/** In milliseconds; a config gives seconds, like the `timeout` of a tool. */
const PRESETS: Timeouts = { connect: 10_000, first_byte: 120_000, idle: 60_000, total: 600_000 };
const MAX_TIMEOUT = 2 ** 31 - 1;

/** Reads `config.timeouts` (seconds); `total` is never longer than the call itself may take. */
export function timeoutsOf(config: JsonObject, callMs: number): Outcome<Timeouts> {
  const given = getOwn(config, 'timeouts') ?? {};
  if (!isObject(given)) return fail('config_invalid', '`timeouts` must be an object');
  const result = { ...PRESETS, total: callMs > 0 ? callMs : PRESETS.total };
  for (const [name, seconds] of Object.entries(given)) {
    if (!(name in PRESETS)) {
      return fail('config_invalid', `\`timeouts.${name}\` is unknown`, {
        hint: 'known are connect, first_byte, idle and total',
      });
    }
    if (typeof seconds !== 'number' || !(seconds > 0)) {
      return fail('config_invalid', `\`timeouts.${name}\` must be a number of seconds above 0`);
    }
    const ms = Math.min(seconds * 1000, MAX_TIMEOUT);
    result[name as keyof Timeouts] = name === 'total' ? Math.min(ms, result.total) : ms;
  }
  return ok({ ...result, total: Math.min(result.total, MAX_TIMEOUT) });
}

export interface TimeWatch {
  /** Called when the call must stop, unless it has already; the answer takes the wish back. */
  onStop(listener: (failure: Failure) => void): () => void;
  failure(): Failure | undefined;
  /** The answer, or the reason to stop waiting for it. */
  race<T>(answer: Promise<Outcome<T>>): Promise<Outcome<T>>;
  /** The first reason wins. */
  stop(failure: Failure): void;
  enter(phase: WaitPhase): void;
  /** Something arrived: `idle` begins anew. */
  touch(): void;
  /** While we are busy ourselves the other side cannot be idle. */
  hold(): void;
  end(): void;
}

export interface TimeWatchPorts {
  clock: Clock;
  timer: Timer;
}

/** Begins in `connect`. One timer waits for whatever is due next. */
export function createWatch(
  timeouts: Timeouts,
  caller: AbortSignal,
  ports: TimeWatchPorts,
): TimeWatch {
  const { clock, timer } = ports;
  const listeners = new Set<(failure: Failure) => void>();
  let failure: Failure | undefined;
  let phase: WaitPhase | undefined = 'connect';
  let since = clock.monotonic();
  const totalDue = since + timeouts.total;
  let cancelTimer = () => {};
  /** When the timer fires, if there is one. */
  let armedFor = Number.POSITIVE_INFINITY;

  const end = (): void => {
    cancelTimer();
    phase = undefined;
    caller.removeEventListener('abort', onAbort);
  };
  const stop = (reason: Failure): void => {
    if (failure !== undefined) return;
    failure = reason;
    end();
    for (const listener of listeners) listener(reason);
    listeners.clear();
  };
  const onAbort = (): void => stop(fail('cancelled', 'the call was cancelled'));
  const expire = (name: WaitPhase | 'total', sent: boolean): void => {
    const seconds = timeouts[name] / 1000;
    stop(fail('timeout', `no ${WORDS[name]} within ${seconds} s`, { phase: name, seconds, sent }));
  };
  const phaseDue = (): number =>
    phase === undefined ? Number.POSITIVE_INFINITY : since + timeouts[phase];
  // Touching only notes the time; the timer looks when it fires. A stream of many small chunks
  // would otherwise spend its time setting timers.
  const arm = (now: number): void => {
    const due = Math.min(phaseDue(), totalDue);
    // A timer that fires sooner looks again by itself.
    if (due >= armedFor) return;
    cancelTimer();
    armedFor = due;
    cancelTimer = timer(due - now, look);
  };
  const look = (): void => {
    armedFor = Number.POSITIVE_INFINITY;
    const now = clock.monotonic();
    // A timer may be early by less than a millisecond.
    if (totalDue - now < 1) expire('total', phase !== 'connect');
    else if (phase !== undefined && phaseDue() - now < 1) expire(phase, phase !== 'connect');
    else arm(now);
  };
  arm(since);
  if (caller.aborted) onAbort();
  else caller.addEventListener('abort', onAbort, { once: true });

  const watch: TimeWatch = {
    onStop(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    failure: () => failure,
    async race(answer) {
      if (failure !== undefined) return failure;
      let forget = (): unknown => undefined;
      const stopped = new Promise<Failure>((resolve) => {
        forget = watch.onStop(resolve);
      });
      const first = await Promise.race([answer, stopped]);
      forget();
      // Both may have come at once; then the reason to stop counts.
      return failure ?? first;
    },
    stop,
    enter(next) {
      if (failure !== undefined) return;
      [phase, since] = [next, clock.monotonic()];
      arm(since);
    },
    touch() {
      since = clock.monotonic();
    },
    hold() {
      phase = undefined;
    },
    end,
  };
  return watch;
}

const WORDS: Readonly<Record<WaitPhase | 'total', string>> = {
  connect: 'connection',
  first_byte: 'answer',
  idle: 'further data',
  total: 'end of the call',
};
