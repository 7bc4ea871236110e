// Fires the due schedules of one project. INVARIANT: a run starts at most once for a tick, because the store creates
// the thread in the transaction that compares and moves the schedule; the process that loses a race does nothing.
import {
  compact,
  type Failure,
  fail,
  type Outcome,
  ok,
  parseJson,
  plainText,
} from '../../base/index.ts';
import type { RunRequest } from '../../harness/index.ts';
import { parseMoney } from '../../llm/index.ts';
import {
  type AuditEntry,
  type FireRow,
  isEnded,
  type NewFire,
  type ScheduleChange,
  type ScheduleRow,
} from '../../store/index.ts';
import type { TrustStore } from '../../trust/index.ts';
import { endThread } from '../thread-signals.ts';
import type { Threads } from '../threads.ts';
import { readCron, type Ticks } from './cron.ts';
import { decideFires } from './decide-fires.ts';
import { type SignedSchedule, verifySchedule } from './signed-schedule.ts';

export interface ScheduleHost {
  readonly threads: Threads;
  readonly trust: Pick<TrustStore, 'judge'>;
  /** Name of the project in the store. */
  readonly project: string;
  /** Returns the id of the project, which signatures name. */
  id(): Outcome<string>;
}

export interface ScheduleNews {
  readonly schedule: string;
  readonly outcome: NewFire['outcome'] | 'paused';
  readonly thread: string;
  readonly reason: string;
}

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

interface PresentSchedule {
  readonly row: ScheduleRow;
  readonly now: number;
  readonly signed: SignedSchedule;
  readonly cron: Ticks;
  /** Ids of the runs that have not ended. */
  readonly open: readonly string[];
  /** Fires since the next tick of the row, and at least those of a day. */
  readonly recent: readonly FireRow[];
}

export function verifyRow(host: ScheduleHost, row: ScheduleRow): Outcome<SignedSchedule> {
  const id = host.id();
  return id.ok ? verifySchedule(row, id.output, host.trust) : id;
}

/** Verifies a row and reads its present state. */
async function readPresent(
  host: ScheduleHost,
  row: ScheduleRow,
  now: number,
): Promise<Outcome<PresentSchedule>> {
  const { store } = host.threads;
  const signed = verifyRow(host, row);
  if (!signed.ok) return signed;
  const cron = readCron(signed.output.cron, signed.output.tz);
  if (!cron.ok) return cron;
  const listed = parseJson(row.open, 2);
  const open: string[] = [];
  for (const one of listed.ok && Array.isArray(listed.output) ? listed.output : []) {
    const thread = await store.thread(plainText(one));
    if (!thread.ok && thread.error.code !== 'not_found') return thread;
    if (thread.ok && !isEnded(thread.output.status)) open.push(thread.output.id);
  }
  const recent = await store.fires(row.id, { since: Math.min(row.next, now - DAY_MS) });
  if (!recent.ok) return recent;
  return ok({ row, now, signed: signed.output, cron: cron.output, open, recent: recent.output });
}

/** Queues a run within the budget of its day, in one transaction with the change of the schedule. */
async function startRun(
  { threads }: ScheduleHost,
  { row, now, signed, open, recent }: PresentSchedule,
  fire: NewFire,
  change: Omit<ScheduleChange, 'row' | 'thread'>,
): Promise<Outcome<string>> {
  const { directive, inputs, model, limits, by, tenant, spend_per_day } = signed;
  let spend: bigint | undefined;
  if (spend_per_day !== undefined) {
    const limit = parseMoney(spend_per_day);
    if (!limit.ok) return limit;
    const runs = runsOfDay(recent, now, signed.tz);
    spend = runs.reduce((rest, { bound }) => rest - bound, limit.output);
    if (spend < LEAST_SPEND) {
      const message = `schedule \`${row.name}\` has spent its ${spend_per_day} of this day`;
      return fail('spend_exceeded', message, { limit: 'spend_per_day' });
    }
  }
  const request = compact<RunRequest>({
    directive,
    inputs,
    model,
    limits,
    by: { who: by, surface: 'schedule' },
  });
  const queued = await threads.enqueue(request, {
    ...(spend !== undefined && { spend }),
    fire: (thread) => ({
      ...change,
      row,
      set: { ...change.set, refused: 0, open: JSON.stringify([...open, thread.id]) },
      fires: [...(change.fires ?? []), { ...fire, thread: thread.id }],
      thread: { ...thread, ...(tenant !== '' && { tenant }) },
    }),
  });
  return queued.ok ? ok(queued.output.thread) : queued;
}

/** Starts a run now, as outcome `manual`. The next tick stays. */
export async function fireNow(
  host: ScheduleHost,
  row: ScheduleRow,
  now: number,
  audit: AuditEntry,
): Promise<Outcome<string>> {
  const present = await readPresent(host, row, now);
  if (!present.ok) return present;
  const newest = Math.max(0, ...present.output.recent.map(({ tick }) => tick));
  const tick = Math.max(now, newest + 1);
  const set = { last: tick, outcome: 'manual' };
  const fire = { tick, outcome: 'manual', reason: `started by ${audit.caller}` } as const;
  return await startRun(host, present.output, fire, { set, audit });
}

