// Handles one thread that a worker has taken: it resumes the thread if it has the same items, and releases
// it otherwise. INVARIANT: the thread always runs here, is queued, or has a lease that expires, so it is
// never lost. A released thread always waits before its next try.
import {
  type Clock,
  createRecent,
  type Failure,
  fail,
  messageOf,
  type Outcome,
} from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import type { Threads } from '@kernmantle/core/runtime';
import {
  isEnded,
  type LeasedThread,
  type Store,
  type ThreadStatus,
  type WorkerRow,
} from '@kernmantle/core/store';
import {
  countCrashes,
  describeLastEffect,
  lastWorker,
  MAX_CRASHES,
  recordReturned,
  recordWorker,
} from './worker-log.ts';

/** A tick of a schedule. An empty `thread`: it started no run, for this reason. */
interface FireNews {
  readonly schedule: string;
  readonly outcome: string;
  readonly thread: string;
  readonly reason: string;
}

/** A project on the disk of a worker, and the runtime that resumes its threads. */
export interface WorkerProject {
  /** Stable id of the project. It is the same on every machine. */
  readonly id: string;
  /** Returns the digest of the present items. */
  items(): Promise<Outcome<string>>;
  readonly threads: Pick<Threads, 'resumeLeased' | 'requeueAll'>;
  /** Fires the schedules of the project. Absent: it has none. */
  readonly fireDue?: (tenant: string, tell: (news: FireNews) => void) => Promise<Outcome<number>>;
  /** True: files differ between workers, so a thread stays with its first worker while that worker is alive. */
  readonly isSticky?: boolean;
  close(): Promise<void>;
}

export type WorkerNews =
  | {
      readonly kind: 'claimed';
      readonly thread: string;
      readonly directive: string;
      readonly project: string;
      readonly tenant: string;
    }
  | {
      readonly kind: 'done' | 'parked';
      readonly thread: string;
      readonly status: ThreadStatus;
      readonly reason: string;
      readonly ms: number;
    }
  | {
      readonly kind: 'handed_back';
      readonly thread: string;
      readonly code: string;
      readonly reason: string;
      readonly again_ms: number;
    }
  /** The owner is another process or unknown, so this worker records nothing. */
  | {
      readonly kind: 'let_go';
      readonly thread: string;
      readonly code: string;
      readonly reason: string;
    }
  | ({ readonly kind: 'schedule' } & FireNews)
  | { readonly kind: 'store_gone'; readonly code: string; readonly reason: string }
  | { readonly kind: 'store_back'; readonly after_ms: number }
  | { readonly kind: 'draining'; readonly busy: number };

/** Services and caches that all parts of a worker share. */
export interface Shift {
  readonly worker: string;
  readonly store: Store;
  readonly projects: ReadonlyMap<string, WorkerProject>;
  readonly clock: Clock;
  /** Returns a random number from 0 to 1. */
  readonly random: () => number;
  readonly tell: (news: WorkerNews) => void;
  readonly delays: Delays;
  /** Time since which a thread waits for the worker that has its files. */
  readonly leftSince: ReturnType<typeof createRecent<string, number>>;
  /** Reason of the last release of a thread by this worker. */
  readonly returned: ReturnType<typeof createRecent<string, string>>;
  /** Other workers of this store. They are cached for some seconds unless `fresh`. */
  peers(how?: { fresh: true }): Promise<readonly WorkerRow[]>;
  isDraining(): boolean;
}

interface Delays {
  /** Returns the wait before another try, which is longer each time. */
  next(about: string, fromMs: number, toMs: number): number;
  forget(about: string): void;
}

export const MAX_REMEMBERED = 10_000;

/** Creates backoffs. A random part separates the tries of threads that were refused together. */
export function createDelays(random: () => number): Delays {
  const tries = createRecent<string, number>(MAX_REMEMBERED);
  return {
    next(about, fromMs, toMs) {
      const count = tries.get(about) ?? 0;
      tries.set(about, count + 1);
      const most = Math.min(toMs, fromMs * 2 ** Math.min(count, 30));
      return Math.round(Math.min(toMs, most * (1 + random() / 2)));
    },
    forget(about) {
      if (tries.get(about) !== undefined) tries.set(about, 0);
    },
  };
}

