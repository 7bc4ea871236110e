// Runs the rules of schedules, which are generators of statements, in a transaction of the server.
import type { ScheduleSteps } from '@kernmantle/core/store';
import type { Sql } from './connection.ts';

export async function runSteps<T>(sql: Sql, steps: ScheduleSteps<T>): Promise<T> {
  let step = steps.next();
  while (!step.done) step = steps.next(await sql.all(...step.value));
  return step.value;
}

export const serverNow = async (sql: Sql): Promise<number> =>
  (await sql.get<{ now: number }>('SELECT km_now() AS now'))?.now ?? 0;
