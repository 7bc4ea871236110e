// Creates the parts of an opened project from its options: folders, policies, keys, records, and network
// rights. It reads files and runs no code of the project.
import { hash } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import {
  type Clock,
  fail,
  getOwn,
  isInside,
  type Outcome,
  objectAt,
  ok,
  packagePath,
  systemClock,
  withoutFolder,
} from '../base/index.ts';
import {
  createPolicyFiles,
  type LabelRecords,
  type PolicyFiles,
  type PolicyPlace,
} from '../flow/index.ts';
import type { HarnessPorts, LiveThreads, ModelPort, Runner, ScriptPort } from '../harness/index.ts';
import { type Catalogs, createCatalogs, examinePolicy, type Library } from '../items/index.ts';
import {
  type Audit,
  createAudit,
  type EmbeddedKernel,
  forwardAudit,
  isHeldFolder,
  type Primitive,
  type ProcessPorts,
  type ProgramTool,
  probeSandboxNow,
  type SandboxReport,
  withUserAudit,
} from '../kernel/index.ts';
import type { ProviderEndpoint, SdkModel } from '../llm/index.ts';
import type { SqliteOptions, Store } from '../store/index.ts';
import {
  createKeyFolder,
  createTrustStore,
  type KeyFolder,
  type KeyPair,
  type TokenVerifier,
  type TokenVerifierPorts,
  type TrustStore,
} from '../trust/index.ts';
import { chooseStore } from './user-settings.ts';

/** A person who can log in to a server in a browser. */
export interface Authorizer {
  /** The server sends the browser back to this address. */
  readonly redirectUrl: string;
  /**
   * Shows the page to the person. Returns the address that the browser was sent back to, with its query. Fails
   * with `cancelled` if the signal aborts.
   */
  authorize(page: string, signal: AbortSignal): Promise<Outcome<string>>;
}

export interface RuntimeOptions {
  /** Folder of the project. Default: the nearest folder upwards from `cwd` with `.ai`. */
  project?: string;
  cwd?: string;
  env?: Readonly<Record<string, string | undefined>>;
  clock?: Clock;
  tools?: readonly ProgramTool[];
  /** Loops of the embedding program, by the name that `spawn_thread` gets as `runner`. */
  runners?: Readonly<Record<string, Runner>>;
  /** A present person who can log in to MCP servers. */
  login?: Authorizer;
  /**
   * `postgres://…`: the registry is on that server and not in the project, and workers run the threads.
   * Default: `KERNMANTLE_STORE`, then `store` in the user's `settings.yaml`. Empty: always the project's own.
   */
  store?: string;
  /** Tenant of the threads in a shared store. Default: `KERNMANTLE_TENANT`, then the settings. */
  tenant?: string;
  /** Endpoint that replaces every provider. `key` names the variable with its key. */
  standIn?: ProviderEndpoint;
  /** Model objects of the AI SDK, by the name that a directive or a run uses. */
  models?: Readonly<Record<string, SdkModel>>;
  /** Opens another registry than the file of the project. */
  openStore?: (options: SqliteOptions) => Promise<Outcome<Store>>;
}

/** Options of the packages of this repository. An embedding program gets `RuntimeOptions`. */
export interface ProjectOptions extends RuntimeOptions {
  /** Present if there is no project. */
  detached?: Detached;
  /** Policies of the embedding program, which can only narrow the rights. */
  policies?: readonly PolicyPlace[];
  /** Replaces every provider. No key is needed. */
  model?: ModelPort;
}

/** Parts of a runtime that has no project. It reads no `.ai` folder of a project and writes no file of its own. */
interface Detached {
  /** File of the registry. Absent: the registry and the keys are in memory. */
  readonly registry?: string;
  /** False: the user's folder is not read. */
  readonly user: boolean;
}

/** A path that cannot exist, so a runtime without a project finds no file below it and writes none. */
const NOWHERE = '/dev/null/kernmantle';

/** True if other machines can use the same store. */
export const isSharedStore = ({ shared, own }: Pick<OpenProject, 'shared' | 'own'>): boolean =>
  shared.address !== undefined || own.openStore !== undefined;

