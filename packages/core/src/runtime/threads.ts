// Creates the threads of one project. The first thread loads the registry and the harness.

import { existsSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { compact, fail, type Outcome, ok, systemClock, systemRandom } from '../base/index.ts';
import { createFrame } from '../flow/index.ts';
import type {
  CompareOptions,
  FireOptions,
  FollowedRun,
  Forked,
  ForkOptions,
  HarnessPorts,
  LiveThreads,
  ModelPort,
  OpenSdkModel,
  PreparePorts,
  ReplayOptions,
  ReplayReport,
  ResumeOptions,
  RunObserver,
  RunRequest,
  ScheduleNotice,
  ThreadResult,
} from '../harness/index.ts';
import { type Library, signItem } from '../items/index.ts';
import type {
  LeasedThread,
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadRow,
  ThreadSummary,
} from '../store/index.ts';
import { deriveVaultKey } from '../trust/index.ts';
import { createVerify, sharedVerify } from './open-kernel.ts';
import {
  isSharedStore,
  type OpenProject,
  ownKey,
  type Registry,
  type RuntimeContext,
} from './open-project.ts';
import { identify } from './project-identity.ts';
import type { Retained } from './retention.ts';

export interface Threads {
  /** The store with known secrets replaced by references, as in its file. */
  readonly store: Store;
  /** Returns a journal with its secrets, for replay. */
  history(id: string): Promise<Outcome<StoredEvent[]>>;
  run(request: RunRequest, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  resume(id: string, signal?: AbortSignal, options?: ResumeOptions): Promise<Outcome<ThreadResult>>;
  /** Forks a thread and runs the fork. It fails before the fork exists, or has the result of the fork. */
  fork(id: string, options: ForkOptions, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  /** Forks a thread for a worker. Nothing runs here. */
  enqueueFork(id: string, options: ForkOptions): Promise<Outcome<Forked>>;
  /** Resumes a thread in its own project. Fails if it has ended. */
  resumeAnywhere(id: string, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  /** Checks a run as `run` does and queues it for a worker. Nothing runs here. */
  enqueue(
    request: RunRequest,
    options?: FireOptions,
  ): Promise<Outcome<{ thread: string; created: number }>>;
  /** Checks a run as `enqueue` does. The key of a provider can be missing here. */
  check(request: RunRequest): Promise<Outcome<null>>;
  /** Tells people about a schedule, as the policy says. */
  notify(notice: ScheduleNotice): void;
  /**
   * Starts or resumes a thread whose lease this process has taken. `since`: time of the request on the
   * monotonic clock. If it is refused, the lease is released.
   */
  resumeLeased(
    leased: LeasedThread,
    since: number,
    signal?: AbortSignal,
  ): Promise<Outcome<ThreadResult>>;
  /** Ends the step of every thread here and queues the threads again. No thread starts afterwards. */
  requeueAll(): Promise<void>;
  /** Follows a thread that runs anywhere, event by event after number `after`, until it is parked or ends. */
  follow(id: string, signal: AbortSignal, after?: number): FollowedRun;
  atWork(): readonly string[];
  isAtWork(id: string): boolean;
  /** Writes the transcript of a thread again from the registry, because it may be lost or incomplete. */
  mend(id: string): Promise<void>;
  /** Asks another model for the recorded turns, in a thread of its own. Nothing of the replies is executed. */
  compare(
    id: string,
    options: CompareOptions,
    signal?: AbortSignal,
  ): Promise<Outcome<ThreadResult>>;
  /** Replays an ended thread from its journal, without a model and without tools. */
  replay(id: string, options?: ReplayOptions): Promise<Outcome<ReplayReport>>;
}

/**
 * Opens the registry. It refuses a registry of another user's key, because it came with an untrusted
 * project.
 */
export async function openRegistry(open: OpenProject): Promise<Outcome<Store>> {
  const { clock } = open;
  const { openSqliteStore } = await import('../store/index.ts');
  const key = registryKey(open);
  if (!key.ok) return key;
  const openFile = open.own.openStore ?? openSqliteStore;
  return await openFile({ file: registryFile(open), clock, identity: key.output });
}

/** Opens the user's own file with the memory of the scope `user`, once for each runtime. */
export async function openUserMemory(open: OpenProject): Promise<Outcome<Store>> {
  const key = registryKey(open);
  if (!key.ok) return key;
  const { openSqliteStore } = await import('../store/index.ts');
  const { clock, home } = open;
  open.userMemory ??= openSqliteStore({
    file: join(home, 'memory.db'),
    clock,
    identity: key.output,
  });
  const opened = await open.userMemory;
  if (!opened.ok) delete open.userMemory;
  return opened;
}

/** Returns the key that proves that a registry belongs to this user, and decrypts its sealed values. */
export function registryKey({ keys }: Pick<OpenProject, 'keys'>): Outcome<Uint8Array> {
  const key = keys.tokenKey();
  return key.ok ? ok(deriveVaultKey(key.output.exportPrivate())) : key;
}

const IN_MEMORY = ':memory:';

export const registryFile = ({
  project,
  own: { detached } = {},
}: Pick<OpenProject, 'project'> & Partial<Pick<OpenProject, 'own'>>): string =>
  detached ? (detached.registry ?? IN_MEMORY) : join(project, '.ai', 'threads', 'registry.db');

/** Returns false before the first thread, which creates the file. */
export const hasRegistry = (open: Pick<OpenProject, 'project' | 'own' | 'shared'>): boolean =>
  open.own.openStore !== undefined ||
  open.shared.address !== undefined ||
  registryFile(open) === IN_MEMORY ||
  existsSync(registryFile(open));

type Harness = typeof import('../harness/index.ts');

/** Loads the harness and creates the ports that prepare a thread. */
export async function loadHarness({
  open,
  library,
}: Pick<RuntimeContext, 'open' | 'library'>): Promise<Harness & { ports: PreparePorts }> {
  const { project, policies, clock, env } = open;
  const [harness, { createPrices, withEndpoints, withProgramModels, withStandIn }] =
    await Promise.all([import('../harness/index.ts'), import('../llm/index.ts')]);
  // A model in this process needs no key.
  const standIn = open.own.model ? { key: '' } : open.own.standIn;
  const ports = {
    project,
    library,
    policies: () => policies.current(),
    prices() {
      const allowsLower = policies.current().policy.allowsLowerPrices;
      return createPrices(library.config('pricing').layers, { clock, allowsLower });
    },
    models: () =>
      withProgramModels(
        withStandIn(withEndpoints(library.config('models'), open.env), standIn),
        open.own.models,
      ),
    env,
    async fileMarks(path: string, sha256: string) {
      const { fileMarks } = await import('./file-marks.ts');
      return await fileMarks(open, path, sha256);
    },
  };
  return { ...harness, ports };
}

/** Checks a run without a registry, so that a refused one leaves no files. */
export async function checkRun(
  { open, library }: RuntimeContext,
  request: RunRequest,
  isWhole = false,
): Promise<Outcome<null>> {
  // The keys of providers can be on the machines of the workers.
  const isElsewhere = open.host !== undefined || open.shared.address !== undefined;
  if (isElsewhere || (hasRegistry(open) && !isWhole)) return ok(null);
  const { prepareThread, ports } = await loadHarness({ open, library });
  const prepared = await prepareThread(ports, request);
  return prepared.ok ? ok(null) : prepared;
}

const sdkModels =
  (rooms: RuntimeContext): OpenSdkModel =>
  async (model) =>
    await (await import('./sdk-models.ts')).openSdkModels(rooms)(model);

/** Returns the model port for a caller outside threads. Opens the registry only if machines may share it. */
export async function openModel(rooms: RuntimeContext): Promise<ModelPort> {
  const { createModelPort } = await import('../harness/index.ts');
  const model = createModelPort(rooms.kernel, sdkModels(rooms));
  const store = isSharedStore(rooms.open) ? await rooms.open.store?.() : undefined;
  if (store?.ok === false) return () => Promise.resolve(store);
  return store ? rooms.model(store.output, model) : model;
}

/** Returns every thread that matches the filter. */
export async function allThreads(
  store: Store,
  filter: ThreadFilter,
): Promise<Outcome<ThreadSummary[]>> {
  const loaded = await import('../store/index.ts');
  return await loaded.allThreads(store, filter);
}

/** Opens an empty registry for one use. */
async function inEmptyRegistry<T>(
  work: (store: Store) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const { openSqliteStore } = await import('../store/index.ts');
  const opened = await openSqliteStore({ file: ':memory:', clock: systemClock });
  if (!opened.ok) return opened;
  try {
    return await work(opened.output);
  } finally {
    await opened.output.close();
  }
}

/** The states of threads that this process has received. */
function createRegistry(open: OpenProject, store: Store): Registry {
  const learned = new Map<string, ReturnType<Registry['standing']>>();
  return {
    standing(name) {
      const own = open.live?.get(name)?.thread;
      const running = open.live?.all() ?? [];
      for (const { thread } of running) if (thread.journal.revoked() === name) return 'revoked';
      if (own)
        return own.journal.signals().some(({ kind }) => kind === 'kill') ? 'revoked' : 'good';
      const isAbove = running.some(({ thread }) => thread.place.chain.includes(name));
      return learned.get(name) ?? (isAbove ? 'good' : 'unknown');
    },
    async learn(name) {
      if (open.live?.get(name)) return;
      const { isEnded } = await import('../store/index.ts');
      const row = await store.thread(name);
      learned.clear();
      if (!row.ok) learned.set(name, row.error.code === 'not_found' ? 'unknown' : 'revoked');
      else learned.set(name, isEnded(row.output.status) ? 'ended' : 'good');
      // The revoked thread can be this thread or an ancestor.
      if (row.ok && row.output.revoked !== undefined) learned.set(row.output.revoked, 'revoked');
    },
    useApproval({ approval, thread, token }) {
      const own = open.live?.get(thread);
      return own
        ? own.thread.rights.approved.use(approval, token)
        : fail('permission_denied', `thread \`${thread}\` does not run here`);
    },
  };
}

/** Opens another project's items, policy and instructions with the registry of this one. */
async function openOtherProject(
  open: OpenProject,
  ports: HarnessPorts,
  path: string,
  allow: (real: string) => Outcome<null>,
): Promise<Outcome<HarnessPorts>> {
  const folder = resolve(open.project, path);
  if (!existsSync(folder)) return fail('not_found', `project folder \`${folder}\` not found`);
  const project = realpathSync(folder);
  if (project === open.project) return ok(ports);
  const allowed = allow(project);
  if (!allowed.ok) return allowed;
  const { store, threads } = ports;
  const { env, clock, others } = open;
  const host = { project: open.project, store, live: threads.live };
  const there = {
    project,
    env,
    clock,
    store: open.shared.address ?? '',
    ...compact({ tenant: open.own.tenant, standIn: open.own.standIn }),
  };
  const opening = others.known.get(project) ?? others.open(there, host);
  others.known.set(project, opening);
  const opened = await opening;
  return opened.ok ? await opened.output.harness() : opened;
}

/** Opens the project of a thread, from a path or from its id in a shared store. */
async function openRowProject(
  open: OpenProject,
  ports: HarnessPorts,
  { project }: Pick<ThreadRow, 'project'>,
): Promise<Outcome<HarnessPorts>> {
  const own = ports.identity?.();
  if (own && !own.ok) return own;
  // The right to work there was checked when the thread was started.
  if (!own) return await openOtherProject(open, ports, project, () => ok(null));
  if (own.output.project === project) return ok(ports);
  for (const opening of open.others.known.values()) {
    const opened = await opening;
    const there = opened.ok ? await opened.output.harness() : opened;
    const id = there.ok ? there.output.identity?.() : undefined;
    if (there.ok && id?.ok && id.output.project === project) return there;
  }
  return fail('not_found', 'the project of the thread is not open in this process', { project });
}

/** Writes and signs a changed directive in the name of the user, who reviewed it or allowed it in a policy. */
function changeDirective(
  open: OpenProject,
  library: Library,
  id: string,
  text: string,
): Outcome<null> {
  const key = ownKey(open);
  if (!key.ok) return key;
  const written = library.write('directive', id, text, 'update');
  if (!written.ok) return written;
  const signed = signItem(written.output.file, key.output, open.clock, library.roots());
  library.noteChange();
  if (!signed.ok) return signed;
  // No person is present, so an audit row informs the owner of the key.
  const about = { surface: 'harness', caller: 'anneal', subject: 'policy:anneal', reason: '' };
  return open.audit.write({
    ...about,
    operation: 'sign',
    target: `directive:${id}`,
    decision: 'allowed',
  });
}

type Watch = ReturnType<Harness['watchThreads']>;

function watchOver(
  { open, library, kernel }: RuntimeContext,
  { watchThreads }: Harness,
  store: Store,
): Watch {
  const { project, clock, env, policies, audit } = open;
  const about = {
    surface: 'harness',
    caller: 'watch',
    subject: '',
    operation: 'record:thread',
    target: '',
  };
  return watchThreads({
    project,
    clock,
    env,
    dir: join(open.host?.project ?? open.project, '.ai', 'threads'),
    hasTranscripts: !open.own.detached,
    store,
    library,
    kernel,
    frame: () => createFrame({ policy: policies.current().policy }),
    policy: () => policies.current().policy,
    key: () => open.keys.tokenKey(),
    trouble: (reason) => void audit.write({ ...about, decision: 'failed', reason }),
  });
}

/** Options that a running thread cannot get. */
const CHANGING = ['from', 'words', 'attach', 'limits', 'model', 'mode'] as const;

/** Resumes a thread, unless it runs here and the options would change it. */
const resumeIn = (
  { resumeThread }: Harness,
  ports: HarnessPorts,
  id: string,
  signal?: AbortSignal,
  options: ResumeOptions = {},
) =>
  CHANGING.some((name) => options[name] !== undefined) && ports.threads.live.get(id)
    ? Promise.resolve(fail('conflict', `thread \`${id}\` is running; pause it first`))
    : ports.threads.live.resumed(id, () => resumeThread(ports, id, signal, options));

/** The services that all threads of a project share, created once. */
export interface ThreadServices extends Retained {
  harness: Awaited<ReturnType<typeof loadHarness>>;
  watch: Watch;
  live: LiveThreads;
  owner: string;
  /** Time of the last check for ended threads that were not completed. Absent: no check so far. */
  looked?: number;
}

/** The check reads the registry, so it is made once for many runs. */
const LOOK_AGAIN_MS = 60_000;

export async function openThreadServices(
  rooms: RuntimeContext,
  store: Store,
): Promise<ThreadServices> {
  const { open } = rooms;
  const harness = await loadHarness(rooms);
  const { nameOwner } = await import('../store/index.ts');
  const watch = watchOver(rooms, harness, store);
  open.live ??= harness.createLiveThreads();
  open.mask = watch.mask;
  open.registry = createRegistry(open, store);
  return { rooms, store, harness, watch, live: open.live, owner: nameOwner() };
}

/** Returns the same services over other items. */
export const withRooms = async (
  world: ThreadServices,
  rooms: RuntimeContext,
): Promise<ThreadServices> => ({ ...world, rooms, harness: await loadHarness(rooms) });

/** Returns the ports for threads that `view` observes. */
export async function openPorts(
  world: ThreadServices,
  view: RunObserver = {},
): Promise<HarnessPorts> {
  const ports = createPorts(world, view);
  const { host, clock } = world.rooms.open;
  const isRecent = clock.monotonic() - (world.looked ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_MS;
  // Threads of another project are in the registry of the project where they were started.
  if (host || isRecent) return ports;
  world.looked = clock.monotonic();
  await world.harness.finishEnded(ports);
  return ports;
}

function createPorts(
  { rooms, store, harness, watch, live, owner }: ThreadServices,
  view: RunObserver,
): HarnessPorts {
  const { open, library, kernel } = rooms;
  const { runners } = open.own;
  const textOf = (id: string): string => {
    const item = library.find('knowledge', id);
    return item.ok ? item.output.text : '';
  };
  const ports: HarnessPorts = {
    ...harness.ports,
    kernel: harness.auditCalls(kernel, open.audit),
    tierExemption: open.tierExemption,
    store: watch.store,
    clock: open.clock,
    random: systemRandom,
    tokens: { key: () => open.keys.tokenKey(), verify: sharedVerify(open, library) },
    model: open.own.model ?? rooms.model(store, harness.createModelPort(kernel, sdkModels(rooms))),
    script: rooms.script(),
    changeDirective: (id, text) => changeDirective(open, library, id, text),
    frame: (more) => createFrame({ policy: open.policies.current().policy, ...more }),
    instructions: () => ({
      agents: textOf('AGENTS'),
      universal: textOf('system/universal_prompt'),
    }),
    threads: {
      live,
      owner,
      ...(runners && { runners }),
      elsewhere: (path, allow) => openOtherProject(open, ports, path, allow),
      async resume(id) {
        const row = await watch.store.thread(id);
        if (!row.ok) return row;
        const there = await openRowProject(open, ports, row.output);
        return there.ok ? await resumeIn(harness, there.output, id) : there;
      },
      history: watch.history,
    },
    watch: { ...watch.portFor(view), audit: open.audit },
    userMemory: () => openUserMemory(open),
    ...((store.fleet ?? open.shared.address) !== undefined && { identity: () => identify(open) }),
  };
  return ports;
}

/** Returns the threads of a project. `view` observes those that are run through the returned object. */
export async function createThreads(world: ThreadServices, view: RunObserver): Promise<Threads> {
  const { rooms, store, harness, watch } = world;
  const { open, library } = rooms;
  const ports = await openPorts(world, view);
  const withNotice = async (run: () => Promise<Outcome<ThreadResult>>) => {
    await watch.ready();
    const result = await run();
    await watch.settled();
    return watch.shown(result);
  };
  // A replay writes no rows and does not check for revocations.
  const { audit: _, ...silentWatch } = ports.watch;
  const alone: HarnessPorts = {
    ...ports,
    watch: silentWatch,
    tokens: { ...ports.tokens, verify: createVerify(open, library, {}) },
  };
  const enqueueFork = async (id: string, options: ForkOptions): Promise<Outcome<Forked>> => {
    await (await import('./retention.ts')).retain(world);
    const forked = await harness.forkThread(ports, id, options);
    if (!world.live.get(id)) watch.done(id);
    return forked;
  };
  return {
    store,
    enqueueFork,
    fork: (id, options, signal) =>
      withNotice(async () => {
        const forked = await enqueueFork(id, options);
        return forked.ok ? await resumeIn(harness, ports, forked.output.thread, signal) : forked;
      }),
    async history(id) {
      const events = await watch.history(id);
      // A read of a journal does not cache its restored secrets.
      if (!world.live.get(id)) watch.done(id);
      return events;
    },
    async run(request, signal) {
      await (await import('./retention.ts')).retain(world);
      return await withNotice(() => harness.runDirective(ports, request, signal));
    },
    // Only a person or their program calls this, so ended threads are reopened.
    resume: (id, signal, options) =>
      withNotice(() => resumeIn(harness, ports, id, signal, { ...options, reopen: true })),
    resumeAnywhere: (id, signal) =>
      withNotice(async () => {
        const row = await store.thread(id);
        if (!row.ok) return row;
        const there = await openRowProject(open, ports, row.output);
        return there.ok ? await resumeIn(harness, there.output, id, signal) : there;
      }),
    async check(request) {
      const text = JSON.stringify(request.inputs ?? {});
      if (watch.mask('', text) !== text) {
        const message =
          'an input contains a known secret; let the tool read it from its environment';
        return fail('permission_denied', message);
      }
      const prepared = await harness.prepareElsewhere(ports, request, undefined, true);
      return prepared.ok ? ok(null) : prepared;
    },
    notify: (notice) => watch.notify(notice),
    async enqueue(request, options) {
      await (await import('./retention.ts')).retain(world);
      return await harness.enqueueDirective(ports, request, options);
    },
    resumeLeased: (leased, since, signal) =>
      withNotice(() =>
        world.live.taken(leased.thread, async () => {
          const opened = await watch.opened(leased);
          if (!opened.ok) return await harness.releaseUnstarted(ports, leased, opened);
          const there = await openRowProject(open, ports, leased.row);
          if (!there.ok) return await harness.releaseUnstarted(ports, leased, there);
          return await harness.resumeLeasedThread(there.output, opened.output, since, signal);
        }),
      ),
    requeueAll: () => world.live.requeueAll(),
    follow: (id, signal, after) => harness.followThread(store, id, signal, after),
    atWork: () => world.live.all().map(({ thread }) => thread.place.id),
    isAtWork: (id) => world.live.get(id) !== undefined,
    mend: (id) => harness.mendTranscript(ports, id),
    compare: (id, options, signal) =>
      withNotice(() => harness.compareModel(ports, id, options, signal)),
    replay: (id, options) =>
      inEmptyRegistry((empty) => harness.replayThread(alone, id, store, empty, options)),
  };
}
