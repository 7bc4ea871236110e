// Implements `km worker`: takes queued threads from a shared store until it is stopped. After the
// first signal, threads end their step and go back to the queue. A second signal ends the process
// at once.
import { setFlagsFromString } from 'node:v8';
import {
  compact,
  durationText,
  EXIT,
  type Failure,
  fail,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { openSchedules, type Runtime, type RuntimeOptions } from '@kernmantle/core/runtime';
import { nameOwner, type Store } from '@kernmantle/core/store';
import {
  defaultSlots,
  openWhenBack,
  startTryServer,
  startWorker,
  type TryServer,
  type WorkerEnd,
  type WorkerNews,
  type WorkerProject,
} from '@kernmantle/fleet';
import {
  asList,
  asText,
  type CommandCall,
  type CommandRun,
  type Ending,
  version,
} from '../../command.ts';
import { openRuntime } from '../../project.ts';
import { type Colour, type Terminal, visible } from '../../terminal/terminal.ts';
import { statusColour } from '../../threads/status-text.ts';

interface Served {
  readonly runtime: Runtime;
  readonly project: WorkerProject;
  readonly items: string;
}

interface Serving {
  readonly store: Store;
  readonly served: readonly Served[];
}

const MAX_SLOTS = 10_000;
const [GRACE_SECONDS, MAX_GRACE_SECONDS] = [60, 86_400];

function readCount(
  options: CommandCall['options'],
  name: string,
  otherwise: number,
  [least, most]: readonly [number, number],
): Outcome<number> {
  const text = asText(options[name]);
  if (text === undefined) return ok(otherwise);
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return number >= least && number <= most
    ? ok(number)
    : fail('usage', `\`--${name}\` must be a number from ${least} to ${most}, not \`${text}\``);
}

/** Returns a store that all runtimes share. Only the worker closes it, after all runtimes. */
const borrowed = (store: Store): Store => ({ ...store, close: () => Promise.resolve() });

/** Returns the name of the project in its store, and the digest of its items. A file needs no digest. */
const servedBy = (runtime: Runtime, { fleet }: Store): ReturnType<Runtime['served']> =>
  fleet ? runtime.served() : ok({ project: runtime.project, items: '', isSticky: false });

async function serveProject(
  runtime: Runtime,
  store: Store,
  isSticky: boolean,
): Promise<Outcome<Served>> {
  const servedProject = servedBy(runtime, store);
  if (!servedProject.ok) return servedProject;
  const threads = await runtime.threads();
  if (!threads.ok) return threads;
  const { fireDue } = await openSchedules(runtime);
  return ok({
    runtime,
    items: servedProject.output.items,
    project: {
      id: servedProject.output.project,
      isSticky: isSticky || servedProject.output.isSticky,
      async items() {
        const now = servedBy(runtime, store);
        return now.ok ? ok(now.output.items) : now;
      },
      threads: threads.output,
      fireDue,
      close: () => runtime.close(),
    },
  });
}

/** Opens the first project with a new store, which the other projects share. */
async function openFirst(
  { options, terminal: { cwd, env } }: CommandCall,
  address: string | undefined,
  project: string | undefined,
  mayBeFile: boolean,
): Promise<Outcome<{ runtime: Runtime; store: Store }>> {
  const store = address ?? asText(options.store);
  const opened = await openRuntime({ cwd, env, ...compact({ project, store }) });
  if (!opened.ok) return opened;
  const runtime = opened.output;
  if (runtime.registry.place === undefined && !mayBeFile) {
    await runtime.close();
    const hint = 'start a temporary server with `km worker --try`';
    const message = 'a worker needs a server store; use `--store postgres://user@host/database`';
    return fail('usage', message, { hint });
  }
  const migrated = options.try === true ? await runtime.registry.migrate() : ok(null);
  const access = migrated.ok ? await runtime.registry.open() : migrated;
  if (access.ok) return ok({ runtime, store: access.output });
  await runtime.close();
  return access;
}

async function openProjects(
  call: CommandCall,
  address: string | undefined,
  mayBeFile: boolean,
): Promise<Outcome<Serving>> {
  const { options, terminal } = call;
  const [first, ...others] = asList([options.project].flat());
  const main = await openFirst(call, address, first, mayBeFile);
  if (!main.ok) return main;
  const { store } = main.output;
  const [runtimes, served]: [Runtime[], Served[]] = [[main.output.runtime], []];
  const closed = async (failure: Failure): Promise<Failure> => {
    for (const runtime of runtimes.toReversed()) await runtime.close();
    return failure;
  };
  const own: RuntimeOptions = { cwd: terminal.cwd, env: terminal.env };
  for (const project of others) {
    const openStore = async () => ok(borrowed(store));
    const opened = await openRuntime({ ...own, project, openStore });
    if (!opened.ok) return await closed(opened);
    runtimes.push(opened.output);
  }
  for (const runtime of runtimes) {
    const one = await serveProject(runtime, store, options.sticky === true);
    if (!one.ok) return await closed(one);
    const twin = served.find(({ project }) => project.id === one.output.project.id);
    if (twin) {
      const message = `\`${twin.runtime.project}\` and \`${runtime.project}\` are the same project (${twin.project.id}); serve one of them`;
      return await closed(fail('usage', message));
    }
    served.push(one.output);
  }
  return ok({ store, served });
}

const COLOURS: Readonly<Record<WorkerNews['kind'], Colour>> = {
  claimed: 'blue',
  done: 'green',
  parked: 'yellow',
  handed_back: 'yellow',
  let_go: 'yellow',
  store_gone: 'red',
  store_back: 'green',
  draining: 'blue',
  schedule: 'blue',
};

function wordsOf(news: WorkerNews): string {
  switch (news.kind) {
    case 'claimed':
      return `${news.thread} ${news.directive}${news.tenant === '' ? '' : ` of ${news.tenant}`}`;
    case 'done':
    case 'parked': {
      const why = news.reason === '' ? '' : `: ${news.reason}`;
      return `${news.thread} ${news.status} after ${durationText(news.ms / 1000)}${why}`;
    }
    case 'handed_back':
      return `${news.thread} for ${durationText(news.again_ms / 1000)}: ${news.reason} [${news.code}]`;
    case 'let_go':
      return `${news.thread}: ${news.reason} [${news.code}]`;
    case 'schedule':
      return `${news.schedule} ${news.outcome} ${news.thread || news.reason}`;
    case 'store_gone':
      return `${news.reason} [${news.code}]; retries until it is back`;
    case 'store_back':
      return `after ${durationText(news.after_ms / 1000)}`;
    case 'draining':
      return `takes no more threads; ${news.busy} threads end their step`;
  }
}

function tellNews({ json, out, note, paint }: Terminal): (news: WorkerNews) => void {
  return (news) => {
    const time = new Date().toISOString();
    if (json) return out(JSON.stringify({ time, ...news }));
    const colour = news.kind === 'done' ? statusColour(news.status) : COLOURS[news.kind];
    const kind = paint(colour, news.kind.replace('_', ' ').padEnd(11));
    note(`${paint('dim', time.slice(11, 19))} ${kind} ${visible(wordsOf(news))}`);
  };
}

function tellStart(
  { json, out, note, paint }: Terminal,
  { served }: Serving,
  { id, slots, tenants }: { id: string; slots: number; tenants: readonly string[] },
): void {
  const [first] = served;
  const place = first?.runtime.registry.place ?? 'the file of the project';
  const projects = served.map(({ project, items, runtime }) => ({
    project: project.id,
    items,
    folder: runtime.project,
    sticky: project.isSticky === true,
  }));
  if (json) {
    const time = new Date().toISOString();
    return out(
      JSON.stringify({ time, kind: 'ready', worker: id, place, slots, tenants, projects }),
    );
  }
  const whose = tenants.length === 0 ? '' : ` for ${tenants.join(', ')}`;
  note(`worker on ${place} with ${slots} slots${whose}; Ctrl-C stops it, a second one immediately`);
  for (const { project, items, folder, sticky } of projects) {
    const about = `${items.slice(0, 19)}…${sticky ? ' sticky' : ''}`;
    note(`  serves ${project} ${visible(folder)} ${paint('dim', about)}`);
  }
}

function tellEnd(terminal: Terminal, end: WorkerEnd): number {
  const { taken, left: rest } = end;
  const time = new Date().toISOString();
  if (terminal.json) terminal.out(JSON.stringify({ time, kind: 'ended', taken, left: rest }));
  else terminal.note(`ran ${taken} threads`);
  if (rest.length === 0) return EXIT.done;
  const [first, ...more] = rest;
  const names = `${first}${more.length > 0 ? ` and ${more.length} more` : ''}`;
  terminal.note(
    `${names} did not stop in time; another worker takes them when their leases expire`,
  );
  return EXIT.failed;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The first signal stops the work gracefully. The second exits, and the leases expire. */
async function untilSignal<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) process.exit(EXIT.interrupted);
    controller.abort();
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    return await work(controller.signal);
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
}