export const BUNDLE = packagePath('bundle');

type Env = NonNullable<RuntimeOptions['env']>;

/**
 * Returns the nearest folder upwards with one of the signs, or the start if there is none. The home
 * folder is never a project.
 */
export function findProject(start: string, home: string, signs: readonly string[]): string {
  for (let dir = resolve(start); ; dir = dirname(dir)) {
    const places = signs.map((name) => join(dir, name));
    if (places.some((place) => place !== home && existsSync(place))) return dir;
    if (dirname(dir) === dir) return resolve(start);
  }
}

/**
 * Returns policy files from the operator to the project. A lower level can only narrow the rights. The variable
 * comes from the environment of the process, so it adds a policy and never removes the one of the machine.
 */
const policyPlaces = (project: string, home: string, cwd: string, env: Env): PolicyPlace[] => [
  { level: 'operator', file: '/etc/kernmantle/policy.yaml' },
  ...(env.KERNMANTLE_POLICY
    ? [{ level: 'operator', file: resolve(cwd, env.KERNMANTLE_POLICY), isRequired: true } as const]
    : []),
  { level: 'user', file: join(home, 'policy.yaml') },
  { level: 'project', file: join(project, '.ai', 'policy.yaml') },
  { level: 'bundle', file: join(BUNDLE, 'policy.yaml') },
];

/**
 * Returns the folder of audit and label records: beside the project's items, or the user's folder. A
 * `.ai` that is a link out of the project could be any folder, and one that exists only during the run
 * of a child is not permanent.
 */
export function recordsFolder(project: string, home: string): string {
  const items = join(project, '.ai');
  const isOwn = existsSync(items) && isInside(realpathSync(items), project);
  return isOwn && !isHeldFolder(items) ? items : home;
}

/** Returns the hosts of base URLs of providers. They are reachable even if they are private. */
function providerHosts(env: Env): ReadonlySet<string> {
  const urls = Object.entries(env).filter(([name]) => /^[A-Z]+_BASE_URL$/.test(name));
  return new Set(urls.flatMap(([, url]) => (url && URL.canParse(url) ? [hostAndPort(url)] : [])));
}

/**
 * Returns the host with its port, also a default one, because one service of a machine is not the whole
 * machine.
 */
export function hostAndPort(text: string): string {
  const url = new URL(text);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return `${url.hostname.replace(/^\[|\]$/g, '')}:${port}`;
}

/** Another project in which threads of this one work. */
export interface OtherProject {
  runtime: { close(): Promise<void> };
  harness(): Promise<Outcome<HarnessPorts>>;
}

export type OpenOther = (
  options: ProjectOptions,
  host: HostProject,
) => Promise<Outcome<OtherProject>>;

/** The parts of an opened project, created once from its options. */
export interface OpenProject {
  /**
   * Only the harness gets this object. Its calls that open a thread carry it, and no person is asked
   * about them.
   */
  readonly tierExemption: object;
  project: string;
  home: string;
  env: Env;
  clock: Clock;
  policies: PolicyFiles;
  trustStore: TrustStore;
  keys: KeyFolder;
  catalogs: Catalogs;
  audit: Audit;
  /** Primitives by name. They are added after the library is created, because each of the two needs the other. */
  primitives: Map<string, Primitive>;
  sandbox(): Promise<SandboxReport>;
  /** Threads that this process runs. Absent before the first thread. */
  live?: LiveThreads;
  /** Parts that the embedding program replaces. */
  own: Pick<
    ProjectOptions,
    'runners' | 'openStore' | 'login' | 'tenant' | 'standIn' | 'detached' | 'model' | 'models'
  > & { storeFrom?: string };
  host?: HostProject;
  /** Other projects in which threads were started, opened with this one's registry. */
  others: { readonly known: Map<string, Promise<Outcome<OtherProject>>>; readonly open: OpenOther };
  /** Opens the registry and creates a missing one. */
  store?: () => Promise<Outcome<Store>>;
  /** The user's own memory. Absent: no call has needed it. */
  userMemory?: Promise<Outcome<Store>>;
  /** State that machines share. Only the address is set from the start. */
  shared: {
    /** Address of the store's server, which may contain a password. Absent: a file of the project. */
    readonly address?: string;
    labels?: LabelRecords;
  };
  /** State of threads from the registry. Absent before the first thread. */
  registry?: Registry;
  /** One verifier with one cache for all callers. */
  verify?: TokenVerifier['verify'];
  /** Masks the secrets of a thread in a text. */
  mask?: (thread: string, text: string) => string;
}

