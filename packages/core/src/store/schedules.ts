// Rows of schedules and of their fires, with the rules for their changes. INVARIANT: a tick of a schedule always has
// at most one row, and a row with a thread never changes.
import { fail, type Outcome, ok } from '../base/index.ts';
import { toBudgetState } from './account.ts';
import type { FireRow, ScheduleChange, ScheduleFilter, SchedulePage, ScheduleRow } from './port.ts';
import type { SqlCell, SqlRow, StoreSteps } from './steps.ts';
import { isEnded, THREAD_STATUSES } from './thread-id.ts';

const OUTCOMES = ['started', 'manual', 'missed', 'overlap', 'waiting', 'budget'] as const;
const SIGNED = ['id', 'tenant', 'project', 'name', 'body', 'signature'] as const;
const STATE = ['next', 'waiting', 'last', 'outcome', 'paused', 'refused', 'stamp'] as const;
const COLUMNS = [...SIGNED, ...STATE] as const;
const numberOrNull = (cell: SqlCell = null): number | null => (cell === null ? null : Number(cell));
const textOrNull = (cell: SqlCell = null): string | null => (cell === null ? null : String(cell));

const toRow = (row: SqlRow, open: readonly string[]): ScheduleRow => ({
  id: String(row.id),
  tenant: String(row.tenant),
  project: String(row.project),
  name: String(row.name),
  body: String(row.body),
  signature: String(row.signature),
  stamp: String(row.stamp),
  next: Number(row.next),
  waiting: numberOrNull(row.waiting),
  last: numberOrNull(row.last),
  outcome: textOrNull(row.outcome),
  paused: textOrNull(row.paused),
  refused: Number(row.refused),
  open,
});

const OPEN_STATUSES = THREAD_STATUSES.filter((status) => !isEnded(status))
  .map((status) => `'${status}'`)
  .join();
/** Begins with the threads that have not ended, which are few. A schedule can have many fires. */
const OPEN_RUNS = `SELECT f.schedule, t.id FROM threads t CROSS JOIN schedule_fires f
  WHERE t.status IN (${OPEN_STATUSES}) AND f.thread = t.id`;

function* findSchedules(filter: ScheduleFilter, now: number): StoreSteps<SchedulePage> {
  const { project, tenant = null, name = null, due } = filter;
  const mine = 'FROM schedules WHERE project = $1 AND (CAST($2 AS text) IS NULL OR tenant = $2)';
  const work = `${mine} AND paused IS NULL AND coalesce(waiting, next)`;
  const named = `${mine} AND (CAST($3 AS text) IS NULL OR name = $3) ORDER BY name`;
  const which = due ? `${work} <= $3 ORDER BY next` : named;
  const rows = yield [`SELECT ${COLUMNS.join(', ')} ${which}`, project, tenant, due ? now : name];
  const runs = due && rows.length > 0 ? yield [OPEN_RUNS] : [];
  const next = `SELECT min(coalesce(waiting, next)) AS soonest ${work} > $3`;
  const [soon] = due ? yield [next, project, tenant, now] : [];
  const soonest = numberOrNull(soon?.soonest);
  const openOf = (id: SqlCell = null): string[] =>
    runs.flatMap((run) => (run.schedule === id ? [String(run.id)] : []));
  const page = rows.map((row) => toRow(row, openOf(row.id)));
  return { rows: page, now, ...(soonest !== null && { soonest }) };
}

const TICKS = `SELECT tick FROM schedule_fires WHERE schedule = $1 AND tick BETWEEN $2 AND $3
  AND outcome <> 'waiting'`;

/** Checks a change without a write. A row without a stamp is a new one. */
function* checkChange({ row, fires = [] }: ScheduleChange): StoreSteps<Outcome<null>> {
  const { id, project, tenant, name, stamp } = row;
  const [found] = yield [
    'SELECT id, stamp FROM schedules WHERE project = $1 AND tenant = $2 AND name = $3',
    project,
    tenant,
    name,
  ];
  if (stamp === '')
    return found ? fail('conflict', `schedule \`${name}\` exists; remove it first`) : ok(null);
  if (found?.id !== id) return fail('not_found', `schedule \`${name}\` not found`);
  const ticks = fires.length > 0 ? fires.map(({ tick }) => tick) : [0];
  const near = yield [TICKS, id, Math.min(...ticks), Math.max(...ticks)];
  const isTaken = near.some(({ tick }) => ticks.includes(Number(tick)));
  const message = `schedule \`${name}\` was changed by another process; try again`;
  return found.stamp === stamp && !isTaken ? ok(null) : fail('conflict', message, { name });
}