type TellNews = (news: ScheduleNews) => void;

function notifyMissed(
  { threads }: ScheduleHost,
  about: { schedule: string; directive: string; code: string },
  fires: readonly NewFire[],
): void {
  const missed = fires.filter(({ outcome }) => outcome === 'missed').length;
  if (missed > 0) threads.notify({ ...about, event: 'schedule_missed', status: `${missed}` });
}

/** Records ticks that start no run, tells people, and pauses the schedule after too many refusals. */
async function recordTicks(
  host: ScheduleHost,
  row: ScheduleRow,
  change: Pick<ScheduleChange, 'set' | 'fires'>,
  directive: string,
  tell: TellNews,
  refused?: Failure,
): Promise<Outcome<null>> {
  const count = refused ? row.refused + 1 : row.refused;
  const code = refused?.error.code ?? '';
  const paused = refused && count >= MAX_REFUSALS ? `refused ${count} times: ${code}` : null;
  const set = { ...change.set, refused: count, ...(paused !== null && { paused }) };
  const { threads } = host;
  const written = await threads.store.fire({ ...change, row, set });
  if (!written.ok) return written;
  const { name: schedule } = row;
  const fires = change.fires ?? [];
  for (const { outcome, reason } of fires.slice(-MAX_REFUSALS)) {
    tell({ schedule, outcome, thread: '', reason });
  }
  const about = { schedule, directive, code };
  notifyMissed(host, about, fires);
  if (refused) threads.notify({ ...about, event: 'schedule_refused', status: 'refused' });
  if (paused === null) return ok(null);
  threads.notify({ ...about, event: 'schedule_paused', status: 'paused' });
  tell({ schedule, outcome: 'paused', thread: '', reason: paused });
  return ok(null);
}

const refusedFire = (tick: number, { error: { code, detail } }: Failure): NewFire => ({
  tick,
  outcome: code === 'spend_exceeded' && detail.limit === 'spend_per_day' ? 'budget' : 'refused',
  reason: `${code}: ${detail.message}`,
});

/** Fires one due schedule. A failure means that its ticks stay due. */
async function fireOne(
  host: ScheduleHost,
  row: ScheduleRow,
  now: number,
  tell: TellNews,
): Promise<Outcome<null>> {
  const present = await readPresent(host, row, now);
  if (!present.ok) {
    if (PASSING.test(present.error.code)) return present;
    const set = { next: now + AGAIN_MS, last: row.next, outcome: 'refused', waiting: null };
    const change = { set, fires: [refusedFire(row.next, present)] };
    return await recordTicks(host, row, change, '', tell, present);
  }
  const { signed, cron, open, recent } = present.output;
  const { directive, overlap } = signed;
  const rows = new Set(recent.flatMap(({ tick, outcome }) => (outcome === 'waiting' ? [] : tick)));
  const ticks = cron.between(row.next, now, MAX_TICKS).filter((tick) => !rows.has(tick));
  const plan = decideFires({ row, settings: signed, ticks, now, isOpen: open.length > 0 });
  const next = now < row.next ? row.next : (cron.after(now) ?? Number.MAX_SAFE_INTEGER);
  const { fires, waiting, start: tick } = plan;
  const last = tick ?? ticks.at(-1) ?? row.last;
  const outcome = tick === undefined ? (fires.at(-1)?.outcome ?? row.outcome) : 'started';
  const set = { next, waiting, last, outcome, open: JSON.stringify(open) };
  if (tick === undefined) {
    const hasNews = fires.length > 0 || next !== row.next;
    const written = hasNews
      ? await recordTicks(host, row, { set, fires }, directive, tell)
      : ok(null);
    if (!written.ok || waiting === null || overlap !== 'stop') return written;
    return await stopRuns(host, present.output);
  }
  const fire = { tick, outcome: 'started', reason: '' } as const;
  const started = await startRun(host, present.output, fire, { set, fires });
  if (started.ok) {
    notifyMissed(host, { schedule: row.name, directive, code: '' }, fires);
    tell({ schedule: row.name, outcome: 'started', thread: started.output, reason: '' });
    return ok(null);
  }
  if (PASSING.test(started.error.code)) return started;
  const refused = refusedFire(tick, started);
  const change = { set: { ...set, outcome: refused.outcome }, fires: [...fires, refused] };
  // A budget that is used up is no fault of the schedule.
  const failure = refused.outcome === 'refused' ? started : undefined;
  return await recordTicks(host, row, change, directive, tell, failure);
}

/** Terminates earlier runs, each once. The waiting tick starts when they have ended. */
async function stopRuns({ threads }: ScheduleHost, { row, signed, open }: PresentSchedule) {
  const by = { who: signed.by, channel: 'library' } as const;
  for (const id of open) {
    const signals = await threads.store.signals(id);
    if (!signals.ok) return signals;
    if (signals.output.some(({ kind }) => kind === 'terminate')) continue;
    await endThread(threads.store, id, 'terminate', by, `schedule ${row.name} starts its next run`);
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