/** A project and the services over it. */
export interface RuntimeContext {
  open: OpenProject;
  library: Library;
  kernel: EmbeddedKernel;
  /** Returns the port that runs scripts of directives and hooks. An extension provides it. */
  script(): ScriptPort;
  /** Applies the extensions to a model port, such as limits that the users of a store share. */
  model(store: Store, model: ModelPort): ModelPort;
}

/** The state of threads, for every use of a capability token. */
export interface Registry extends Required<Pick<TokenVerifierPorts, 'useApproval'>> {
  /**
   * `revoked`: the thread and its descendants were ended, or are being ended. `ended`: its own token is invalid,
   * and those of its running children are valid. It does no I/O: commits report the state of threads of this
   * process, and `learn` has read the others.
   */
  standing(thread: string): 'good' | 'ended' | 'revoked' | 'unknown';
  /** Reads the state of a thread that runs elsewhere. */
  learn(thread: string): Promise<void>;
}

/** A project in which threads of this one were started. Their registry is there. */
export interface HostProject {
  project: string;
  store: Store;
  live: LiveThreads;
}

/** Returns the policy of the host project. It applies in addition, and can only narrow the rights. */
const policyOf = (host: HostProject | undefined): PolicyPlace[] =>
  host ? [{ level: 'project', file: join(host.project, '.ai', 'policy.yaml') }] : [];

/**
 * These variables give access to the store and the keys of all projects. They are never passed to a tool
 * process.
 */
const OWN_VARIABLES = ['KERNMANTLE_STORE', 'KERNMANTLE_KEY_PASSPHRASE'] as const;

function withoutOwnVariables(env: Env): Env {
  if (OWN_VARIABLES.every((name) => !env[name])) return env;
  return { ...env, ...Object.fromEntries(OWN_VARIABLES.map((name) => [name, undefined])) };
}

/** Surfaces whose caller is a thread. */
const THREAD_SURFACES: ReadonlySet<string> = new Set(['thread', 'harness']);

/** Fails for every row, because a runtime without a project has no file for rows that its registry refused. */
const NO_AUDIT: Audit = {
  ready: () => ok(null),
  write: () => fail('internal_error', 'the registry has refused a row of the audit'),
  read: () => ok([]),
};

/** Returns the real path of the project. Fails with `not_found` if the folder does not exist. */
function projectFolder(options: ProjectOptions, cwd: string, home: string): Outcome<string> {
  if (options.detached) return ok(NOWHERE);
  const folder = resolve(cwd, options.project ?? findProject(cwd, home, ['.ai']));
  if (!existsSync(folder)) return fail('not_found', `project folder \`${folder}\` not found`);
  return ok(realpathSync(folder));
}

