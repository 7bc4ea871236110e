// The schedules of one project: acts of a person, each with an audit row in the same transaction, and the pass of a
// server that fires what is due.
import { join } from 'node:path';
import { compact, fail, type Outcome, ok, systemRandom } from '../../base/index.ts';
import { giveProjectId } from '../../items/index.ts';
import { formatMoney, parseMoney } from '../../llm/index.ts';
import type { FireRow, ScheduleChange, ScheduleRow } from '../../store/index.ts';
import { ownKey } from '../open-project.ts';
import { projectId } from '../project-identity.ts';
import type { Runtime } from '../runtime.ts';
import { type Actor, personAuditRow } from '../thread-signals.ts';
import { clockChanges, readCron, readZone, type Ticks } from './cron.ts';
import {
  fireDue,
  fireNow,
  runsOfDay,
  type ScheduleHost,
  type ScheduleNews,
  verifyRow,
} from './fire-due.ts';
import { type ScheduleSettings, type SignedSchedule, signSchedule } from './signed-schedule.ts';

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
const isoTime = (time: number): string => new Date(Math.min(time, 8.64e15)).toISOString();
const modeProblem = (option: string, value: string, modes: readonly string[]) =>
  modes.includes(value)
    ? undefined
    : fail('usage', `\`${option}\` must be ${modes.join(' or ')}, not \`${value}\``);

/** Fills in defaults. Fails with `usage` for an invalid name, pattern, zone or amount. */
function readRequest(
  request: ScheduleRequest,
): Outcome<{ settings: ScheduleSettings; ticks: Ticks }> {
  const { name, cron, directive, inputs = {}, model, limits, spend_per_day, ...rest } = request;
  const { missed = 'once', grace_ms = DAY_MS, overlap = 'skip' } = rest;
  if (!NAME.test(name)) {
    return fail('usage', `name \`${name}\` may have 1 to 40 letters, digits, \`_\` and \`-\``);
  }
  const own = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const tz = readZone(rest.tz ?? own);
  const ticks = tz.ok ? readCron(cron, tz.output) : tz;
  if (!tz.ok) return tz;
  if (!ticks.ok) return ticks;
  const money = parseMoney(spend_per_day ?? '1');
  if (!money.ok) return fail('usage', `spend of a day: ${money.error.detail.message}`);
  const wrong =
    modeProblem('missed', missed, ['once', 'skip']) ??
    modeProblem('overlap', overlap, ['skip', 'wait', 'stop']);
  if (wrong) return wrong;
  if (!(grace_ms >= 0 && grace_ms <= MAX_GRACE_MS)) {
    return fail('usage', 'the grace must be from 0 to 366 days');
  }
  const optional = { spend_per_day, model, limits };
  const run = { directive, inputs, cron, tz: tz.output };
  const settings = compact<ScheduleSettings>({ ...run, missed, grace_ms, overlap, ...optional });
  return ok({ settings, ticks: ticks.output });
}

/** Returns the settings without the facts about the row and its signature. */
function shownSettings(signed: SignedSchedule | undefined): Partial<ScheduleSettings> {
  if (!signed) return {};
  const { id: _, tenant: _1, project: _2, created: _3, key: _4, ...settings } = signed;
  return settings;
}