/**
 * A worker runs long and mostly waits for models. V8 would by default give it three times the
 * memory that it uses. The young generation keeps its size, and the old one may grow by this
 * percentage between collections.
 */
function keepSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=25');
}

async function work(
  call: CommandCall,
  {
    slots,
    graceMs,
    server,
    signal,
    mayBeFile = false,
  }: {
    slots: number;
    graceMs: number;
    server: TryServer | undefined;
    signal: AbortSignal;
    mayBeFile?: boolean;
  },
): Promise<Ending> {
  const { options, terminal } = call;
  const onNews = tellNews(terminal);
  const open = () => openProjects(call, server?.address, mayBeFile);
  const opened = await openWhenBack(open, { signal, onNews });
  if (!opened) {
    const code = tellEnd(terminal, { taken: 0, left: [] });
    // An open connection without a peer would keep the process alive.
    if (!server) setImmediate(() => process.exit(code));
    return code;
  }
  if (!opened.ok) return opened;
  const { store, served } = opened.output;
  const tenants = asList(options.tenant);
  const id = nameOwner();
  const announced = await store.serve(id);
  if (!announced.ok) return announced;
  tellStart(terminal, opened.output, { id, slots, tenants });
  if (server && !terminal.json) {
    terminal.note('use it in other terminals:');
    terminal.note(`  export KERNMANTLE_STORE="$(cat ${server.file})"`);
  }
  const ended = await startWorker({
    id,
    version: version(),
    store,
    projects: served.map(({ project }) => project),
    slots,
    tenants,
    signal,
    graceMs,
    onNews,
  });
  // A thread that does not stop would keep the process alive.
  const isFree = ended.ok && ended.output.left.length === 0;
  if (isFree || !ended.ok) for (const { project } of served.toReversed()) await project.close();
  if (!ended.ok) return ended;
  const code = tellEnd(terminal, ended.output);
  if (!isFree) setImmediate(() => process.exit(code));
  return code;
}

