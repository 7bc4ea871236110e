// The schedules of one project: acts of a person, each with an audit row in the same transaction, and the pass of a
// server that fires what is due.
import { join } from 'node:path';
import { compact, fail, type Outcome, ok, systemRandom } from '../../base/index.ts';
import type { RunRequest } from '../../harness/index.ts';
import { giveProjectId } from '../../items/index.ts';
import { formatMoney, parseMoney } from '../../llm/index.ts';
import type { FireRow, ScheduleChange, ScheduleRow } from '../../store/index.ts';
import { ownKey } from '../open-project.ts';
import type { Runtime } from '../runtime.ts';
import { type Actor, personAuditRow } from '../thread-signals.ts';
import { clockChanges, readCron, readZone } from './cron.ts';
import {
  fireDue,
  fireNow,
  readSigned,
  runsOfDay,
  type ScheduleHost,
  type ScheduleNews,
} from './fire-due.ts';

import { type ScheduleSettings, signSchedule } from './signed-schedule.ts';

export interface ScheduleRequest
  extends Pick<ScheduleSettings, 'directive' | 'cron'>,
    Partial<Omit<ScheduleSettings, 'directive' | 'cron'>> {
  readonly name: string;
}

/** A schedule for people and programs, with times in ISO format. */
interface ShownSchedule extends Partial<ScheduleSettings> {
  readonly name: string;
  readonly id: string;
  readonly state: 'active' | 'paused' | 'broken';
  /** Reason of the state. Empty: active. */
  readonly reason: string;
  readonly by?: string;
  readonly next: string;
  readonly last?: string;
  readonly outcome?: string;
  readonly spent_today: string;
}

interface ShownFire extends Omit<FireRow, 'tick' | 'at' | 'used' | 'bound'> {
  readonly tick: string;
  readonly at: string;
  readonly spend: string;
  /** Amount that the run can still spend. */
  readonly reserved: string;
}

const NAME = /^[A-Za-z0-9_-]{1,40}$/;
const [DAY_MS, MAX_GRACE_MS] = [86_400_000, 366 * 86_400_000];
const MAX_FIRES = 50;
const MISSED: readonly string[] = ['once', 'skip'];
const OVERLAP: readonly string[] = ['skip', 'wait', 'stop'];
/** State of a row that has no tick yet. */
const NEW_ROW = {
  stamp: '',
  open: [],
  waiting: null,
  last: null,
  outcome: null,
  paused: null,
  refused: 0,
};
const isoTime = (time: number): string => new Date(Math.min(time, 8.64e15)).toISOString();

/** Fills in defaults. Fails with `usage` for an invalid name, pattern, zone or amount. */
function readRequest({ name, ...given }: ScheduleRequest): Outcome<ScheduleSettings> {
  const settings: ScheduleSettings = {
    inputs: {},
    missed: 'once',
    grace_ms: DAY_MS,
    overlap: 'skip',
    tz: new Intl.DateTimeFormat().resolvedOptions().timeZone,
    ...compact<typeof given>(given),
  };
  const { missed, grace_ms, overlap } = settings;
  const money = parseMoney(given.spend_per_day ?? '1');
  const problems = [
    !NAME.test(name) && `name \`${name}\` may have 1 to 40 letters, digits, \`_\` and \`-\``,
    !MISSED.includes(missed) && `\`missed\` must be ${MISSED.join(' or ')}, not \`${missed}\``,
    !OVERLAP.includes(overlap) && `\`overlap\` must be ${OVERLAP.join(' or ')}, not \`${overlap}\``,
    !(grace_ms >= 0 && grace_ms <= MAX_GRACE_MS) && 'the grace must be from 0 to 366 days',
    !money.ok && `spend of a day: ${money.error.detail.message}`,
  ];
  const problem = problems.find((one) => one !== false);
  if (problem !== undefined) return fail('usage', problem);
  const tz = readZone(settings.tz);
  return tz.ok ? ok({ ...settings, tz: tz.output }) : tz;
}

