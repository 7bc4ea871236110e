// Reads and changes the rows of memory. A lock on the place makes the counts exact, so two writers cannot exceed
// the bounds together.
import type { Clock } from '@kernmantle/core/base';
import type { Memories, MemoryChange, MemoryColumns, MemoryRow } from '@kernmantle/core/store';
import {
  decideMemory,
  MEMORY_SQL,
  memoriesOf,
  memoryCells,
  memoryKey,
  memoryValues,
} from '@kernmantle/core/store';
import type { Database, Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';

const numbered = (sql: string): string => sql.replaceAll('?', '$');
const [LIST, USED, PURGE] = [MEMORY_SQL.list, MEMORY_SQL.used, MEMORY_SQL.purge].map(numbered);
const LOCK = 'SELECT pg_advisory_xact_lock(hashtext($1))';

const list = async (sql: Sql, ...of: Parameters<typeof memoryValues>): Promise<MemoryRow[]> =>
  memoriesOf(await sql.all<MemoryColumns>(LIST ?? '', ...memoryValues(...of)));

async function change(sql: Sql, request: MemoryChange, now: number): Promise<MemoryRow> {
  const { tenant, project, id } = memoryKey(request);
  const { scope = '', owner = '' } = request.kind === 'write' ? request.row : {};
  await sql.all(LOCK, JSON.stringify(['memories', tenant, project]));
  const [row] = await list(sql, { tenant, project, id }, now);
  const place = [tenant, project, scope, owner, now];
  const used = await sql.get<Record<'n' | 'bytes', number>>(USED ?? '', ...place);
  const state = { row, rows: Number(used?.n ?? 0), bytes: Number(used?.bytes ?? 0) };
  const decided = decideMemory(request, state, now);
  if (!decided.ok) throw new RefusedWrite(decided);
  await sql.all(PURGE ?? '', ...place);
  if (request.kind === 'forget') await sql.all(numbered(MEMORY_SQL.remove), tenant, project, id);
  else await sql.all(numbered(MEMORY_SQL.put), ...memoryCells(decided.output));
  return decided.output;
}

export const serverMemories = (database: Database, clock: Clock): Memories => ({
  memories: (filter) => database.read((sql) => list(sql, filter, clock.now())),
  changeMemory: (request) => database.write((sql) => change(sql, request, clock.now())),
});
