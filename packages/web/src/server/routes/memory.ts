// Routes of memory: the texts that threads kept with their standing, and the acts of a person. An endorsement names
// the hash of the text that the person read.
import { ok } from '@kernmantle/core/base';
import { openMemory } from '@kernmantle/core/runtime';
import type { MemoryView } from '../../model/api.ts';
import { answer, readBody } from '../answer.ts';
import type { AddRoutes } from '../context.ts';
import { needs } from '../roles.ts';
import { speakerOf } from '../runs.ts';
import { createOnce } from './idempotency.ts';
import { readQuery, readWish } from './request-bodies.ts';

const MAX_LISTED = 500;

export const addMemoryRoutes: AddRoutes = (api, { runtime }) => {
  const once = createOnce();
  api.get('/memory', needs('view'), async (context) => {
    const query = readQuery(context, []);
    const rows = query.ok ? await (await openMemory(runtime)).list() : query;
    if (!rows.ok) return answer(context, rows);
    const memories = rows.output.slice(0, MAX_LISTED).map((row) => ({
      ...row,
      marks: { ...row.marks, sources: row.marks.sources.slice(0, 20) },
    }));
    const view: MemoryView = { memories, total: rows.output.length };
    return answer(context, ok(view));
  });
  api.post('/memory/:id/endorse', needs('approve'), (context) =>
    once(context, async () => {
      const body = await readWish(context, 'endorse');
      if (!body.ok) return body;
      const [id, by] = [context.req.param('id') ?? '', speakerOf(context.get('asker'))];
      return await (await openMemory(runtime)).endorse(id, body.output.hash, by);
    }),
  );
  api.post('/memory/:id/forget', needs('steer'), (context) =>
    once(context, async () => {
      const body = await readBody(context);
      if (!body.ok) return body;
      const [id, by] = [context.req.param('id') ?? '', speakerOf(context.get('asker'))];
      return await (await openMemory(runtime)).forget(id, by);
    }),
  );
};
