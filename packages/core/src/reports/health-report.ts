// Reports the state of this installation, with remedies for problems. It asks only the server of the store over
// the network, and creates no registry.
import {
  durationText,
  type Failure,
  getOwn,
  isObject,
  plainText,
  systemClock,
} from '../base/index.ts';
import { type KnownServer, knownServers } from '../items/index.ts';
import { projectStored, summary } from '../journal/index.ts';
import type { Runtime, ServedItems } from '../runtime/index.ts';
import { openMemory, openSchedules, registryFile } from '../runtime/index.ts';
import type { Fleet, QueueRow, Store, WorkerRow } from '../store/index.ts';

/** Surfaces for people and programs. Scripts have their own policy. */
export const DOORS = ['cli', 'mcp', 'library', 'web'];

type Env = Readonly<Record<string, string | undefined>>;

/** One finding. `good`: no action is needed. `note`: something is missing. `bad`: something is broken. */
interface HealthFinding {
  about: string;
  state: 'good' | 'note' | 'bad';
  message: string;
  fix?: string;
}

const good = (about: string, message: string): HealthFinding => ({ about, state: 'good', message });
const bad = (about: string, message: string): HealthFinding => ({ about, state: 'bad', message });
const note = (about: string, message: string, fix: string): HealthFinding => ({
  about,
  state: 'note',
  message,
  fix,
});

async function aboutRegistry(runtime: Runtime): Promise<HealthFinding[]> {
  if (!runtime.registry.isThere()) return [good('store', 'no thread has run in this project yet')];
  const opened = await runtime.threads();
  if (!opened.ok) return [badStore(opened)];
  const { store } = opened.output;
  if (store.fleet) return await aboutFleet(store, store.fleet, runtime);
  await store.sweep();
  const parked = await store.query({ status: 'interrupted', limit: 500 });
  if (!parked.ok) return [badStore(parked)];
  const count = parked.output.rows.length;
  if (count === 0) return [good('store', registryFile(runtime))];
  const message = `${count} threads are interrupted because their process ended`;
  const fix =
    '`km threads ls --status interrupted`, then `km threads resume ID` or `km threads stop ID`';
  return [note('store', message, fix)];
}

/** Returns a note if the project has active schedules that no process fires, or a broken one. */
async function aboutSchedules(runtime: Runtime): Promise<HealthFinding[]> {
  const schedules = await openSchedules(runtime);
  const [all, servers] = [await schedules.list(), await schedules.servers()];
  if (!all.ok || !servers.ok) return [];
  const [about, active] = ['schedules', all.output.filter(({ state }) => state === 'active')];
  const stopped = all.output.filter(({ state, reason }) => state !== 'active' && reason !== '');
  const count = `${active.length} active`;
  const serving = servers.output.length;
  const served =
    active.length > 0 && serving === 0
      ? note(about, `${count}, but no server fires them`, '`km schedule serve`, or `km worker`')
      : good(about, `${count}; ${serving} servers fire them`);
  return [
    ...(all.output.length > 0 ? [served] : []),
    ...stopped.map(({ name, state, reason }) =>
      note(`schedule ${name}`, `${state}: ${reason}`, `\`km schedule show ${name}\``),
    ),
  ];
}

const badStore = ({ error }: Failure): HealthFinding => bad('store', error.detail.message);

/** Tolerance for clocks of machines. Leases do not depend on these clocks, but displayed times do. */
const CLOCK_OFF_MS = 5000;
const MB = 1024 * 1024;

const shortItems = (items: string): string =>
  items === '' ? 'its items' : `items ${items.slice(0, 15)}…`;

/** Returns a text with the projects that a worker serves. */
function servesWhat({ projects }: WorkerRow, own: ServedItems | undefined): string {
  const here = projects.find(({ project }) => project === own?.project);
  const others = projects.length - (here ? 1 : 0);
  if (!here) return others === 0 ? 'nothing' : `${others} other projects`;
  const items = here.items === own?.items ? 'the same items' : `other ${shortItems(here.items)}`;
  return `this project with ${items}${others === 0 ? '' : ` and ${others} more`}`;
}

