// Opens the rows of memory that a thread may reach: their store, their place and the rights that a scope needs.
import { fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall } from '../../kernel/index.ts';
import {
  type Answer,
  MEMORY_SCOPES,
  type Memories,
  type MemoryPlace,
  type MemoryScope,
  type ThreadRow,
} from '../../store/index.ts';
import { grantsAllow, grantsFromPermissions } from '../../trust/index.ts';
import type { HarnessPorts, Prepared, Thread } from './thread.ts';

type MemoryAction = 'read' | 'write';
/** Checks the rights for a scope. Rows of other projects need `memory.user` in addition. */
export function checkScope(
  verify: PrimitiveCall['verify'],
  action: MemoryAction,
  scope: MemoryScope,
): Outcome<null> {
  const right = verify({ capability: `memory.${action}`, scope: { id: scope } });
  return right.ok && scope === 'user' ? verify({ capability: 'memory.user' }) : right;
}

type RowOwner = Pick<ThreadRow, 'tenant' | 'project'>;

/** The store with the rows of one scope, and their place. */
interface OpenMemory {
  readonly store: Memories;
  readonly place: MemoryPlace;
}

/** Rows of the scope `user` are in a file of the user, or in the server that machines share. */
export async function openMemory(
  ports: HarnessPorts,
  { tenant = '', project }: RowOwner,
  scope: MemoryScope,
  directive: string,
): Answer<OpenMemory> {
  const owner = scope === 'directive' ? directive : '';
  const place = { tenant, project: scope === 'user' ? '' : project, scope, owner };
  const isOfUser = scope === 'user' && ports.store.fleet === undefined;
  const store = (isOfUser && (await ports.userMemory?.())) || ok(ports.store);
  return store.ok ? ok({ store: store.output, place }) : store;
}

/** Tells a model how many rows it can search. No text of a row enters a prompt by itself. */
export async function memoryNote(
  ports: HarnessPorts,
  { directive, item }: Pick<Prepared, 'directive' | 'item'>,
  parent: Pick<Thread, 'place'> | undefined,
): Promise<JsonObject> {
  const identity = ports.identity?.() ?? ok<RowOwner>({ project: ports.project });
  const above = parent && (await ports.store.thread(parent.place.id));
  if (!identity.ok || above?.ok === false) return {};
  // A child has the tenant of its parent.
  const { tenant } = above?.output ?? identity.output;
  const of = { project: identity.output.project, ...(tenant !== undefined && { tenant }) };
  const { catalog } = ports.library.capabilities();
  const { permissions = { entries: [] } } = directive;
  // The entries for memory name no tool.
  const { grants } = grantsFromPermissions(permissions, catalog, () => NOT_DECLARED, ports.project);
  const verify: PrimitiveCall['verify'] = (need) =>
    grantsAllow(grants, need, catalog) ? ok(null) : NOT_DECLARED;
  const counts: JsonObject = {};
  for (const scope of MEMORY_SCOPES) {
    if (!checkScope(verify, 'read', scope).ok) continue;
    const memory = await openMemory(ports, of, scope, item.id);
    const rows = memory.ok ? await memory.output.store.memories(memory.output.place) : undefined;
    if (rows?.ok) counts[scope] = rows.output.length;
  }
  return Object.keys(counts).length === 0 ? {} : { memory_rows: counts };
}
const NOT_DECLARED = fail('permission_denied', 'the directive does not declare this right');
