// What waited for a person goes on when somebody has answered, wherever that was: in a process that
// stays (the page, an MCP server), whichever process had begun the thread. INVARIANT: only what waits
// is taken up, after an answer that came since it rested, and only when nobody holds it. What was
// interrupted is a person's to resume.
import { createRecent, fail, type Outcome, ok } from '../base/index.ts';
import type { Approval, Store, ThreadSummary } from '../store/index.ts';
import type { Threads } from './threads.ts';

interface GoOnPorts {
  /** Where nothing ever ran there is none yet. */
  store(): Promise<Outcome<Store>>;
  goOn(id: string): Promise<Outcome<unknown>>;
  /** Was it at work in this process? Then nobody else is about to take it up. */
  isOwn(id: string): boolean;
  now(): number;
  onError(error: Error): void;
}

interface GoingOn {
  /** Somebody was answered just now: looks at once. */
  look(): void;
  /** No more is taken up; what was goes on. */
  close(): Promise<void>;
}

const LOOK_MS = 500;
/** So long a terminal that asked has to take up its own thread. */
const GRACE_MS = 2000;
const MAX_OPEN = 1000;

const WAITS = ['waiting', 'needs_input'] as const;

/** Those that rest and that nobody holds; a hook's thread goes on with the one that it serves. */
async function restingThreads(store: Store, now: number): Promise<Outcome<ThreadSummary[]>> {
  const { allThreads } = await import('../store/index.ts');
  const found = await allThreads(store, { status: WAITS, kind: 'thread' });
  return found.ok ? ok(found.output.filter(({ lease_until = 0 }) => lease_until <= now)) : found;
}

/**
 * When it was answered, under our eyes or since it came to rest; undefined: it was not. Silence is an
 * answer, too, to who saw it asked.
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

export function goOnAfterAnswers(ports: GoOnPorts): GoingOn {
  let open = new Set<string>();
  /** Answered or expired under our eyes. */
  const seen = createRecent<string, true>(MAX_OPEN);
  /** How far each was when it was looked at. */
  const looked = createRecent<string, number>(MAX_OPEN);
  /** The answer with which each was taken up: the same one is not obeyed twice. */
  const obeyed = createRecent<string, number>(MAX_OPEN);
  let [timer, isClosed]: [NodeJS.Timeout | undefined, boolean] = [undefined, false];
  let [under, again]: [Promise<void> | undefined, boolean] = [undefined, false];

  async function takeUp(store: Store, row: ThreadSummary): Promise<'later' | 'done'> {
    const found = await store.approvals({ thread: row.id, limit: MAX_OPEN });
    const hasSeen = (id: string): boolean => seen.get(id) === true;
    const at = found.ok ? answeredAt(row, found.output, hasSeen) : undefined;
    if (at === undefined || obeyed.get(row.id) === at) return 'done';
    if (!ports.isOwn(row.id) && ports.now() < at + GRACE_MS) return 'later';
    obeyed.set(row.id, at);
    void ports.goOn(row.id).then((done) => {
      // Somebody else was quicker: that is as good.
      if (done.ok || done.error.code === 'lease_held') return;
      ports.onError(new Error(`thread \`${row.id}\` cannot go on: ${done.error.detail.message}`));
    });
    return 'done';
  }

  async function lookOnce(): Promise<void> {
    const opened = await ports.store();
    if (!opened.ok) return;
    const store = opened.output;
    // An answer queues the thread where machines share the store, and a worker goes on with it.
    if (store.fleet) return;
    const found = await restingThreads(store, ports.now());
    // The next look reads them again if they cannot be read now.
    if (!found.ok || found.output.length === 0) return;
    const rows = found.output;
    const pending = await store.approvals({ state: 'pending', limit: MAX_OPEN });
    if (!pending.ok) return;
    const now = new Set(pending.output.map(({ id }) => id));
    const gone = [...open].filter((id) => !now.has(id));
    for (const id of gone) seen.set(id, true);
    open = now;
    for (const row of rows) {
      if (isClosed) return;
      // One look at each that came to rest, and at all when an answer came.
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
        } else timer = setTimeout(look, LOOK_MS).unref();
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

/** The same for a server that has nothing else to do with threads of others: until the signal aborts. */
export function goOnHere(
  runtime: {
    readonly registry: { isThere(): boolean };
    threads(): Promise<Outcome<Threads>>;
  },
  signal: AbortSignal,
  onError: (error: Error) => void,
): { close(): Promise<void> } {
  return goOnAfterAnswers({
    async store() {
      if (!runtime.registry.isThere()) return fail('not_found', 'no thread has run here yet');
      const threads = await runtime.threads();
      return threads.ok ? { ok: true, output: threads.output.store } : threads;
    },
    async goOn(id) {
      const threads = await runtime.threads();
      return threads.ok ? await threads.output.goOn(id, signal) : threads;
    },
    // Who asked a client resumes it by itself.
    isOwn: () => false,
    now: () => Date.now(),
    onError,
  });
}
