// Fires the due schedules of one project. INVARIANT: a run starts at most once for a tick, because the store creates
// the thread in the transaction that compares and moves the schedule; the process that loses a race does nothing.
import { compact, type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { RunRequest } from '../../harness/index.ts';
import { parseMoney } from '../../llm/index.ts';
import type {
  AuditEntry,
  FireRow,
  NewFire,
  ScheduleChange,
  ScheduleRow,
} from '../../store/index.ts';
import { projectId } from '../project-identity.ts';
import type { Runtime } from '../runtime.ts';
import { endThread } from '../thread-signals.ts';
import type { Threads } from '../threads.ts';
import { readCron, type Ticks } from './cron.ts';
import { decideFires } from './decide-fires.ts';
import { type SignedSchedule, verifySchedule } from './signed-schedule.ts';

export interface ScheduleHost {
  readonly runtime: Runtime;
  readonly threads: Threads;
  /** Name of the project in the store. */
  readonly project: string;
}

export interface ScheduleNews {
  readonly schedule: string;
  readonly outcome: NewFire['outcome'] | 'paused';
  readonly thread: string;
  readonly reason: string;
}

type TellNews = (news: ScheduleNews) => void;

/** Number of ticks of one pass that get a row each, and of refusals in a row before a pause. */
const [MAX_TICKS, MAX_REFUSALS] = [5000, 5];
/** A schedule that cannot be read is looked at again after this time. */
const AGAIN_MS = 60_000;
/** No day of any zone is longer. */
const DAY_MS = 26 * 3_600_000;
const LEAST_SPEND = 10_000_000n;
/** Codes of failures that say nothing about the schedule. The same tick is tried again. */
const PASSING = /^(?:store_|disk_full|conflict|cancelled|thread_exists)/;

/** Returns the runs that were started on this day of the zone. */
export function runsOfDay(fires: readonly FireRow[], now: number, timeZone: string): FireRow[] {
  const day = new Intl.DateTimeFormat('en-CA', { timeZone, dateStyle: 'short' });
  const today = day.format(now);
  return fires.filter(({ at, thread }) => thread !== undefined && day.format(at) === today);
}

/** Verifies the signature of a row, which names the id of the project, and reads its pattern. */
export function readSigned(
  { runtime }: ScheduleHost,
  row: ScheduleRow,
): Outcome<{ signed: SignedSchedule; cron: Ticks }> {
  const project = projectId(runtime.project);
  if (!project.ok) return project;
  const signed = verifySchedule({ ...row, project: project.output.id }, runtime.trustStore);
  if (!signed.ok) return signed;
  const cron = readCron(signed.output.cron, signed.output.tz);
  return cron.ok ? ok({ signed: signed.output, cron: cron.output }) : cron;
}

/** Returns what the day of the zone has left. Undefined: the day has no limit. */
async function leftOfDay(
  { threads }: ScheduleHost,
  { id, name }: ScheduleRow,
  { spend_per_day, tz }: SignedSchedule,
  now: number,
): Promise<Outcome<bigint | undefined>> {
  if (spend_per_day === undefined) return ok(undefined);
  const limit = parseMoney(spend_per_day);
  const fires = limit.ok ? await threads.store.fires(id, { since: now - DAY_MS }) : limit;
  if (!limit.ok || !fires.ok) return fires.ok ? limit : fires;
  const runs = runsOfDay(fires.output, now, tz);
  const rest = runs.reduce((sum, { bound }) => sum - bound, limit.output);
  if (rest >= LEAST_SPEND) return ok(rest);
  const message = `schedule \`${name}\` has spent its ${spend_per_day} of this day`;
  return fail('spend_exceeded', message, { limit: 'spend_per_day' });
}

/** Queues a run within the budget of its day, in one transaction with the change of the schedule. */
async function startRun(
  host: ScheduleHost,
  signed: SignedSchedule,
  now: number,
  fire: NewFire,
  change: Omit<ScheduleChange, 'thread'>,
): Promise<Outcome<string>> {
  const { row, set, fires = [] } = change;
  const spend = await leftOfDay(host, row, signed, now);
  if (!spend.ok) return spend;
  const { directive, inputs, model, limits } = signed;
  const by = { who: signed.by, surface: 'schedule' };
  const queued = await host.threads.enqueue(
    compact<RunRequest>({ directive, inputs, model, limits, by }),
    {
      ...compact<{ spend?: bigint }>({ spend: spend.output }),
      fire: (thread) => ({
        ...change,
        set: { ...set, refused: 0 },
        fires: [...fires, { ...fire, thread: thread.id }],
        thread: { ...thread, ...(row.tenant !== '' && { tenant: row.tenant }) },
      }),
    },
  );
  return queued.ok ? ok(queued.output.thread) : queued;
}

/** Starts a run now, as outcome `manual`. The next tick stays. */
export async function fireNow(
  host: ScheduleHost,
  row: ScheduleRow,
  now: number,
  audit: AuditEntry,
): Promise<Outcome<string>> {
  const read = readSigned(host, row);
  if (!read.ok) return read;
  const later = Math.max(now, (row.last ?? 0) + 1);
  // Ticks of patterns are whole minutes, so an odd time is none of them.
  const tick = later + 1 - (later % 2);
  const fire = { tick, outcome: 'manual', reason: `started by ${audit.caller}` } as const;
  const set = { last: tick, outcome: 'manual' };
  return await startRun(host, read.output.signed, now, fire, { row, set, audit });
}

type News = Pick<NewFire, 'reason' | 'thread'> & Pick<ScheduleNews, 'outcome'>;

/** Tells the log of the server what became of ticks, and people what they must know. */
function report(
  { threads }: ScheduleHost,
  tell: TellNews,
  about: { schedule: string; directive: string; code: string },
  news: readonly News[],
): void {
  for (const { outcome, reason, thread = '' } of news.slice(-MAX_REFUSALS)) {
    tell({ schedule: about.schedule, outcome, thread, reason });
  }
  for (const kind of ['missed', 'refused', 'paused'] as const) {
    const { length } = news.filter(({ outcome }) => outcome === kind);
    const status = kind === 'missed' ? `${length}` : kind;
    if (length > 0) threads.notify({ ...about, event: `schedule_${kind}`, status });
  }
}

/** Records ticks that start no run. A failure is the last one, which was refused or has no budget. */
async function recordTicks(
  host: ScheduleHost,
  tell: TellNews,
  directive: string,
  { row, set, fires = [] }: ScheduleChange,
  failure?: { tick: number; error: Failure['error'] },
): Promise<Outcome<null>> {
  const { code = '', detail } = failure?.error ?? {};
  // A budget that is used up is no fault of the schedule.
  const outcome = detail?.limit === 'spend_per_day' ? 'budget' : 'refused';
  const refused = failure && outcome === 'refused' ? row.refused + 1 : row.refused;
  const paused =
    refused > row.refused && refused >= MAX_REFUSALS ? `refused ${refused} times: ${code}` : null;
  const reason = `${code}: ${detail?.message}`;
  const all = failure ? [...fires, { tick: failure.tick, outcome, reason } as const] : fires;
  const state = { ...set, refused, paused, ...(failure && { outcome }) };
  const written = await host.threads.store.fire({ row, set: state, fires: all });
  if (!written.ok) return written;
  const pause = paused === null ? [] : [{ outcome: 'paused', reason: paused } as const];
  report(host, tell, { schedule: row.name, directive, code }, [...all, ...pause]);
  return ok(null);
}

/** Fires one due schedule. A failure means that its ticks stay due. */
async function fireOne(
  host: ScheduleHost,
  row: ScheduleRow,
  now: number,
  tell: TellNews,
): Promise<Outcome<null>> {
  const read = readSigned(host, row);
  if (!read.ok) {
    if (PASSING.test(read.error.code)) return read;
    const set = { next: now + AGAIN_MS, last: row.next, waiting: null };
    return await recordTicks(host, tell, '', { row, set }, { tick: row.next, error: read.error });
  }
  const { signed, cron } = read.output;
  const { directive } = signed;
  const ticks = cron.between(row.next, now, MAX_TICKS);
  const isOpen = row.open.length > 0;
  const { fires, waiting, start } = decideFires({ row, settings: signed, ticks, now, isOpen });
  const next = now < row.next ? row.next : (cron.after(now) ?? Number.MAX_SAFE_INTEGER);
  const last = start ?? ticks.at(-1) ?? row.last;
  const outcome = start === undefined ? (fires.at(-1)?.outcome ?? row.outcome) : 'started';
  const change = { row, set: { next, waiting, last, outcome }, fires };
  if (start !== undefined) {
    const fire = { tick: start, outcome: 'started', reason: '' } as const;
    const started = await startRun(host, signed, now, fire, change);
    if (!started.ok && PASSING.test(started.error.code)) return started;
    if (!started.ok) {
      const failure = { tick: start, error: started.error };
      return await recordTicks(host, tell, directive, change, failure);
    }
    const all = [...fires, { ...fire, thread: started.output }];
    report(host, tell, { schedule: row.name, directive, code: '' }, all);
    return ok(null);
  }
  const hasNews = fires.length > 0 || next !== row.next;
  const written = hasNews ? await recordTicks(host, tell, directive, change) : ok(null);
  return written.ok && waiting !== null && signed.overlap === 'stop'
    ? await stopRuns(host, row, signed.by)
    : written;
}

/** Terminates earlier runs, each once. The waiting tick starts when they have ended. */
async function stopRuns(
  { threads: { store } }: ScheduleHost,
  { name, open }: ScheduleRow,
  who: string,
): Promise<Outcome<null>> {
  for (const id of open) {
    const signals = await store.signals(id);
    if (!signals.ok) return signals;
    if (signals.output.some(({ kind }) => kind === 'terminate')) continue;
    const why = `schedule ${name} starts its next run`;
    await endThread(store, id, 'terminate', { who, channel: 'library' }, why);
  }
  return ok(null);
}

/** Fires all due schedules. Returns the time in milliseconds until the next one. A failure: try again later. */
export async function fireDue(
  host: ScheduleHost,
  tenant: string,
  tell: TellNews,
): Promise<Outcome<number>> {
  const { store } = host.threads;
  const page = await store.schedules({ project: host.project, tenant, due: true });
  if (!page.ok) return page;
  const { rows, now, soonest = Number.MAX_SAFE_INTEGER } = page.output;
  let failed: Failure | undefined;
  for (const row of rows) {
    const fired = await fireOne(host, row, now, tell);
    // Another process was faster.
    if (!fired.ok && fired.error.code !== 'conflict') failed ??= fired;
  }
  return failed ?? ok(Math.max(0, soonest - now));
}
