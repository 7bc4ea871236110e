// Measures a search of a full scope of memory as a thread makes it: the rows are read from the file and ranked.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@kernmantle/core/base';
import { MEMORY_BOUNDS, openSqliteStore } from '@kernmantle/core/store';
import { searchMemories } from '../packages/core/src/harness/memory/search-memory.ts';
import { type BenchRow, race } from './row.ts';

const LIMIT_MS = 10;
const QUERIES = ['release friday', 'invoice', 'server of customer 12'];
const PLACE = { tenant: '', project: 'p', scope: 'project', owner: '' } as const;

export async function bench(): Promise<BenchRow[]> {
  const dir = mkdtempSync(join(tmpdir(), 'km-bench-memory-'));
  const opened = await openSqliteStore({ file: join(dir, 'registry.db'), clock: systemClock });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  const store = opened.output;
  const marks = { labels: [], taint: ['src:llm', 'src:user'], sources: ['directive:remember'] };
  const own = { ...PLACE, subject: '', marks, thread: 'remember_20300131_235959_x7k2', seq: 9 };
  const ends = { expires: null, endorsed_by: null };
  await Promise.all(
    Array.from({ length: MEMORY_BOUNDS.rows }, (_, at) => {
      const text = `The server of customer ${at} is restarted on a friday after its release, and the invoice follows`;
      return store.changeMemory({ kind: 'write', row: { ...own, ...ends, text } });
    }),
  );
  const search = async (query: string) => {
    const rows = await store.memories(PLACE);
    return searchMemories(rows.ok ? rows.output : [], query, 20);
  };
  const rows = await store.memories(PLACE);
  const texts = rows.ok ? rows.output.map(({ text }) => text.toLowerCase()) : [];
  const best = await race({
    ours: async () => {
      for (const query of QUERIES) await search(query);
    },
    scan: () => {
      for (const query of QUERIES) texts.filter((text) => text.includes(query));
    },
  });
  await store.close();
  rmSync(dir, { recursive: true, force: true });
  const [ours = 0, base = 0] = [best.ours, best.scan].map((us = 0) => us / 1000 / QUERIES.length);
  const target = `under ${LIMIT_MS} ms`;
  const name = `search of ${MEMORY_BOUNDS.rows} rows of memory`;
  return [{ name, ours, base, ratio: ours / base, unit: 'ms', target, ok: ours < LIMIT_MS }];
}
