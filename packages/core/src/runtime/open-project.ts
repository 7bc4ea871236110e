// What a runtime stands on: folders, policies, keys, records, and who may reach where. Made once from
// its options; opening it reads files and runs nothing.
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
import type { ProviderEndpoint } from '../llm/index.ts';
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
  /** Folder of the project; default: the nearest folder upwards from `cwd` that has `.ai`. */
  project?: string;
  cwd?: string;
  env?: Readonly<Record<string, string | undefined>>;
  clock?: Clock;
  tools?: readonly ProgramTool[];
  /** Loops of the embedding program, by the name that `spawn_thread` is given as `runner`. */
  runners?: Readonly<Record<string, Runner>>;
  /** A person who is there to log in to MCP servers. */
  login?: Authorizer;
  /**
   * `postgres://…`: the registry is there and not in the project, and workers run the threads; default:
   * `KERNMANTLE_STORE`, then `store` in the user's `settings.yaml`. Empty: the project's own, in any case.
   */
  store?: string;
  /** Whose threads these are, where several share a store; default: `KERNMANTLE_TENANT`, then the settings. */
  tenant?: string;
  /** Answers in the place of every provider; `key` names the variable that holds its key. */
  standIn?: ProviderEndpoint;
  /** Another registry than the file of the project. */
  openStore?: (options: SqliteOptions) => Promise<Outcome<Store>>;
}

/** May it be that machines share the store of this project? */
export const mayShare = ({ shared, own }: Pick<OpenProject, 'shared' | 'own'>): boolean =>
  shared.address !== undefined || own.openStore !== undefined;

export const BUNDLE = packagePath('bundle');

type Env = NonNullable<RuntimeOptions['env']>;

/** The nearest folder upwards that has a sign; the start when there is none. The home is no project. */
export function findProject(start: string, home: string, signs: readonly string[]): string {
  for (let dir = resolve(start); ; dir = dirname(dir)) {
    const places = signs.map((name) => join(dir, name));
    if (places.some((place) => place !== home && existsSync(place))) return dir;
    if (dirname(dir) === dir) return resolve(start);
  }
}

/**
 * Weakest last: a lower level can only narrow what those above leave. The variable is in the hands of
 * whoever starts the process, so it adds a policy and never takes the machine's away.
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
 * Where audit and label records live: beside the project's items, or in the user's folder. A `.ai`
 * that is a link out of the project could be anybody's folder, and one that is there for the time of a
 * child alone is none.
 */
export function recordsFolder(project: string, home: string): string {
  const items = join(project, '.ai');
  const isOwn = existsSync(items) && isInside(realpathSync(items), project);
  return isOwn && !isHeldFolder(items) ? items : home;
}

/** Hosts that a provider's base URL names are reachable although they may be private. */
function providerHosts(env: Env): ReadonlySet<string> {
  const urls = Object.entries(env).filter(([name]) => /^[A-Z]+_BASE_URL$/.test(name));
  return new Set(urls.flatMap(([, url]) => (url && URL.canParse(url) ? [hostAndPort(url)] : [])));
}

/** With its port, also where the scheme says it: one service of a machine is not the machine. */
export function hostAndPort(text: string): string {
  const url = new URL(text);
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return `${url.hostname.replace(/^\[|\]$/g, '')}:${port}`;
}

/** Another project that threads of this one work in. */
export interface OtherProject {
  runtime: { close(): Promise<void> };
  harness(): Promise<Outcome<HarnessPorts>>;
}

export type OpenOther = (
  options: RuntimeOptions,
  host: HostProject,
) => Promise<Outcome<OtherProject>>;

/** Everything a runtime stands on, made once from its options. */
export interface OpenProject {
  /** Only the harness gets this object. Its calls that open a thread carry it, and no person is asked about them. */
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
  /** Filled after the library exists: the library asks for names, the primitives for the library. */
  primitives: Map<string, Primitive>;
  sandbox(): Promise<SandboxReport>;
  /** The threads this process runs, from the first one on. */
  live?: LiveThreads;
  /** What the program put in the place of ours. */
  own: Pick<RuntimeOptions, 'runners' | 'openStore' | 'login' | 'tenant' | 'standIn'> & {
    storeFrom?: string;
  };
  host?: HostProject;
  /** Other projects that threads were started in, opened over this one's registry. */
  others: { readonly known: Map<string, Promise<Outcome<OtherProject>>>; readonly open: OpenOther };
  /** Opens the registry, also one that is not there yet. */
  store?: () => Promise<Outcome<Store>>;
  /** What machines share with this one; all but the address once it was asked for. */
  shared: {
    /** Of the store, when its registry is no file of the project; it may hold a password. */
    readonly address?: string;
    labels?: LabelRecords;
  };
  /** What the registry knows of threads, from the first one on. */
  registry?: Registry;
  /** One for all: a token that was verified is verified for everybody. */
  verify?: TokenVerifier['verify'];
  /** Takes what a thread knows to be secret out of a text. */
  mask?: (thread: string, text: string) => string;
}

/** A project and the rooms over it. */
export interface Rooms {
  open: OpenProject;
  library: Library;
  kernel: EmbeddedKernel;
  /** Runs scripts of directives and hooks. An extension provides it. */
  script(): ScriptPort;
  /** Adds to a model port what extensions add, such as limits that the users of a store share. */
  model(store: Store, model: ModelPort): ModelPort;
}

