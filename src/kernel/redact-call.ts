import type { Failure, Fault, JsonObject } from '../base/index.ts';
import { createRedactor } from './http-redact.ts';
import type { PrimitiveResult } from './primitive.ts';

/** A fault without the call's secrets, in whatever form it quotes them. */
export function redactFailure(failure: Failure, secrets: readonly string[]): Failure {
  const redact = createRedactor(secrets);
  if (redact.isIdle) return failure;
  const detail = redact(failure.error.detail as JsonObject) as Fault['detail'];
  return { ...failure, error: { ...failure.error, detail } };
}

export function redactResult(result: PrimitiveResult, secrets: readonly string[]): PrimitiveResult {
  const redact = createRedactor(secrets);
  if (redact.isIdle) return result;
  const { output, sources } = result;
  return {
    ...result,
    output: redact(output),
    ...(sources ? { sources: redact([...sources]) } : {}),
  };
}
