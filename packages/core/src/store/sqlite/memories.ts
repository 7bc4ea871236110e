// Reads and changes the rows of memory. The transaction of a change locks the file, so the counts are exact.
import type { Outcome } from '../../base/index.ts';
import {
  decideMemory,
  MEMORY_SQL,
  type MemoryChange,
  type MemoryColumns,
  type MemoryFilter,
  type MemoryRow,
  memoriesOf,
  memoryCells,
  memoryKey,
  memoryValues,
} from '../memory.ts';
import type { Connection } from './file/connection.ts';

type Used = Readonly<Record<'n' | 'bytes', number>>;

export const listMemories = (
  connection: Connection,
  filter: MemoryFilter,
  now: number,
): MemoryRow[] =>
  memoriesOf(connection.all<MemoryColumns>(MEMORY_SQL.list, ...memoryValues(filter, now)));

export function changeMemory(
  connection: Connection,
  change: MemoryChange,
  now: number,
): Outcome<MemoryRow> {
  const { tenant, project, id } = memoryKey(change);
  const [row] = listMemories(connection, { tenant, project, id }, now);
  const { scope = '', owner = '' } = change.kind === 'write' ? change.row : {};
  const place = [tenant, project, scope, owner, now] as const;
  const used = connection.get<Used>(MEMORY_SQL.used, ...place) ?? { n: 0, bytes: 0 };
  const decided = decideMemory(change, { row, rows: used.n, bytes: used.bytes }, now);
  if (!decided.ok) return decided;
  connection.run(MEMORY_SQL.purge, ...place);
  if (change.kind === 'forget') connection.run(MEMORY_SQL.remove, tenant, project, id);
  else connection.run(MEMORY_SQL.put, ...memoryCells(decided.output));
  return decided;
}
