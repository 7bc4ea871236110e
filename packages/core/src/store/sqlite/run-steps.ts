// Runs the rules of memory and schedules, which are generators of statements, on a SQLite connection.
import type { StoreSteps } from '../steps.ts';
import type { Connection } from './file/connection.ts';

/** Runs the statements of a rule. SQLite names numbered parameters with `?`. */
export function runSteps<T>({ all }: Pick<Connection, 'all'>, steps: StoreSteps<T>): T {
  let step = steps.next();
  while (!step.done) {
    const [sql, ...values] = step.value;
    step = steps.next(all(sql.replaceAll('$', '?'), ...values));
  }
  return step.value;
}
