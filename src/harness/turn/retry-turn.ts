// After a model request that failed: the same again, another model, or nobody knows better than the
// hooks do. A stream that broke off with nothing whole in it is asked for again as often as the tool
// chain says; a rate limit is waited for as long as the time limit allows.
import type { Failure } from '../../base/index.ts';
import type { Retry } from '../../items/index.ts';
import { switchModel } from '../thread/choose-model.ts';
import { timeLeft } from '../thread/interruption.ts';
import type { CalledOff, Thread } from '../thread/thread.ts';

export type NextMove =
  /** Called off by a signal: obey it first. */
  | { do: 'again' }
  | { do: 'wait'; ms: number }
  /** The thread has switched already. */
  | { do: 'fallback' };

/** Codes after which another model may still answer. */
const TRY_OTHER: ReadonlySet<string> = new Set([
  'model_unavailable',
  'provider_error',
  'quota_exceeded',
  'rate_limit',
]);
/** The stream is gone and nothing of it was whole. */
const BROKEN: ReadonlySet<string> = new Set(['stream_incomplete', 'timeout', 'network_error']);
const RATE_WAIT_MS = 5000;

function chainRetry({ ports, talk: { model } }: Thread): Retry | undefined {
  const found = ports.library.find('tool', model.plain_tool);
  return found.ok ? found.output.tool?.retry : undefined;
}

function waitFor(thread: Thread, { error }: Failure, tries: number): number | undefined {
  const { code, detail } = error;
  if (code === 'rate_limit') {
    const asked = detail.retry_after_ms;
    return typeof asked === 'number' ? asked : RATE_WAIT_MS;
  }
  // What the chain itself tried again is not tried again here.
  if (!BROKEN.has(code) || !Array.isArray(detail.completed_tools)) return undefined;
  const retry = chainRetry(thread);
  if (!retry || tries + 1 >= retry.max_attempts) return undefined;
  return retry.backoff_ms[tries] ?? retry.backoff_ms.at(-1) ?? 0;
}

const fallbackOf = ({
  place: { directive },
  talk: { model, triedModels },
}: Thread): string | undefined => {
  const wanted = directive.model?.fallback_id ?? model.fallback;
  return wanted === undefined || triedModels.has(wanted) ? undefined : wanted;
};

export function nextMove(
  thread: Thread,
  failure: Failure,
  calledOff: CalledOff | undefined,
  tries: number,
): NextMove | undefined {
  if (calledOff === 'signal') return { do: 'again' };
  if (calledOff || thread.journal.lost() || thread.control.signal.aborted) return undefined;
  const ms = waitFor(thread, failure, tries);
  if (ms !== undefined && ms < timeLeft(thread)) return { do: 'wait', ms };
  const wanted = TRY_OTHER.has(failure.error.code) ? fallbackOf(thread) : undefined;
  if (wanted === undefined) return undefined;
  thread.talk.triedModels.add(wanted);
  return switchModel(thread, wanted).ok ? { do: 'fallback' } : undefined;
}
