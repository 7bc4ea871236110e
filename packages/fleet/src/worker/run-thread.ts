// Handles one thread that a worker has taken: it resumes the thread if it has the same items, and releases
// it otherwise. INVARIANT: the thread always runs here, is queued, or has a lease that expires, so it is
// never lost. It is never tried again at once.
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

/** A project on the disk of a worker, and the runtime that resumes its threads. */
export interface WorkerProject {
  /** Stable id of the project. It is the same on every machine. */
  readonly id: string;
  /** Digest of its items as they are now. */
  items(): Promise<Outcome<string>>;
  readonly threads: Pick<Threads, 'resumeLeased' | 'requeueAll'>;
  /** The files differ between workers, so a thread stays with its first worker while that lives. */
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
  /** Why a thread was handed back from here the last time. */
  readonly returned: ReturnType<typeof createRecent<string, string>>;
  /** Other workers of this store. They are cached for some seconds unless `fresh`. */
  peers(how?: { fresh: true }): Promise<readonly WorkerRow[]>;
  isDraining(): boolean;
}

interface Delays {
  /** How long to wait before this is tried again: longer each time. */
  next(about: string, fromMs: number, toMs: number): number;
  forget(about: string): void;
}

export const MAX_REMEMBERED = 10_000;

/** By half more at random, so that what was refused together does not come back together. */
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
/** Somebody else can have it at once. */
const [SOON_MS, SOON_LAST_MS] = [100, 2000];
/** So long a thread is left to the one that had it, then it goes on anywhere. */
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

const letGo = ({ tell }: Shift, thread: string, { error }: Failure): void =>
  tell({ kind: 'let_go', thread, code: error.code, reason: error.detail.message });

async function handBack(
  shift: Shift,
  held: LeasedThread,
  { failure, delayMs }: Refusal,
): Promise<void> {
  const { store, tell } = shift;
  const { code, detail } = failure.error;
  const released = await store.release(held, { again: true, delayMs });
  // The lease is not renewed, so a sweep finds the thread after its end.
  if (!released.ok) return letGo(shift, held.thread, released);
  tell({
    kind: 'handed_back',
    thread: held.thread,
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
  // A worker that came since the last look must not wait for a long backoff to end.
  const isServed =
    (await shift.peers()).some(isServing) || (await shift.peers({ fresh: true })).some(isServing);
  const message = `it was started with other items (${row.items}) than this worker has (${items.output}); ${
    isServed ? 'another worker has them' : 'no worker serves it with those'
  }`;
  const about = `items ${project.id} ${row.items} ${isServed}`;
  const delayMs = isServed
    ? shift.delays.next(about, SOON_MS, SOON_LAST_MS)
    : shift.delays.next(about, FIRST_MS, LAST_MS);
  return { failure: fail('items_differ', message), delayMs };
}

/** In a project whose files differ: the one that began it lives and takes threads, so it goes on there. */
async function checkPlace(
  shift: Shift,
  project: WorkerProject,
  { thread, row }: LeasedThread,
): Promise<Refusal | undefined> {
  if (!project.isSticky || row.status === 'spawning') return undefined;
  const holder = await lastWorker(shift.store, thread);
  if (holder === undefined || holder === shift.worker) return undefined;
  const peers = await shift.peers();
  const lives = peers.some(({ id, draining }) => id === holder && !draining);
  const about = `place ${thread}`;
  const since = shift.leftSince.get(thread) ?? shift.leftSince.set(thread, shift.clock.monotonic());
  if (!lives || shift.clock.monotonic() - since > LEAVE_MS) return undefined;
  const failure = fail('other_place', `it was begun by ${holder}, where its files are`);
  return { failure, delayMs: shift.delays.next(about, SOON_MS, SOON_LAST_MS) };
}

/** Ends a thread whose process crashed too often, so that a person looks at it before a retry. */
async function endPoisoned(shift: Shift, held: LeasedThread, crashes: number): Promise<void> {
  const { store, worker, tell } = shift;
  const { thread, row } = held;
  const tail = await store.read(thread, { last: 100 });
  const where = tail.ok ? describeLastEffect(tail.output) : '';
  const reason = `the process that worked on it was lost ${crashes} times ${where}, and it got no further`;
  const { endUnattended } = await import('@kernmantle/core/harness');
  const ended = await endUnattended(store, thread, 'failed', worker, { reason });
  if (!ended.ok) return letGo(shift, thread, ended);
  if (row.parent !== undefined) {
    const payload = { thread_id: thread, status: 'failed' };
    const told = { thread: row.parent, kind: 'child_end', payload, key: `child_end:${thread}` };
    await store.signal({ ...told, by: worker });
  }
  tell({ kind: 'done', thread, status: 'failed', reason, ms: 0 });
}

/** Refused in good order: queued again later. Whether it was let go already is all the same. */
async function giveBackRefused(
  shift: Shift,
  held: LeasedThread,
  failure: Failure,
  isNoted: boolean,
): Promise<void> {
  const { store, worker, delays, returned } = shift;
  const why = failure.error.detail.message;
  if (NOT_OURS.has(failure.error.code)) return letGo(shift, held.thread, failure);
  const again = await store.claim(held.thread, { owner: worker, ttlMs: TAKE_MS });
  if (!again.ok) return letGo(shift, held.thread, again);
  // Said once in its journal: it may come back for hours.
  if (isNoted || returned.get(held.thread) !== why) {
    await recordReturned(store, again.output, worker, why);
    returned.set(held.thread, why);
  }
  const delayMs = delays.next(`thread ${held.thread}`, FIRST_MS, LAST_MS);
  await handBack(shift, again.output, { failure, delayMs });
}

async function resumeTaken(
  { threads }: WorkerProject,
  held: LeasedThread,
  since: number,
): Promise<Outcome<ThreadResult>> {
  try {
    return await threads.resumeLeased(held, since);
  } catch (error) {
    return fail('internal_error', messageOf(error));
  }
}

/** Until it rests or ends, or is somebody else's. Never rejects. */
export async function workOn(shift: Shift, taken: LeasedThread, since: number): Promise<void> {
  const { store, worker, tell, clock, delays } = shift;
  const { thread, row } = taken;
  const project = shift.projects.get(row.project);
  // The worker began to drain while it took the thread.
  if (shift.isDraining() || !project) return void (await store.release(taken, { again: true }));
  const refused =
    (await checkItems(shift, project, taken)) ?? (await checkPlace(shift, project, taken));
  if (refused) return await handBack(shift, taken, refused);
  const looked = await countCrashes(store, taken, worker);
  if (!looked.ok) return await giveBackRefused(shift, taken, looked, false);
  const { crashes, isNoted } = looked.output;
  if (crashes >= MAX_CRASHES) return await endPoisoned(shift, taken, crashes);
  const isNew = project.isSticky && row.status === 'spawning';
  const placed = isNew ? await recordWorker(store, looked.output.held, worker) : undefined;
  if (placed && !placed.ok) return await giveBackRefused(shift, taken, placed, isNoted);
  const held = placed?.output ?? looked.output.held;
  const { directive, tenant = '' } = row;
  tell({ kind: 'claimed', thread, directive, project: project.id, tenant });
  const begun = clock.monotonic();
  const done = await resumeTaken(project, held, since);
  if (!done.ok) return await giveBackRefused(shift, held, done, isNoted);
  for (const about of ['thread', 'place']) delays.forget(`${about} ${thread}`);
  const { status, reason } = done.output;
  const kind = isEnded(status) ? 'done' : 'parked';
  tell({ kind, thread, status, reason, ms: Math.round(clock.monotonic() - begun) });
}
