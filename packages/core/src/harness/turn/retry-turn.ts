// Decides what follows a failed model request: a retry, another model, or the hooks. Each try is reserved,
// charged and recorded by itself. `retries` of `limits.yaml` has the backoff: a busy provider that charges
// nothing is asked again for minutes, a request that may be charged only a few times.
import { type Failure, getOwn, type Json, numberAt } from '../../base/index.ts';
import { acceptsFiles } from '../files/fit-files.ts';
import { modelFor, switchModel } from '../thread/choose-model.ts';
import { timeLeft } from '../thread/interruption.ts';
import type { CalledOff, DirectiveTalk, HarnessPorts, Thread } from '../thread/thread.ts';

export type NextMove =
  /** A signal stopped the request and is handled first. */
  | { do: 'again' }
  /** `seals`: the next request has no seals. */
  | { do: 'wait'; ms: number; seals?: 'off' }
  /** The thread has switched to another model. */
  | { do: 'fallback' };

export interface Tries {
  readonly count: number;
  /** Number of tries of the current model. */
  readonly ofModel: number;
  /** Number of tries that may have been charged. */
  readonly costly: number;
  readonly waitedMs: number;
}

export const NO_TRIES: Tries = { count: 0, ofModel: 0, costly: 0, waitedMs: 0 };

export const nextTries = (tries: Tries, move: NextMove, isCostly: boolean): Tries => ({
  count: tries.count + 1,
  ofModel: move.do === 'fallback' ? 0 : tries.ofModel + 1,
  costly: tries.costly + (isCostly ? 1 : 0),
  waitedMs: tries.waitedMs + (move.do === 'wait' ? move.ms : 0),
});

/** Codes after which another model can answer. */
const TRY_OTHER: ReadonlySet<string> = new Set([
  'model_unavailable',
  'provider_error',
  'quota_exceeded',
  'rate_limit',
]);
const BROKEN: ReadonlySet<string> = new Set(['stream_incomplete', 'timeout', 'network_error']);

interface Backoff {
  readonly pausesMs: readonly number[];
  readonly patienceMs: number;
  /** Maximum number of tries that may be charged or reach no provider. */
  readonly most: number;
  readonly fallbackAfter: number;
  readonly longestWaitMs: number;
}

/** Reads the backoff, which the file has in seconds. */
function backoffOf({ library }: HarnessPorts): Backoff {
  const data = getOwn(library.config('limits').value, 'retries');
  const figure = (name: string, otherwise: number): number => numberAt(data, name) ?? otherwise;
  const listed: Json = getOwn(data, 'pauses') ?? null;
  const pauses = Array.isArray(listed) ? listed.map(Number).filter(Number.isFinite) : [];
  return {
    pausesMs: (pauses.length > 0 ? pauses : [2]).map((pause) => pause * 1000),
    patienceMs: figure('patience', 600) * 1000,
    most: figure('tries', 3),
    fallbackAfter: figure('fallback_after', 3),
    longestWaitMs: figure('longest_wait', 60) * 1000,
  };
}

/** Returns the wait before the same request is tried again. `undefined`: it is not tried again. */
function waitFor(
  { error: { code, detail } }: Failure,
  tries: Tries,
  isCostly: boolean,
  { pausesMs, patienceMs, most }: Backoff,
): number | undefined {
  const requestedMs = typeof detail.retry_after_ms === 'number' ? detail.retry_after_ms : 0;
  // This is a limit of this process, not of the provider. The wait for it costs nothing.
  if (code === 'shared_limit') return detail.transient === true ? requestedMs : undefined;
  const isBroken = BROKEN.has(code) && detail.transient !== true;
  if (!isBroken && detail.transient !== true && code !== 'rate_limit') return undefined;
  const pause = pausesMs[Math.min(tries.ofModel, pausesMs.length - 1)] ?? 0;
  const ms = Math.max(requestedMs, pause);
  const isPatient = !isCostly && !isBroken;
  const goesOn = isPatient ? tries.waitedMs + ms <= patienceMs : tries.count + 1 < most;
  return goesOn ? ms : undefined;
}

/** Returns the model that can answer instead. A model that does not accept the files of the request is skipped. */
function fallbackOf(thread: DirectiveTalk): string | undefined {
  const { model, triedModels, compact, conversation } = thread.talk;
  // A summary can be left out, so it changes no model.
  if (compact) return undefined;
  const fallback = thread.place.directive.model?.fallback_id ?? model.fallback;
  if (fallback === undefined || triedModels.has(fallback)) return undefined;
  if (!conversation.hasFiles()) return fallback;
  const other = modelFor(thread.ports, fallback);
  return other.ok && acceptsFiles(thread, other.output) ? fallback : undefined;
}

export function nextMove(
  thread: Thread,
  failure: Failure,
  calledOff: CalledOff | undefined,
  tries: Tries,
  isCostly: boolean,
): NextMove | undefined {
  // The journal has the recorded move, because keys, time and signals can differ in a replay.
  const recorded = thread.ports.replay?.move(thread.place.id);
  if (calledOff === 'signal' || recorded === 'again') return { do: 'again' };
  if (calledOff || thread.journal.lost() || thread.control.signal.aborted) return undefined;
  if (recorded === 'none') return undefined;
  if (failure.error.detail.reason === 'seal_rejected' && !thread.talk.areSealsOff) {
    thread.talk.areSealsOff = true;
    return { do: 'wait', ms: 0, seals: 'off' };
  }
  if (typeof recorded === 'number') return { do: 'wait', ms: recorded };
  const backoff = backoffOf(thread.ports);
  const ms = waitFor(failure, tries, isCostly, backoff);
  const mayWait = recorded === undefined && ms !== undefined && ms < timeLeft(thread);
  const fallback = TRY_OTHER.has(failure.error.code) ? fallbackOf(thread) : undefined;
  const isPatientYet =
    tries.ofModel + 1 < backoff.fallbackAfter && (ms ?? 0) <= backoff.longestWaitMs;
  if (mayWait && (fallback === undefined || isPatientYet)) return { do: 'wait', ms };
  if (fallback === undefined) return undefined;
  thread.talk.triedModels.add(fallback);
  if (switchModel(thread, fallback).ok) return { do: 'fallback' };
  return mayWait ? { do: 'wait', ms } : undefined;
}
