// Creates threads that one process queues and another takes, over any store: two runtimes of one project, and a worker
// that only calls `take` and `resumeLeased`.
import { type Outcome, systemClock } from '@kernmantle/core/base';
import type { RuntimeOptions, Threads } from '@kernmantle/core/runtime';
import type { LeasedThread, StoredEvent } from '@kernmantle/core/store';
import { onTestFinished } from 'vitest';
import { isLate } from './late-store.ts';
import { timeoutMs } from './soak.ts';
import { openStage, type Play, type Stage } from './thread-project.ts';

type ThreadResult = Extract<Awaited<ReturnType<Threads['resumeLeased']>>, { ok: true }>['output'];

export interface TestWorker {
  threads: Threads;
  /** Takes a thread of this project as soon as one is queued. */
  take(): Promise<{ held: LeasedThread; since: number }>;
  /** Takes a thread and resumes it until it is parked or ends. */
  work(): Promise<ThreadResult>;
  /** Takes the threads that are queued now. */
  takeNow(): Promise<LeasedThread[]>;
}

export const got = <T>(outcome: Outcome<T>): T => {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
};

const PROJECT = 'prj_ofthreadsoftests0000000a';
let workers = 0;

/** Creates a separate place for each project, for registries on a server. */
interface ServerPlaces {
  make(): Promise<string>;
  /** Addresses by the folder of the project. */
  readonly places: Map<string, string>;
}

let server: ServerPlaces | undefined;

/** Runs all following tests of a file over a server. */
export function onServer(make: ServerPlaces['make']): void {
  server = { make, places: new Map() };
}

export const isOnServer = (): boolean => server !== undefined;

/** True if a test can set the clock of the registry. */
export const hasOwnClock = (): boolean => server === undefined && !isLate;

/** Opens a worker that acts like a separate process: its own registry, threads and name in leases. */
export async function openWorker(
  { fixture }: Pick<Stage, 'fixture'>,
  options: Partial<RuntimeOptions> = {},
): Promise<TestWorker> {
  const store = server ? { store: server.places.get(fixture.root) ?? '' } : {};
  const runtime = await fixture.open({ ...store, ...options });
  onTestFinished(() => runtime.close());
  const threads = got(await runtime.threads());
  workers += 1;
  const owner = { owner: `worker-${workers}`, ttlMs: timeoutMs(30_000) };
  const wanted = { count: 1, projects: [server ? PROJECT : fixture.root] };
  const takeNow = async (waitMs = 0): Promise<LeasedThread[]> =>
    got(await threads.store.take(owner, { ...wanted, waitMs }));
  async function take(): ReturnType<TestWorker['take']> {
    for (;;) {
      const since = systemClock.monotonic();
      const [held] = await takeNow(1000);
      if (held) return { held, since };
    }
  }
  return {
    threads,
    take,
    takeNow: () => takeNow(),
    async work() {
      const { held, since } = await take();
      return got(await threads.resumeLeased(held, since));
    },
  };
}

export interface FleetStage extends Stage {
  queue(name: string, more?: Partial<Parameters<Threads['enqueue']>[0]>): Promise<string>;
}

/** Opens the process that queues threads. It runs none of them. */
export async function openFleetStage(
  files: Record<string, string>,
  play: Play,
  options: Partial<RuntimeOptions> = {},
): Promise<FleetStage> {
  const place = await server?.make();
  const known = place !== undefined && { '.ai/config/project.yaml': `id: ${PROJECT}\n` };
  const store = place === undefined ? {} : { store: place };
  const made = await openStage({ ...files, ...known }, play, { ...store, ...options });
  if (place !== undefined) server?.places.set(made.fixture.root, place);
  return {
    ...made,
    async queue(name, more = {}) {
      return got(await made.threads.enqueue({ directive: name, ...more })).thread;
    },
  };
}

export const eventsOf = async (
  { threads }: { threads: Pick<Threads, 'store'> },
  id: string,
): Promise<StoredEvent[]> => got(await threads.store.read(id));

/** Returns the changes of status in order. */
export const statesIn = (events: readonly StoredEvent[]): unknown[] =>
  events.filter(({ type }) => type === 'status').map(({ data }) => data.status);
