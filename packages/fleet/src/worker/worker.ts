// A worker claims queued threads of its projects, as many as it has slots, until it drains. It uses only the port of
// the store. Safety does not depend on it: the store fences every lease, and a lease that a worker does not renew
// ends.
import { hostname } from 'node:os';
import {
  type Clock,
  createRecent,
  type Failure,
  type Outcome,
  ok,
  systemClock,
} from '@kernmantle/core/base';
import type { Store, WorkerRow, WorkerState } from '@kernmantle/core/store';
import {
  createDelays,
  MAX_REMEMBERED,
  type Shift,
  TAKE_MS,
  type WorkerNews,
  type WorkerProject,
  workOn,
} from './run-thread.ts';
import { createSlots, type Slots } from './slots.ts';

interface WorkerOptions {
  /** Name of this process as the owner of leases. */
  readonly id: string;
  readonly version: string;
  readonly store: Store;
  readonly projects: readonly WorkerProject[];
  readonly slots: number;
  /** Tenants in the order of service. Absent: threads without a tenant. */
  readonly tenants?: readonly string[];
  /** Aborts when the worker must drain. */
  readonly signal: AbortSignal;
  /** Time in milliseconds for threads to end their step during a drain. */
  readonly graceMs?: number;
  readonly onNews?: (news: WorkerNews) => void;
  readonly clock?: Clock;
  /** Returns a random number from 0 to 1. */
  readonly random?: () => number;
  /** Waits until the time is over or the signal aborts. Tests replace it. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface WorkerEnd {
  /** Number of threads that the worker has taken. */
  readonly taken: number;
  /** Threads that did not complete their step in time. Another worker takes them after their leases expire. */
  readonly left: readonly string[];
}

const GRACE_MS = 60_000;
const ANNOUNCE_MS = 3000;
const SWEEP_MS = 2000;
/** Longest wait of one call for queued threads. A thread that is queued during the wait is returned at once. */
const WAIT_MS = 1000;
const PAUSE_MS = 5;
const [RETRY_MS, RETRY_LAST_MS] = [100, 5000];

/** Codes of failures after which a retry is useless. */
const FATAL: ReadonlySet<string> = new Set(['store_foreign', 'store_newer', 'store_closed']);

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const settle = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', settle);
      resolve();
    };
    const timer = setTimeout(settle, ms);
    signal.addEventListener('abort', settle, { once: true });
  });

type Floor = Required<Omit<WorkerOptions, 'projects' | 'slots' | 'tenants' | 'onNews'>> & {
  readonly shift: Shift;
  readonly slots: Slots;
  readonly tenants: readonly (string | undefined)[];
  readonly running: Map<string, Promise<void>>;
  /** Aborts when the worker takes no more threads. */
  readonly stop: AbortController;
  taken: number;
  /** Time of the first call that the store did not answer. */
  goneAt?: number;
  fatal?: Failure;
};

/** Stops the worker after a fatal failure. Otherwise reports once that the store is gone, and waits. */
async function handleFailure(floor: Floor, failure: Failure): Promise<void> {
  const { shift, clock, stop, wait } = floor;
  const { code, detail } = failure.error;
  if (FATAL.has(code)) {
    floor.fatal ??= failure;
    return stop.abort();
  }
  if (floor.goneAt === undefined) {
    floor.goneAt = clock.monotonic();
    shift.tell({ kind: 'store_gone', code, reason: detail.message });
  }
  await wait(shift.delays.next('store', RETRY_MS, RETRY_LAST_MS), stop.signal);
}

function reportBack(floor: Floor): void {
  if (floor.goneAt === undefined) return;
  const after_ms = Math.round(floor.clock.monotonic() - floor.goneAt);
  delete floor.goneAt;
  floor.shift.delays.forget('store');
  floor.shift.tell({ kind: 'store_back', after_ms });
}

