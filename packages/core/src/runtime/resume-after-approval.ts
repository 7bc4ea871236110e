// Resumes parked threads after their approval request was answered, in a process that stays (the page, an MCP
// server), whichever process started the thread. INVARIANT: a thread is only ever resumed after an answer that
// is newer than its parking, and only without an owner of its lease. A person resumes interrupted threads.
import { createRecent, fail, type Outcome, ok } from '../base/index.ts';
import type { Approval, Store, ThreadSummary } from '../store/index.ts';
import type { Threads } from './threads.ts';

interface GoOnPorts {
  /** Fails if the registry does not exist yet. */
  store(): Promise<Outcome<Store>>;
  resumeAnywhere(id: string): Promise<Outcome<unknown>>;
  /** True if the thread ran in this process, so that no other process resumes it. */
  isOwn(id: string): boolean;
  now(): number;
  onError(error: Error): void;
}

interface GoingOn {
  /** Checks at once, because an answer was just given. */
  look(): void;
  /** Stops resuming threads. Resumed ones continue. */
  close(): Promise<void>;
}

const POLL_MS = 500;
/** Time for the terminal that asked to resume its own thread. */
const GRACE_MS = 2000;
const MAX_OPEN = 1000;

const WAITS = ['waiting', 'needs_input'] as const;

/** Returns parked threads without an owner. The thread of a hook is resumed by the one that it serves. */
async function restingThreads(store: Store, now: number): Promise<Outcome<ThreadSummary[]>> {
  const { allThreads } = await import('../store/index.ts');
  const found = await allThreads(store, { status: WAITS, kind: 'thread' });
  return found.ok ? ok(found.output.filter(({ lease_until = 0 }) => lease_until <= now)) : found;
}

/**
 * Returns when the request was answered, while this process watched or since the parking. Undefined: it
 * was not. An expired request counts as answered if this process saw it pending.
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

export function resumeAfterApprovals(ports: GoOnPorts): GoingOn {
  let open = new Set<string>();
  /** Requests that were answered or expired while this process watched. */
  const decided = createRecent<string, true>(MAX_OPEN);
  /** Sequence number of each thread at its last check. */
  const looked = createRecent<string, number>(MAX_OPEN);
  /** The answer after which each thread was resumed, so that one answer resumes it once. */
  const obeyed = createRecent<string, number>(MAX_OPEN);
  let [timer, isClosed]: [NodeJS.Timeout | undefined, boolean] = [undefined, false];
  let [under, again]: [Promise<void> | undefined, boolean] = [undefined, false];

  async function takeUp(store: Store, row: ThreadSummary): Promise<'later' | 'done'> {
    const found = await store.approvals({ thread: row.id, limit: MAX_OPEN });
    const hasSeen = (id: string): boolean => decided.get(id) === true;
    const at = found.ok ? answeredAt(row, found.output, hasSeen) : undefined;
    if (at === undefined || obeyed.get(row.id) === at) return 'done';
    if (!ports.isOwn(row.id) && ports.now() < at + GRACE_MS) return 'later';
    obeyed.set(row.id, at);
    void ports.resumeAnywhere(row.id).then((done) => {
      // Another process was faster, which is fine.
      if (done.ok || done.error.code === 'lease_held') return;
      ports.onError(new Error(`thread \`${row.id}\` cannot go on: ${done.error.detail.message}`));
    });
    return 'done';
  }

  async function lookOnce(): Promise<void> {
    const opened = await ports.store();
    if (!opened.ok) return;
    const store = opened.output;
    // In a shared store an answer queues the thread, and a worker resumes it.
    if (store.fleet) return;
    const found = await restingThreads(store, ports.now());
    // If they cannot be read now, the next check reads them again.
    if (!found.ok || found.output.length === 0) return;
    const rows = found.output;
    const pending = await store.approvals({ state: 'pending', limit: MAX_OPEN });
    if (!pending.ok) return;
    const now = new Set(pending.output.map(({ id }) => id));
    const gone = [...open].filter((id) => !now.has(id));
    for (const id of gone) decided.set(id, true);
    open = now;
    for (const row of rows) {
      if (isClosed) return;
      // Each parked thread is checked once, and all of them after an answer.
      if (gone.length === 0 && looked.get(row.id) === row.seq) continue;
      const isDone = (await takeUp(store, row)) === 'done';
      looked.set(row.id, isDone ? row.seq : -1);
    }
  }

  function look(): void {
    if (isClosed) return;
    if (under) {
      again = true;
      return;
    }
    clearTimeout(timer);
    under = lookOnce()
      .catch((error: unknown) => ports.onError(error as Error))
      .then(() => {
        under = undefined;
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
      await under;
    },
  };
}

/** The same for a server without threads of its own, until the signal aborts. */
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
      if (!runtime.registry.isThere()) return fail('not_found', 'no thread has run here yet');
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