const PUT = `INSERT INTO schedules (${COLUMNS.join(', ')})
  VALUES (${COLUMNS.map((_, at) => `$${at + 1}`).join(', ')})
  ON CONFLICT (id) DO UPDATE SET ${STATE.map((name) => `${name} = excluded.${name}`).join(', ')}`;
const RECORD = `INSERT INTO schedule_fires (schedule, tick, at, outcome, reason, thread)
  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (schedule, tick) DO UPDATE SET at = excluded.at,
  outcome = excluded.outcome, reason = excluded.reason, thread = excluded.thread`;

/** Writes a change that was checked in the same transaction, which no other change of the schedule interrupts. */
function* writeChange(change: ScheduleChange, stamp: string, now: number): StoreSteps<null> {
  const { row, set, fires = [], remove } = change;
  const state = { ...row, ...set, stamp };
  yield remove
    ? ['DELETE FROM schedules WHERE id = $1', row.id]
    : [PUT, ...COLUMNS.map((name) => state[name])];
  for (const { tick, outcome, reason, thread = null } of fires) {
    yield [RECORD, row.id, tick, now, outcome, reason, thread];
  }
  return null;
}

/** True if this change was written and no later one. */
function* wasChanged(id: string, stamp: string): StoreSteps<boolean> {
  return (yield ['SELECT 1 FROM schedules WHERE id = $1 AND stamp = $2', id, stamp]).length > 0;
}

/** `account`: SQL of the account as text, and the joins that it needs. */
function* findFires(
  schedule: string,
  { since, limit = 10_000 }: { since: number; limit?: number },
  [account, joins]: readonly [string, string],
): StoreSteps<FireRow[]> {
  const rows = yield [
    `SELECT f.tick, f.at, f.outcome, f.reason, f.thread, t.status, ${account} AS account
      FROM schedule_fires f LEFT JOIN threads t ON t.id = f.thread ${joins}
      WHERE f.schedule = $1 AND f.at >= $2 ORDER BY f.at DESC, f.tick DESC LIMIT $3`,
    schedule,
    since,
    limit,
  ];
  return rows.map(({ tick, at, outcome, reason, thread, status: text, account: amounts }) => {
    const { limits, used, reserved } = toBudgetState('', String(amounts ?? NO_ACCOUNT));
    const status = THREAD_STATUSES.find((name) => name === text);
    const most = used.spend + reserved.spend;
    const { spend = most } = limits;
    const isOver = status === undefined || isEnded(status);
    return {
      tick: Number(tick),
      at: Number(at),
      outcome: OUTCOMES.find((name) => name === outcome) ?? 'refused',
      reason: String(reason),
      ...(typeof thread === 'string' && { thread }),
      ...(status !== undefined && { status }),
      used: used.spend,
      bound: isOver ? used.spend : spend > most ? spend : most,
    };
  });
}
const NO_ACCOUNT = '{"limits":{},"used":{},"reserved":{},"open":[]}';

function* findScheduleOf(thread: string): StoreSteps<string> {
  const [row] = yield [
    `SELECT s.name FROM threads t JOIN schedule_fires f ON f.thread = t.root
      JOIN schedules s ON s.id = f.schedule WHERE t.id = $1`,
    thread,
  ];
  return String(row?.name ?? '');
}

/** Removes fires before a time. Those of two days always stay, because the budget of a day rests on them. */
function* pruneFires(before: number, project: string | null, now: number) {
  const others = 'SELECT id FROM schedules WHERE project <> $2';
  const sql = `DELETE FROM schedule_fires WHERE at < $1
    AND (CAST($2 AS text) IS NULL OR schedule NOT IN (${others}))`;
  yield [sql, Math.min(before, now - 2 * DAY_MS), project] as const;
}
const DAY_MS = 86_400_000;

/** The rules, which each store runs in its own transactions. */
export const scheduleRules = {
  find: findSchedules,
  check: checkChange,
  write: writeChange,
  wasWritten: wasChanged,
  fires: findFires,
  scheduleOf: findScheduleOf,
  prune: pruneFires,
};