/** Starts the threads that it takes from the queue and frees the unused slots. */
async function takeSome(
  floor: Floor,
  tenant: string | undefined,
  count: number,
  waitMs: number,
): Promise<Outcome<number>> {
  const { shift, store, slots, running, clock, id } = floor;
  const since = clock.monotonic();
  const projects = [...shift.projects.keys()];
  const wanted = { count, projects, waitMs, ...(tenant !== undefined && { tenant }) };
  const taken = await store.take({ owner: id, ttlMs: TAKE_MS }, wanted);
  if (!taken.ok) {
    slots.leave(count);
    return taken;
  }
  slots.leave(count - taken.output.length);
  for (const leased of taken.output) {
    floor.taken += 1;
    const work = workOn(shift, leased, since).finally(() => {
      if (running.get(leased.thread) === work) running.delete(leased.thread);
      slots.leave(1);
    });
    running.set(leased.thread, work);
  }
  return ok(taken.output.length);
}

/** Takes threads of one tenant while slots are free. While it waits for a thread, it occupies one slot. */
async function serveTenant(floor: Floor, tenant: string | undefined): Promise<void> {
  const { slots, stop, tenants, wait } = floor;
  const isAlone = tenants.length === 1;
  while (!stop.signal.aborted) {
    if (!(await slots.enter(stop.signal))) return;
    const more = slots.more(slots.size);
    let result = await takeSome(floor, tenant, 1 + more, isAlone ? WAIT_MS : 0);
    if (result.ok && result.output === 0 && !isAlone && (await slots.enter(stop.signal))) {
      result = await takeSome(floor, tenant, 1, WAIT_MS);
    }
    if (result.ok) reportBack(floor);
    else await handleFailure(floor, result);
    // A call can return before its wait is over, so a pause prevents a busy loop.
    if (result.ok && result.output === 0) await wait(PAUSE_MS, stop.signal);
  }
}

/** Repeats a call at a slightly irregular interval. Failures are ignored, because the lanes report them. */
async function repeat(
  { stop, wait, random }: Floor,
  everyMs: number,
  work: () => Promise<unknown>,
): Promise<void> {
  while (!stop.signal.aborted) {
    await work();
    await wait(everyMs * (0.9 + random() * 0.2), stop.signal);
  }
}

/** Fires due schedules. It looks at the clock of the store again after two seconds, or at the next tick. */
async function fireSchedules({ shift, stop, tenants, wait }: Floor): Promise<void> {
  const all = [...shift.projects.values()].filter(({ fireDue }) => fireDue);
  while (all.length > 0 && !stop.signal.aborted) {
    let waitMs = SWEEP_MS;
    for (const project of all) {
      for (const tenant of tenants) {
        const fired = await project.fireDue?.(tenant ?? '', (news) =>
          shift.tell({ kind: 'schedule', ...news }),
        );
        if (fired?.ok) waitMs = Math.min(waitMs, fired.output);
      }
    }
    await wait(Math.max(waitMs, PAUSE_MS), stop.signal);
  }
}

async function announce(floor: Floor): Promise<void> {
  const { id, version, store, shift, slots, tenants, running, stop } = floor;
  if (!store.fleet) return;
  const projects: { project: string; items: string }[] = [];
  for (const project of shift.projects.values()) {
    const items = await project.items();
    if (items.ok) projects.push({ project: project.id, items: items.output });
  }
  const state: WorkerState = {
    id,
    host: hostname(),
    version,
    journal: store.fleet.journal,
    slots: slots.size,
    busy: running.size,
    tenants: tenants.map((tenant) => tenant ?? ''),
    projects,
    draining: stop.signal.aborted,
    memory: process.memoryUsage.rss(),
  };
  await store.fleet.announce(state);
}

/** Caches the workers of the store for some seconds. */
function createPeers(store: Store, clock: Clock): Shift['peers'] {
  let [cache, since]: [readonly WorkerRow[], number] = [[], Number.NEGATIVE_INFINITY];
  return async (how) => {
    const isFresh = !how?.fresh && clock.monotonic() - since < ANNOUNCE_MS;
    if (!store.fleet || isFresh) return cache;
    since = clock.monotonic();
    const workers = await store.fleet.workers();
    if (workers.ok) cache = workers.output;
    return cache;
  };
}

