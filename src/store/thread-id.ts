import { type Failure, fail, type Outcome, ok } from '../base/index.ts';

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

// Thread ids name folders and appear in commands, so they are plain by construction.

const VALID = /^[A-Za-z0-9_-]{1,80}$/;

/** The id as it is, or `invalid_input` with a `suggestion`. */
export function parseThreadId(text: string): Outcome<string> {
  if (VALID.test(text)) return ok(text);
  const suggestion =
    text
      .replace(/[^A-Za-z0-9_-]+/g, '_')
      .replace(/^_+|_+$/g, '')
      .slice(0, 80) || 'thread';
  const shown = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  return fail(
    'invalid_input',
    `thread id \`${shown}\` may hold only letters, digits, _ and -, 1 to 80 of them; try \`${suggestion}\``,
    { suggestion },
  );
}

export const noThread = (id: string): Failure =>
  fail('not_found', `there is no thread \`${id}\``, { thread: id });
