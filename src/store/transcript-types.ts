/** What a line of a transcript can be. */
export const TRANSCRIPT_TYPES = [
  'thread_start',
  'turn_start',
  'turn_end',
  'user_message',
  'assistant_message',
  'tool_call',
  'tool_result',
  'cost_update',
  'hook',
  'permission_denied',
  'limit',
  'warning',
  'loop_detected',
  'retry',
  'model_fallback',
  'spawn',
  'child_end',
  'injected_message',
  'signal',
  'approval',
  'snapshot',
  'error',
  'stream_error',
  'logged',
  'thread_end',
] as const;
export type TranscriptType = (typeof TRANSCRIPT_TYPES)[number];

const KNOWN: ReadonlySet<string> = new Set(TRANSCRIPT_TYPES);

export const isTranscriptType = (type: string): type is TranscriptType => KNOWN.has(type);
