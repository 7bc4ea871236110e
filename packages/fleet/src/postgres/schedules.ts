// Runs the rules of schedules on a server, with the time of the server.
import { ok } from '@kernmantle/core/base';
import { type Fleet, type Schedules, scheduleRules } from '@kernmantle/core/store';
import type { ServerRegistry } from './registry.ts';
import { auditRowsOf } from './rows.ts';
import { lockRows, runSteps, serverNow, writeSteps } from './run-steps.ts';
import { cacheLeases, notifyChildren, prepareThread } from './threads.ts';

const AUDIT = 'SELECT km_audit($1, km_now())';
const ACCOUNT = ['b.account::text', 'LEFT JOIN budgets b ON b.thread = f.thread'] as const;

export function serverSchedules(registry: ServerRegistry, fleet: Fleet): Schedules {
  const { database, random, clock } = registry;
  return {
    schedules: (filter) =>
      database.read(async (sql) => runSteps(sql, scheduleRules.find(filter, await serverNow(sql)))),
    async fire(change) {
      const { row, thread, audit } = change;
      const stamp = Buffer.from(random(8)).toString('hex');
      const create = thread && prepareThread(registry, thread);
      if (create?.ok === false) return create;
      const none = { all: [], accounts: [] };
      const sentAt = clock.monotonic();
      const result = await database.write(
        async (sql) => {
          await lockRows(sql, ['schedules', row.project, row.tenant, row.name]);
          await writeSteps(sql, scheduleRules.check(change));
          const created = await create?.output.insert(sql);
          await runSteps(sql, scheduleRules.write(change, stamp, await serverNow(sql)));
          if (audit) await sql.all(AUDIT, JSON.stringify(auditRowsOf([audit])));
          return created ?? none;
        },
        {
          lane: row.id,
          written: async (sql) =>
            (await runSteps(sql, scheduleRules.wasWritten(row.id, stamp)))
              ? ((await create?.output.written(sql)) ?? none)
              : undefined,
        },
      );
      if (!result.ok) return result;
      cacheLeases(registry, result.output, sentAt);
      notifyChildren(registry, result.output.all);
      const [leased] = result.output.all;
      return ok(leased ? { leased } : {});
    },
    fires: (schedule, range) =>
      database.read((sql) => runSteps(sql, scheduleRules.fires(schedule, range, ACCOUNT))),
    scheduleOf: (thread) => database.read((sql) => runSteps(sql, scheduleRules.scheduleOf(thread))),
    serve: () => Promise.resolve(ok(null)),
    async servers(project) {
      const workers = await fleet.workers();
      if (!workers.ok) return workers;
      const serving = workers.output.filter(
        ({ draining, projects }) => !draining && projects.some((one) => one.project === project),
      );
      return ok(serving.map(({ id }) => id));
    },
  };
}
