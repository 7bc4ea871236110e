// Runs the rules of schedules on a SQLite file.
import { type Outcome, ok } from '../../base/index.ts';
import type { LeasedThread, Schedules } from '../port.ts';
import { scheduleRules } from '../schedules.ts';
import type { StoreSteps } from '../steps.ts';
import { writeAudit } from './commit.ts';
import { type Parts, prepareThread } from './ports.ts';
import { runSteps } from './run-steps.ts';

const ACCOUNT = [
  'coalesce(t.budget, p.budget)',
  'LEFT JOIN pruned_budgets p ON p.thread = f.thread',
] as const;
const ANNOUNCE = 'INSERT OR REPLACE INTO about (name, value) VALUES (?, ?)';
const SERVERS = "SELECT name, value FROM about WHERE name LIKE 'serves:%'";

export function schedulesPort(parts: Parts): Schedules {
  const { connection, clock, isGone } = parts;
  const runRule = <T>(steps: StoreSteps<T>): T => runSteps(connection, steps);
  const servers = () => connection.all<{ name: string; value: string }>(SERVERS);
  return {
    schedules: (filter) => parts.read(() => ok(runRule(scheduleRules.find(filter, clock.now())))),
    fire(change) {
      const stamp = Buffer.from(parts.random(8)).toString('hex');
      const create = change.thread && prepareThread(parts, change.thread);
      if (create?.ok === false) return Promise.resolve(create);
      return parts.write(
        (): Outcome<{ leased?: LeasedThread }> => {
          const check = runRule(scheduleRules.check(change));
          const created = check.ok ? create?.output.insert() : check;
          if (created?.ok === false) return created;
          runRule(scheduleRules.write(change, stamp, clock.now()));
          if (change.audit) writeAudit(connection, [change.audit], clock.now());
          return ok(created ? { leased: created.output } : {});
        },
        { wasWritten: () => runRule(scheduleRules.wasWritten(change.row.id, stamp)) },
      );
    },
    fires: (schedule, range) =>
      parts.read(() => ok(runRule(scheduleRules.fires(schedule, range, ACCOUNT)))),
    scheduleOf: (thread) => parts.read(() => ok(runRule(scheduleRules.scheduleOf(thread)))),
    serve: (owner) =>
      parts.write(() => {
        for (const { name, value } of servers()) {
          if (isGone(value)) connection.run('DELETE FROM about WHERE name = ?', name);
        }
        connection.run(ANNOUNCE, `serves:${owner}`, owner);
        return ok(null);
      }),
    servers: () =>
      parts.read(() => ok(servers().flatMap(({ value }) => (isGone(value) ? [] : [value])))),
  };
}
