// Computes the machines and the load of the database for 1 and 100 million threads a day, from the measured costs of
// one turn. `npm run capacity` prints the result.

/** Costs of one turn: a reply of the model, one call of a tool, and all their records. */
interface TurnCosts {
  /** CPU of the worker and of the database, in milliseconds. */
  worker_ms: number;
  database_ms: number;
  /** Log that the database writes before it answers, and the growth of its disk, in kilobytes. */
  log_kb: number;
  disk_kb: number;
  /** Resident memory of a worker without threads, and for each thread that it runs. */
  worker_mb: number;
  thread_mb: number;
  /** Origin of these figures. */
  source: string;
}

/** Measured with `npm run bench:fleet`: two cores, database, workers and provider on the same machine. */
const MEASURED: TurnCosts = {
  worker_ms: 7.7,
  database_ms: 3.7,
  log_kb: 6.1,
  disk_kb: 3.7,
  worker_mb: 90,
  thread_mb: 1,
  source: 'measured 2026-11-16, two cores for workers, database and provider together',
};

interface Assumptions {
  turns: number;
  /** Seconds that a model needs for one turn. A thread uses memory for this time. */
  model_seconds: number;
  /** Load of the busiest minute relative to the mean of the day. */
  peak: number;
  /** Planned share of a core. The rest is a reserve. */
  load: number;
  /** Number of days that threads are stored. */
  days: number;
  cores_per_worker: number;
  slots_per_worker: number;
}

const ASSUMED: Assumptions = {
  turns: 10,
  model_seconds: 4,
  peak: 3,
  load: 0.5,
  days: 30,
  cores_per_worker: 4,
  slots_per_worker: 400,
};

const DAY_SECONDS = 86_400;

const STEPS = [
  [1_000_000, '1 M a day'],
  [100_000_000, '100 M a day'],
] as const;

interface CapacityNeed {
  threads_a_day: number;
  turns_a_second: number;
  at_once: number;
  worker_cores: number;
  worker_machines: number;
  worker_gb: number;
  database_cores: number;
  log_mb_a_second: number;
  disk_gb: number;
  /** Load that one server can carry. Above it, the registry must be divided. */
  verdict: string;
}

/** Planned load of a large server. */
const ONE_SERVER = { cores: 64, log_mb_a_second: 300 };

function needOf(threads: number, costs: TurnCosts, assumed: Assumptions): CapacityNeed {
  const { turns, peak, load, days, model_seconds } = assumed;
  const turnsASecond = (threads * turns * peak) / DAY_SECONDS;
  const atOnce = turnsASecond * model_seconds;
  const workerCores = (turnsASecond * costs.worker_ms) / 1000 / load;
  const databaseCores = (turnsASecond * costs.database_ms) / 1000 / load;
  const log = (turnsASecond * costs.log_kb) / 1024;
  const machines = Math.max(
    2,
    Math.ceil(Math.max(workerCores / assumed.cores_per_worker, atOnce / assumed.slots_per_worker)),
  );
  const servers = Math.ceil(
    Math.max(databaseCores / ONE_SERVER.cores, log / ONE_SERVER.log_mb_a_second),
  );
  return {
    threads_a_day: threads,
    turns_a_second: turnsASecond,
    at_once: atOnce,
    worker_cores: workerCores,
    worker_machines: machines,
    // Each core runs one process.
    worker_gb:
      (machines * assumed.cores_per_worker * costs.worker_mb + atOnce * costs.thread_mb) / 1024,
    database_cores: databaseCores,
    log_mb_a_second: log,
    disk_gb: (threads * turns * days * costs.disk_kb) / 1024 / 1024,
    verdict: servers <= 1 ? 'one server' : `${servers} servers, tenants shared out among them`,
  };
}

const figure = (value: number): string =>
  value >= 100 || Number.isInteger(value)
    ? Math.round(value).toLocaleString('en-US')
    : value.toPrecision(2);

const ROWS: readonly (readonly [string, (need: CapacityNeed) => string])[] = [
  ['turns a second, at the peak', (need) => figure(need.turns_a_second)],
  ['threads at work, at the peak', (need) => figure(need.at_once)],
  ['cores of workers', (need) => figure(need.worker_cores)],
  ['worker machines', (need) => figure(need.worker_machines)],
  ['memory of workers, GB', (need) => figure(need.worker_gb)],
  ['cores of the database', (need) => figure(need.database_cores)],
  ['log of the database, MB/s', (need) => figure(need.log_mb_a_second)],
  ['disk for what is kept, GB', (need) => figure(need.disk_gb)],
  ['which is', (need) => need.verdict],
];

/**
 * Returns the table as data: titles of the columns, rows and assumptions. The arguments replace the measured and
 * assumed values of this file.
 */
export function capacityFigures(
  given: { costs?: Partial<TurnCosts>; assumed?: Partial<Assumptions> } = {},
) {
  const costs = { ...MEASURED, ...given.costs };
  const assumed = { ...ASSUMED, ...given.assumed };
  const needs = STEPS.map(([threads]) => needOf(threads, costs, assumed));
  return {
    costs,
    assumed,
    needs,
    titles: STEPS.map(([, title]) => title),
    rows: ROWS.map(([name, show]) => ({ name, values: needs.map(show) })),
    notes: notesOf(costs, assumed),
  };
}

function notesOf(costs: TurnCosts, assumed: Assumptions): string[] {
  const { turns, model_seconds, peak, load, days, cores_per_worker, slots_per_worker } = assumed;
  return [
    `Costs of a turn (${costs.source}): ${costs.worker_ms} ms CPU of the worker, ${costs.database_ms} ms of the database,`,
    `${costs.log_kb} KB of log, ${costs.disk_kb} KB on disk; a worker takes ${costs.worker_mb} MB and ${costs.thread_mb} MB for each thread at work.`,
    `Assumed: ${turns} turns a thread, ${model_seconds} s of a model for each, a peak of ${peak} times the mean, cores planned at ${load * 100} %,`,
    `threads kept ${days} days, workers with ${cores_per_worker} cores and ${slots_per_worker} slots, at least two of them. One server: at most`,
    `${ONE_SERVER.cores} cores and ${ONE_SERVER.log_mb_a_second} MB/s of log. Not in it: replicas, backups, what tools and models themselves need.`,
  ];
}
