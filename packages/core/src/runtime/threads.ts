// Threads over one project: the registry and the harness, loaded when the first thread is.
import { existsSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { compact, fail, type Outcome, ok, systemClock, systemRandom } from '../base/index.ts';
import { createFrame } from '../flow/index.ts';
import type {
  FollowedRun,
  HarnessPorts,
  Live,
  LiveThreads,
  ModelPort,
  PlainRequest,
  PlainResult,
  PreparePorts,
  ReplayOptions,
  ReplayReport,
  ResumeOptions,
  RunRequest,
  ThreadResult,
} from '../harness/index.ts';
import { type Library, signItem } from '../items/index.ts';
import type {
  Held,
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadRow,
  ThreadSummary,
} from '../store/index.ts';
import { deriveVaultKey } from '../trust/index.ts';
import { callerOf, createVerify, sharedVerify } from './open-kernel.ts';
import { mayShare, type OpenProject, ownKey, type Registry, type Rooms } from './open-project.ts';
import { identify } from './project-identity.ts';
import type { Retained } from './retention.ts';

export interface Threads {
  /** As the file has it: known secrets are references. */
  readonly store: Store;
  /** A journal with its secrets in place: for replay. */
  history(id: string): Promise<Outcome<StoredEvent[]>>;
  run(request: RunRequest, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  resume(id: string, signal?: AbortSignal, options?: ResumeOptions): Promise<Outcome<ThreadResult>>;
  /** Goes on where it stood, in its own project; nothing of what has ended. */
  goOn(id: string, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  /** Everything that `run` looks at, then a thread that whoever takes it begins; nothing runs here. */
  enqueue(request: RunRequest): Promise<Outcome<{ thread: string; created: number }>>;
  /**
   * Goes on with a thread that this process has taken, or begins it. `since`: when it asked for it, by
   * the monotonic clock. Refused: it is let go again.
   */
  goOnWith(held: Held, since: number, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  /** Every thread here ends its step and is queued again at once; nothing of them stays, nothing begins any more. */
  handOver(): Promise<void>;
  /** A thread that runs anywhere, event by event after number `after`, until it rests or ends. */
  follow(id: string, signal: AbortSignal, after?: number): FollowedRun;
  atWork(): readonly string[];
  isAtWork(id: string): boolean;
  /** Its transcript as the registry has it; it may have been lost or cut off. */
  mend(id: string): Promise<void>;
  /** An ended thread again, from its journal, without a model and without tools. */
  replay(id: string, options?: ReplayOptions): Promise<Outcome<ReplayReport>>;
}

/** A registry that was not made with this user's key came with a stranger's project: refused. */
export async function openRegistry(open: OpenProject): Promise<Outcome<Store>> {
  const { clock } = open;
  const { openSqliteStore } = await import('../store/index.ts');
  const key = registryKey(open);
  if (!key.ok) return key;
  const openFile = open.own.openStore ?? openSqliteStore;
  return await openFile({ file: registryFile(open), clock, identity: key.output });
}

/** What shows that a registry is this user's, and opens what is sealed in it. */
export function registryKey({ keys }: Pick<OpenProject, 'keys'>): Outcome<Uint8Array> {
  const key = keys.tokenKey();
  return key.ok ? ok(deriveVaultKey(key.output.exportPrivate())) : key;
}

export const registryFile = ({ project }: Pick<OpenProject, 'project'>): string =>
  join(project, '.ai', 'threads', 'registry.db');

/** A file is made with the first thread; before that there is nothing to read. */
export const hasRegistry = (open: Pick<OpenProject, 'project' | 'own' | 'shared'>): boolean =>
  open.own.openStore !== undefined ||
  open.shared.address !== undefined ||
  existsSync(registryFile(open));

type Harness = typeof import('../harness/index.ts');

/** Threads are loaded when the first is asked for, with what is looked at before there is one. */
async function loadHarness({ open, library }: Rooms): Promise<Harness & { ports: PreparePorts }> {
  const { project, policies, clock, env } = open;
  const [harness, { createPrices, withEndpoints, withStandIn }] = await Promise.all([
    import('../harness/index.ts'),
    import('../llm/index.ts'),
  ]);
  const ports = {
    project,
    library,
    policies: () => policies.current(),
    prices() {
      const allowsLower = policies.current().policy.allowsLowerPrices;
      return createPrices(library.config('pricing').layers, { clock, allowsLower });
    },
    models: () => withStandIn(withEndpoints(library.config('models')), open.own.standIn),
    env,
  };
  return { ...harness, ports };
}

/** Where nothing ever ran, what is refused leaves nothing: it is looked at before a registry is made. */
export async function checkRun(rooms: Rooms, request: RunRequest): Promise<Outcome<null>> {
  if (rooms.open.host || hasRegistry(rooms.open)) return ok(null);
  const { prepareThread, ports } = await loadHarness(rooms);
  const prepared = await prepareThread(ports, request);
  return prepared.ok ? ok(null) : prepared;
}

/** The model port for a caller that is no thread. It opens the registry only if machines may share it. */
export async function openModel(rooms: Rooms): Promise<ModelPort> {
  const { createModelPort } = await import('../harness/index.ts');
  const model = createModelPort(rooms.kernel);
  const store = mayShare(rooms.open) ? await rooms.open.store?.() : undefined;
  if (store?.ok === false) return () => Promise.resolve(store);
  return store ? rooms.model(store.output, model) : model;
}

/** The loop without a directive: no registry, no thread, only the model and the program's tools. */
export async function runPlain(
  rooms: Rooms,
  request: PlainRequest,
  signal?: AbortSignal,
): Promise<Outcome<PlainResult>> {
  const { modelFor, runPlainLoop, ports } = await loadHarness(rooms);
  const resolved = modelFor(ports, request.model);
  if (!resolved.ok) return resolved;
  const caller = callerOf(rooms.open, { surface: 'harness', name: 'plain loop' });
  const model = await openModel(rooms);
  return ok(await runPlainLoop({ model, resolved: resolved.output, caller }, request, signal));
}

/** Returns every thread that matches the filter. */
export async function allThreads(
  store: Store,
  filter: ThreadFilter,
): Promise<Outcome<ThreadSummary[]>> {
  const loaded = await import('../store/index.ts');
  return await loaded.allThreads(store, filter);
}

/** A registry for one use; nothing of it stays. */
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

/** How threads stand, as this process was told. */
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
      // It may be its own word that counts no more.
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

/** Another project's items, policy and instructions, over the registry of this one. */
async function openOtherProject(
  open: OpenProject,
  ports: HarnessPorts,
  path: string,
  allow: (real: string) => Outcome<null>,
): Promise<Outcome<HarnessPorts>> {
  const wanted = resolve(open.project, path);
  if (!existsSync(wanted)) return fail('not_found', `there is no project folder \`${wanted}\``);
  const project = realpathSync(wanted);
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

/** Where a thread works: a path, or the id by which machines that share a store know a project. */
async function openRowProject(
  open: OpenProject,
  ports: HarnessPorts,
  { project }: Pick<ThreadRow, 'project'>,
): Promise<Outcome<HarnessPorts>> {
  const own = ports.identity?.();
  if (own && !own.ok) return own;
  // The right to be there was given when the thread was started.
  if (!own) return await openOtherProject(open, ports, project, () => ok(null));
  if (own.output.project === project) return ok(ports);
  for (const opening of open.others.known.values()) {
    const opened = await opening;
    const there = opened.ok ? await opened.output.harness() : opened;
    const id = there.ok ? there.output.identity?.() : undefined;
    if (there.ok && id?.ok && id.output.project === project) return there;
  }
  return fail('not_found', 'this process does not serve that project', { project });
}

/** In the name of the user, who has looked at it or said that nobody needs to. */
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
  // Signed without a person at hand: whoever answers for that key can see it.
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
  { open, library, kernel }: Rooms,
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
    store,
    library,
    kernel,
    frame: () => createFrame({ policy: policies.current().policy }),
    policy: () => policies.current().policy,
    key: () => open.keys.tokenKey(),
    trouble: (reason) => void audit.write({ ...about, decision: 'failed', reason }),
  });
}

/** What cannot be had of a thread that runs already. */
const CHANGING = ['from', 'words', 'limits', 'model'] as const;

/** Goes on with a thread, unless it runs here and is asked to go back or to go on otherwise. */
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

/** What all threads of a project share, made once: how many there were leaves nothing behind. */
export interface ThreadWorld extends Retained {
  harness: Awaited<ReturnType<typeof loadHarness>>;
  watch: Watch;
  live: LiveThreads;
  owner: string;
  /** When it was last looked for threads that a process left behind. */
  looked?: number;
}

/** A look goes through the registry: once for many runs. */
const LOOK_AGAIN_MS = 60_000;

export async function openThreadWorld(rooms: Rooms, store: Store): Promise<ThreadWorld> {
  const { open } = rooms;
  const harness = await loadHarness(rooms);
  const { nameOwner } = await import('../store/index.ts');
  const watch = watchOver(rooms, harness, store);
  open.live ??= harness.createLiveThreads();
  open.mask = watch.mask;
  open.registry = createRegistry(open, store);
  return { rooms, store, harness, watch, live: open.live, owner: nameOwner() };
}

/** For threads that `view` looks at. */
export async function openPorts(world: ThreadWorld, view: Live = {}): Promise<HarnessPorts> {
  const ports = createPorts(world, view);
  const { host, clock } = world.rooms.open;
  const isRecent = clock.monotonic() - (world.looked ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_MS;
  // Another project's threads are in the registry of the one they were started from.
  if (host || isRecent) return ports;
  world.looked = clock.monotonic();
  await world.harness.finishEnded(ports);
  return ports;
}

function createPorts(
  { rooms, store, harness, watch, live, owner }: ThreadWorld,
  view: Live,
): HarnessPorts {
  const { open, library, kernel } = rooms;
  const { runners } = open.own;
  const textOf = (id: string): string => {
    const found = library.find('knowledge', id);
    return found.ok ? found.output.text : '';
  };
  const ports: HarnessPorts = {
    ...harness.ports,
    kernel: harness.auditCalls(kernel, open.audit),
    tierExemption: open.tierExemption,
    store: watch.store,
    clock: open.clock,
    random: systemRandom,
    tokens: { key: () => open.keys.tokenKey(), verify: sharedVerify(open, library) },
    model: rooms.model(store, harness.createModelPort(kernel)),
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
    ...((store.fleet ?? open.shared.address) !== undefined && { identity: () => identify(open) }),
  };
  return ports;
}

/** The threads of a project; `view` looks at those that are run through what comes back. */
export async function createThreads(world: ThreadWorld, view: Live): Promise<Threads> {
  const { rooms, store, harness, watch } = world;
  const { open, library } = rooms;
  const ports = await openPorts(world, view);
  const told = async (run: () => Promise<Outcome<ThreadResult>>) => {
    await watch.ready();
    const result = await run();
    await watch.settled();
    return watch.shown(result);
  };
  // A replay leaves no rows and asks nobody who may have been ended since.
  const { audit: _, ...unheard } = ports.watch;
  const alone: HarnessPorts = {
    ...ports,
    watch: unheard,
    tokens: { ...ports.tokens, verify: createVerify(open, library, {}) },
  };
  return {
    store,
    async history(id) {
      const events = await watch.history(id);
      // Who only looks keeps nothing of what was put back in place.
      if (!world.live.get(id)) watch.done(id);
      return events;
    },
    async run(request, signal) {
      await (await import('./retention.ts')).retain(world);
      return await told(() => harness.runDirective(ports, request, signal));
    },
    // Whoever has this is a person or their program: what has ended goes on, too.
    resume: (id, signal, options) =>
      told(() => resumeIn(harness, ports, id, signal, { ...options, reopen: true })),
    goOn: (id, signal) =>
      told(async () => {
        const row = await store.thread(id);
        if (!row.ok) return row;
        const there = await openRowProject(open, ports, row.output);
        return there.ok ? await resumeIn(harness, there.output, id, signal) : there;
      }),
    async enqueue(request) {
      await (await import('./retention.ts')).retain(world);
      return await harness.enqueueDirective(ports, request);
    },
    goOnWith: (held, since, signal) =>
      told(() =>
        world.live.taken(held.thread, async () => {
          const seen = await watch.opened(held);
          if (!seen.ok) return await harness.refuseTaken(ports, held, seen);
          const there = await openRowProject(open, ports, held.row);
          if (!there.ok) return await harness.refuseTaken(ports, held, there);
          return await harness.goOnWithThread(there.output, seen.output, since, signal);
        }),
      ),
    handOver: () => world.live.handOver(),
    follow: (id, signal, after) => harness.followThread(store, id, signal, after),
    atWork: () => world.live.all().map(({ thread }) => thread.place.id),
    isAtWork: (id) => world.live.get(id) !== undefined,
    mend: (id) => harness.mendTranscript(ports, id),
    replay: (id, options) =>
      inEmptyRegistry((empty) => harness.replayThread(alone, id, store, empty, options)),
  };
}
