// Removes old trees of threads: on request, and by the retention rule of the policy.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome } from '../base/index.ts';
import type { PruneOptions, Store } from '../store/index.ts';
import type { RuntimeContext } from './open-project.ts';
import { identify } from './project-identity.ts';

/** Removes old trees with their transcripts. Their cost and their audit rows stay. */
export async function pruneThreads(
  store: Pick<Store, 'prune'>,
  project: string,
  options: PruneOptions,
): Promise<Outcome<{ removed: string[] }>> {
  const pruned = await store.prune(options);
  for (const id of pruned.ok ? pruned.output.removed : []) {
    rmSync(join(project, '.ai', 'threads', id), { recursive: true, force: true });
  }
  return pruned;
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** Maximum number of removed trees, so that a run starts without delay. The next run removes more. */
const TREES_A_RUN = 20;

/** Threads of one runtime, to which the retention rule is applied once. */
export interface Retained {
  readonly rooms: RuntimeContext;
  readonly store: Store;
  hasRetained?: boolean;
}

/** Removes some of the trees that the policy does not retain. */
export async function retain(threads: Retained): Promise<void> {
  const { rooms, store } = threads;
  const { open } = rooms;
  const { days, keep_failed = false } = open.policies.current().policy.retention;
  if (threads.hasRetained || open.host || days === undefined) return;
  threads.hasRetained = true;
  // Other projects that share the store have their own policies.
  const own = store.fleet ? identify(open) : undefined;
  if (own && !own.ok) return;
  const before = open.clock.now() - days * DAY_MS;
  const old = { before, keepFailed: keep_failed, trees: TREES_A_RUN };
  const which = own ? { ...old, project: own.output.project } : old;
  await pruneThreads(store, open.project, which);
}
