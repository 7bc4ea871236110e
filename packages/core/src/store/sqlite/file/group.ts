// Writes in groups: calls of the same round of the event loop share one transaction, and each call is
// answered after its COMMIT. No code waits inside a transaction. A refusal comes before the first write
// of its call, so it does not affect the others. After an exception the group is rolled back and its
// calls run one by one.
import {
  type Clock,
  type Failure,
  fail,
  type Outcome,
  type RandomBytes,
} from '../../../base/index.ts';
import type { Answer } from '../../port.ts';
import { type Connection, pause } from './connection.ts';
import { isBusy } from './errors.ts';

interface Writing {
  /** A lease goes first in its group, unless the same thread has an earlier call in it. Audit rows go last. */
  rank?: 'lease' | 'audit';
  thread?: string;
  bytes?: number;
  /** Longest wait for other processes, for a call that may fail. Absent: the wait of the group. */
  patienceMs?: number;
  /** Called after a failed COMMIT: true if the write is in the file. Absent: the write can be repeated. */
  wasWritten?: () => boolean;
}

interface GroupPorts {
  clock: Clock;
  random: RandomBytes;
  /** Longest wait for other processes, and longest check of a COMMIT with an unknown result. */
  patienceMs: number;
  /** Called inside every transaction: `onBegin` first and `onEnd` last. */
  onBegin: () => void;
  onEnd: () => void;
  closed: Failure;
}

interface Job {
  how: Writing;
  run: () => Outcome<unknown>;
  outcome: Outcome<unknown> | undefined;
  answer: (outcome: Outcome<unknown>) => void;
}

const MAX_JOBS = 256;
const MAX_BYTES = 4 * 1024 * 1024;

/** Removes the jobs of the next group from the queue and returns them in order. */
function cut(waiting: Job[]): Job[] {
  if (waiting.length === 1) return waiting.splice(0);
  let [count, bytes] = [0, 0];
  while (count < waiting.length && count < MAX_JOBS && (count === 0 || bytes < MAX_BYTES)) {
    bytes += waiting[count]?.how.bytes ?? 0;
    count += 1;
  }
  const taken = waiting.splice(0, count);
  if (!taken.some(({ how }) => how.rank)) return taken;
  const [leases, plain, audit]: [Job[], Job[], Job[]] = [[], [], []];
  const before = new Set<string>();
  for (const job of taken) {
    const { rank, thread } = job.how;
    if (rank === 'audit') audit.push(job);
    else if (rank === 'lease' && !(thread !== undefined && before.has(thread))) leases.push(job);
    else {
      plain.push(job);
      if (thread !== undefined) before.add(thread);
    }
  }
  return [...leases, ...plain, ...audit];
}

/** Runs jobs in one transaction and answers them. After an exception they run one by one. */
function createTransactions(connection: Connection, ports: GroupPorts) {
  const { clock, random, patienceMs } = ports;
  function finish(jobs: readonly Job[]): void {
    connection.finish();
    for (const { outcome, answer } of jobs) if (outcome) answer(outcome);
  }

  function refuse(jobs: readonly Job[], fault: Outcome<never>): void {
    for (const job of jobs) job.answer(fault);
  }

  /** Starts a transaction without a wait, because no other code may run inside of it. */
  function tryBegin(deadline: number): 'begun' | 'busy' | Outcome<never> {
    let isBegun = false;
    try {
      connection.begin();
      isBegun = true;
      ports.onBegin();
      return 'begun';
    } catch (error) {
      if (isBegun || !isBusy(error)) {
        connection.rollback();
        return connection.fault(error);
      }
    }
    if (clock.monotonic() < deadline) return 'busy';
    const message = 'the registry is in use by other processes; try again';
    return fail('store_busy', message, { waited_ms: patienceMs });
  }

  /** Finds out if a failed COMMIT is in the file. The file has all of the group or nothing. */
  async function lookAfter(jobs: readonly Job[]): Promise<'written' | 'not' | 'unknown'> {
    const proofs = jobs.filter(({ outcome, how }) => outcome?.ok && how.wasWritten);
    const deadline = clock.monotonic() + patienceMs;
    for (let tries = 0; ; tries++) {
      try {
        return proofs.some(({ how }) => how.wasWritten?.()) ? 'written' : 'not';
      } catch {
        if (clock.monotonic() >= deadline) return 'unknown';
      }
      await pause(random, tries);
    }
  }

  async function doubt(jobs: readonly Job[], error: unknown, isAgain: boolean): Promise<void> {
    const isUndone = connection.isInside();
    const state = isUndone ? 'not' : await lookAfter(jobs);
    if (state === 'written') return finish(jobs);
    connection.rollback();
    if (state === 'unknown') {
      return refuse(jobs, fail('store_unknown', 'the result of the write is unknown'));
    }
    if (isAgain) return refuse(jobs, connection.fault(error));
    for (const job of jobs) await runAll([job], true);
  }

  async function runAll(jobs: readonly Job[], isAgain = false): Promise<void> {
    const patience = Math.max(...jobs.map(({ how }) => how.patienceMs ?? patienceMs));
    const deadline = clock.monotonic() + patience;
    let state = tryBegin(deadline);
    // The event loop continues while another process writes.
    for (let tries = 0; state === 'busy'; tries++) {
      await pause(random, tries);
      state = tryBegin(deadline);
    }
    if (state !== 'begun') return refuse(jobs, state);
    try {
      for (const job of jobs) job.outcome = job.run();
      ports.onEnd();
    } catch (error) {
      connection.rollback();
      if (jobs.length === 1) return refuse(jobs, connection.fault(error));
      for (const job of jobs) await runAll([job], isAgain);
      return;
    }
    try {
      connection.commit();
    } catch (error) {
      return doubt(jobs, error, isAgain);
    }
    finish(jobs);
  }

  return runAll;
}

export type Group = ReturnType<typeof createGroup>;

export function createGroup(connection: Connection, ports: GroupPorts) {
  const runAll = createTransactions(connection, ports);
  const waiting: Job[] = [];
  const idle: (() => void)[] = [];
  let [isScheduled, isClosed] = [false, false];

  /** Later calls wait for the next round of the event loop. */
  function continueGroup(): void {
    isScheduled = waiting.length > 0;
    if (isScheduled) setImmediate(runNext);
    else for (const tell of idle.splice(0)) tell();
  }
  const runNext = (): void => void runAll(cut(waiting)).then(continueGroup);

  return {
    write<T>(work: () => Outcome<T>, how: Writing = {}): Answer<T> {
      if (isClosed) return Promise.resolve(ports.closed);
      const { promise, resolve } = Promise.withResolvers<Outcome<T>>();
      const answer = resolve as (outcome: Outcome<unknown>) => void;
      waiting.push({ how, run: work, outcome: undefined, answer });
      if (!isScheduled) setImmediate(runNext);
      isScheduled = true;
      return promise;
    },
    /** Refuses new calls and completes the earlier ones. */
    async close(): Promise<void> {
      isClosed = true;
      // The queued calls still run. No new call can join them.
      if (isScheduled) await new Promise<void>((resolve) => idle.push(resolve));
    },
  };
}
