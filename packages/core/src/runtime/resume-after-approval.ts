// Resumes parked threads after the answer to their approval request, in a process that keeps running (the page or
// an MCP server). Any process can have started the thread. INVARIANT: a thread is never resumed before an answer
// that is newer than its parking, and never while its lease has an owner. A person resumes interrupted threads.
import { createRecent, fail, type Outcome, ok } from '../base/index.ts';
import type { Approval, Store, ThreadSummary } from '../store/index.ts';
import type { Threads } from './threads.ts';

interface ResumePorts {
  /** Fails if the registry does not exist yet. */
  store(): Promise<Outcome<Store>>;
  resumeAnywhere(id: string): Promise<Outcome<unknown>>;
  /** True if the thread ran in this process, so that no other process resumes it. */
  isOwn(id: string): boolean;
  now(): number;
  onError(error: Error): void;
}

interface AnswerWatch {
  /** Checks at once, for a caller that has just stored an answer. */
  look(): void;
  /** Stops the checks. Resumed threads continue. */
  close(): Promise<void>;
}

const POLL_MS = 500;
/** Time in which the terminal that asked can resume its own thread. */
const GRACE_MS = 2000;
const MAX_OPEN = 1000;

const WAITS = ['waiting', 'needs_input'] as const;

/** Returns parked threads without an owner. A thread resumes the threads of its hooks. */
async function parkedThreads(store: Store, now: number): Promise<Outcome<ThreadSummary[]>> {
  const { allThreads } = await import('../store/index.ts');
  const result = await allThreads(store, { status: WAITS, kind: 'thread' });
  return result.ok ? ok(result.output.filter(({ lease_until = 0 }) => lease_until <= now)) : result;
}

/**
 * Returns the time of the last answer since the parking, or since this process saw the request pending.
 * Undefined: no answer. An expired request counts as answered if this process saw it pending.
 */
function answeredAt(
  { updated }: ThreadSummary,
  approvals: readonly Approval[],
  hasSeen: (approval: string) => boolean,
): number | undefined {
  const times = approvals.flatMap(({ id, state, decided, expires = 0 }) => {
    if (decided !== undefined) return decided >= updated || hasSeen(id) ? [decided] : [];
    return state === 'expired' && hasSeen(id) ? [expires] : [];
  });
  return times.length === 0 ? undefined : Math.max(...times);
}

export function resumeAfterApprovals(ports: ResumePorts): AnswerWatch {
  let open = new Set<string>();
  /** Requests that were answered or expired while this process watched. */
  const decided = createRecent<string, true>(MAX_OPEN);
  /** Sequence number of each thread at its last check. */
  const checked = createRecent<string, number>(MAX_OPEN);
  /** The answer after which each thread was resumed, so that one answer resumes it once. */
  const handled = createRecent<string, number>(MAX_OPEN);
  let [timer, isClosed]: [NodeJS.Timeout | undefined, boolean] = [undefined, false];
  let [running, again]: [Promise<void> | undefined, boolean] = [undefined, false];

  async function resumeIfAnswered(store: Store, row: ThreadSummary): Promise<'later' | 'done'> {
    const found = await store.approvals({ thread: row.id, limit: MAX_OPEN });
    const hasSeen = (id: string): boolean => decided.get(id) === true;
    const at = found.ok ? answeredAt(row, found.output, hasSeen) : undefined;
    if (at === undefined || handled.get(row.id) === at) return 'done';
    if (!ports.isOwn(row.id) && ports.now() < at + GRACE_MS) return 'later';
    handled.set(row.id, at);
    void ports.resumeAnywhere(row.id).then((run) => {
      // `lease_held`: another process has resumed the thread.
      if (run.ok || run.error.code === 'lease_held') return;
      ports.onError(new Error(`thread \`${row.id}\` cannot resume: ${run.error.detail.message}`));
    });
    return 'done';
  }

  async function lookOnce(): Promise<void> {
    const opened = await ports.store();
    if (!opened.ok) return;
    const store = opened.output;
    // In a shared store an answer queues the thread, and a worker resumes it.
    if (store.fleet) return;
    const parked = await parkedThreads(store, ports.now());
    // After a failed read, the next check reads the threads again.
    if (!parked.ok || parked.output.length === 0) return;
    const rows = parked.output;
    const pending = await store.approvals({ state: 'pending', limit: MAX_OPEN });
    if (!pending.ok) return;
    const now = new Set(pending.output.map(({ id }) => id));
    const answers = [...open].filter((id) => !now.has(id));
    for (const id of answers) decided.set(id, true);
    open = now;
    for (const row of rows) {
      if (isClosed) return;
      // Each parked thread is checked once, and all of them after an answer.
      if (answers.length === 0 && checked.get(row.id) === row.seq) continue;
      const isDone = (await resumeIfAnswered(store, row)) === 'done';
      checked.set(row.id, isDone ? row.seq : -1);
    }
  }

  function look(): void {
    if (isClosed) return;
    if (running) {
      again = true;
      return;
    }
    clearTimeout(timer);
    running = lookOnce()
      .catch((error: unknown) => ports.onError(error as Error))
      .then(() => {
        running = undefined;
        if (isClosed) return;
        if (again) {
          again = false;
          look();
        } else timer = setTimeout(look, POLL_MS).unref();
      });
  }
  look();
  return {
    look,
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await running;
    },
  };
}

/** Does the same for a server without its own threads. The resumed threads get the signal. */
export function resumeInProcess(
  runtime: {
    readonly registry: { isThere(): boolean };
    threads(): Promise<Outcome<Threads>>;
  },
  signal: AbortSignal,
  onError: (error: Error) => void,
): { close(): Promise<void> } {
  return resumeAfterApprovals({
    async store() {
      if (!runtime.registry.isThere()) return fail('not_found', 'this project has no registry yet');
      const threads = await runtime.threads();
      return threads.ok ? { ok: true, output: threads.output.store } : threads;
    },
    async resumeAnywhere(id) {
      const threads = await runtime.threads();
      return threads.ok ? await threads.output.resumeAnywhere(id, signal) : threads;
    },
    // A client that asked resumes its thread itself.
    isOwn: () => false,
    now: () => Date.now(),
    onError,
  });
}
