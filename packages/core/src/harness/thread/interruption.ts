// Whoever steers a thread. What people and parents say (`message`, `interrupt`, `pause`, `terminate`,
// `kill`) is obeyed between steps; every signal is an event with who sent it, and the last one that was
// obeyed is remembered in the journal. What is under way can be called off: by some of these words, by
// the deadline, and when the lease is lost. It sees one signal; afterwards the cause is known.
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
import { addToConversation } from './talk.ts';
import type { CalledOff, CallRecord, Interruptible, Interruption, Thread } from './thread.ts';

/** What breaks off a reply that is coming. A pause does not: that request is paid for, so it is finished. */
export const STOPS_STREAM: ReadonlySet<string> = new Set(['interrupt', 'terminate', 'kill']);
/** What ends a wait, in which nothing is under way that costs anything. */
export const STOPS_WAIT: ReadonlySet<string> = new Set([...STOPS_STREAM, 'pause']);
/** A tool at work is only killed. */
export const STOPS_TOOL: ReadonlySet<string> = new Set(['kill']);

const LONGEST_TIMER = 2 ** 31 - 1;

/** Milliseconds until the deadline; what was used so far is what the meter says. */
export function timeLeft({ budget: { limits, meter } }: Pick<Thread, 'budget'>): number {
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
  // By hand: a combined signal costs weak references on both sides, for every step.
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
 * Does an act while it may be called off, at the deadline or by those whom `stops` names; `ended` says
 * what came of one that was.
 */
export async function runInTime(
  thread: Interruptible,
  stops: ReadonlySet<string>,
  body: (signal?: AbortSignal) => MaybePromise<Outcome<Value>>,
  ended: (failure: Failure, cause: CalledOff) => Failure,
): Promise<Outcome<Value>> {
  const interruption = await watchForInterruption(thread, stops);
  try {
    // INVARIANT: just before an effect; the lease was looked at a moment ago.
    if (interruption.cause() === 'lost') {
      return fail('stale_epoch', 'this process no longer holds the thread', { sent: false });
    }
    const done = await body(interruption.signal);
    const cause = done.ok ? undefined : interruption.cause();
    if (done.ok || cause === undefined) return done;
    const told = ended(done, cause);
    return cause === 'duration' ? deadlineFault(thread, done) : told;
  } finally {
    interruption.release();
  }
}

/** As the limit it is: hooks may raise it, and without one the run stops. */
export function deadlineFault(thread: Pick<Thread, 'budget'>, { error }: Failure): Failure {
  const max = thread.budget.limits.duration?.value ?? 0n;
  const used = BigInt(Math.ceil(thread.budget.meter.read().duration_ms));
  const current = used > max ? used : max;
  const event = limitEvent('duration', current, max);
  const failure = limitFault(event, current + 1n, error.detail);
  failure.error.detail.message = `limit \`duration\` reached: ${event.current} of ${event.max} seconds; what was under way was stopped`;
  return failure;
}

/** Ends it from outside; what is under way is broken off. The first reason counts. */
export function stopThread({ control, journal, place }: CallRecord, ending: Ending): void {
  const { status: stops, reason, code } = ending;
  // Who is only interrupted goes on later; who ends says where it was stopped.
  if (!control.ending && (stops === 'aborted' || stops === 'terminated' || stops === 'killed')) {
    const kind = stops === 'killed' ? 'kill' : 'terminate';
    const by = place.parent ?? 'a thread below';
    journal.note({ type: 'signal', data: { kind, by, stops, reason, ...(code && { code }) } });
  }
  control.ending ??= ending;
  control.stopped = true;
  control.stopping.abort();
}

/** It ends here at its next boundary: what is under way is finished, what only waits is broken off. */
export function leaveThread({ control }: Pick<Thread, 'control'>, ending: Ending): void {
  control.leaving ??= ending;
  for (const interruption of control.interruptions) interruption.check();
}

/** The parts of a thread that signals change, and the journal that records them. */
export type SignalReceiver = Pick<Thread, 'talk' | 'control' | 'journal'>;

const fieldOf = (payload: Json, ...names: string[]): string =>
  isObject(payload) ? plainText(names.map((name) => payload[name]).find(Boolean) ?? '') : '';

/** The person wants something else than the calls that are still to come: they are left out. */
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
  // Another thread's words carry what it has read; a person's are a person's.
  const given = getOwn(payload, 'marks');
  const marks = isObject(given) ? packMarks(unpackMarks(given)) : packMarks(FROM_USER);
  const events: JournalEvent[] = [
    { type: 'signal', data: { kind, by, id, ...(reason && { reason }) } },
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

/** An end that was asked of the run before this one: whoever resumed the thread wants it to go on. */
const isPast = (signal: Signal, { control }: Pick<Thread, 'control'>): boolean =>
  signal.number <= control.past &&
  (getOwn(signal.payload, 'this_run') === true ||
    (control.hadEnded && endingOf(signal) !== undefined));

/** Injected words go in; a pause, an end or a kill is the run's ending. One stretch for each signal. */
export function handleSignals(thread: SignalReceiver): Ending | undefined {
  const { journal, control } = thread;
  // What was said is heard by whoever goes on with it.
  if (control.leaving) return control.leaving;
  for (const signal of journal.signals()) {
    const events = isPast(signal, thread) ? [] : eventsOf(thread, signal);
    journal.heard(signal.number);
    if (events.length === 0) continue;
    journal.note(events);
    for (const event of events) addToConversation(thread, event);
    const ending = endingOf(signal);
    if (ending) return ending;
  }
  return undefined;
}
