// Handles the signals of people and parents (`message`, `interrupt`, `pause`, `terminate`, `kill`) between
// steps. Each signal becomes an event with its sender. Some signals, the deadline and a lost lease also
// interrupt a request or a tool that runs: it receives one abort signal, and `cause` has the reason.
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type Outcome,
  plainText,
} from '../../base/index.ts';
import type { MaybePromise, Value } from '../../flow/index.ts';
import type { JournalEvent } from '../../journal/index.ts';
import type { Signal } from '../../store/index.ts';
import { limitEvent, limitFault } from '../limits/limit.ts';
import type { Ending } from '../loop.ts';
import { FROM_USER, packMarks, unpackMarks } from './conversation.ts';
import { skippedResult } from './prompt.ts';
import { changeRoom } from './room.ts';
import { addToConversation } from './talk.ts';
import type { CalledOff, CallRecord, Interruptible, Interruption, Thread } from './thread.ts';

/** Signals that stop a reply. A pause does not stop it, because the request is paid for. */
export const STOPS_STREAM: ReadonlySet<string> = new Set(['interrupt', 'terminate', 'kill']);
/** Signals that stop a wait, which costs nothing. */
export const STOPS_WAIT: ReadonlySet<string> = new Set([...STOPS_STREAM, 'pause']);
/** Signals that stop a running tool. */
export const STOPS_TOOL: ReadonlySet<string> = new Set(['kill']);

const LONGEST_TIMER = 2 ** 31 - 1;

/** Returns the milliseconds until the deadline. The meter has the time that is used already. */
export function timeLeft({ budget: { limits, meter } }: Pick<Thread, 'budget'>): number {
  const max = limits.duration?.value;
  if (max === undefined) return LONGEST_TIMER;
  return Math.min(LONGEST_TIMER, Math.max(0, Number(max) - meter.read().duration_ms));
}

/**
 * Prepares an effect: commits the queued events, checks the lease and receives the signals. The caller reads
 * `cause` before it begins. Does not wait if a recent commit has done all of this.
 */
export function watchForInterruption(
  thread: Interruptible,
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
  // `AbortSignal.any` would cost weak references on both sides for every step.
  const stop = (): void => controller.abort(control.signal.reason);
  if (control.signal.aborted) stop();
  else control.signal.addEventListener('abort', stop, { once: true });
  const interruption: Interruption = {
    signal: controller.signal,
    cause: () => cause,
    check() {
      if (!journal.hasLease()) callOff('lost');
      else if (
        (control.leaving && stops.has('pause')) ||
        journal.signals().some(({ kind }) => stops.has(kind))
      )
        callOff('signal');
    },
    release() {
      clearTimeout(timer);
      control.signal.removeEventListener('abort', stop);
      control.interruptions.delete(interruption);
    },
  };
  control.interruptions.add(interruption);
  const confirmed = journal.confirm();
  const isLate = typeof confirmed !== 'boolean';
  if (!isLate) interruption.check();
  return isLate ? confirmed.then(() => (interruption.check(), interruption)) : interruption;
}

/**
 * Runs an effect that the deadline, a lost lease or a signal in `stops` can interrupt. `ended` returns the failure
 * of an interrupted effect.
 */
export async function runInTime(
  thread: Interruptible,
  stops: ReadonlySet<string>,
  body: (signal?: AbortSignal) => MaybePromise<Outcome<Value>>,
  ended: (failure: Failure, cause: CalledOff) => Failure,
): Promise<Outcome<Value>> {
  const interruption = await watchForInterruption(thread, stops);
  try {
    // INVARIANT: an effect never begins without the lease. It was checked a moment ago.
    if (interruption.cause() === 'lost') {
      return fail('stale_epoch', 'this process has lost the lease of the thread', { sent: false });
    }
    const outcome = await body(interruption.signal);
    const cause = outcome.ok ? undefined : interruption.cause();
    if (outcome.ok || cause === undefined) return outcome;
    const result = ended(outcome, cause);
    return cause === 'duration' ? deadlineFault(thread, outcome) : result;
  } finally {
    interruption.release();
  }
}

/** Returns the failure of the limit `duration`. A hook can raise it; otherwise the run stops. */
export function deadlineFault(thread: Pick<Thread, 'budget'>, { error }: Failure): Failure {
  const max = thread.budget.limits.duration?.value ?? 0n;
  const used = BigInt(Math.ceil(thread.budget.meter.read().duration_ms));
  const current = used > max ? used : max;
  const event = limitEvent('duration', current, max);
  const failure = limitFault(event, current + 1n, error.detail);
  failure.error.detail.message = `limit \`duration\` reached: ${event.current} of ${event.max} seconds; the running work was stopped`;
  return failure;
}