export function openProject(
  options: ProjectOptions,
  openOther: OpenOther,
  host?: HostProject,
): Outcome<OpenProject> {
  const { cwd = process.cwd(), env = process.env, clock = systemClock } = options;
  const { detached } = options;
  const home =
    detached?.user === false
      ? `${NOWHERE}/user`
      : resolve(env.KERNMANTLE_HOME ?? join(env.HOME ?? homedir(), '.ai'));
  const found = projectFolder(options, cwd, home);
  if (!found.ok) return found;
  const project = found.output;
  const chosen = chooseStore(options, env, home);
  if (!chosen.ok) return chosen;
  const { address, from, tenant } = chosen.output;
  const trustStore = createTrustStore(join(home, 'trust.jsonl'), clock);
  const file = detached
    ? NO_AUDIT
    : createAudit(join(recordsFolder(project, home), 'audit.jsonl'), clock);
  // In a shared registry the audit has the rows of all machines.
  const ofProject =
    address === undefined && !detached
      ? file
      : forwardAudit(file, async (rows) => {
          const store = await open.store?.();
          if (!store) return fail('store_closed', 'the registry is closed');
          return store.ok ? await store.output.audit(rows) : store;
        });
  const audit = detached
    ? ofProject
    : withUserAudit(ofProject, createAudit(join(home, 'trust', 'audit.jsonl'), clock));
  const places = [
    ...(options.policies ?? []),
    ...policyOf(host),
    ...policyPlaces(project, home, cwd, env),
  ];
  let probed: Promise<SandboxReport> | undefined;
  const open: OpenProject = {
    tierExemption: Object.freeze({}),
    project,
    home,
    env: withoutOwnVariables(env),
    clock,
    policies: createPolicyFiles(
      places,
      (text, file) => examinePolicy(text, file, trustStore),
      clock,
      project,
    ),
    trustStore,
    keys: createKeyFolder(
      join(home, 'keys'),
      undefined,
      detached !== undefined && detached.registry === undefined,
    ),
    catalogs: createCatalogs({ project, home, trustStore, clock, env: withoutOwnVariables(env) }),
    audit: {
      ...audit,
      write(row) {
        const { caller, operation, target, reason } = row;
        const mask = (text: string): string =>
          withoutFolder(open.mask?.(caller, text) ?? text, project);
        const display = {
          ...row,
          operation: mask(operation),
          target: mask(target),
          reason: mask(reason),
        };
        // INVARIANT: rows of a thread are always in the registry, in the commit of their event.
        const isOfThread = THREAD_SURFACES.has(row.surface);
        const running = isOfThread ? open.live?.get(caller)?.thread : undefined;
        return running?.journal.audit(display) ? ok(null) : audit.write(display);
      },
    },
    primitives: new Map(),
    shared: { ...(address !== undefined && { address }) },
    others: { known: new Map(), open: openOther },
    own: { ...options, storeFrom: from, ...(tenant !== undefined && { tenant }) },
    ...(host ? { host, live: host.live } : {}),
    sandbox() {
      probed ??= probeSandboxNow();
      return probed;
    },
  };
  return ok(open);
}

/** Returns the user's key and trusts it here unless it was revoked. Creates a missing key. */
export function ownKey({
  keys,
  trustStore,
}: Pick<OpenProject, 'keys' | 'trustStore'>): Outcome<KeyPair> {
  const key = keys.signingKey();
  if (!key.ok) return key;
  const trusted = trustStore.list();
  if (!trusted.ok) return trusted;
  const { id, publicKey } = key.output;
  if (trusted.output.some((entry) => entry.id === id)) return key;
  const added = trustStore.add({ id, key: publicKey, name: 'me' });
  return added.ok ? key : added;
}

export async function processPorts(open: OpenProject): Promise<ProcessPorts> {
  const { clock, env, project, home } = open;
  const { policy } = open.policies.current();
  return {
    clock,
    env,
    sandbox: await open.sandbox(),
    policySandbox: policy.sandbox,
    outputDir: () => join(recordsFolder(project, home), 'outputs'),
    hidden: [home],
    aside: join(home, 'set-aside', hash('sha256', project).slice(0, 16)),
    install: policy.install,
  };
}

/** Returns hosts of the providers in the user's own models.yaml. The file of a project is ignored. */
function ownProviderHosts(library: Pick<Library, 'config'>): string[] {
  const own = library.config('models').layers.filter(({ source }) => source === 'user');
  return own.flatMap(({ value }) => {
    return Object.values(objectAt(value, 'providers')).flatMap((provider) => {
      const url = getOwn(provider, 'base_url');
      return typeof url === 'string' && URL.canParse(url) ? [hostAndPort(url)] : [];
    });
  });
}

/** Allows private and loopback targets that a policy grants, or that a provider's base URL names. */
export function hostGate({ env, policies }: OpenProject, library: Pick<Library, 'config'>) {
  const granted = providerHosts(env);
  return (host: string, _address: string, port: number): boolean => {
    const address = `${host}:${port}`;
    if (policies.current().policy.isHostAllowed(host) || granted.has(address)) return true;
    return ownProviderHosts(library).includes(address);
  };
}
