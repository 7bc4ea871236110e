// Memory as a person reads and changes it: rows of this project and of this user. Only a person endorses, and the
// audit row is written before the change.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok } from '../base/index.ts';
import { judgeMemory, type MemoryStanding } from '../flow/index.ts';
import type { Memories, MemoryChange, MemoryRow, MemoryScope } from '../store/index.ts';
import { identify } from './project-identity.ts';
import type { Runtime } from './runtime.ts';
import { type Actor, personAuditRow } from './thread-signals.ts';
import { openUserMemory } from './threads.ts';

export interface ShownMemory extends MemoryRow {
  readonly standing: MemoryStanding;
  /** Hash of the text. An endorsement names it. */
  readonly hash: string;
}

interface MemoryPart {
  readonly store: Memories;
  readonly tenant: string;
  readonly project: string;
}

/** Opens the stores that exist, and creates none. */
async function openParts({ rooms: { open }, registry }: Runtime): Promise<Outcome<MemoryPart[]>> {
  const parts: MemoryPart[] = [];
  const tenant = open.own.tenant ?? '';
  if (registry.isThere()) {
    const store = await registry.open();
    if (!store.ok) return store;
    const own = store.output.fleet ? identify(open) : ok({ project: open.project });
    if (!own.ok) return own;
    parts.push({ store: store.output, tenant, project: own.output.project });
    if (store.output.fleet) return ok([...parts, { store: store.output, tenant, project: '' }]);
  }
  if (!existsSync(join(open.home, 'memory.db'))) return ok(parts);
  const store = await openUserMemory(open);
  return store.ok ? ok([...parts, { store: store.output, tenant, project: '' }]) : store;
}

/** Returns the rows of the project and of the user with their standing, newest first. */
export async function listMemories(
  runtime: Runtime,
  filter: { scope?: MemoryScope; id?: string } = {},
): Promise<Outcome<ShownMemory[]>> {
  const { memoryHash } = await import('../store/index.ts');
  const parts = await openParts(runtime);
  if (!parts.ok) return parts;
  const rows: ShownMemory[] = [];
  for (const { store, tenant, project } of parts.output) {
    const found = await store.memories({ tenant, project, ...filter });
    if (!found.ok) return found;
    for (const row of found.output) {
      const hash = memoryHash(row);
      rows.push({ ...row, hash, standing: judgeMemory(row.marks, row.endorsed_by, hash).standing });
    }
  }
  return ok(rows.toSorted((a, b) => b.created - a.created));
}

/** Endorses the text with this hash, or forgets the row. Fails with `not_found` and `conflict`. */
export async function changeMemory(
  runtime: Runtime,
  request: { kind: 'forget'; id: string } | { kind: 'endorse'; id: string; hash: string },
  by: Actor,
): Promise<Outcome<MemoryRow>> {
  const { noMemory, scopeOfMemory } = await import('../store/index.ts');
  const { id, kind } = request;
  const parts = await openParts(runtime);
  if (!parts.ok) return parts;
  const isOfUser = scopeOfMemory(id) === 'user';
  const part = parts.output.find(({ project }) => (project === '') === isOfUser);
  const row = personAuditRow(by, `memory:${kind}`, id, 'hash' in request ? request.hash : '');
  const written = runtime.audit.write(row);
  if (!written.ok) return written;
  const key = { tenant: part?.tenant ?? '', project: part?.project ?? '', id };
  const change: MemoryChange =
    request.kind === 'forget' ? { kind: 'forget', key } : { ...request, key, by: by.who };
  const changed = part ? await part.store.changeMemory(change) : noMemory(id);
  if (changed.ok) return changed;
  const reason = `${changed.error.code}: ${changed.error.detail.message}`;
  runtime.audit.write({ ...row, decision: 'failed', reason });
  return changed;
}

/** Returns the places that are at least nine tenths full, for the report of the installation. */
export async function fullMemories(runtime: Runtime): Promise<Outcome<string[]>> {
  const { MEMORY_BOUNDS, memoryBytes } = await import('../store/index.ts');
  const rows = await listMemories(runtime);
  if (!rows.ok) return rows;
  const used = new Map<string, { rows: number; bytes: number }>();
  for (const row of rows.output) {
    const name = row.owner === '' ? row.scope : `${row.scope} ${row.owner}`;
    const { rows: count, bytes } = used.get(name) ?? { rows: 0, bytes: 0 };
    used.set(name, { rows: count + 1, bytes: bytes + memoryBytes(row) });
  }
  const { rows: maxRows, bytes: maxBytes } = MEMORY_BOUNDS;
  return ok(
    [...used].flatMap(([name, { rows: count, bytes }]) =>
      count * 10 < maxRows * 9 && bytes * 10 < maxBytes * 9
        ? []
        : [`${name}: ${count} of ${maxRows} rows, ${bytes} of ${maxBytes} bytes`],
    ),
  );
}
