// Old trees go, whole: a thread stays as long as anything above, beside or below it is alive or
// young. Budgets and audit rows stay for good: they are what somebody must answer for, and an id that
// has an account is never given again. Small steps, so that nobody waits long for us.
import { type Outcome, ok } from '../../base/index.ts';
import type { Answer, PruneOptions } from '../port.ts';
import type { Connection } from './file/connection.ts';
import type { Group } from './file/group.ts';
import { ENDED, EVENTS_A_THREAD } from './file/schema.ts';
import type { Registry } from './threads.ts';

const TREES_A_STEP = 50;
const OVER = `HAVING max(status NOT IN (${ENDED})) = 0 AND max(ended) < ?1
  AND (?2 = 0 OR max(status = 'failed') = 0)`;
const FIND = `SELECT root FROM threads WHERE ?4 IS NULL OR root IN
  (SELECT id FROM threads WHERE id = root AND project = ?4) GROUP BY root ${OVER} LIMIT ?3`;
/** Looked at again where it is removed: it may have been opened meanwhile. */
const STILL = `SELECT root FROM threads WHERE root = ?3 GROUP BY root ${OVER}`;

// Artifacts that nobody else uses go with their thread, before its uses do.
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

/** Less than this is soon used again. */
const WORTHWHILE = 1024 * 1024;

const pragma = (connection: Connection, name: string): number =>
  Number(Object.values(connection.get(`PRAGMA ${name}`) ?? {})[0] ?? 0);

/**
 * The file becomes as small as what is in it, when a quarter of it is free. Nobody waits for that: while
 * others write the room stays, and the next one gives it back.
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
  { connection, accounts }: Registry,
  group: Group,
  options: PruneOptions,
): Answer<{ removed: string[] }> {
  const { before, keepFailed = false, trees = -1, project = null } = options;
  const failed = keepFailed ? 1 : 0;
  let roots: string[];
  try {
    const found = connection.all<{ root: string }>(FIND, before, failed, trees, project);
    roots = found.map(({ root }) => root);
  } catch (error) {
    return connection.fault(error);
  }
  const removed: string[] = [];
  for (let at = 0; at < roots.length; at += TREES_A_STEP) {
    const step = roots.slice(at, at + TREES_A_STEP);
    const gone = await group.write((): Outcome<string[]> => {
      accounts.write();
      const old = step.filter((root) => connection.get(STILL, before, failed, root));
      return ok(old.flatMap((root) => removeTree(connection, root)));
    });
    if (!gone.ok) return gone;
    removed.push(...gone.output);
  }
  // A few before a run leave room for that run.
  if (trees < 0) giveBack(connection);
  return ok({ removed });
}