/** Opens the schedules of a project. Creates the registry if it does not exist. */
export async function openSchedules(runtime: Runtime) {
  const opened = await runtime.threads();
  if (!opened.ok) return opened;
  const threads = opened.output;
  const { store } = threads;
  const { open } = runtime.rooms;
  const served = store.fleet ? runtime.served() : ok({ project: runtime.project });
  if (!served.ok) return served;
  const { project } = served.output;
  const tenant = open.own.tenant ?? '';
  const host: ScheduleHost = {
    threads,
    trust: runtime.trustStore,
    project,
    id() {
      const named = projectId(runtime.project);
      return named.ok ? ok(named.output.id) : named;
    },
  };

  async function findSchedule(name: string): Promise<Outcome<{ row: ScheduleRow; now: number }>> {
    const page = await store.schedules({ project, tenant, name });
    const row = page.ok ? page.output.rows[0] : undefined;
    if (!page.ok) return page;
    if (row) return ok({ row, now: page.output.now });
    return fail('not_found', `schedule \`${name}\` not found; list the schedules`);
  }

  async function showRow(row: ScheduleRow, now: number): Promise<Outcome<ShownSchedule>> {
    const signed = verifyRow(host, row);
    const settings = signed.ok ? signed.output : undefined;
    const fires = await store.fires(row.id, { since: now - 2 * DAY_MS });
    if (!fires.ok) return fires;
    const runs = runsOfDay(fires.output, now, settings?.tz ?? 'UTC');
    const problem = signed.ok ? undefined : signed.error.detail.message;
    const state = problem !== undefined ? 'broken' : row.paused === null ? 'active' : 'paused';
    return ok(
      compact<ShownSchedule>({
        name: row.name,
        id: row.id,
        state,
        reason: problem ?? row.paused ?? '',
        ...shownSettings(settings),
        next: isoTime(row.next),
        last: row.last === null ? undefined : isoTime(row.last),
        outcome: row.outcome ?? undefined,
        spent_today: formatMoney(runs.reduce((sum, { used }) => sum + used, 0n)),
      }),
    );
  }

  /** Changes a schedule in the name of a person. */
  async function changeRow(
    name: string,
    operation: 'pause' | 'resume' | 'remove',
    by: Actor,
    more: (row: ScheduleRow, now: number) => Outcome<Pick<ScheduleChange, 'set' | 'remove'>>,
  ): Promise<Outcome<{ name: string }>> {
    const found = await findSchedule(name);
    const decided = found.ok ? more(found.output.row, found.output.now) : found;
    if (!decided.ok || !found.ok) return decided.ok ? ok({ name }) : decided;
    const audit = personAuditRow(by, `schedule ${operation}`, name);
    const { row } = found.output;
    const tick = row.waiting;
    const fires = tick === null ? [] : [{ tick, outcome: 'missed' as const, reason: operation }];
    const written = await store.fire({ ...decided.output, row, fires, audit });
    return written.ok ? ok({ name }) : written;
  }

  return ok({
    async add(
      request: ScheduleRequest,
      by: Actor,
    ): Promise<Outcome<{ schedule: ShownSchedule; notes: string[] }>> {
      const accepted = readRequest(request);
      if (!accepted.ok) return accepted;
      const { settings, ticks } = accepted.output;
      const { directive, inputs, model, limits, cron, tz } = settings;
      const { name } = request;
      const starter = { who: by.who, surface: 'schedule' };
      const run = compact({ directive, inputs, model, limits, by: starter });
      const checked = await threads.check(run);
      const key = checked.ok ? ownKey(open) : checked;
      if (!key.ok) return key;
      const projectFile = giveProjectId(join(runtime.project, '.ai'), systemRandom);
      if (!projectFile.ok) return projectFile;
      const page = await store.schedules({ project, tenant, name });
      if (!page.ok) return page;
      const { now } = page.output;
      const id = `sch_${Buffer.from(systemRandom(9)).toString('hex')}`;
      const fixed = { id, tenant, name };
      const facts = { project: projectFile.output.id, by: by.who, created: isoTime(now) };
      const signed = signSchedule({ ...settings, ...fixed, ...facts }, key.output);
      const next = ticks.after(now) ?? now;
      const audit = personAuditRow(by, 'schedule add', name, `${directive} ${cron} ${tz}`);
      const added = await store.addSchedule({ ...fixed, ...signed, project, next }, audit);
      const found = added.ok ? await findSchedule(name) : added;
      const schedule = found.ok ? await showRow(found.output.row, now) : found;
      return schedule.ok
        ? ok({ schedule: schedule.output, notes: clockChanges(cron, tz, now) })
        : schedule;
    },
    async list(): Promise<Outcome<ShownSchedule[]>> {
      const page = await store.schedules({ project, tenant });
      if (!page.ok) return page;
      const rows: ShownSchedule[] = [];
      for (const row of page.output.rows) {
        const one = await showRow(row, page.output.now);
        if (!one.ok) return one;
        rows.push(one.output);
      }
      return ok(rows);
    },
    async show(name: string): Promise<Outcome<ShownSchedule & { fires: ShownFire[] }>> {
      const found = await findSchedule(name);
      const one = found.ok ? await showRow(found.output.row, found.output.now) : found;
      if (!found.ok || !one.ok) return one.ok ? fail('not_found', name) : one;
      const fires = await store.fires(found.output.row.id, { since: 0, limit: MAX_FIRES });
      if (!fires.ok) return fires;
      const rows = fires.output.map(({ tick, at, used, bound, ...fire }) => ({
        ...fire,
        tick: isoTime(tick),
        at: isoTime(at),
        spend: formatMoney(used),
        reserved: formatMoney(bound - used),
      }));
      return ok({ ...one.output, fires: rows });
    },
    pause: (name: string, by: Actor) =>
      changeRow(name, 'pause', by, () => ok({ set: { paused: `by ${by.who}`, waiting: null } })),
    resume: (name: string, by: Actor) =>
      changeRow(name, 'resume', by, (row, now) => {
        const signed = verifyRow(host, row);
        const ticks = signed.ok ? readCron(signed.output.cron, signed.output.tz) : signed;
        if (!ticks.ok) return ticks;
        const next = ticks.output.after(Math.max(now, row.last ?? 0)) ?? row.next;
        return ok({ set: { paused: null, refused: 0, next } });
      }),
    remove: (name: string, by: Actor) =>
      changeRow(name, 'remove', by, () => ok({ set: {}, remove: true })),
    async run(name: string, by: Actor): Promise<Outcome<{ thread_id: string }>> {
      const found = await findSchedule(name);
      if (!found.ok) return found;
      const { row, now } = found.output;
      const fired = await fireNow(host, row, now, personAuditRow(by, 'schedule run', name));
      return fired.ok ? ok({ thread_id: fired.output }) : fired;
    },
    servers: () => store.servers(project),
    fireDue: (tenantName: string, tell: (news: ScheduleNews) => void) =>
      fireDue(host, tenantName, tell),
  });
}

export type ProjectSchedules = Extract<
  Awaited<ReturnType<typeof openSchedules>>,
  { ok: true }
>['output'];
