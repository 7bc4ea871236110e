// Routes of schedules: lists, the last ticks of one, and acts of a person. A schedule is added at the command line or
// by a program, because it is signed with the key of the person who adds it.
import { ok } from '@kernmantle/core/base';
import { openSchedules } from '@kernmantle/core/runtime';
import type { ScheduleList } from '../../model/api.ts';
import { answer, readBody } from '../answer.ts';
import type { AddRoutes } from '../context.ts';
import { needs } from '../roles.ts';
import { speakerOf } from '../runs.ts';
import { createOnce } from './idempotency.ts';
import { readQuery } from './request-bodies.ts';

const ACTS = ['pause', 'resume', 'run', 'remove'] as const;

export const addSchedulesRoutes: AddRoutes = (api, { runtime }) => {
  const once = createOnce();
  api.get('/schedules', needs('view'), async (context) => {
    const query = readQuery(context, []);
    const schedules = await openSchedules(runtime);
    const rows = query.ok ? await schedules.list() : query;
    const servers = rows.ok ? await schedules.servers() : rows;
    if (!rows.ok || !servers.ok) return answer(context, rows.ok ? servers : rows);
    const list: ScheduleList = { rows: rows.output, servers: servers.output.length };
    return answer(context, ok(list));
  });
  api.get('/schedules/:name', needs('view'), async (context) => {
    const query = readQuery(context, []);
    const schedules = await openSchedules(runtime);
    return answer(context, query.ok ? await schedules.show(context.req.param('name')) : query);
  });
  for (const act of ACTS) {
    api.post(`/schedules/:name/${act}`, needs('steer'), (context) =>
      once(context, async () => {
        const body = await readBody(context);
        if (!body.ok) return body;
        const [name, by] = [context.req.param('name') ?? '', speakerOf(context.get('asker'))];
        const schedules = await openSchedules(runtime);
        return await schedules[act](name, by);
      }),
    );
  }
};