interface FoundSchedule {
  readonly host: ScheduleHost;
  readonly row: ScheduleRow;
  readonly now: number;
}

async function showRow({ host, row, now }: FoundSchedule): Promise<Outcome<ShownSchedule>> {
  const read = readSigned(host, row);
  const settings = read.ok ? read.output.signed : undefined;
  const fires = await host.threads.store.fires(row.id, { since: now - 2 * DAY_MS });
  if (!fires.ok) return fires;
  const runs = runsOfDay(fires.output, now, settings?.tz ?? 'UTC');
  const problem = read.ok ? '' : read.error.detail.message;
  const schedule = compact<ShownSchedule>({
    ...settings,
    name: row.name,
    id: row.id,
    state: !read.ok ? 'broken' : row.paused === null ? 'active' : 'paused',
    reason: problem || (row.paused ?? ''),
    next: isoTime(row.next),
    last: row.last === null ? undefined : isoTime(row.last),
    outcome: row.outcome ?? undefined,
    spent_today: formatMoney(runs.reduce((sum, { used }) => sum + used, 0n)),
  });
  return ok(schedule);
}

/** Returns the schedules of a project. Only `add` and `fireDue` create the registry. */
export function projectSchedules(runtime: Runtime) {
  const { open } = runtime.rooms;
  const tenant = open.own.tenant ?? '';
  let opened: ScheduleHost | undefined;

  async function openHost(): Promise<Outcome<ScheduleHost>> {
    if (opened) return ok(opened);
    const threads = await runtime.threads();
    if (!threads.ok) return threads;
    const { fleet } = threads.output.store;
    const served = fleet ? runtime.served() : ok({ project: runtime.project });
    if (!served.ok) return served;
    opened = { runtime, threads: threads.output, project: served.output.project };
    return ok(opened);
  }

  /** Returns the schedules of the project, or the one with this name. */
  async function find(name?: string): Promise<Outcome<FoundSchedule[]>> {
    if (!runtime.registry.isThere()) return ok([]);
    const host = await openHost();
    if (!host.ok) return host;
    const { threads, project } = host.output;
    const filter = { project, tenant, ...(name !== undefined && { name }) };
    const page = await threads.store.schedules(filter);
    if (!page.ok) return page;
    const { rows, now } = page.output;
    return ok(rows.map((row) => ({ host: host.output, row, now })));
  }

  async function findOne(name: string): Promise<Outcome<FoundSchedule>> {
    const found = await find(name);
    if (!found.ok) return found;
    const [one] = found.output;
    return one ? ok(one) : fail('not_found', `schedule \`${name}\` not found`);
  }

  async function show(name: string): Promise<Outcome<ShownSchedule & { fires: ShownFire[] }>> {
    const found = await findOne(name);
    if (!found.ok) return found;
    const { host, row } = found.output;
    const schedule = await showRow(found.output);
    if (!schedule.ok) return schedule;
    const fires = await host.threads.store.fires(row.id, { since: 0, limit: MAX_FIRES });
    if (!fires.ok) return fires;
    const rows = fires.output.map(({ tick, at, used, bound, ...fire }) => ({
      ...fire,
      tick: isoTime(tick),
      at: isoTime(at),
      spend: formatMoney(used),
      reserved: formatMoney(bound - used),
    }));
    return ok({ ...schedule.output, fires: rows });
  }

  /** Changes a schedule in the name of a person. */
  async function changeRow(
    name: string,
    operation: 'pause' | 'resume' | 'remove',
    by: Actor,
    more: (found: FoundSchedule) => Outcome<Pick<ScheduleChange, 'set' | 'remove'>>,
  ): Promise<Outcome<{ name: string }>> {
    const found = await findOne(name);
    if (!found.ok) return found;
    const { host, row } = found.output;
    const change = more(found.output);
    if (!change.ok) return change;
    const audit = personAuditRow(by, `schedule ${operation}`, name);
    const { waiting: tick } = row;
    // A tick that waits starts no run after the act of a person.
    const fires = tick === null ? [] : [{ tick, outcome: 'missed' as const, reason: operation }];
    const set = { ...change.output.set, waiting: null };
    const { store } = host.threads;
    const written = await store.fire({ ...change.output, row, set, fires, audit });
    return written.ok ? ok({ name }) : written;
  }

  return {
    show,
    async add(
      request: ScheduleRequest,
      by: Actor,
    ): Promise<Outcome<{ schedule: ShownSchedule; notes: string[] }>> {
      const accepted = readRequest(request);
      if (!accepted.ok) return accepted;
      const { directive, inputs, model, limits, cron, tz } = accepted.output;
      const ticks = readCron(cron, tz);
      if (!ticks.ok) return ticks;
      const host = await openHost();
      if (!host.ok) return host;
      const { threads, project } = host.output;
      const starter = { who: by.who, surface: 'schedule' };
      const checked = await threads.check(
        compact<RunRequest>({ directive, inputs, model, limits, by: starter }),
      );
      const key = checked.ok ? ownKey(open) : checked;
      if (!key.ok) return key;
      const projectFile = giveProjectId(join(runtime.project, '.ai'), systemRandom);
      if (!projectFile.ok) return projectFile;
      const { name } = request;
      const page = await threads.store.schedules({ project, tenant, name });
      if (!page.ok) return page;
      const { now } = page.output;
      const id = `sch_${Buffer.from(systemRandom(9)).toString('hex')}`;
      const fixed = { id, tenant, name };
      const settings = { ...accepted.output, by: by.who, created: isoTime(now) };
      const signed = signSchedule(
        { ...fixed, project: projectFile.output.id },
        settings,
        key.output,
      );
      const next = ticks.output.after(now) ?? now;
      const row: ScheduleRow = { ...NEW_ROW, ...fixed, ...signed, project, next };
      const audit = personAuditRow(by, 'schedule add', name, `${directive} ${cron} ${tz}`);
      const added = await threads.store.fire({ row, set: {}, audit });
      const schedule = added.ok ? await showRow({ host: host.output, row, now }) : added;
      return schedule.ok
        ? ok({ schedule: schedule.output, notes: clockChanges(cron, tz, now) })
        : schedule;
    },
    async list(): Promise<Outcome<ShownSchedule[]>> {
      const found = await find();
      if (!found.ok) return found;
      const rows: ShownSchedule[] = [];
      for (const schedule of found.output) {
        const one = await showRow(schedule);
        if (!one.ok) return one;
        rows.push(one.output);
      }
      return ok(rows);
    },
    pause: (name: string, by: Actor) =>
      changeRow(name, 'pause', by, () => ok({ set: { paused: `by ${by.who}` } })),
    resume: (name: string, by: Actor) =>
      changeRow(name, 'resume', by, ({ host, row, now }) => {
        const read = readSigned(host, row);
        if (!read.ok) return read;
        const next = read.output.cron.after(Math.max(now, row.last ?? 0)) ?? row.next;
        return ok({ set: { paused: null, refused: 0, next } });
      }),
    remove: (name: string, by: Actor) =>
      changeRow(name, 'remove', by, () => ok({ set: {}, remove: true })),
    async run(name: string, by: Actor): Promise<Outcome<{ thread_id: string }>> {
      const found = await findOne(name);
      if (!found.ok) return found;
      const { host, row, now } = found.output;
      const fired = await fireNow(host, row, now, personAuditRow(by, 'schedule run', name));
      return fired.ok ? ok({ thread_id: fired.output }) : fired;
    },
    /** Returns the live processes that fire the schedules of this project. */
    async servers(): Promise<Outcome<string[]>> {
      if (!runtime.registry.isThere()) return ok([]);
      const host = await openHost();
      return host.ok ? await host.output.threads.store.servers(host.output.project) : host;
    },
    async fireDue(
      tenantName: string,
      tell: (news: ScheduleNews) => void,
    ): Promise<Outcome<number>> {
      const host = await openHost();
      return host.ok ? await fireDue(host.output, tenantName, tell) : host;
    },
  };
}

export type ProjectSchedules = ReturnType<typeof projectSchedules>;