const [FIRST_MS, LAST_MS] = [1000, 60_000];
/** Backoff of a thread that another worker can take at once. */
const [SOON_MS, SOON_LAST_MS] = [100, 2000];
/** Time that a thread waits for its earlier worker. Then any worker resumes it. */
const LEAVE_MS = 10_000;

/**
 * Codes after which this worker has no lease to release. `lease_expired` is not one of them: the next claim
 * shows if another process has the thread.
 */
const NOT_OURS: ReadonlySet<string> = new Set([
  'stale_epoch',
  'conflict',
  'lease_held',
  'thread_ended',
  'not_found',
  'store_unknown',
  'store_closed',
]);

/** Longer than a start takes. The run then renews the lease. */
export const TAKE_MS = 30_000;

interface Refusal {
  failure: Failure;
  delayMs: number;
}

const reportLost = ({ tell }: Shift, thread: string, { error }: Failure): void =>
  tell({ kind: 'let_go', thread, code: error.code, reason: error.detail.message });

async function releaseLater(
  shift: Shift,
  leased: LeasedThread,
  { failure, delayMs }: Refusal,
): Promise<void> {
  const { store, tell } = shift;
  const { code, detail } = failure.error;
  const released = await store.release(leased, { again: true, delayMs });
  // The lease is not renewed, so a sweep finds the thread after its end.
  if (!released.ok) return reportLost(shift, leased.thread, released);
  tell({
    kind: 'handed_back',
    thread: leased.thread,
    code,
    reason: detail.message,
    again_ms: delayMs,
  });
}

/** Compares the items of the project with those of the start of the thread. */
async function checkItems(
  shift: Shift,
  project: WorkerProject,
  { row }: LeasedThread,
): Promise<Refusal | undefined> {
  const items = await project.items();
  if (!items.ok) {
    return {
      failure: items,
      delayMs: shift.delays.next(`project ${project.id}`, FIRST_MS, LAST_MS),
    };
  }
  if (row.items === undefined || row.items === items.output) return undefined;
  const isServing = ({ id, draining, projects }: WorkerRow): boolean => {
    const has = projects.some((one) => one.project === project.id && one.items === row.items);
    return id !== shift.worker && !draining && has;
  };
  // A new worker must not wait for a long backoff, so the second check reads the workers again.
  const isServed =
    (await shift.peers()).some(isServing) || (await shift.peers({ fresh: true })).some(isServing);
  const message = `the thread was started with other items (${row.items}) than this worker has (${items.output}); ${
    isServed ? 'another worker has them' : 'no worker serves it with those'
  }`;
  const about = `items ${project.id} ${row.items} ${isServed}`;
  const delayMs = isServed
    ? shift.delays.next(about, SOON_MS, SOON_LAST_MS)
    : shift.delays.next(about, FIRST_MS, LAST_MS);
  return { failure: fail('items_differ', message), delayMs };
}

/** Refuses a thread of a sticky project while its earlier worker is alive and takes threads. */
async function checkPlace(
  shift: Shift,
  project: WorkerProject,
  { thread, row }: LeasedThread,
): Promise<Refusal | undefined> {
  if (!project.isSticky || row.status === 'spawning') return undefined;
  const earlier = await lastWorker(shift.store, thread);
  if (earlier === undefined || earlier === shift.worker) return undefined;
  const peers = await shift.peers();
  const lives = peers.some(({ id, draining }) => id === earlier && !draining);
  const about = `place ${thread}`;
  const since = shift.leftSince.get(thread) ?? shift.leftSince.set(thread, shift.clock.monotonic());
  if (!lives || shift.clock.monotonic() - since > LEAVE_MS) return undefined;
  const failure = fail('other_place', `worker ${earlier} started the thread and has its files`);
  return { failure, delayMs: shift.delays.next(about, SOON_MS, SOON_LAST_MS) };
}

