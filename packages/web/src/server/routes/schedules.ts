// Routes of schedules: lists, the last ticks of one, and acts of a person. A schedule is added at the command line or
// by a program, because it is signed with the key of the person who adds it.
import { type Outcome, ok } from '@kernmantle/core/base';
import { openSchedules, type ProjectSchedules } from '@kernmantle/core/runtime';
import type { Context } from 'hono';
import type { ScheduleList } from '../../model/api.ts';
import { answer, readBody } from '../answer.ts';
import type { AddRoutes, ApiEnv } from '../context.ts';
import { needs } from '../roles.ts';
import { speakerOf } from '../runs.ts';
import { createOnce } from './idempotency.ts';
import { readQuery } from './request-bodies.ts';

const ACTS = ['pause', 'resume', 'run', 'remove'] as const;

export const addSchedulesRoutes: AddRoutes = (api, { runtime }) => {
  const once = createOnce();
  async function inSchedules<T>(
    context: Context<ApiEnv>,
    work: (schedules: ProjectSchedules) => Promise<Outcome<T>>,
    none?: () => Outcome<T>,
  ): Promise<Outcome<T>> {
    const query = readQuery(context, []);
    if (!query.ok) return query;
    if (none && !runtime.registry.isThere()) return none();
    const schedules = await openSchedules(runtime);
    return schedules.ok ? await work(schedules.output) : schedules;
  }
  const listAll = async (schedules: ProjectSchedules): Promise<Outcome<ScheduleList>> => {
    const [rows, servers] = [await schedules.list(), await schedules.servers()];
    if (!rows.ok) return rows;
    return servers.ok ? ok({ rows: rows.output, servers: servers.output.length }) : servers;
  };
  api.get('/schedules', needs('view'), async (context) =>
    answer(context, await inSchedules(context, listAll, () => ok({ rows: [], servers: 0 }))),
  );
  api.get('/schedules/:name', needs('view'), async (context) =>
    answer(context, await inSchedules(context, (all) => all.show(context.req.param('name')))),
  );
  for (const act of ACTS) {
    api.post(`/schedules/:name/${act}`, needs('steer'), (context) =>
      once(context, async () => {
        const body = await readBody(context);
        if (!body.ok) return body;
        const [name, by] = [context.req.param('name') ?? '', speakerOf(context.get('asker'))];
        return await inSchedules<object>(context, (all) => all[act](name, by));
      }),
    );
  }
};
