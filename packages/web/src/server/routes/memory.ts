// `GET memory`: the texts that threads kept, with their standing. A person endorses one with `km memory endorse`.
import { ok } from '@kernmantle/core/base';
import { openMemory } from '@kernmantle/core/runtime';
import type { MemoryView } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes } from '../context.ts';
import { needs } from '../roles.ts';
import { readQuery } from './request-bodies.ts';

const MAX_LISTED = 500;

export const addMemoryRoutes: AddRoutes = (api, { runtime }) => {
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
};
