// Removes old trees as a whole. A thread stays while any thread of its tree is active or young. Budgets and
// audit rows always stay, because they are evidence, and an id with a budget is never used again. The steps
// are small, so that other writers wait only a short time.
import { type Outcome, ok } from '../../base/index.ts';
import { memoryRules } from '../memory.ts';
import type { Answer, PruneOptions } from '../port.ts';
import { scheduleRules } from '../schedules.ts';
import type { Connection } from './file/connection.ts';
import type { Group } from './file/group.ts';
import { ENDED, EVENTS_A_THREAD } from './file/schema.ts';
import { runSteps } from './run-steps.ts';
import type { Registry } from './threads.ts';

const TREES_A_STEP = 50;
const OVER = `HAVING max(status NOT IN (${ENDED})) = 0 AND max(ended) < ?1
  AND (?2 = 0 OR max(status = 'failed') = 0)`;
const FIND = `SELECT root FROM threads WHERE ?4 IS NULL OR root IN
  (SELECT id FROM threads WHERE id = root AND project = ?4) GROUP BY root ${OVER} LIMIT ?3`;
/** Checks a tree again in the transaction that removes it, because it may have been reopened. */
const STILL = `SELECT root FROM threads WHERE root = ?3 GROUP BY root ${OVER}`;

// Artifacts that no other thread uses are removed before the rows that store their uses.
const REMOVE: readonly string[] = [
  `DELETE FROM thread_events WHERE place > (SELECT number * ${EVENTS_A_THREAD} FROM threads WHERE id = ?1)
    AND place < (SELECT (number + 1) * ${EVENTS_A_THREAD} FROM threads WHERE id = ?1)`,
  'DELETE FROM signals WHERE thread = ?',
  'DELETE FROM approval_uses WHERE approval IN (SELECT id FROM approvals WHERE thread = ?)',
  'DELETE FROM approvals WHERE thread = ?',
  'DELETE FROM secrets WHERE thread = ?',
  `DELETE FROM artifacts WHERE hash IN (SELECT hash FROM artifact_uses WHERE thread = ?1) AND NOT EXISTS
    (SELECT 1 FROM artifact_uses u WHERE u.hash = artifacts.hash AND u.thread <> ?1)`,
  'DELETE FROM artifact_uses WHERE thread = ?',
  'DELETE FROM thread_data WHERE thread = ?',
  'DELETE FROM search_texts WHERE thread = ?',
  'INSERT INTO pruned_budgets (thread, budget) SELECT id, budget FROM threads WHERE id = ?',
  'DELETE FROM threads WHERE id = ?',
];

function removeTree(connection: Connection, root: string): string[] {
  const rows = connection.all<{ id: string }>('SELECT id FROM threads WHERE root = ?', root);
  const ids = rows.map(({ id }) => id);
  for (const id of ids) for (const sql of REMOVE) connection.run(sql, id);
  return ids;
}

/** Minimum number of free bytes to shrink the file. New rows soon use a smaller space. */
const WORTHWHILE = 1024 * 1024;

const pragma = (connection: Connection, name: string): number =>
  Number(Object.values(connection.get(`PRAGMA ${name}`) ?? {})[0] ?? 0);

/**
 * Shrinks the file if a quarter of it is free. It does not wait: if another process writes, the next prune
 * shrinks the file.
 */
function giveBack(connection: Connection): void {
  try {
    const [free, all] = [pragma(connection, 'freelist_count'), pragma(connection, 'page_count')];
    if (free * 4 < all || free * pragma(connection, 'page_size') < WORTHWHILE) return;
    connection.exec('VACUUM');
    connection.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // The trees are removed. Only the free space stays in the file.
  }
}

export async function prune(
  { connection, accounts, clock }: Registry,
  group: Group,
  options: PruneOptions,
): Answer<{ removed: string[] }> {
  const { before, keepFailed = false, trees = -1, project = null } = options;
  const failed = keepFailed ? 1 : 0;
  let roots: string[];
  try {
    const rows = connection.all<{ root: string }>(FIND, before, failed, trees, project);
    roots = rows.map(({ root }) => root);
  } catch (error) {
    return connection.fault(error);
  }
  const removed: string[] = [];
  const others = await group.write(() => {
    runSteps(connection, memoryRules.prune(clock.now()));
    runSteps(connection, scheduleRules.prune(before, project, clock.now()));
    return ok(null);
  });
  if (!others.ok) return others;
  for (let at = 0; at < roots.length; at += TREES_A_STEP) {
    const step = roots.slice(at, at + TREES_A_STEP);
    const result = await group.write((): Outcome<string[]> => {
      accounts.write();
      const old = step.filter((root) => connection.get(STILL, before, failed, root));
      return ok(old.flatMap((root) => removeTree(connection, root)));
    });
    if (!result.ok) return result;
    removed.push(...result.output);
  }
  // A prune with a maximum runs before a run, which uses the free space.
  if (trees < 0) giveBack(connection);
  return ok({ removed });
}
