// Decides whether a failed attempt may be repeated. A repeated side effect is worse than an error, so a tool
// with `effect: write` is repeated only if nothing can have happened yet, or if its author listed the code.
import type { Failure, Outcome } from '../../base/index.ts';
import type { ToolEffect } from '../../flow/index.ts';
import type { Retry } from '../../items/index.ts';

export interface RetryPorts {
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** Names in tool files that mean a code of the runtime. */
const CODE_ALIASES: Readonly<Record<string, string>> = {
  connection_reset: 'network_error',
  connection_refused: 'network_error',
  connection_error: 'network_error',
  network: 'network_error',
  mcp_connection_failed: 'network_error',
  rate_limited: 'rate_limit',
};
/** Codes of the runtime. No module can report them. */
const TRANSIENT = ['network_error', 'rate_limit', 'mcp_connection_failed'];
const MAX_WAIT_MS = 60_000;

const lower = (code: string): string => {
  const name = code.toLowerCase();
  return CODE_ALIASES[name] ?? name;
};

/** True if an entry such as `TIMEOUT` or `503_SERVICE_UNAVAILABLE` matches this failure. */
function matchesDeclared(failure: Failure, declared: readonly string[]): boolean {
  const { code, detail } = failure.error;
  // A code that a module reported counts only here, because the author of the tool listed it.
  const codes = [code, ...(typeof detail.reported === 'string' ? [detail.reported] : [])].map(
    lower,
  );
  return declared.some((entry) => {
    const status = /^(\d{3})(?!\d)/.exec(entry)?.[1];
    return status === undefined ? codes.includes(lower(entry)) : Number(status) === detail.status;
  });
}

function mayRetry(failure: Failure, retry: Retry, effect: ToolEffect, delivered: number): boolean {
  const { code, detail } = failure.error;
  if (code === 'stream_incomplete' || code === 'cancelled') return false;
  // The failing part declares that it would fail again.
  if (detail.retryable === false) return false;
  if (delivered > 0 && effect === 'write') return false;
  if (matchesDeclared(failure, retry.retryable_errors)) return true;
  const status = typeof detail.status === 'number' ? detail.status : 0;
  // The failing part declares that a repetition may help.
  const isTransient = TRANSIENT.includes(code) || Math.floor(status / 100) === 5;
  // The call was refused before it was sent, or rejected by the server, so it cannot have had an effect.
  const isHarmless = code === 'rate_limit' || detail.sent === false || status === 503;
  return isTransient && (effect !== 'write' || isHarmless);
}

/** Returns the declared pause, or the pause that the server requested if that is longer. */
function pauseBefore(failure: Failure, retry: Retry, attempt: number): number {
  const steps = retry.backoff_ms;
  const declared = steps[Math.min(attempt - 1, steps.length - 1)] ?? 0;
  const requested = failure.error.detail.retry_after_ms;
  return Math.min(MAX_WAIT_MS, Math.max(declared, typeof requested === 'number' ? requested : 0));
}

/** Runs `attempt` until it succeeds, fails finally, or no attempts remain. */
export async function withRetry<T>(
  retry: Retry,
  effect: ToolEffect,
  delivered: () => number,
  attempt: () => Promise<Outcome<T>>,
  signal: AbortSignal,
  ports: RetryPorts,
): Promise<Outcome<T>> {
  for (let count = 1; ; count++) {
    const result = await attempt();
    if (result.ok) return result;
    const last = count >= retry.max_attempts || signal.aborted;
    if (last || !mayRetry(result, retry, effect, delivered())) {
      if (count > 1) result.error.detail.attempts = count;
      return result;
    }
    await ports.sleep(pauseBefore(result, retry, count), signal);
    if (signal.aborted) return result;
  }
}