/** Waits until every thread has completed its step and is queued. The lease of a late thread expires. */
async function drain(floor: Floor, lanes: Promise<unknown>): Promise<void> {
  const { shift, running, wait, graceMs, store, id } = floor;
  shift.tell({ kind: 'draining', busy: running.size });
  const over = new AbortController();
  const announced = announce(floor);
  const requeued = [...shift.projects.values()].map(({ threads }) => threads.requeueAll());
  const ended = (async () => {
    await Promise.allSettled([lanes, announced, ...requeued]);
    // The threads that were taken last have started or were released by now.
    await Promise.allSettled(running.values());
  })();
  await Promise.race([ended, wait(graceMs, over.signal)]);
  over.abort();
  await store.fleet?.leave(id);
}

function createFloor(options: WorkerOptions): Floor {
  const { clock = systemClock, random = Math.random, wait = sleep, graceMs = GRACE_MS } = options;
  const { id, version, store, signal, tenants = [], onNews = () => {} } = options;
  const stop = new AbortController();
  const shift: Shift = {
    worker: id,
    store,
    projects: new Map(options.projects.map((project) => [project.id, project])),
    clock,
    random,
    tell: onNews,
    delays: createDelays(random),
    leftSince: createRecent(MAX_REMEMBERED),
    returned: createRecent(MAX_REMEMBERED),
    peers: createPeers(store, clock),
    isDraining: () => stop.signal.aborted,
  };
  return {
    id,
    version,
    store,
    signal,
    clock,
    random,
    wait,
    graceMs,
    shift,
    stop,
    slots: createSlots(options.slots),
    tenants: tenants.length === 0 ? [undefined] : [...new Set(tenants)],
    running: new Map(),
    taken: 0,
  };
}

/** True if a retry can help: the database is not reachable or accepts no more connections now. */
const isAway = ({ error: { code, detail } }: Failure): boolean =>
  code === 'store_busy' || detail.unreachable === true;

/**
 * Calls `open` again while the database is unreachable. Any other failure is returned at once. Undefined: the
 * signal aborted first. A call of `open` in progress then continues without this function.
 */
export async function openWhenBack<T>(
  open: () => Promise<Outcome<T>>,
  options: Pick<WorkerOptions, 'signal' | 'onNews' | 'random' | 'wait'>,
): Promise<Outcome<T> | undefined> {
  const { signal, onNews, random = Math.random, wait = sleep } = options;
  const { promise: ended, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => resolve(undefined);
  signal.addEventListener('abort', end, { once: true });
  const delays = createDelays(random);
  let goneAt: number | undefined;
  try {
    while (!signal.aborted) {
      const opened = await Promise.race([open(), ended]);
      if (!opened || opened.ok || !isAway(opened)) {
        const after_ms = Math.round(systemClock.monotonic() - (goneAt ?? 0));
        if (opened?.ok && goneAt !== undefined) onNews?.({ kind: 'store_back', after_ms });
        return opened;
      }
      const { code, detail } = opened.error;
      if (goneAt === undefined) onNews?.({ kind: 'store_gone', code, reason: detail.message });
      goneAt ??= systemClock.monotonic();
      await wait(delays.next('store', RETRY_MS, RETRY_LAST_MS), signal);
    }
    return undefined;
  } finally {
    signal.removeEventListener('abort', end);
  }
}

/** Runs until the signal aborts, or until the store refuses the worker for ever. Never rejects. */
export async function startWorker(options: WorkerOptions): Promise<Outcome<WorkerEnd>> {
  const floor = createFloor(options);
  const { signal, stop, store, tenants, running } = floor;
  const stopNow = (): void => stop.abort();
  if (signal.aborted) stopNow();
  else signal.addEventListener('abort', stopNow, { once: true });
  const lanes = Promise.all([
    ...tenants.map((tenant) => serveTenant(floor, tenant)),
    repeat(floor, SWEEP_MS, () => store.sweep()),
    repeat(floor, ANNOUNCE_MS, () => announce(floor)),
    fireSchedules(floor),
  ]);
  await new Promise<void>((resolve) => {
    if (stop.signal.aborted) resolve();
    else stop.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  signal.removeEventListener('abort', stopNow);
  await drain(floor, lanes);
  return floor.fatal ?? ok({ taken: floor.taken, left: [...running.keys()] });
}
