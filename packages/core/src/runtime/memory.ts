// Memory as a person reads and changes it: rows of this project and of this user. Only a person endorses, and the
// audit row is written before the change.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok } from '../base/index.ts';
import { judgeMemory, type MemoryStanding } from '../flow/index.ts';
import {
  MEMORY_BOUNDS,
  type Memories,
  type MemoryChange,
  type MemoryRow,
  type MemoryScope,
  memoryBytes,
  memoryHash,
  noMemory,
  scopeOfMemory,
  wordOf,
} from '../store/index.ts';
import { identify } from './project-identity.ts';
import type { Runtime } from './runtime.ts';
import { type Actor, personAuditRow } from './thread-signals.ts';
import { openUserMemory } from './threads.ts';

export interface ShownMemory extends MemoryRow {
  readonly standing: MemoryStanding;
  /** Hash of the text. An endorsement names it. */
  readonly hash: string;
}

/** A store that exists, and where rows of the project or of the user are in it. `project` is empty for the user. */
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

const isNearlyFull = (used: number, bound: number): boolean => used * 10 >= bound * 9;

/** Returns the memory of a project and its user, for people. */
export function memoryOfPeople(runtime: Runtime) {
  /** Changes a row in the name of a person. */
  async function change(
    kind: 'forget' | 'endorse',
    id: string,
    by: Actor,
    hash = '',
  ): Promise<Outcome<MemoryRow>> {
    const parts = await openParts(runtime);
    if (!parts.ok) return parts;
    const isOfUser = scopeOfMemory(id) === 'user';
    const part = parts.output.find(({ project }) => (project === '') === isOfUser);
    const row = personAuditRow(by, `memory:${kind}`, id, hash);
    const written = runtime.audit.write(row);
    if (!written.ok) return written;
    const key = { tenant: part?.tenant ?? '', project: part?.project ?? '', id };
    const wanted: MemoryChange =
      kind === 'forget' ? { kind, key } : { kind, key, hash, by: by.who };
    const changed = part ? await part.store.changeMemory(wanted) : noMemory(id);
    if (changed.ok) return changed;
    const reason = `${changed.error.code}: ${changed.error.detail.message}`;
    runtime.audit.write({ ...row, decision: 'failed', reason });
    return changed;
  }

  /** Returns the rows of the project and of the user with their standing, newest first. */
  async function list(
    filter: { scope?: MemoryScope; id?: string } = {},
  ): Promise<Outcome<ShownMemory[]>> {
    const parts = await openParts(runtime);
    if (!parts.ok) return parts;
    const rows: ShownMemory[] = [];
    for (const { store, tenant, project } of parts.output) {
      const found = await store.memories({ tenant, project, ...filter });
      if (!found.ok) return found;
      for (const row of found.output) {
        const { standing } = judgeMemory(row.marks, wordOf(row));
        rows.push({ ...row, hash: memoryHash(row), standing });
      }
    }
    return ok(rows.toSorted((a, b) => b.created - a.created));
  }

  return {
    list,
    /** Endorses the text with this hash. Fails with `not_found`, and with `conflict` if the text has changed. */
    endorse: (id: string, hash: string, by: Actor) => change('endorse', id, by, hash),
    forget: (id: string, by: Actor) => change('forget', id, by),
    /** Returns the places that are at least nine tenths full, for the report of the installation. */
    async full(): Promise<Outcome<string[]>> {
      const rows = await list();
      if (!rows.ok) return rows;
      const places = Map.groupBy(rows.output, ({ scope, owner }) => `${scope} ${owner}`.trim());
      const { rows: maxRows, bytes: maxBytes } = MEMORY_BOUNDS;
      return ok(
        [...places].flatMap(([name, found]) => {
          const bytes = found.reduce((sum, row) => sum + memoryBytes(row), 0);
          return isNearlyFull(found.length, maxRows) || isNearlyFull(bytes, maxBytes)
            ? [`${name}: ${found.length} of ${maxRows} rows, ${bytes} of ${maxBytes} bytes`]
            : [];
        }),
      );
    },
  };
}
