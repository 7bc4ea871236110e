// What this installation can and cannot do, and how to mend what is missing. Nobody is asked over the
// network, and no registry is made.
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
import { registryFile } from '../runtime/index.ts';
import type { Fleet, QueueRow, Store, WorkerRow } from '../store/index.ts';

/** Ways in for people and programs; scripts have a policy of their own. */
export const DOORS = ['cli', 'mcp', 'library', 'web'];

type Env = Readonly<Record<string, string | undefined>>;

/** One thing that is as it should be, or is not. */
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
  if (!runtime.registry.isThere()) return [good('store', 'no thread has run here yet')];
  const opened = await runtime.threads();
  if (!opened.ok) return [badStore(opened)];
  const { store } = opened.output;
  if (store.fleet) return await aboutFleet(store, store.fleet, runtime);
  await store.sweep();
  const left = await store.query({ status: 'interrupted', limit: 500 });
  if (!left.ok) return [badStore(left)];
  const count = left.output.rows.length;
  if (count === 0) return [good('store', registryFile(runtime))];
  const message = `${count} threads were left behind by a process that ended`;
  const fix =
    '`km threads ls --status interrupted`, then `km threads resume ID` or `km threads stop ID`';
  return [note('store', message, fix)];
}

const badStore = ({ error }: Failure): HealthFinding => bad('store', error.detail.message);

/** Leases do not depend on clocks of machines; times that people see do. */
const CLOCK_OFF_MS = 5000;
const MB = 1024 * 1024;

const shortItems = (items: string): string =>
  items === '' ? 'its items' : `items ${items.slice(0, 15)}…`;

/** How a worker serves this project, in words. */
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
    'set its clock: leases hold all the same, times that people see do not',
  );
}

function aboutQueue(row: QueueRow, own: ServedItems | undefined): HealthFinding {
  const { tenant, project, items, ready, later, oldest, served_by } = row;
  const about = tenant === '' ? 'queue' : `queue ${tenant}`;
  const since = durationText(Math.max(0, systemClock.now() - oldest) / 1000);
  const waits = ready > 0 ? `${ready} wait, the first for ${since}` : 'none waits';
  const name = project === own?.project ? 'this project' : project;
  const what = `${name}: ${waits}${later > 0 ? `; ${later} are for later` : ''}`;
  const who = served_by === 1 ? '1 worker serves it' : `${served_by} workers serve it`;
  if (served_by > 0) return good(about, `${what}; ${who}`);
  return note(
    about,
    `${what}; no worker serves it with ${shortItems(items)}`,
    `\`km worker${tenant === '' ? '' : ` --tenant ${tenant}`}\` where the project is as it was then, or \`km threads resume ID --items today\``,
  );
}

/** As many of those that have not begun, or have to go on, as a look is worth. */
const LOOKED_AT = 20;

/** Threads of this project that workers took and handed back, and why. */
async function aboutReturned(store: Store): Promise<HealthFinding[]> {
  const left = await store.query({ status: ['spawning', 'interrupted'], limit: LOOKED_AT });
  const found = new Map<string, string>();
  for (const { id, owner } of left.ok ? left.output.rows : []) {
    if (owner !== undefined) continue;
    const last = await store.read(id, { types: ['status'], last: 1 });
    const { cause, reason = '' } = projectStored(summary, last.ok ? last.output : []);
    if (cause === 'returned' && !found.has(reason)) found.set(reason, id);
  }
  return [...found].map(([reason, id]) =>
    note(`thread ${id}`, reason, 'mend it where that worker runs, or start one that can'),
  );
}

/** It is open: so it answers, and its tables are of the form that this version knows. */
async function aboutFleet(store: Store, fleet: Fleet, runtime: Runtime): Promise<HealthFinding[]> {
  const [workers, queues] = await Promise.all([fleet.workers(), fleet.queues()]);
  if (!workers.ok) return [badStore(workers)];
  if (!queues.ok) return [badStore(queues)];
  const served = runtime.served();
  const own = served.ok ? served.output : undefined;
  const nobody = note(
    'workers',
    'none was heard of: what is queued waits',
    '`km worker`, on a machine that has the project',
  );
  return [
    good('store', `${fleet.place} answers`),
    ...(workers.output.length === 0 ? [nobody] : []),
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
    if (key === '') return good(about, 'needs no key');
    if (env[key]) return good(about, `\`${key}\` is set`);
    return note(about, 'has no key', `set \`${key}\` to run directives with its models`);
  });
}

function aboutKeys({ keys, trustStore, home }: Runtime): HealthFinding[] {
  const [own, trusted] = [keys.list(), trustStore.list()];
  return [
    !own.ok
      ? bad('keys', own.error.detail.message)
      : own.output.length === 0
        ? note('keys', 'no signing key yet', '`km keys` makes one')
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

/** Tiers whose model no policy lets anybody ask. */
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
              ...bad('policy', `${file}: ${message}; what it opened is closed`),
              fix: 'review it, then `km sign` it again',
            }
          : bad('policy', `${file}:${line}: ${message}; until it is mended nothing is allowed`),
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
      ? good('bundle', 'as it was built')
      : {
          ...bad('bundle', `changed since it was built: ${changed.slice(0, 5).join(', ')}`),
          fix: 'install the package again; in a clone, `npm run digests` after a wanted change',
        },
  ];
}

/** Variables that a connector cannot do without and that are not set. */
const unset = ({ item: { tool } }: KnownServer, env: Env): string[] =>
  (tool?.env ?? []).filter(
    (name) => !env[name] && JSON.stringify(tool?.config).includes(`\${${name}}`),
  );

/** Other MCP servers, as far as files tell: none is asked. */
async function aboutServers(runtime: Runtime, env: Env): Promise<HealthFinding[]> {
  const known = knownServers(runtime);
  const findings = known.flatMap((server): HealthFinding[] => {
    const { name, item, tools } = server;
    const about = `mcp ${name}`;
    const open = [item, ...tools].filter(({ signature }) => signature.state !== 'signed');
    const [first, ...others] = open;
    const missing = unset(server, env);
    const more = others.length > 0 ? ` and ${others.length} more` : '';
    const fix = first === item ? `\`km sign ${item.file}\`` : `\`km mcp sync ${name}\``;
    return [
      ...(first
        ? [note(about, `\`${first.id}\`${more} not signed, or changed since`, `look, then ${fix}`)]
        : []),
      ...(missing.length > 0
        ? [note(about, `${missing.join(', ')} not set`, 'set it in the environment of `km`')]
        : []),
    ];
  });
  const count = known.reduce((sum, { tools }) => sum + tools.length, 0);
  if (known.length === 0) return [];
  return [good('mcp servers', `${known.length} connected, ${count} tools`), ...findings];
}

export interface HealthReport {
  readonly healthy: boolean;
  readonly findings: readonly HealthFinding[];
}

/** `km doctor` as data. */
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
    ...aboutProviders(runtime, env),
  ];
  return { healthy: !findings.some(({ state }) => state === 'bad'), findings };
}