function aboutWorker(worker: WorkerRow, own: ServedItems | undefined): HealthFinding {
  const { host, id, slots, busy, draining, memory, tenants, version, clock_off } = worker;
  const whose = tenants.filter((tenant) => tenant !== '');
  const message = [
    `serves ${servesWhat(worker, own)}${whose.length > 0 ? ` for ${whose.join(', ')}` : ''}`,
    `${busy} of ${slots} slots${draining ? ', draining' : ''}`,
    `${Math.round(memory / MB)} MB`,
    `version ${version}`,
    `process ${/:(\d+)/.exec(id)?.[1] ?? id}`,
  ].join('; ');
  if (Math.abs(clock_off) < CLOCK_OFF_MS) return good(`worker ${host}`, message);
  const off = durationText(Math.abs(clock_off) / 1000);
  return note(
    `worker ${host}`,
    `${message}; its clock is ${off} ${clock_off > 0 ? 'ahead' : 'behind'}`,
    'set its clock; leases do not depend on it, but displayed times do',
  );
}

function aboutQueue(row: QueueRow, own: ServedItems | undefined): HealthFinding {
  const { tenant, project, items, ready, later, oldest, served_by } = row;
  const about = tenant === '' ? 'queue' : `queue ${tenant}`;
  const since = durationText(Math.max(0, systemClock.now() - oldest) / 1000);
  const waits = ready > 0 ? `${ready} wait, the first for ${since}` : 'no thread waits';
  const name = project === own?.project ? 'this project' : project;
  const what = `${name}: ${waits}${later > 0 ? `; ${later} are due later` : ''}`;
  const who = served_by === 1 ? '1 worker serves it' : `${served_by} workers serve it`;
  if (served_by > 0) return good(about, `${what}; ${who}`);
  return note(
    about,
    `${what}; no worker serves it with ${shortItems(items)}`,
    `\`km worker${tenant === '' ? '' : ` --tenant ${tenant}`}\` on a machine with these items, or \`km threads resume ID --items today\``,
  );
}

/** Maximum number of queued threads that this report reads. */
const LOOKED_AT = 20;

/** Returns one note for each reason for which workers returned threads of this project. */
async function aboutReturned(store: Store): Promise<HealthFinding[]> {
  const parked = await store.query({ status: ['spawning', 'interrupted'], limit: LOOKED_AT });
  const threads = new Map<string, string>();
  for (const { id, owner } of parked.ok ? parked.output.rows : []) {
    if (owner !== undefined) continue;
    const last = await store.read(id, { types: ['status'], last: 1 });
    const { cause, reason = '' } = projectStored(summary, last.ok ? last.output : []);
    if (cause === 'returned' && !threads.has(reason)) threads.set(reason, id);
  }
  return [...threads].map(([reason, id]) =>
    note(`thread ${id}`, reason, 'fix it on the machine of that worker, or start another'),
  );
}

/** Reports about a store that is open, so its server responds and its tables have this version. */
async function aboutFleet(store: Store, fleet: Fleet, runtime: Runtime): Promise<HealthFinding[]> {
  const [workers, queues] = await Promise.all([fleet.workers(), fleet.queues()]);
  if (!workers.ok) return [badStore(workers)];
  if (!queues.ok) return [badStore(queues)];
  const served = runtime.served();
  const own = served.ok ? served.output : undefined;
  const noWorker = note(
    'workers',
    'no worker is alive, so queued threads wait',
    'start `km worker` on a machine that has the project',
  );
  return [
    good('store', `${fleet.place} responds`),
    ...(workers.output.length === 0 ? [noWorker] : []),
    ...workers.output.map((worker) => aboutWorker(worker, own)),
    ...queues.output.map((row) => aboutQueue(row, own)),
    ...(await aboutReturned(store)),
  ];
}

