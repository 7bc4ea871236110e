/** One list for the registry and for results. */
export const THREAD_STATUSES = [
  'spawning',
  'running',
  'paused',
  'waiting',
  'needs_input',
  'interrupted',
  'completed',
  'failed',
  'limit',
  'denied',
  'aborted',
  'terminating',
  'terminated',
  'killed',
] as const;
export type ThreadStatus = (typeof THREAD_STATUSES)[number];

const ENDED: ReadonlySet<ThreadStatus> = new Set<ThreadStatus>([
  'completed',
  'failed',
  'limit',
  'denied',
  'aborted',
  'terminated',
  'killed',
]);

/** Nothing will be done any more. `needs_input` is not an end: a person can answer. */
export const isEnded = (status: ThreadStatus): boolean => ENDED.has(status);

/** Somebody must be at work on it: without a lease such a thread was interrupted. */
export const AT_WORK: readonly ThreadStatus[] = ['spawning', 'running', 'terminating'];
