// Mints the token of a thread: the rights that its directive declares, narrowed along the chain. A root's token is
// minted with the key of the harness. A child's token is one more block on its parent's chain. If the parent
// does not run here, the chain is minted again from the directives of all ancestors, the root first.
import { fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { type Directive, type DirectiveItem, resolveExtends } from '../../items/index.ts';
import type { ThreadRow } from '../../store/index.ts';
import {
  attenuateToken,
  encodeToken,
  type GrantedRights,
  grantName,
  grantsFromPermissions,
  mintToken,
} from '../../trust/index.ts';
import type { HarnessPorts, OwnRights, Prepared, PreparePorts } from '../thread/thread.ts';

/** Returns the grants that a directive declares. A permission for a tool that does not exist grants nothing. */
export function declaredRights(
  { library, project }: Pick<PreparePorts, 'library' | 'project'>,
  directive: Directive,
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
  const problems = rights.problems.filter(({ code }) => code !== 'not_found');
  const [problem] = problems;
  // An agent has the listed tools and nothing else. Every other directive may read knowledge.
  if (!problem && directive.agent?.hasKernelTools === false) {
    const grants = rights.grants.filter(({ capability }) => capability !== 'knowledge.read');
    return ok({ ...rights, grants });
  }
  if (!problem) return ok(rights);
  return fail('invalid_item', `permissions of \`${directive.name}\`: ${problem.message}`, {
    problems: problems.map(({ code, message }) => ({ code, message })) as Json,
  });
}

export const withExtended = (
  { library }: Pick<PreparePorts, 'library'>,
  directive: Directive,
): Directive =>
  resolveExtends(directive, (name) => {
    const other = library.find('directive', name);
    return other.ok ? other.output.directive : undefined;
  });

interface Holder {
  id: string;
  parent: string | undefined;
  item: DirectiveItem;
  directive: Directive;
}

type Rows = ReadonlyMap<string, ThreadRow>;

function mint(
  ports: HarnessPorts,
  rows: Rows,
  { id: thread, parent, item, directive }: Holder,
  expires: number,
): Outcome<OwnRights> {
  const key = ports.tokens.key();
  if (!key.ok) return key;
  const above = parent === undefined ? undefined : parentRights(ports, rows, parent, expires);
  if (above && !above.ok) return above;
  const declared = declaredRights(ports, directive);
  if (!declared.ok) return declared;
  const { grants, filters, uses } = declared.output;
  const block = {
    aud: 'kernmantle',
    project: ports.project,
    thread,
    directive: directive.name,
    caps: grants,
    exp: expires,
    ...(Object.keys(filters).length > 0 && { filters }),
    ...(Object.keys(uses).length > 0 && { budget: { uses } }),
    ...(parent !== undefined && { parent }),
  };
  // System-only capabilities count for signed items of the bundle.
  const core = item.source === 'bundle' && item.signature.state === 'bundle';
  const token = above
    ? attenuateToken(above.output.token, block)
    : mintToken(key.output, block, { core });
  if (!token.ok) return token;
  const granted = [...new Set(grants.map(grantName))];
  const budgets = [
    ...Object.entries(uses).map(([tool, max]) => ({
      tool,
      max,
      thread,
      directive: block.directive,
    })),
    ...(above?.output.budgets ?? []),
  ];
  return ok({ token: token.output, auth: encodeToken(token.output), granted, budgets });
}

// INVARIANT: a child never becomes a root. Without the rights of its parent it gets none.
function parentRights(
  ports: HarnessPorts,
  rows: Rows,
  id: string,
  expires: number,
): Outcome<OwnRights> {
  const live = ports.threads.live.get(id);
  if (live) return ok(live.thread.rights.own);
  const row = rows.get(id);
  if (!row) return fail('not_found', `thread \`${id}\` not found`, { thread: id });
  const identity = ports.identity?.();
  if (identity && !identity.ok) return identity;
  // In another project a directive with the same name could declare other rights.
  if (row.project !== (identity?.output.project ?? ports.project)) {
    return fail(
      'spawn_failed',
      `parent \`${id}\` belongs to another project and does not run here`,
    );
  }
  const found = ports.library.find('directive', row.directive);
  if (!found.ok) return found;
  const item = found.output;
  if (!item.directive) {
    return fail('invalid_item', `directive \`${item.id}\` of parent \`${id}\` has errors`);
  }
  const directive = withExtended(ports, item.directive);
  return mint(ports, rows, { id, parent: row.parent, item, directive }, expires);
}

/** Time for which a token stays valid after the thread's deadline, for the last events. */
const GRACE_MS = 60_000;
/** A token is minted again if less time than this is left. */
const RENEW_MS = 30_000;

/** Reads the rows of ancestors that do not run here, to mint their tokens again. */
async function rowsAbove(
  { store, threads }: HarnessPorts,
  chain: readonly string[],
): Promise<Outcome<Rows>> {
  const rows = new Map<string, ThreadRow>();
  for (const id of chain) {
    if (threads.live.get(id)) continue;
    const row = await store.thread(id);
    if (!row.ok) return row;
    rows.set(id, row.output);
  }
  return ok(rows);
}

/**
 * Returns a getter of the current rights. It mints the token again before it expires. Only the first minting can
 * fail; later the old token stays until it expires.
 */
export async function createRights(
  ports: HarnessPorts,
  { id, parent, chain }: ThreadRow,
  { item, directive, limits }: Prepared,
): Promise<Outcome<() => OwnRights>> {
  const rows = await rowsAbove(ports, chain.slice(1));
  if (!rows.ok) return rows;
  const lifetime = Number(limits.duration?.value ?? 0n) + GRACE_MS;
  const mintUntil = (expires: number): Outcome<OwnRights> =>
    mint(ports, rows.output, { id, parent, item, directive }, expires);
  let expires = ports.clock.now() + lifetime;
  const first = mintUntil(expires);
  if (!first.ok) return first;
  let rights = first.output;
  return ok(() => {
    const now = ports.clock.now();
    if (expires - now > RENEW_MS) return rights;
    const again = mintUntil(now + lifetime);
    if (again.ok) [rights, expires] = [again.output, now + lifetime];
    return rights;
  });
}
