// Wires the rooms together; the only file that knows them all. Opening a runtime reads files and
// runs nothing: no code of the project, no probe, no connection. What costs time is done on demand.
import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  type Clock,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  systemClock,
  systemRandom,
} from './base/index.ts';
import {
  type ComposedPolicy,
  createFrame,
  createLabelRecords,
  createPolicyFiles,
  type LabelRecords,
  type PolicyFiles,
  type PolicyPlace,
  type PolicyState,
  type RecordEntry,
} from './flow/index.ts';
import type {
  LiveThreads,
  ReplayOptions,
  ReplayReport,
  Runner,
  RunRequest,
  ThreadAction,
  ThreadResult,
  World,
} from './harness/index.ts';
import {
  type Catalogs,
  copyItem,
  createCatalogs,
  createLibrary,
  type ItemKind,
  itemRoots,
  type Library,
  verifyItem,
} from './items/index.ts';
import {
  type Audit,
  type Authorize,
  auditRow,
  type Caller,
  createAudit,
  createItemMarks,
  createKernel,
  createModifier,
  createToolRunner,
  directiveKind,
  isInside,
  type Kernel,
  type Kind,
  keepOut,
  knowledgeKind,
  moduleSink,
  type Primitive,
  type ProcessPorts,
  type ProgramTool,
  type ProgramTools,
  policyAuthority,
  prepareDependencies,
  probeSandboxNow,
  type SandboxReport,
  type SignaturePolicy,
  shippedPrimitives,
  shippedSinks,
  tokenAuthority,
  toolKind,
  withProgramTools,
} from './kernel/index.ts';
import type { Store, StoredEvent } from './store/index.ts';
import {
  type CapabilityCatalog,
  createKeyFolder,
  createTokenVerifier,
  createTrustStore,
  type KeyFolder,
  type TokenVerifier,
  type TrustStore,
} from './trust/index.ts';

export interface RuntimeOptions {
  /** Folder of the project; default: the nearest folder upwards from `cwd` that has `.ai`. */
  project?: string;
  cwd?: string;
  env?: Readonly<Record<string, string | undefined>>;
  clock?: Clock;
  /** Tools of the embedding program. */
  tools?: readonly ProgramTool[];
  /** Loops of the embedding program, by the name that `spawn_thread` is given as `runner`. */
  runners?: Readonly<Record<string, Runner>>;
}

export type Verb = 'search' | 'load' | 'execute' | 'help';

export interface CallOptions {
  /** Default: `library`. */
  surface?: string;
  /** A name for the audit. */
  name?: string;
  signal?: AbortSignal;
}

export interface Runtime {
  readonly project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  readonly home: string;
  readonly library: Library;
  readonly kernel: Kernel;
  /** The policies in force now, and what is wrong with their files; one with errors allows nothing. */
  policies(): PolicyState;
  readonly keys: KeyFolder;
  readonly trustStore: TrustStore;
  readonly catalogs: Catalogs;
  readonly audit: Audit;
  /** Probed once, when first asked. */
  sandbox(): Promise<SandboxReport>;
  caller(options?: CallOptions): Caller;
  /** One verb, plain JSON in and out: what the command line, MCP and programs use. */
  call(verb: Verb, request: JsonObject, options?: CallOptions): Promise<Outcome<Json>>;
  /** The short universal text that tells a model how to use the four tools. */
  instructions(): string;
  /** Threads of this project; the registry is opened when first asked for. */
  threads(live?: Live): Promise<Outcome<Threads>>;
  /** Ends watches; nothing of the runtime stays behind. */
  close(): Promise<void>;
}

/** What a live view is told. */
export type Live = Pick<World, 'onEvent' | 'onText'>;

