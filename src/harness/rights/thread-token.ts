// The parent's end of a child's token. While the parent runs here its own token is used; after a
// restart the chain is minted again from the directives of all ancestors, root first.
import { fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { type Directive, type Library, resolveExtends } from '../../items/index.ts';
import type { ThreadRow } from '../../store/index.ts';
import {
  attenuateToken,
  type CapabilityToken,
  encodeToken,
  type GrantedRights,
  grantName,
  grantsFromPermissions,
  type KeyPair,
  mintToken,
} from '../../trust/index.ts';
import type { HarnessPorts, OwnRights, Prepared } from '../thread/thread.ts';

// The right a thread works with: what its directive declares, as a token that only narrows. A root's
// token is minted with the harness's key, a child's is one more block on its parent's chain.

export interface RightsRequest {
  thread: string;
  directive: Directive;
  project: string;
  /** Milliseconds since 1970. */
  expires: number;
  parent?: { thread: string; token: CapabilityToken };
  /** Signed and shipped: its system-only capabilities count. */
  core: boolean;
}

/** The grants a directive declares; every bare tool name is resolved once, here. */
export function declaredRights(
  directive: Directive,
  library: Library,
  project: string,
): Outcome<GrantedRights> {
  const rights = grantsFromPermissions(
    directive.permissions ?? { entries: [] },
    library.capabilities().catalog,
    (name) => {
      const found = library.find('tool', name);
      return found.ok ? ok(found.output.id) : found;
    },
    project,
  );
  const [problem] = rights.problems;
  if (!problem) return ok(rights);
  return fail('invalid_item', `permissions of \`${directive.name}\`: ${problem.message}`, {
    problems: rights.problems.map(({ code, message }) => ({ code, message })) as Json,
  });
}

export function mintRights(
  request: RightsRequest,
  library: Library,
  key: KeyPair,
): Outcome<OwnRights> {
  const { thread, directive, project, expires, parent, core } = request;
  const declared = declaredRights(directive, library, project);
  if (!declared.ok) return declared;
  const { grants, filters } = declared.output;
  const block = {
    aud: 'kernmantle',
    project,
    thread,
    directive: directive.name,
    caps: grants,
    exp: expires,
    ...(Object.keys(filters).length > 0 ? { filters } : {}),
    ...(parent ? { parent: parent.thread } : {}),
  };
  const token = parent ? attenuateToken(parent.token, block) : mintToken(key, block, { core });
  if (!token.ok) return token;
  return ok({
    token: token.output,
    auth: encodeToken(token.output),
    granted: [...new Set(grants.map(grantName))],
  });
}

export interface ParentToken {
  thread: string;
  token: CapabilityToken;
}

// INVARIANT: a child whose parent's rights cannot be established gets none; it never becomes a root.
function parentToken(
  ports: HarnessPorts,
  rows: ReadonlyMap<string, ThreadRow>,
  id: string,
  expires: number,
): Outcome<ParentToken> {
  const live = ports.threads.live.get(id);
  if (live) return ok({ thread: id, token: live.thread.rights.own.token });
  const row = rows.get(id);
  if (!row) return fail('not_found', `there is no thread \`${id}\``, { thread: id });
  // Its directive is another project's; a namesake here could hold anything.
  if (row.project !== ports.project) {
    return fail(
      'spawn_failed',
      `parent \`${id}\` belongs to another project and does not run here`,
    );
  }
  const found = ports.library.find('directive', row.directive);
  if (!found.ok) return found;
  const { directive, source, signature } = found.output;
  if (!directive) {
    return fail('invalid_item', `directive \`${found.output.id}\` of parent \`${id}\` has errors`);
  }
  const above =
    row.parent === undefined ? undefined : parentToken(ports, rows, row.parent, expires);
  if (above && !above.ok) return above;
  const key = ports.tokens.key();
  if (!key.ok) return key;
  const rights = mintRights(
    {
      thread: id,
      directive: resolveExtends(directive, (name) => {
        const other = ports.library.find('directive', name);
        return other.ok ? other.output.directive : undefined;
      }),
      project: row.project,
      expires,
      core: source === 'bundle' && signature.state === 'bundle',
      ...(above ? { parent: above.output } : {}),
    },
    ports.library,
    key.output,
  );
  return rights.ok ? ok({ thread: id, token: rights.output.token }) : rights;
}

// A thread's token lives a little longer than its deadline; while the thread lives it is minted again
// before it ends, from the same declarations and the same parent.

/** A token outlives the thread's deadline by this much, for the last records. */
const GRACE_MS = 60_000;
/** Minted again when less than this is left. */
const RENEW_MS = 30_000;

function mint(
  ports: HarnessPorts,
  rows: ReadonlyMap<string, ThreadRow>,
  row: ThreadRow,
  { item, directive }: Prepared,
  expires: number,
): Outcome<OwnRights> {
  const key = ports.tokens.key();
  if (!key.ok) return key;
  const above =
    row.parent === undefined ? undefined : parentToken(ports, rows, row.parent, expires);
  if (above && !above.ok) return above;
  return mintRights(
    {
      thread: row.id,
      directive,
      project: ports.project,
      expires,
      ...(above ? { parent: above.output } : {}),
      core: item.source === 'bundle' && item.signature.state === 'bundle',
    },
    ports.library,
    key.output,
  );
}

/** Rows of ancestors that do not run here: their tokens are minted again from them. */
async function rowsAbove(
  { store, threads }: HarnessPorts,
  chain: readonly string[],
): Promise<Outcome<ReadonlyMap<string, ThreadRow>>> {
  const rows = new Map<string, ThreadRow>();
  for (const id of chain) {
    if (threads.live.get(id)) continue;
    const row = await store.thread(id);
    if (!row.ok) return row;
    rows.set(id, row.output);
  }
  return ok(rows);
}

/** The rights now. Only the first minting can fail: later the old token is left to run out. */
export async function createRights(
  ports: HarnessPorts,
  row: ThreadRow,
  prepared: Prepared,
): Promise<Outcome<() => OwnRights>> {
  const rows = await rowsAbove(ports, row.chain.slice(1));
  if (!rows.ok) return rows;
  const lifetime = Number(prepared.limits.duration?.value ?? 0n) + GRACE_MS;
  let expires = ports.clock.now() + lifetime;
  const first = mint(ports, rows.output, row, prepared, expires);
  if (!first.ok) return first;
  let rights = first.output;
  return ok(() => {
    const now = ports.clock.now();
    if (expires - now > RENEW_MS) return rights;
    const again = mint(ports, rows.output, row, prepared, now + lifetime);
    if (again.ok) [rights, expires] = [again.output, now + lifetime];
    return rights;
  });
}