function aboutProviders(runtime: Runtime, env: Env): HealthFinding[] {
  const providers = getOwn(runtime.library.config('models').value, 'providers');
  return Object.entries(isObject(providers) ? providers : {}).map(([name, provider]) => {
    const key = plainText(getOwn(provider, 'key'));
    const about = `provider ${name}`;
    const code = plainText(getOwn(provider, 'package'));
    if (code !== '') {
      return good(
        about,
        `\`${code}\` runs in this process with your rights; \`hosts\` binds only its requests with our \`fetch\``,
      );
    }
    if (key === '') return good(about, 'needs no key');
    if (env[key]) return good(about, `\`${key}\` is set`);
    return note(about, 'has no key', `set \`${key}\` to run directives with its models`);
  });
}

/** Names models of the user and the project that get text alone, because their rows do not declare more. */
function aboutModels({ library }: Runtime): HealthFinding[] {
  const rows = getOwn(library.config('models').value, 'models');
  const silent = Object.entries(isObject(rows) ? rows : {}).filter(
    ([, row]) => getOwn(row, 'input') === undefined,
  );
  if (silent.length === 0) return [];
  const message = `${silent.map(([id]) => id).join(', ')} declared without \`input\`, so files are refused`;
  return [note('models', message, 'add `input: [text]`, with `image` and `pdf`, in `models.yaml`')];
}

function aboutKeys({ keys, trustStore, home }: Runtime): HealthFinding[] {
  const [own, trusted] = [keys.list(), trustStore.list()];
  return [
    !own.ok
      ? bad('keys', own.error.detail.message)
      : own.output.length === 0
        ? note('keys', 'no signing key yet', '`km keys` creates one')
        : good('keys', `${own.output.length} in ${home}/keys`),
    trusted.ok
      ? good('trust', `${trusted.output.length} keys trusted`)
      : bad('trust', trusted.error.detail.message),
  ];
}

async function aboutSandbox(runtime: Runtime): Promise<HealthFinding> {
  const { kind, reason, version } = await runtime.sandbox();
  if (kind !== 'none') {
    const why = reason === undefined ? [] : [`(${reason})`];
    return good('sandbox', [kind, version, ...why].filter(Boolean).join(' '));
  }
  const without =
    runtime.policies().policy.sandbox === 'none'
      ? 'the policy lets tools run without one'
      : 'tools that start processes are refused';
  const fix =
    process.platform === 'linux'
      ? "`apt-get install bubblewrap` (or your system's package of that name), and allow user namespaces"
      : 'see docs/sandbox.md';
  return note('sandbox', `${reason ?? 'none found'}; ${without}`, fix);
}

/** Returns a note for each tier whose model a policy forbids. */
function closedTiers({ library, policies }: Runtime): HealthFinding[] {
  const tiers = getOwn(library.config('models').value, 'tiers');
  return Object.entries(isObject(tiers) ? tiers : {}).flatMap(([tier, entry]) => {
    const model = plainText(typeof entry === 'string' ? entry : getOwn(entry, 'model'));
    const allowed = policies().policy.allowsModel(model);
    return allowed.ok
      ? []
      : [note(`tier ${tier}`, allowed.error.detail.message, 'choose another model for it')];
  });
}

function aboutPolicies(runtime: Runtime): HealthFinding[] {
  const { policy, diagnostics } = runtime.policies();
  const levels = policy.levels.map(({ level }) => level).join(', ') || 'none';
  const unsigned = policy.allowsUnsigned ? 'allowed' : 'restricted';
  return [
    ...diagnostics
      .filter(({ severity }) => severity === 'error')
      .map(({ file, line, code, message }) =>
        code === 'signature_changed'
          ? {
              ...bad('policy', `${file}: ${message}; rights that it added are not in force`),
              fix: 'review it, then `km sign` it again',
            }
          : bad('policy', `${file}:${line}: ${message}; no action is allowed until it is fixed`),
      ),
    ...diagnostics
      .filter(({ code }) => code === 'signature_untrusted')
      .map(({ file, message, hint = '' }) => note('policy', `${file}: ${message}`, hint)),
    good('policy', `levels: ${levels}; unsigned items: ${unsigned}`),
    ...closedTiers(runtime),
    ...DOORS.map((surface) => {
      const effects = policy.effects(surface).join(', ') || 'none';
      const message = `tools with effect ${effects}; directives: ${policy.directives(surface)}`;
      return good(`surface ${surface}`, message);
    }),
  ];
}