export const runWorker: CommandRun = async (call) => {
  const { options, terminal } = call;
  // An address can contain a password, and every user of the machine can read the arguments of a
  // process.
  process.title = 'km worker';
  keepSmall();
  const slots = readCount(options, 'slots', defaultSlots(), [1, MAX_SLOTS]);
  if (!slots.ok) return slots;
  const grace = readCount(options, 'grace', GRACE_SECONDS, [0, MAX_GRACE_SECONDS]);
  if (!grace.ok) return grace;
  if (options.try === true && asText(options.store) !== undefined) {
    return fail('usage', '`--try` starts its own server; remove `--store`');
  }
  return await untilSignal(async (signal) => {
    if (options.try === true) terminal.note('starting a temporary server…');
    const server = options.try === true ? await startTryServer() : ok(undefined);
    if (!server.ok) return server;
    try {
      const graceMs = grace.output * 1000;
      return await work(call, { slots: slots.output, graceMs, server: server.output, signal });
    } finally {
      await server.output?.stop();
    }
  });
};

/** Implements `km schedule serve`: fires schedules, and runs queued threads also from a file. */
export const serveSchedules: CommandRun = async (call) => {
  process.title = 'km schedule serve';
  const slots = readCount(call.options, 'slots', defaultSlots(), [1, MAX_SLOTS]);
  if (!slots.ok) return slots;
  const graceMs = GRACE_SECONDS * 1000;
  return await untilSignal((signal) =>
    work(call, { slots: slots.output, graceMs, server: undefined, signal, mayBeFile: true }),
  );
};
