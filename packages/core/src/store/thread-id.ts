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

/** A thread with one of these statuses revokes what it and the threads below it are allowed to do. */
export const REVOKING: readonly ThreadStatus[] = ['aborted', 'terminated', 'killed'];

/**
 * Why a `status` event was recorded by a store or a worker. A process that is certainly gone was lost. A
 * lease that expired says nothing about its process: it can be alive and late.
 */
export const STATUS_CAUSES = [
  'process_lost',
  'lease_expired',
  'taken',
  'returned',
  'placed',
] as const;

/** Text of each cause for people, where a sweep interrupts a thread. */
export const INTERRUPTED_REASONS = {
  process_lost: 'its process is gone',
  lease_expired: 'its lease expired',
} as const;

/** Data of the event with which a sweep interrupts a thread. No `owner`: the thread had no lease. */
export function interruption(owner: string | undefined, isGone: boolean) {
  const cause = owner === undefined || isGone ? 'process_lost' : 'lease_expired';
  const reason = INTERRUPTED_REASONS[cause];
  return { status: 'interrupted', cause, reason, ...(owner !== undefined && { owner }) };
}

/** A thread id names a folder and appears in commands, so it has plain characters only. */
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
    `thread id \`${shown}\` must be 1 to 80 letters, digits, _ and -; try \`${suggestion}\``,
    { suggestion },
  );
}

export const noThread = (id: string): Failure =>
  fail('not_found', `thread \`${id}\` not found`, { thread: id });

export const threadExists = (id: string): Failure =>
  fail('thread_exists', `thread \`${id}\` already exists`, { thread: id });

export const secretExists = (thread: string, number: number): Failure => {
  const message = `secret ${number} of thread \`${thread}\` already exists: another process owns the lease`;
  return fail('conflict', message, { thread });
};
