// How a command ends, for whoever called it. The numbers are part of what is promised.
import type { Fault } from '../../base/index.ts';

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  invalid: 3,
  denied: 4,
  limit: 5,
  provider: 6,
  needsInput: 7,
  interrupted: 130,
} as const;

const BY_CODE: Readonly<Record<string, number>> = {
  usage: EXIT.usage,
  invalid_item: EXIT.invalid,
  config_invalid: EXIT.invalid,
  permission_denied: EXIT.denied,
  signature_invalid: EXIT.denied,
  sandbox_missing: EXIT.denied,
  quota_exceeded: EXIT.limit,
  rate_limit: EXIT.provider,
  provider_error: EXIT.provider,
  model_unavailable: EXIT.provider,
  needs_input: EXIT.needsInput,
  cancelled: EXIT.interrupted,
};

export function exitCodeOf(fault: Fault): number {
  const { code, detail } = fault;
  if (code === 'expression_error') return detail.kind === 'syntax' ? EXIT.invalid : EXIT.failed;
  if (code.endsWith('_exceeded')) return EXIT.limit;
  return BY_CODE[code] ?? EXIT.failed;
}
