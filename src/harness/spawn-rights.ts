// The parent's end of a child's token. While the parent runs here its own token is used; after a
// restart the chain is minted again from the directives of all ancestors, root first.
import { fail, type Outcome, ok } from '../base/index.ts';
import { resolveExtends } from '../items/index.ts';
import type { CapabilityToken } from '../trust/index.ts';
import { mintRights } from './thread-token.ts';
import type { World } from './world.ts';

export interface ParentToken {
  thread: string;
  token: CapabilityToken;
}

// INVARIANT: a child whose parent's rights cannot be established gets none; it never becomes a root.
export function parentToken(world: World, id: string, expires: number): Outcome<ParentToken> {
  const live = world.live.get(id);
  if (live) return ok({ thread: id, token: live.thread.rights.token });
  const row = world.store.thread(id);
  if (!row.ok) return row;
  // Its directive is another project's; a namesake here could hold anything.
  if (row.output.project !== world.project) {
    return fail(
      'spawn_failed',
      `parent \`${id}\` belongs to another project and does not run here`,
    );
  }
  const found = world.library.find('directive', row.output.directive);
  if (!found.ok) return found;
  const { directive, source, signature } = found.output;
  if (!directive) {
    return fail('invalid_item', `directive \`${found.output.id}\` of parent \`${id}\` has errors`);
  }
  const above =
    row.output.parent === undefined ? undefined : parentToken(world, row.output.parent, expires);
  if (above && !above.ok) return above;
  const key = world.tokenKey();
  if (!key.ok) return key;
  const rights = mintRights(
    {
      thread: id,
      directive: resolveExtends(directive, (name) => {
        const other = world.library.find('directive', name);
        return other.ok ? other.output.directive : undefined;
      }),
      project: row.output.project,
      expires,
      core: source === 'bundle' && signature.state === 'bundle',
      ...(above ? { parent: above.output } : {}),
    },
    world.library,
    key.output,
  );
  return rights.ok ? ok({ thread: id, token: rights.output.token }) : rights;
}
