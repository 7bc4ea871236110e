// Runs the rules of memory and schedules, which are generators of statements, in a transaction of the server.
import type { Outcome } from '@kernmantle/core/base';
import type { StoreSteps } from '@kernmantle/core/store';
import type { Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';

export async function runSteps<T>(sql: Sql, steps: StoreSteps<T>): Promise<T> {
  let step = steps.next();
  while (!step.done) step = steps.next(await sql.all(...step.value));
  return step.value;
}

/** Runs the steps of a write. A refusal rolls it back. */
export async function writeSteps<T>(sql: Sql, steps: StoreSteps<Outcome<T>>): Promise<T> {
  const outcome = await runSteps(sql, steps);
  if (!outcome.ok) throw new RefusedWrite(outcome);
  return outcome.output;
}

export const serverNow = async (sql: Sql): Promise<number> =>
  (await sql.get<{ now: number }>('SELECT km_now() AS now'))?.now ?? 0;

/** Locks rows by their names until the end of the transaction, so that no other write is between a check and its write. */
export const lockRows = (sql: Sql, names: readonly string[]) =>
  sql.all('SELECT pg_advisory_xact_lock(hashtext($1))', JSON.stringify(names));
