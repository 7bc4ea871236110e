// The codes a tool's `retryable_errors` may name. Faults are open, so an unknown name is worth a
// warning, not an error: a tool may report codes of its own.
import { nearest } from '../base/index.ts';

const CODES: ReadonlySet<string> = new Set(
  (
    'invalid_input invalid_item not_found ambiguous permission_denied signature_invalid timeout ' +
    'cancelled rate_limit network_error quota_exceeded model_unavailable provider_error ' +
    'stream_incomplete outcome_unknown loop_detected stuck tool_failed tool_chain_failed ' +
    'config_invalid dependency_missing sandbox_missing thread_exists spawn_failed ' +
    'mcp_connection_failed hook_failed expression_error http_error internal_error ' +
    // Common names of other systems for what is `network_error` or `rate_limit` here.
    'connection_reset connection_refused connection_error network rate_limited'
  ).split(' '),
);

/** Matched without case; a leading three-digit number is an HTTP status. */
export function isKnownCode(entry: string): boolean {
  return /^[1-5]\d\d(?!\d)/.test(entry) || CODES.has(entry.toLowerCase());
}

export const suggestCode = (entry: string): string | undefined =>
  nearest(entry.toLowerCase(), CODES);
