// Combines everything that can stop a request from outside: the caller's abort and the four time limits.
// `connect`, `first_byte` and `idle` follow one another; `total` runs all the time.
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

/** Calls back once after `ms`. The returned function cancels. */
export type Timer = (ms: number, callback: () => void) => () => void;

/**
 * Fires after the events that are already waiting. In a busy process the timer could otherwise be served
 * before the event that it waits for.
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

type WaitPhase = 'connect' | 'first_byte' | 'idle';
type Timeouts = Readonly<Record<WaitPhase | 'total', number>>;

/** Default limits in milliseconds. A config gives seconds, like the `timeout` of a tool. */
const PRESETS: Timeouts = { connect: 10_000, first_byte: 120_000, idle: 60_000, total: 600_000 };
const MAX_TIMEOUT = 2 ** 31 - 1;

/** Reads `config.timeouts` (seconds). `total` is never longer than the limit of the call. */
export function timeoutsOf(config: JsonObject, callMs: number): Outcome<Timeouts> {
  const configured = getOwn(config, 'timeouts') ?? {};
  const wrong = (message: string, name: string, more: JsonObject = {}): Failure =>
    fail('config_invalid', message, { config_path: `config.${name}`, ...more });
  if (!isObject(configured)) return wrong('`timeouts` must be an object', 'timeouts');
  const result = { ...PRESETS, total: callMs > 0 ? callMs : PRESETS.total };
  for (const [name, seconds] of Object.entries(configured)) {
    if (!(name in PRESETS)) {
      const hint = 'use connect, first_byte, idle or total';
      return wrong(`\`timeouts.${name}\` is not a time limit`, `timeouts.${name}`, { hint });
    }
    if (typeof seconds !== 'number' || !(seconds > 0)) {
      const message = `\`timeouts.${name}\` must be a number of seconds above 0`;
      return wrong(message, `timeouts.${name}`);
    }
    const ms = Math.min(seconds * 1000, MAX_TIMEOUT);
    result[name as keyof Timeouts] = name === 'total' ? Math.min(ms, result.total) : ms;
  }
  return ok({ ...result, total: Math.min(result.total, MAX_TIMEOUT) });
}

export interface TimeWatchPorts {
  clock: Clock;
  timer: Timer;
}

const WORDS: Readonly<Record<WaitPhase | 'total', string>> = {
  connect: 'connection',
  first_byte: 'answer',
  idle: 'further data',
  total: 'end of the call',
};

/** Starts in the phase `connect`. One timer waits for the next limit. */
export class TimeWatch {
  /** The first reason why the call must stop. */
  failure: Failure | undefined;
  readonly #timeouts: Timeouts;
  readonly #caller: AbortSignal;
  readonly #ports: TimeWatchPorts;
  readonly #listeners = new Set<(failure: Failure) => void>();
  #phase: WaitPhase | undefined = 'connect';
  #since: number;
  readonly #totalDue: number;
  /** Time on the monotonic clock after which the request is not sent. */
  readonly #sendBy: number;
  #cancelTimer = (): void => {};
  /** Time at which the timer fires, if there is one. */
  #armedFor = Number.POSITIVE_INFINITY;

  constructor(
    timeouts: Timeouts,
    caller: AbortSignal,
    ports: TimeWatchPorts,
    sendBy = Number.POSITIVE_INFINITY,
  ) {
    this.#timeouts = timeouts;
    this.#caller = caller;
    this.#ports = ports;
    this.#sendBy = sendBy;
    this.#since = ports.clock.monotonic();
    this.#totalDue = this.#since + timeouts.total;
    this.#arm(this.#since);
    if (caller.aborted) this.#onAbort();
    else caller.addEventListener('abort', this.#onAbort, { once: true });
  }

  readonly #onAbort = (): void => this.stop(fail('cancelled', 'the call was cancelled'));

  /**
   * Calls the listener when the call must stop, at once if it must already. The returned function unsubscribes.
   */
  onStop(listener: (failure: Failure) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  stop(reason: Failure): void {
    if (this.failure !== undefined) return;
    this.failure = reason;
    this.end();
    for (const listener of this.#listeners) listener(reason);
    this.#listeners.clear();
  }

  /** Returns the answer, or the failure if the call must stop before. */
  async race<T>(answer: Promise<Outcome<T>>): Promise<Outcome<T>> {
    if (this.failure !== undefined) return this.failure;
    const { promise: stopped, resolve } = Promise.withResolvers<Failure>();
    const unsubscribe = this.onStop(resolve);
    const first = await Promise.race([answer, stopped]);
    unsubscribe();
    // If both have arrived, the failure counts.
    return this.failure ?? first;
  }

  enter(phase: WaitPhase): void {
    if (this.failure !== undefined) return;
    this.#phase = phase;
    this.#since = this.#ports.clock.monotonic();
    // This check comes just before the sending, because the process may have been suspended.
    if (phase === 'first_byte' && this.#since > this.#sendBy) {
      const detail = { phase: 'connect', sent: false, late: true };
      return this.stop(fail('timeout', 'the request could not be sent in time', detail));
    }
    this.#arm(this.#since);
  }

  /**
   * Restarts `idle` because data arrived. It only stores the time and the timer reads it, because a
   * stream of many small chunks would otherwise spend its time on timers.
   */
  touch(): void {
    this.#since = this.#ports.clock.monotonic();
  }

  /** Suspends `idle` while this process is busy with the data. */
  hold(): void {
    this.#phase = undefined;
  }

  end(): void {
    this.#cancelTimer();
    this.#phase = undefined;
    this.#caller.removeEventListener('abort', this.#onAbort);
  }

  #arm(now: number): void {
    const phaseDue =
      this.#phase === undefined
        ? Number.POSITIVE_INFINITY
        : this.#since + this.#timeouts[this.#phase];
    const due = Math.min(phaseDue, this.#totalDue);
    // A timer that fires earlier sets itself again.
    if (due >= this.#armedFor) return;
    this.#cancelTimer();
    this.#armedFor = due;
    this.#cancelTimer = this.#ports.timer(due - now, () => this.#look());
  }

  #look(): void {
    this.#armedFor = Number.POSITIVE_INFINITY;
    const now = this.#ports.clock.monotonic();
    const phase = this.#phase;
    // A timer may be early by less than a millisecond.
    const isPhaseOver = phase !== undefined && this.#since + this.#timeouts[phase] - now < 1;
    const over = this.#totalDue - now < 1 ? 'total' : isPhaseOver ? phase : undefined;
    if (over === undefined) return this.#arm(now);
    const seconds = this.#timeouts[over] / 1000;
    const detail = { phase: over, seconds, sent: phase !== 'connect' };
    this.stop(fail('timeout', `no ${WORDS[over]} within ${seconds} s`, detail));
  }
}
