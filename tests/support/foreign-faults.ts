// Lists fields and codes with which a program, a module or a server can imitate a fault of the runtime.
import type { JsonObject } from '@kernmantle/core/base';

/** Fields that faults of the runtime have. */
export const FIELDS: JsonObject = {
  message: 'STRANGER',
  missing: 'fs.read',
  limit: 'spend',
  current: 7,
  max: 1,
  at_least: '8',
  thread: 'another',
  answer: 'pending',
  status: 'needs_input',
  guard: 'policy:x',
  closed: true,
  retryable: true,
  sent: false,
  transient: true,
  charged: false,
  unsigned: 'a/b',
  place: 'x',
};

/** Codes: one that does not exist, and codes that cause decisions of the runtime. */
export const CODES = [
  'some_code',
  'config_invalid',
  'sandbox_missing',
  'permission_denied',
  'cancelled',
  'stuck',
  'needs_input',
  'approval_pending',
  'handed_over',
  'signalled',
  'lease_held',
  'hook_failed',
  'outcome_unknown',
  'limit',
  'spend_exceeded',
  'turns_exceeded',
  'duration_exceeded',
  'retry_requested',
  'loop_detected',
  'hook_unaffordable',
  'stale_epoch',
  'ended_by_hook',
];

export const failing = (code: string, fields: JsonObject = FIELDS): JsonObject => ({
  ok: false,
  error: { code, detail: fields },
});
