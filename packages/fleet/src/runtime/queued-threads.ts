// Runs threads in a store that machines share: a run is queued, and this process follows it while a worker runs it.
// INVARIANT: a thread never runs in this process, and the end of this process never ends a thread.
import { createRecent, fail, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import type { ResumeOptions, RunObserver, ThreadResult } from '@kernmantle/core/harness';
import type { ProjectIdentity, ThreadObserver, Threads } from '@kernmantle/core/runtime';
import type {
  Fleet,
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadStatus,
  ThreadSummary,
} from '@kernmantle/core/store';

type Journal = typeof import('@kernmantle/core/journal');

/** Maximum number of thread ids in the cache of this project. */
const MAX_KNOWN = 10_000;

/** Filters that name a thread, a tree or a project. They replace the filter by this project. */
const NAMED = ['project', 'parent', 'root', 'within'] as const satisfies (keyof ThreadFilter)[];

/** The store of one project. Lists contain only the threads of this project. */
function ofProject(store: Store, project: string): Store {
  const cache = createRecent<string, boolean>(MAX_KNOWN);
  async function isOwn(thread: string | undefined): Promise<boolean> {
    // An approval outside threads has no project.
    if (thread === undefined) return true;
    const before = cache.get(thread);
    if (before !== undefined) return before;
    const row = await store.thread(thread);
    return cache.set(thread, row.ok && row.output.project === project);
  }
  return {
    ...store,
    query: (filter = {}) =>
      store.query(
        NAMED.some((name) => filter[name] !== undefined) ? filter : { ...filter, project },
      ),
    prune: (options) => store.prune({ ...options, project }),
    async approvals(filter) {
      if (filter.id !== undefined || filter.thread !== undefined) return store.approvals(filter);
      const { limit, ...all } = filter;
      const result = await store.approvals(all);
      if (!result.ok) return result;
      const own = await Promise.all(result.output.map(({ thread }) => isOwn(thread)));
      return ok(result.output.filter((_, index) => own[index]).slice(0, limit));
    },
    async *changes(filter, signal) {
      for await (const head of store.changes(filter, signal)) {
        if (filter.threads !== undefined || (await isOwn(head.thread))) yield head;
      }
    },
  };
}

/** Returns the live workers that have this project with these items for this tenant. */
export async function findWorkersFor(
  fleet: Fleet,
  { project, items, tenant }: Pick<ThreadSummary, 'project' | 'items' | 'tenant'>,
): Promise<Outcome<string[]>> {
  const workers = await fleet.workers();
  if (!workers.ok) return workers;
  const serving = workers.output.filter(
    ({ draining, tenants, projects }) =>
      !draining &&
      (tenant === undefined || tenants.includes(tenant)) &&
      projects.some((one) => one.project === project && one.items === (items ?? one.items)),
  );
  return ok(serving.map(({ id }) => id));
}

/** Reports events of a thread and of the threads below it to the observer, as a local run does. */
function createReporter(
  { decode }: Journal,
  threads: Threads,
  live: RunObserver,
  signal: AbortSignal,
) {
  const below: Promise<void>[] = [];
  async function tell(from: AsyncIterable<StoredEvent>): Promise<void> {
    for await (const event of from) {
      const read = decode(event);
      if (!read.ok) continue;
      // The observer gets a change of status only if it has a reason.
      if (read.output.type === 'status' && read.output.data.reason === undefined) continue;
      const { thread, seq: _seq, ts: _ts, ...noted } = read.output;
      live.onEvent?.(thread, noted);
      if (noted.type !== 'spawn' && noted.type !== 'hook_start') continue;
      below.push(tell(threads.follow(noted.data.thread_id, signal)));
    }
  }
  return { tell, ended: () => Promise.allSettled(below) };
}

/** Follows a thread until it is parked or ends. If the signal aborts, the thread continues without an observer. */
async function follow(
  threads: Threads,
  live: ThreadObserver,
  id: string,
  after: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  live.onQueued?.(id);
  const over = new AbortController();
  const teller = createReporter(
    await import('@kernmantle/core/journal'),
    threads,
    live,
    AbortSignal.any([signal, over.signal]),
  );
  const followed = threads.follow(id, signal, after);
  const [result] = await Promise.all([followed.result, teller.tell(followed)]);
  // Descendants that still run are not followed any longer.
  over.abort();
  await teller.ended();
  return result;
}

const AT_WORK: ReadonlySet<ThreadStatus> = new Set(['spawning', 'running', 'terminating']);
/** Changes that need the lease of the thread, because no signal carries them. */
const WRITTEN = [
  'from',
  'attach',
  'limits',
  'model',
  'mode',
  'items',
] as const satisfies (keyof ResumeOptions)[];

/** Queues a thread with the changes of a resume. Returns the number of its last event. Fails with `lease_held`. */
async function queueAgain(
  threads: Threads,
  id: string,
  options: ResumeOptions,
  { project, items: here }: ProjectIdentity,
): Promise<Outcome<number>> {
  const { isEnded } = await import('@kernmantle/core/store');
  const { store } = threads;
  const row = await store.thread(id);
  if (!row.ok) return row;
  const { seq, status, owner } = row.output;
  // No worker has started the thread, and perhaps none has its items, so a person can choose the present items.
  const isLeft = status === 'spawning' && owner === undefined && options.items !== undefined;
  if (AT_WORK.has(status) && !isLeft) {
    return fail('lease_held', `thread \`${id}\` is ${status} already`, { thread: id, status });
  }
  const { words, by = 'a program', audit } = options;
  if (isEnded(status) || WRITTEN.some((name) => options[name] !== undefined)) {
    if (row.output.project !== project) {
      const message = `thread \`${id}\` belongs to another project; resume it in that project`;
      return fail('conflict', message, { thread: id, project: row.output.project, here: project });
    }
    const items = options.items ?? row.output.items ?? here;
    if (items !== here) {
      const message = `thread \`${id}\` was started with other items than this folder has`;
      return fail('conflict', message, { thread: id, items, here });
    }
    const written = await threads.resume(id, undefined, { ...options, elsewhere: true });
    return written.ok ? ok(seq) : written;
  }
  const key = `told:${Buffer.from(systemRandom(9)).toString('base64url')}`;
  const payload = words === undefined ? {} : { role: 'user', content: words.text };
  const sent = await store.signal({ thread: id, kind: 'resume', payload, key, by }, audit);
  return sent.ok ? ok(seq) : sent;
}

/** Returns threads that run on workers only: it queues every run in the shared store. */
export function onWorkers(
  threads: Threads,
  live: ThreadObserver,
  { project, items }: ProjectIdentity,
): Threads {
  const followById = async (id: string, signal?: AbortSignal): Promise<Outcome<ThreadResult>> => {
    const row = await threads.store.thread(id);
    return row.ok ? await follow(threads, live, id, row.output.seq, signal) : row;
  };
  return {
    ...threads,
    store: ofProject(threads.store, project),
    async run(request, signal) {
      const queued = await threads.enqueue(request);
      return queued.ok ? await follow(threads, live, queued.output.thread, 0, signal) : queued;
    },
    async fork(id, options, signal) {
      const forked = await threads.enqueueFork(id, options);
      if (!forked.ok) return forked;
      const { thread, seq } = forked.output;
      return await follow(threads, live, thread, seq, signal);
    },
    async resume(id, signal, options = {}) {
      // The value `today` means the items of this folder.
      const changes = options.items === undefined ? options : { ...options, items };
      const queued = await queueAgain(threads, id, changes, { project, items });
      return queued.ok ? await follow(threads, live, id, queued.output, signal) : queued;
    },
    resumeAnywhere: followById,
  };
}