/** Asked at every use of a capability token. */
export interface Registry extends Required<Pick<TokenVerifierPorts, 'useApproval'>> {
  /**
   * `revoked`: somebody ended it and everything below it, or has just said so. `ended`: its own word
   * counts no more, that of a child that lives on does. Nothing is read: what runs here is told with
   * every commit, everything else was learned before.
   */
  standing(thread: string): 'good' | 'ended' | 'revoked' | 'unknown';
  /** Reads how a thread stands that does not run here. */
  learn(thread: string): Promise<void>;
}

/** A project whose threads were started from another one: they live in that one's registry. */
export interface HostProject {
  project: string;
  store: Store;
  live: LiveThreads;
}

/** Both policies apply: each can only narrow. */
const policyOf = (host: HostProject | undefined): PolicyPlace[] =>
  host ? [{ level: 'project', file: join(host.project, '.ai', 'policy.yaml') }] : [];

/** With them comes everything that all threads of all projects have: no tool is given them, whatever it declares. */
const OURS = ['KERNMANTLE_STORE', 'KERNMANTLE_KEY_PASSPHRASE'] as const;

function withoutOurs(env: Env): Env {
  if (OURS.every((name) => !env[name])) return env;
  return { ...env, ...Object.fromEntries(OURS.map((name) => [name, undefined])) };
}

/** Where the caller is a thread. */
const THREAD_SURFACES: ReadonlySet<string> = new Set(['thread', 'harness']);

export function openProject(
  options: RuntimeOptions,
  openOther: OpenOther,
  host?: HostProject,
): Outcome<OpenProject> {
  const { cwd = process.cwd(), env = process.env, clock = systemClock } = options;
  const home = resolve(env.KERNMANTLE_HOME ?? join(env.HOME ?? homedir(), '.ai'));
  const wanted = resolve(cwd, options.project ?? findProject(cwd, home, ['.ai']));
  if (!existsSync(wanted)) return fail('not_found', `there is no project folder \`${wanted}\``);
  const project = realpathSync(wanted);
  const chosen = chooseStore(options, env, home);
  if (!chosen.ok) return chosen;
  const { address, from, tenant } = chosen.output;
  const trustStore = createTrustStore(join(home, 'trust.jsonl'), clock);
  const file = createAudit(join(recordsFolder(project, home), 'audit.jsonl'), clock);
  // Where machines share a registry, it has the rows of all of them.
  const ofProject =
    address === undefined
      ? file
      : forwardAudit(file, async (rows) => {
          const store = await open.store?.();
          if (!store) return fail('store_closed', 'there is no registry');
          return store.ok ? await store.output.audit(rows) : store;
        });
  const audit = withUserAudit(ofProject, createAudit(join(home, 'trust', 'audit.jsonl'), clock));
  const places = [...policyOf(host), ...policyPlaces(project, home, cwd, env)];
  let probed: Promise<SandboxReport> | undefined;
  const open: OpenProject = {
    tierExemption: Object.freeze({}),
    project,
    home,
    env: withoutOurs(env),
    clock,
    policies: createPolicyFiles(
      places,
      (text, file) => examinePolicy(text, file, trustStore),
      clock,
      project,
    ),
    trustStore,
    keys: createKeyFolder(join(home, 'keys')),
    catalogs: createCatalogs({ project, home, trustStore, clock, env: withoutOurs(env) }),
    audit: {
      ...audit,
      write(row) {
        const { caller, operation, target, reason } = row;
        const mask = (text: string): string =>
          withoutFolder(open.mask?.(caller, text) ?? text, project);
        const shown = {
          ...row,
          operation: mask(operation),
          target: mask(target),
          reason: mask(reason),
        };
        // INVARIANT: what a thread did is in the registry, with the commit that tells of it.
        const isOfThread = THREAD_SURFACES.has(row.surface);
        const running = isOfThread ? open.live?.get(caller)?.thread : undefined;
        return running?.journal.audit(shown) ? ok(null) : audit.write(shown);
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

/** The user's key, made when there is none, and trusted here unless it was revoked. */
export function ownKey({
  keys,
  trustStore,
}: Pick<OpenProject, 'keys' | 'trustStore'>): Outcome<KeyPair> {
  const key = keys.signingKey();
  if (!key.ok) return key;
  const known = trustStore.list();
  if (!known.ok) return known;
  const { id, publicKey } = key.output;
  if (known.output.some((entry) => entry.id === id)) return key;
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

/** Hosts of the providers in the user's own models.yaml; a project names none. */
function ownProviderHosts(library: Pick<Library, 'config'>): string[] {
  const own = library.config('models').layers.filter(({ source }) => source === 'user');
  return own.flatMap(({ value }) => {
    return Object.values(objectAt(value, 'providers')).flatMap((provider) => {
      const url = getOwn(provider, 'base_url');
      return typeof url === 'string' && URL.canParse(url) ? [hostAndPort(url)] : [];
    });
  });
}

/** Private and loopback targets: granted by policy, or named as a provider's base URL. */
export function hostGate({ env, policies }: OpenProject, library: Pick<Library, 'config'>) {
  const granted = providerHosts(env);
  return (host: string, _address: string, port: number): boolean => {
    const place = `${host}:${port}`;
    if (policies.current().policy.isHostAllowed(host) || granted.has(place)) return true;
    return ownProviderHosts(library).includes(place);
  };
}
