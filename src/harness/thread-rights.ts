// A thread's token lives a little longer than its deadline; while the thread lives it is minted again
// before it ends, from the same declarations and the same parent.
import type { Outcome } from '../base/index.ts';
import { ok } from '../base/index.ts';
import type { ThreadRow } from '../store/index.ts';
import type { Prepared } from './prepare-thread.ts';
import { parentToken } from './spawn-rights.ts';
import { mintRights, type ThreadRights } from './thread-token.ts';
import type { World } from './world.ts';

/** A token outlives the thread's deadline by this much, for the last records. */
const GRACE_MS = 60_000;
/** Minted again when less than this is left. */
const RENEW_MS = 30_000;

function mint(
  world: World,
  row: ThreadRow,
  { item, directive }: Prepared,
  expires: number,
): Outcome<ThreadRights> {
  const key = world.tokenKey();
  if (!key.ok) return key;
  const above = row.parent === undefined ? undefined : parentToken(world, row.parent, expires);
  if (above && !above.ok) return above;
  return mintRights(
    {
      thread: row.id,
      directive,
      project: world.project,
      expires,
      ...(above ? { parent: above.output } : {}),
      core: item.source === 'bundle' && item.signature.state === 'bundle',
    },
    world.library,
    key.output,
  );
}

/** The rights now. Only the first minting can fail: later the old token is left to run out. */
export function createRights(
  world: World,
  row: ThreadRow,
  prepared: Prepared,
): Outcome<() => ThreadRights> {
  const lifetime = Number(prepared.limits.duration?.value ?? 0n) + GRACE_MS;
  let expires = world.clock.now() + lifetime;
  const first = mint(world, row, prepared, expires);
  if (!first.ok) return first;
  let rights = first.output;
  return ok(() => {
    const now = world.clock.now();
    if (expires - now > RENEW_MS) return rights;
    const again = mint(world, row, prepared, now + lifetime);
    if (again.ok) [rights, expires] = [again.output, now + lifetime];
    return rights;
  });
}