function aboutItems({ library }: Runtime): HealthFinding[] {
  const errors = library.check().filter(({ severity }) => severity === 'error').length;
  const changed = library
    .all()
    .filter(({ source, signature }) => source === 'bundle' && signature.state !== 'bundle')
    .map(({ id }) => id);
  return [
    errors === 0
      ? good('items', `${library.all().length} items`)
      : note('items', `${errors} errors`, '`km check` lists them'),
    changed.length === 0
      ? good('bundle', 'unchanged since the build')
      : {
          ...bad('bundle', `changed since the build: ${changed.slice(0, 5).join(', ')}`),
          fix: 'install the package again; in a clone, `npm run digests` after an intended change',
        },
  ];
}

/** Returns the variables that a connector requires and that are not set. */
const unset = ({ item: { tool } }: KnownServer, env: Env): string[] =>
  (tool?.env ?? []).filter(
    (name) => !env[name] && JSON.stringify(tool?.config).includes(`\${${name}}`),
  );

/** Reports about connected MCP servers from their files, without a connection. */
async function aboutServers(runtime: Runtime, env: Env): Promise<HealthFinding[]> {
  const servers = knownServers(runtime);
  const findings = servers.flatMap((server): HealthFinding[] => {
    const { name, item, tools } = server;
    const about = `mcp ${name}`;
    const open = [item, ...tools].filter(({ signature }) => signature.state !== 'signed');
    const [first, ...others] = open;
    const missing = unset(server, env);
    const more = others.length > 0 ? ` and ${others.length} more` : '';
    const fix = first === item ? `\`km sign ${item.file}\`` : `\`km mcp sync ${name}\``;
    return [
      ...(first
        ? [note(about, `\`${first.id}\`${more} not signed, or changed since`, `check, then ${fix}`)]
        : []),
      ...(missing.length > 0
        ? [note(about, `${missing.join(', ')} not set`, 'set it in the environment of `km`')]
        : []),
    ];
  });
  const count = servers.reduce((sum, { tools }) => sum + tools.length, 0);
  if (servers.length === 0) return [];
  return [good('mcp servers', `${servers.length} connected, ${count} tools`), ...findings];
}

/** Returns a note for each place of memory that is nearly full. A full one refuses new texts. */
async function aboutMemory(runtime: Runtime): Promise<HealthFinding[]> {
  const full = await (await openMemory(runtime)).full();
  if (!full.ok) return [bad('memory', full.error.detail.message)];
  const fix = '`km memory ls`, then `km memory forget ID`';
  return full.output.map((place) => note('memory', `memory is nearly full: ${place}`, fix));
}

export interface HealthReport {
  readonly healthy: boolean;
  readonly findings: readonly HealthFinding[];
}

/** Returns the report of `km doctor`. */
export async function healthReport(runtime: Runtime, env: Env): Promise<HealthReport> {
  const findings: HealthFinding[] = [
    good('node', process.version),
    good('project', runtime.project),
    ...aboutKeys(runtime),
    await aboutSandbox(runtime),
    ...aboutPolicies(runtime),
    ...aboutItems(runtime),
    ...(await aboutServers(runtime, env)),
    ...(await aboutRegistry(runtime)),
    ...(await aboutMemory(runtime)),
    ...(await aboutSchedules(runtime)),
    ...aboutProviders(runtime, env),
    ...aboutModels(runtime),
  ];
  return { healthy: !findings.some(({ state }) => state === 'bad'), findings };
}