/** Ends a thread and interrupts its work. The first ending counts. */
export function stopThread({ control, journal, place }: CallRecord, ending: Ending): void {
  const { status: stops, reason, code } = ending;
  // An interrupted thread resumes later. A thread that ends records where it was stopped.
  if (!control.ending && (stops === 'aborted' || stops === 'terminated' || stops === 'killed')) {
    const kind = stops === 'killed' ? 'kill' : 'terminate';
    const by = place.parent ?? 'a descendant';
    journal.note({ type: 'signal', data: { kind, by, stops, reason, ...(code && { code }) } });
  }
  control.ending ??= ending;
  control.stopped = true;
  control.stopping.abort();
}

/** Ends the run at its next boundary. Work that runs is finished, and a wait is interrupted. */
export function leaveThread({ control }: Pick<Thread, 'control'>, ending: Ending): void {
  control.leaving ??= ending;
  for (const interruption of control.interruptions) interruption.check();
}

/** The parts of a thread that signals change, and the journal that records them. */
export type SignalReceiver = Pick<Thread, 'talk' | 'control' | 'journal'>;

const fieldOf = (payload: Json, ...names: string[]): string =>
  isObject(payload) ? plainText(names.map((name) => payload[name]).find(Boolean) ?? '') : '';

/** Returns results that skip the pending calls after an `interrupt`. */
const leaveOut = (thread: Pick<Thread, 'talk'>, by: string): JournalEvent[] =>
  thread.talk.conversation.pending().map((call) => ({
    type: 'tool_result',
    data: {
      call_id: call.id,
      content: skippedResult(call.name, `interrupted by ${by}`),
      is_error: true,
      marks: packMarks(thread.talk.conversation.marks()),
    },
  }));

function eventsOf(
  thread: Pick<Thread, 'talk'>,
  { number: id, kind, payload, by }: Signal,
): JournalEvent[] {
  const reason = fieldOf(payload, 'reason');
  const text = fieldOf(payload, 'content', 'message');
  // A message of another thread carries the marks of its sources. A message without marks is a person's.
  const raw = getOwn(payload, 'marks');
  const marks = isObject(raw) ? packMarks(unpackMarks(raw)) : packMarks(FROM_USER);
  const focus = kind === 'compact' ? fieldOf(payload, 'focus') : '';
  const roomRequest = {
    ...(focus && { focus: { text: focus, marks } }),
    ...(kind === 'compact' && getOwn(payload, 'own') === true && { own: true as const }),
  };
  const events: JournalEvent[] = [
    { type: 'signal', data: { kind, by, id, ...(reason && { reason }), ...roomRequest } },
  ];
  if (kind === 'interrupt') events.push(...leaveOut(thread, by));
  if (text) events.push({ type: 'injected_message', data: { text, marks, by } });
  return events;
}

function endingOf({ kind, payload, by }: Signal): Ending | undefined {
  const reason = fieldOf(payload, 'reason');
  if (kind === 'pause') return { status: 'paused', reason: reason || `paused by ${by}` };
  if (kind === 'terminate') return { status: 'terminated', reason: reason || `ended by ${by}` };
  return kind === 'kill' ? { status: 'killed', reason: reason || `killed by ${by}` } : undefined;
}

/** True for a signal to an earlier run that must not stop the resumed thread. */
const isPast = (signal: Signal, { control }: Pick<Thread, 'control'>): boolean =>
  signal.number <= control.past &&
  (getOwn(signal.payload, 'this_run') === true ||
    (control.hadEnded && endingOf(signal) !== undefined));

/** Handles the new signals. Returns the ending of the run if one of them pauses or ends it. */
export function handleSignals(thread: SignalReceiver): Ending | undefined {
  const { journal, control } = thread;
  // The next owner of the lease handles the pending signals.
  if (control.leaving) return control.leaving;
  for (const signal of journal.signals()) {
    const events = isPast(signal, thread) ? [] : eventsOf(thread, signal);
    journal.acknowledge(signal.number);
    if (events.length === 0) continue;
    journal.note(events);
    for (const event of events) {
      addToConversation(thread, event);
      changeRoom(thread.talk.room, event, journal.turn);
    }
    const ending = endingOf(signal);
    if (ending) return ending;
  }
  return undefined;
}
