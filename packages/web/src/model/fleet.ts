// Texts about the fleet, shared by the page and `threads top`: state of a worker, length of a queue, threads
// without a worker. Pure. Names of workers and projects are untrusted; the caller must escape them.
import type { FleetQueue, FleetState, FleetWorker, ListedRun, Tone } from './api.ts';
import { count, seconds } from './format.ts';

/** Key of the three properties that decide which workers may take a thread. */
export const queueKey = (tenant: string, project: string, items: string): string =>
  [tenant, project, items].join(' ');

/** Keys of queues that no worker serves. */
export const unservedQueues = ({ queues }: Pick<FleetState, 'queues'>): ReadonlySet<string> =>
  new Set(
    queues
      .filter(({ served_by }) => served_by === 0)
      .map(({ tenant, project, items }) => queueKey(tenant, project, items)),
  );

export const isUnserved = (
  { queue }: Pick<ListedRun, 'queue'>,
  unserved: ReadonlySet<string>,
): boolean => queue !== undefined && unserved.has(queue);

export const NO_WORKER = 'no worker serves it';
export const SERVE_IT = 'start `km worker` on a machine that has this project with the same items';

/** Returns `host:4711` of the owner of a lease. The rest only distinguishes processes. */
export const workerName = (id: string): string => id.replace(/@[0-9a-f.]+$/, '');

/** A larger difference is reported. Leases do not use clocks of machines, but visible times do. */
const CLOCK_OFF_MS = 5000;
/** A worker reports to the store every three seconds. */
const SILENT_MS = 8000;

/** State of a worker in one word, with its tone. */
export function workerMood(worker: FleetWorker, now: number): readonly [string, Tone] {
  if (worker.gone) return ['gone', 'bad'];
  if (now - worker.heartbeat > SILENT_MS) return ['silent', 'you'];
  if (worker.draining) return ['draining', 'idle'];
  return worker.busy > 0 ? ['at work', 'run'] : ['free', 'ok'];
}

/** Text `10 m 00 s ahead`, or empty if the clock is correct. */
export const clockWords = ({ clock_off: off }: Pick<FleetWorker, 'clock_off'>): string =>
  Math.abs(off) < CLOCK_OFF_MS
    ? ''
    : `${seconds(Math.round(Math.abs(off) / 1000))} ${off > 0 ? 'ahead' : 'behind'}`;

export const shortItems = (items: string): string =>
  items.replace(/^sha256:/, '').slice(0, 8) || 'any';

const isOwn = (project: string, own: FleetState['own']): boolean => project === own?.project;

/** Names a project: `this project`, `this project, other items (1f3a9c02)` or `prj_…`. */
export function projectWords(project: string, items: string, own: FleetState['own']): string {
  if (!isOwn(project, own)) return `${project} (${shortItems(items)})`;
  return items === own?.items ? 'this project' : `this project, other items (${shortItems(items)})`;
}

/** Lists the projects of a worker: this project first, then one other, then the number of the rest. */
export function servesWords({ projects, tenants }: FleetWorker, own: FleetState['own']): string {
  const here = projects.find(({ project }) => isOwn(project, own));
  const others = projects.filter((one) => one !== here);
  const [first] = others;
  const words = [
    ...(here ? [projectWords(here.project, here.items, own)] : []),
    ...(!here && first ? [projectWords(first.project, first.items, own)] : []),
  ];
  const more = others.length - (here ? 0 : 1);
  if (more > 0) words.push(`${count(more)} more`);
  const whose = tenants.filter((tenant) => tenant !== '');
  const served = words.join(' and ') || 'nothing';
  return whose.length > 0 ? `${served} for ${whose.join(', ')}` : served;
}

/** Describes the threads of a queue: `5 wait, the first for 12 s, 2 later`. */
export function waitWords({ ready, later, oldest }: FleetQueue, now: number): string {
  const since = seconds(Math.max(0, Math.round((now - oldest) / 1000)));
  const words = ready > 0 ? [`${count(ready)} wait, the first for ${since}`] : [];
  if (later > 0) words.push(`${count(later)} later`);
  return words.join(', ');
}

/** Counts workers, slots and queued threads. `unserved` threads wait in queues without a worker. */
export function fleetSums({ workers, queues }: FleetState) {
  const alive = workers.filter(({ gone }) => !gone);
  const sum = (all: readonly number[]): number => all.reduce((total, one) => total + one, 0);
  const queuedIn = (list: readonly FleetQueue[]): number =>
    sum(list.map(({ ready, later }) => ready + later));
  return {
    workers: alive.length,
    gone: workers.length - alive.length,
    slots: sum(alive.map(({ slots }) => slots)),
    busy: sum(alive.map(({ busy }) => busy)),
    queued: queuedIn(queues),
    unserved: queuedIn(queues.filter(({ served_by }) => served_by === 0)),
  };
}