/** Ends a thread whose process crashed too often, so that a person looks at it before a retry. */
async function endPoisoned(shift: Shift, leased: LeasedThread, crashes: number): Promise<void> {
  const { store, worker, tell } = shift;
  const { thread, row } = leased;
  const tail = await store.read(thread, { last: 100 });
  const where = tail.ok ? describeLastEffect(tail.output) : '';
  const reason = `the process of the thread was lost ${crashes} times ${where} without progress`;
  const { endUnattended } = await import('@kernmantle/core/harness');
  const ended = await endUnattended(store, thread, 'failed', worker, { reason });
  if (!ended.ok) return reportLost(shift, thread, ended);
  if (row.parent !== undefined) {
    const payload = { thread_id: thread, status: 'failed' };
    const signal = { thread: row.parent, kind: 'child_end', payload, key: `child_end:${thread}` };
    await store.signal({ ...signal, by: worker });
  }
  tell({ kind: 'done', thread, status: 'failed', reason, ms: 0 });
}

/** Queues a refused thread again for later, also if its lease was already released. */
async function releaseRefused(
  shift: Shift,
  leased: LeasedThread,
  failure: Failure,
  isNoted: boolean,
): Promise<void> {
  const { store, worker, delays, returned } = shift;
  const why = failure.error.detail.message;
  if (NOT_OURS.has(failure.error.code)) return reportLost(shift, leased.thread, failure);
  const again = await store.claim(leased.thread, { owner: worker, ttlMs: TAKE_MS });
  if (!again.ok) return reportLost(shift, leased.thread, again);
  // The journal gets each reason once, because the thread can come back for hours.
  if (isNoted || returned.get(leased.thread) !== why) {
    await recordReturned(store, again.output, worker, why);
    returned.set(leased.thread, why);
  }
  const delayMs = delays.next(`thread ${leased.thread}`, FIRST_MS, LAST_MS);
  await releaseLater(shift, again.output, { failure, delayMs });
}

async function resumeTaken(
  { threads }: WorkerProject,
  leased: LeasedThread,
  since: number,
): Promise<Outcome<ThreadResult>> {
  try {
    return await threads.resumeLeased(leased, since);
  } catch (error) {
    return fail('internal_error', messageOf(error));
  }
}

/** Runs a taken thread until it is parked, ends, or belongs to another process. Never rejects. */
export async function workOn(shift: Shift, taken: LeasedThread, since: number): Promise<void> {
  const { store, worker, tell, clock, delays } = shift;
  const { thread, row } = taken;
  const project = shift.projects.get(row.project);
  // The worker started to drain while it took the thread.
  if (shift.isDraining() || !project) return void (await store.release(taken, { again: true }));
  const refused =
    (await checkItems(shift, project, taken)) ?? (await checkPlace(shift, project, taken));
  if (refused) return await releaseLater(shift, taken, refused);
  const check = await countCrashes(store, taken, worker);
  if (!check.ok) return await releaseRefused(shift, taken, check, false);
  const { crashes, isNoted } = check.output;
  if (crashes >= MAX_CRASHES) return await endPoisoned(shift, taken, crashes);
  const isNew = project.isSticky && row.status === 'spawning';
  const placed = isNew ? await recordWorker(store, check.output.held, worker) : undefined;
  if (placed && !placed.ok) return await releaseRefused(shift, taken, placed, isNoted);
  const leased = placed?.output ?? check.output.held;
  const { directive, tenant = '' } = row;
  tell({ kind: 'claimed', thread, directive, project: project.id, tenant });
  const start = clock.monotonic();
  const result = await resumeTaken(project, leased, since);
  if (!result.ok) return await releaseRefused(shift, leased, result, isNoted);
  for (const about of ['thread', 'place']) delays.forget(`${about} ${thread}`);
  const { status, reason } = result.output;
  const kind = isEnded(status) ? 'done' : 'parked';
  tell({ kind, thread, status, reason, ms: Math.round(clock.monotonic() - start) });
}
