// Old trees go, whole: a thread stays as long as anything above, beside or below it is alive or
// young. Budgets and audit rows stay for good: they are what somebody must answer for.
import { type Outcome, ok } from '../../base/index.ts';
import type { Database } from '../database/database.ts';
import { isEnded, THREAD_STATUSES } from '../thread-id.ts';

export interface PruneOptions {
  /** Milliseconds since 1970: trees that ended before go. */
  before: number;
  /** Trees with a failed thread in them stay. */
  keepFailed?: boolean;
  /** At most so many trees; all when left out. */
  trees?: number;
}

export interface Prune {
  /** The ids that are gone; their folders with transcripts are the caller's to remove. */
  prune(options: PruneOptions): Outcome<{ removed: string[] }>;
}

/** Small steps, so that nobody waits long for us. */
const TREES_A_STEP = 50;
const ENDED = THREAD_STATUSES.filter(isEnded)
  .map((status) => `'${status}'`)
  .join(', ');

const FIND = `SELECT root FROM threads GROUP BY root
  HAVING max(status NOT IN (${ENDED})) = 0 AND max(ended) < ?
    AND (? = 0 OR max(status = 'failed') = 0) LIMIT ?`;

// The newest row of the log stays: positions are given out from there, and none may come twice.
const REMOVE: readonly string[] = [
  'DELETE FROM thread_events WHERE thread = ? AND position < (SELECT max(position) FROM thread_events)',
  'DELETE FROM signals WHERE thread = ? AND id < (SELECT max(id) FROM signals)',
  'DELETE FROM approvals WHERE thread = ?',
  'DELETE FROM reservations WHERE thread = ?',
  'DELETE FROM secrets WHERE thread = ?',
  'DELETE FROM artifact_uses WHERE thread = ?',
  'DELETE FROM thread_data WHERE thread = ?',
  'DELETE FROM threads WHERE id = ?',
];
const LONELY =
  'DELETE FROM artifacts WHERE NOT EXISTS (SELECT 1 FROM artifact_uses u WHERE u.hash = artifacts.hash)';

interface Step {
  removed: string[];
  trees: number;
}

export function createPrune(database: Database): Prune {
  function step({ before, keepFailed = false }: PruneOptions, trees: number): Outcome<Step> {
    return database.write(() => {
      const removed: string[] = [];
      const roots = database.all(FIND, before, keepFailed ? 1 : 0, trees);
      for (const { root } of roots) {
        for (const { id } of database.all(
          'SELECT id FROM threads WHERE root = ?',
          root as string,
        )) {
          for (const sql of REMOVE) database.run(sql, id as string);
          removed.push(id as string);
        }
      }
      if (removed.length > 0) database.run(LONELY);
      return ok({ removed, trees: roots.length });
    });
  }
  return {
    prune(options) {
      const removed: string[] = [];
      let left = options.trees ?? Number.POSITIVE_INFINITY;
      while (left > 0) {
        const gone = step(options, Math.min(left, TREES_A_STEP));
        if (!gone.ok) return gone;
        if (gone.output.trees === 0) break;
        removed.push(...gone.output.removed);
        left -= gone.output.trees;
      }
      return ok({ removed });
    },
  };
}
