// Opens the rows of memory that a thread may reach: their store, their place and the rights that a scope needs.
import { type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall } from '../../kernel/index.ts';
import {
  type Answer,
  MEMORY_SCOPES,
  type Memories,
  type MemoryPlace,
  type MemoryScope,
  type ThreadRow,
} from '../../store/index.ts';
import type { HarnessPorts, Prepared, Thread } from './thread.ts';

/** Checks the rights for a scope. Rows of other projects need `memory.user` in addition. */
export function checkScope(
  verify: PrimitiveCall['verify'],
  action: 'read' | 'write',
  scope: MemoryScope,
): Outcome<null> {
  const right = verify({ capability: `memory.${action}`, scope: { id: scope } });
  return right.ok && scope === 'user' ? verify({ capability: 'memory.user' }) : right;
}

/** The store with the rows of one scope, and their place. */
interface OpenMemory {
  readonly store: Memories;
  readonly place: MemoryPlace;
}

/** Rows of the scope `user` are in a file of the user, or in the server that machines share. */
export async function openMemory(
  ports: HarnessPorts,
  { tenant = '', project }: Pick<ThreadRow, 'tenant' | 'project'>,
  scope: MemoryScope,
  directive: string,
): Answer<OpenMemory> {
  const owner = scope === 'directive' ? directive : '';
  const place = { tenant, project: scope === 'user' ? '' : project, scope, owner };
  const isOfUser = scope === 'user' && ports.store.fleet === undefined;
  const store = (isOfUser && (await ports.userMemory?.())) || ok(ports.store);
  return store.ok ? ok({ store: store.output, place }) : store;
}

/** Returns the scopes whose rows the directive declares to read. */
function declaredScopes({ permissions }: Prepared['directive']): MemoryScope[] {
  const entries = permissions?.entries.filter(({ resource }) => resource === 'memory') ?? [];
  const mayReadUser = entries.some(({ action }) => action === 'user');
  return MEMORY_SCOPES.filter(
    (scope) =>
      entries.some(({ verb, id }) => verb === 'read' && id === scope) &&
      (scope !== 'user' || mayReadUser),
  );
}

/** Tells a model how many rows it can search. No text of a row enters a prompt by itself. */
export async function memoryNote(
  ports: HarnessPorts,
  { directive, item }: Pick<Prepared, 'directive' | 'item'>,
  parent: Pick<Thread, 'place'> | undefined,
): Promise<JsonObject> {
  const own = ports.identity?.() ?? ok({ project: ports.project });
  // A child has the tenant of its parent.
  const above = parent ? await ports.store.thread(parent.place.id) : own;
  if (!own.ok || !above.ok) return {};
  const owner = { ...above.output, project: own.output.project };
  const counts: JsonObject = {};
  for (const scope of declaredScopes(directive)) {
    const memory = await openMemory(ports, owner, scope, item.id);
    const rows = memory.ok ? await memory.output.store.memories(memory.output.place) : undefined;
    if (rows?.ok) counts[scope] = rows.output.length;
  }
  return Object.keys(counts).length === 0 ? {} : { memory_rows: counts };
}