export interface Threads {
  /** As the file has it: known secrets are references. */
  readonly store: Store;
  /** A journal with its secrets in place: for replay. */
  history(id: string): Outcome<StoredEvent[]>;
  run(request: RunRequest, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  resume(id: string, signal?: AbortSignal): Promise<Outcome<ThreadResult>>;
  /** An ended thread again, from its journal, without a model and without tools. */
  replay(id: string, options?: ReplayOptions): Promise<Outcome<ReplayReport>>;
}

export const BUNDLE = fileURLToPath(new URL('../bundle', import.meta.url));
type Env = NonNullable<RuntimeOptions['env']>;

export const homeOf = (env: Env): string =>
  resolve(env.KERNMANTLE_HOME ?? join(env.HOME ?? homedir(), '.ai'));

/** The nearest folder upwards that has `.ai`; the start when there is none. The home is no project. */
export function findProject(start: string, home: string): string {
  for (let dir = resolve(start); ; dir = dirname(dir)) {
    if (existsSync(join(dir, '.ai')) && join(dir, '.ai') !== home) return dir;
    if (dirname(dir) === dir) return resolve(start);
  }
}

/** Weakest last: a lower level can only narrow what those above leave. */
const policyPlaces = (project: string, home: string, env: Env): PolicyPlace[] => [
  { level: 'operator', file: env.KERNMANTLE_POLICY ?? '/etc/kernmantle/policy.yaml' },
  { level: 'user', file: join(home, 'policy.yaml') },
  { level: 'project', file: join(project, '.ai', 'policy.yaml') },
  { level: 'bundle', file: join(BUNDLE, 'policy.yaml') },
];

/**
 * Where audit and label records live: beside the project's items, or in the user's folder. A `.ai`
 * that is a link out of the project could be anybody's folder.
 */
function recordsFolder(project: string, home: string): string {
  const items = join(project, '.ai');
  return existsSync(items) && isInside(project, realpathSync(items)) ? items : home;
}

/** Hosts that a provider's base URL names are reachable although they may be private. */
function providerHosts(env: Env): ReadonlySet<string> {
  const urls = Object.entries(env).filter(([name]) => /^[A-Z]+_BASE_URL$/.test(name));
  return new Set(urls.flatMap(([, url]) => (url && URL.canParse(url) ? [hostAndPort(url)] : [])));
}

/** With its port, also where the scheme says it: one service of a machine is not the machine. */
function hostAndPort(text: string): string {
  const url = new URL(text);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return `${url.hostname.replace(/^\[|\]$/g, '')}:${port}`;
}

/** Everything a runtime stands on, made once from its options. */
interface Ground {
  project: string;
  home: string;
  env: Env;
  clock: Clock;
  policies: PolicyFiles;
  trustStore: TrustStore;
  keys: KeyFolder;
  catalogs: Catalogs;
  audit: Audit;
  /** Filled after the library exists: the library asks for names, the primitives for the library. */
  primitives: Map<string, Primitive>;
  sandbox(): Promise<SandboxReport>;
  /** The threads this process runs, from the first one on. */
  live?: LiveThreads;
  runners?: RuntimeOptions['runners'];
  within?: Within;
  /** Other projects that threads were started in. */
  elsewhere: Map<string, Promise<Outcome<Project>>>;
  /** Takes what a thread knows to be secret out of a text. */
  mask?: (thread: string, text: string) => string;
}

/** A project whose threads were started from another one: they live in that one's registry. */
interface Within {
  project: string;
  store: Store;
  live: LiveThreads;
}

/** Both policies apply: each can only narrow. */
const policyOf = (within: Within | undefined): PolicyPlace[] =>
  within ? [{ level: 'project', file: join(within.project, '.ai', 'policy.yaml') }] : [];

function openGround(options: RuntimeOptions, within?: Within): Outcome<Ground> {
  const { cwd = process.cwd(), env = process.env, clock = systemClock } = options;
  const home = homeOf(env);
  const wanted = resolve(cwd, options.project ?? findProject(cwd, home));
  if (!existsSync(wanted)) return fail('not_found', `there is no project folder \`${wanted}\``);
  const project = realpathSync(wanted);
  const trustStore = createTrustStore(join(home, 'trust.jsonl'), clock);
  const audit = createAudit(join(recordsFolder(project, home), 'audit.jsonl'), clock);
  let probed: Promise<SandboxReport> | undefined;
  const ground: Ground = {
    project,
    home,
    env,
    clock,
    policies: createPolicyFiles(
      [...policyOf(within), ...policyPlaces(project, home, env)],
      (_text, file) => {
        const verified = verifyItem(file, trustStore);
        return verified.ok && verified.output.state === 'signed';
      },
    ),
    trustStore,
    keys: createKeyFolder(join(home, 'keys')),
    catalogs: createCatalogs({ project, home, trustStore, clock, env }),
    audit: {
      ...audit,
      write(row) {
        const mask = (text: string) => ground.mask?.(row.caller, text) ?? text;
        return audit.write({ ...row, operation: mask(row.operation), reason: mask(row.reason) });
      },
    },
    primitives: new Map(),
    elsewhere: new Map(),
    ...(options.runners ? { runners: options.runners } : {}),
    ...(within ? { within, live: within.live } : {}),
    sandbox() {
      probed ??= probeSandboxNow();
      return probed;
    },
  };
  return ok(ground);
}

async function processPorts(ground: Ground): Promise<ProcessPorts> {
  const { clock, env, project, home } = ground;
  const { policy } = ground.policies.current();
  return {
    clock,
    env,
    sandbox: await ground.sandbox(),
    policySandbox: policy.sandbox,
    // The composed policy already ignores `sandbox: none` from a file without authority.
    allowUnsandboxed: policy.sandbox === 'none',
    outputDir: () => join(recordsFolder(project, home), 'outputs'),
    hidden: [home],
  };
}

/** Private and loopback targets: granted by policy, or named as a provider's base URL. */
function hostGate({ env, policies }: Ground) {
  const granted = providerHosts(env);
  return (host: string, _address: string, port: number): boolean =>
    policies.current().policy.isHostAllowed(host) || granted.has(`${host}:${port}`);
}

function mountPrimitives(ground: Ground, program: ProgramTools['functions']): void {
  const ports = {
    clock: ground.clock,
    isHostAllowed: hostGate(ground),
    process: () => processPorts(ground),
    program,
  };
  for (const primitive of shippedPrimitives(ports))
    ground.primitives.set(primitive.name, primitive);
}

function createRunner(ground: Ground, library: Library, labels: LabelRecords) {
  const { project, clock, env, policies, primitives } = ground;
  const signatures = (): SignaturePolicy => {
    const { catalog } = library.capabilities();
    return {
      allowsUnsigned: policies.current().policy.allowsUnsigned,
      isRead: (capability) => catalog.get(capability)?.tier === 'read',
    };
  };
  return createToolRunner({
    library,
    primitives,
    sinks: {
      library,
      signatures,
      factories: shippedSinks({ isHostAllowed: hostGate(ground), clock }),
      moduleSink: moduleSink(() => processPorts(ground)),
    },
    retry: {
      sleep: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
    },
    labels,
    clock,
    env,
    projectRoot: project,
    signatures,
    prepare: (plan, signal) =>
      prepareDependencies(plan, project, policies.current().policy.install, { clock, env, signal }),
  });
}

/** What a token is worth under the policies and capabilities in force now. */
function createVerify(ground: Ground, library: Library): TokenVerifier['verify'] {
  const { project, clock, policies, keys } = ground;
  let made:
    | { catalog: CapabilityCatalog; policy: ComposedPolicy; verifier: TokenVerifier }
    | undefined;
  return (auth, thread) => {
    const { catalog } = library.capabilities();
    const { policy } = policies.current();
    // Verified tokens are cached inside; new ceilings or capabilities start a new cache.
    if (made?.catalog !== catalog || made.policy !== policy) {
      const root = keys.tokenKey();
      if (!root.ok) return root;
      const verifier = createTokenVerifier({
        roots: [{ id: root.output.id, key: root.output.publicKey }],
        audience: 'kernmantle',
        project,
        clock,
        catalog,
        ceilings: policy.ceilings(),
      });
      made = { catalog, policy, verifier };
    }
    return made.verifier.verify(auth, thread);
  };
}

/** Who speaks for a caller: its token, or the operator's policy for the surface. */
function createAuthorize(ground: Ground, library: Library): Authorize {
  const verify = createVerify(ground, library);
  return (caller) => {
    // What could not be recorded is not begun.
    const ready = ground.audit.ready();
    if (!ready.ok) return ready;
    if (caller.__auth === undefined) {
      const { policy } = ground.policies.current();
      const { catalog } = library.capabilities();
      return ok(keepOut(policyAuthority(policy, caller.surface, catalog), ground));
    }
    const token = verify(caller.__auth, caller.__thread_id);
    return token.ok ? ok(keepOut(tokenAuthority(token.output), ground)) : token;
  };
}

/** A caller without a thread: its frame carries the policy and writes the audit. */
function callerOf(ground: Ground, { surface = 'library', name = '', signal }: CallOptions): Caller {
  const record = (entry: RecordEntry): void => {
    const row = auditRow(entry, { surface, caller: name, subject: `policy:${surface}` });
    const written = ground.audit.write(row);
    // What cannot be recorded counts as failed; the pipeline turns this into an outcome.
    if (!written.ok) throw new Error(written.error.detail.message);
  };
  const frame = createFrame({ policy: ground.policies.current().policy, ports: { record } });
  return { surface, name, frame, ...(signal ? { signal } : {}) };
}

function createVerbs(ground: Ground, library: Library, more: readonly Kind[]): Kernel {
  const labels = createLabelRecords(
    join(recordsFolder(ground.project, ground.home), 'labels.jsonl'),
  );
  const marks = createItemMarks(labels);
  const runner = createRunner(ground, library, labels);
  const modify = createModifier(library, marks);
  return createKernel({
    library,
    authorize: createAuthorize(ground, library),
    kinds: [
      toolKind(library, runner, modify),
      directiveKind(library, modify, marks),
      knowledgeKind(library, modify, marks),
      ...more,
    ],
    marks,
    signal: async (signal, caller) => {
      const running = ground.live?.get(caller.__thread_id ?? '');
      if (running) return await running.thread.help(signal);
      const message = 'no thread is running this call, so there is nobody to signal';
      return ok({ action: signal.action, delivered: false, message });
    },
    copies: {
      copy: (item, level) =>
        copyItem(item, level === 'user' ? ground.home : join(ground.project, '.ai')),
      fromCatalog: async (kind, id, level) => await ground.catalogs.copy(kind, id, level),
    },
    searchCatalog: ({ query, item_type, limit }) =>
      ground.catalogs.search({
        text: query,
        ...(item_type === undefined ? {} : { kind: item_type as ItemKind }),
        ...(limit === undefined ? {} : { limit }),
      }),
    refused: (verb, target, { surface, name = '' }, { error }) => {
      ground.audit.write({
        surface,
        caller: name,
        subject: '',
        operation: `${verb}:${target}`,
        decision: error.code === 'permission_denied' ? 'denied' : 'failed',
        reason: `${error.code}: ${error.detail.message}`,
      });
    },
  });
}

/** A registry that was not made with this user's key came with a stranger's project: refused. */
async function openRegistry({ project, clock, keys }: Ground): Promise<Outcome<Store>> {
  const { deriveVaultKey, openStore } = await import('./store/index.ts');
  const key = keys.tokenKey();
  if (!key.ok) return key;
  const identity = deriveVaultKey(key.output.exportPrivate());
  return openStore({ file: join(project, '.ai', 'threads', 'registry.db'), clock, identity });
}

const THREAD_ACTIONS: readonly ThreadAction[] = [
  ...(['status', 'wait', 'pause', 'resume', 'inject', 'cancel'] as const),
];

/** How chains and `execute` reach threads; the harness is loaded when the first call does. */
function reachThreads(
  ground: Ground,
  world: () => Promise<Outcome<World>>,
): { primitive: Primitive; kind: Kind } {
  const load = async () => {
    const harness = await import('./harness/index.ts');
    ground.live ??= harness.createLiveThreads();
    return { ...harness, ports: { live: ground.live, world } };
  };
  return {
    primitive: {
      name: 'thread',
      async run(call) {
        const { createThreadPrimitive, ports } = await load();
        return await createThreadPrimitive(ports).run(call);
      },
      plan: (call) => ({ thread: call.config.function ?? call.tool.id }),
    },
    kind: {
      name: 'thread',
      actions: THREAD_ACTIONS,
      async execute(...request) {
        const { threadKind, ports } = await load();
        return await threadKind(ports).execute(...request);
      },
    },
  };
}

/** Nothing runs on in a closed runtime; what is not over can be resumed. */
async function stopThreads({ live }: Ground): Promise<void> {
  const running = live?.all() ?? [];
  for (const { thread } of running) {
    thread.stop({ status: 'interrupted', reason: 'the runtime was closed' });
  }
  await Promise.all(running.map(({ done }) => done));
}

/** A registry for one use; nothing of it stays. */
async function inEmptyRegistry<T>(
  work: (store: Store) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const { openStore } = await import('./store/index.ts');
  const dir = mkdtempSync(join(tmpdir(), 'kernmantle-replay-'));
  const opened = openStore({ file: join(dir, 'registry.db'), clock: systemClock });
  try {
    return opened.ok ? await work(opened.output) : opened;
  } finally {
    if (opened.ok) opened.output.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Another project's items, policy and instructions, over the registry of this one. */
async function openElsewhere(
  ground: Ground,
  world: World,
  path: string,
  allow: (real: string) => Outcome<null>,
): Promise<Outcome<World>> {
  const wanted = resolve(ground.project, path);
  if (!existsSync(wanted)) return fail('not_found', `there is no project folder \`${wanted}\``);
  const project = realpathSync(wanted);
  if (project === ground.project) return ok(world);
  const allowed = allow(project);
  if (!allowed.ok) return allowed;
  const { store, live } = world;
  const { env, clock } = ground;
  const opening =
    ground.elsewhere.get(project) ??
    openProject({ project, env, clock }, { project: ground.project, store, live });
  ground.elsewhere.set(project, opening);
  const opened = await opening;
  return opened.ok ? await opened.output.world() : opened;
}

/** The harness over this project; its code is loaded when the first thread is. */
async function createThreads(
  ground: Ground,
  library: Library,
  kernel: Kernel,
  store: Store,
  live: Live,
): Promise<{ threads: Threads; world: World }> {
  const [harness, { createPrices }] = await Promise.all([
    import('./harness/index.ts'),
    import('./llm/index.ts'),
  ]);
  const { createLiveThreads, createModelPort, resumeThread, runDirective, watchThreads } = harness;
  const { auditCalls } = harness;
  const frame = () => createFrame({ policy: ground.policies.current().policy });
  const watch = watchThreads({
    ...ground,
    dir: join(ground.within?.project ?? ground.project, '.ai', 'threads'),
    store,
    library,
    kernel,
    frame,
    policy: () => ground.policies.current().policy,
    key: () => ground.keys.tokenKey(),
    live,
    trouble: (message) => {
      ground.audit.write({
        surface: 'harness',
        caller: 'watch',
        subject: '',
        operation: 'record:thread',
        decision: 'failed',
        reason: message,
      });
    },
  });
  ground.live ??= createLiveThreads();
  ground.mask = watch.mask;
  const textOf = (id: string): string => {
    const found = library.find('knowledge', id);
    return found.ok ? found.output.text : '';
  };
  const world: World = {
    project: ground.project,
    kernel: auditCalls(kernel, ground.audit),
    library,
    store: watch.store,
    clock: ground.clock,
    random: systemRandom,
    owner: `${hostname()}:${process.pid}`,
    policies: () => ground.policies.current(),
    prices: () => createPrices(library.config('pricing').value, { clock: ground.clock }),
    models: () => library.config('models').value,
    tokenKey: () => ground.keys.tokenKey(),
    verifyToken: createVerify(ground, library),
    model: createModelPort(kernel),
    frame,
    bareFrame: () => createFrame(),
    instructions: () => ({
      agents: textOf('AGENTS'),
      universal: textOf('system/universal_prompt'),
    }),
    env: ground.env,
    live: ground.live,
    ...(ground.runners ? { runners: ground.runners } : {}),
    elsewhere: (path, allow) => openElsewhere(ground, world, path, allow),
    async resume(id) {
      const row = store.thread(id);
      if (!row.ok) return row;
      // The right to be there was given when the thread was started.
      const there = await openElsewhere(ground, world, row.output.project, () => ok(null));
      return there.ok ? await resumeThread(there.output, id) : there;
    },
    transcript: watch.transcript,
    ...(watch.onEvent ? { onEvent: watch.onEvent } : {}),
    ...(watch.onText ? { onText: watch.onText } : {}),
  };
  const told = async (
    run: () => Promise<Outcome<ThreadResult>>,
  ): Promise<Outcome<ThreadResult>> => {
    await watch.ready();
    const result = await run();
    await watch.settled();
    return watch.shown(result);
  };
  const threads: Threads = {
    store,
    history: watch.history,
    run: (request, signal) => told(() => runDirective(world, request, signal)),
    resume: (id, signal) => told(() => resumeThread(world, id, signal)),
    replay: (id, options) =>
      inEmptyRegistry((empty) => harness.replayThread(world, id, store, empty, options)),
  };
  return { threads, world };
}

/** Opens a project. Nothing of it is run; what is wrong with it shows where it is used. */
export async function createRuntime(options: RuntimeOptions = {}): Promise<Outcome<Runtime>> {
  const opened = await openProject(options);
  return opened.ok ? ok(opened.output.runtime) : opened;
}

interface Project {
  runtime: Runtime;
  /** For callers outside of threads. */
  world(): Promise<Outcome<World>>;
}

async function openProject(options: RuntimeOptions, within?: Within): Promise<Outcome<Project>> {
  const opened = openGround(options, within);
  if (!opened.ok) return opened;
  const ground = opened.output;
  const files = createLibrary({
    roots: () => itemRoots(ground.project, ground.home, BUNDLE),
    projectRoot: ground.project,
    primitives: () => [...ground.primitives.keys()],
    trustStore: ground.trustStore,
    clock: ground.clock,
  });
  const programs = withProgramTools(files, options.tools ?? []);
  if (!programs.ok) return programs;
  const { library, functions } = programs.output;
  mountPrimitives(ground, functions);
  let plain: World | undefined;
  const world = async (): Promise<Outcome<World>> => {
    const made = plain ? ok({ world: plain }) : await openThreads({});
    if (!made.ok) return made;
    plain = made.output.world;
    return ok(plain);
  };
  const reached = reachThreads(ground, world);
  ground.primitives.set(reached.primitive.name, reached.primitive);
  await library.refresh();
  const kernel = createVerbs(ground, library, [reached.kind]);
  const { project, home, keys, trustStore, catalogs, audit } = ground;
  let opening: Promise<Outcome<Store>> | undefined = within && Promise.resolve(ok(within.store));
  const openThreads = async (live: Live) => {
    opening ??= openRegistry(ground);
    const store = await opening;
    if (!store.ok) {
      opening = undefined;
      return store;
    }
    return ok(await createThreads(ground, library, kernel, store.output, live));
  };
  const runtime: Runtime = {
    project,
    home,
    library,
    kernel,
    policies: () => ground.policies.current(),
    keys,
    trustStore,
    catalogs,
    audit,
    sandbox: () => ground.sandbox(),
    caller: (call = {}) => callerOf(ground, call),
    async call(verb, request, call = {}) {
      // Labelled values are for those who hold some; JSON cannot claim labels of its own.
      const { values: _values, ...plain } = request;
      const answer = await kernel[verb](plain as never, callerOf(ground, call));
      return answer.ok ? ok(answer.output.data) : answer;
    },
    instructions() {
      const found = library.find('knowledge', 'system/universal_prompt', 'bundle');
      return found.ok ? found.output.text.trim() : '';
    },
    async threads(live = {}) {
      const made = await openThreads(live);
      return made.ok ? ok(made.output.threads) : made;
    },
    async close() {
      // What threads share belongs to the project they were started from.
      if (!within) await stopThreads(ground);
      library.close();
      for (const other of ground.elsewhere.values()) {
        const there = await other;
        if (there.ok) await there.output.runtime.close();
      }
      const store = await opening;
      if (store?.ok && !within) store.output.close();
    },
  };
  return ok({ runtime, world });
}
