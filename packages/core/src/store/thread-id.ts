import { type Failure, fail, type Outcome, ok } from '../base/index.ts';

/** All statuses of a thread, in the registry and in results. */
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

/** Returns true for a final status. `needs_input` is not final, because a person can answer. */
export const isEnded = (status: ThreadStatus): boolean => ENDED.has(status);

/** Statuses of a running thread. Such a thread without a lease was interrupted. */
export const AT_WORK: readonly ThreadStatus[] = ['spawning', 'running', 'terminating'];

/** A thread with one of these statuses revokes what it and the threads below it are allowed to do. */
export const REVOKING: readonly ThreadStatus[] = ['aborted', 'terminated', 'killed'];

/**
 * Reasons for a `status` event of a store or a worker. `process_lost`: the process is certainly gone.
 * `lease_expired`: the process can still be alive, but it is late.
 */
export const STATUS_CAUSES = [
  'process_lost',
  'lease_expired',
  'taken',
  'returned',
  'placed',
] as const;

/** Text for people of each cause for which a sweep interrupts a thread. */
export const INTERRUPTED_REASONS = {
  process_lost: 'its process is gone',
  lease_expired: 'its lease expired',
} as const;

/** Returns the data of the event of an interruption. Without `owner`, the thread had no lease. */
export function interruption(owner: string | undefined, isGone: boolean) {
  const cause = owner === undefined || isGone ? 'process_lost' : 'lease_expired';
  const reason = INTERRUPTED_REASONS[cause];
  return { status: 'interrupted', cause, reason, ...(owner !== undefined && { owner }) };
}

/** A thread id is the name of a folder and part of commands, so it has plain characters only. */
const VALID = /^[A-Za-z0-9_-]{1,80}$/;

/** Returns a valid id unchanged. Fails with `invalid_input` and a `suggestion`. */
export function parseThreadId(text: string): Outcome<string> {
  if (VALID.test(text)) return ok(text);
  const suggestion =
    text
      .replace(/[^A-Za-z0-9_-]+/g, '_')
      .replace(/^_+|_+$/g, '')
      .slice(0, 80) || 'thread';
  const preview = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  return fail(
    'invalid_input',
    `thread id \`${preview}\` must be 1 to 80 letters, digits, _ and -; try \`${suggestion}\``,
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
