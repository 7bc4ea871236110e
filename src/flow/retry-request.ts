// A guard's `retry` on its way to the nearest owner of a retry budget. It travels as a failure, so
// that everything between guard and owner unwinds as it would for any fault.
import { type Failure, type Fault, fail } from '../base/index.ts';
import type { RetryBudget } from './frame.ts';

export const RETRY_CODE = 'retry_requested';

/** Calls, assignments and tool calls; pipeline stages bring their own budgets. */
export const MAX_ATTEMPTS = 3;

const OWNER = Symbol('owner');

export function requestRetry(owner: RetryBudget, guard: string, hint: string): Failure {
  const failure = fail(RETRY_CODE, `guard ${guard} asks for another attempt: ${hint}`, {
    guard,
    hint,
  });
  Object.assign(failure.error.detail, { [OWNER]: owner });
  return failure;
}

/** The hint, when this fault asks exactly this owner to try again. */
export function retryHint(fault: Fault, owner: RetryBudget): string | undefined {
  if (fault.code !== RETRY_CODE) return undefined;
  const { detail } = fault;
  const isOurs = (detail as { [OWNER]?: RetryBudget })[OWNER] === owner;
  return isOurs && typeof detail.hint === 'string' ? detail.hint : undefined;
}
