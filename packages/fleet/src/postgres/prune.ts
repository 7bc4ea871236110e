// Removes old trees as a whole: a thread stays while any thread of its tree is active or young. Accounts and audit
// rows always stay, because they are evidence, and an id with an account is never used again. The steps are small,
// so that other writes wait only a short time.
import { ok } from '@kernmantle/core/base';
import { type Answer, memoryRules, scheduleRules, type ThreadTable } from '@kernmantle/core/store';
import type { Database, Sql } from './connection.ts';
import { runSteps, serverNow } from './run-steps.ts';

const TREES_A_STEP = 50;
const OVER = `HAVING bool_and(km_ended(status)) AND max(ended) < $1
  AND NOT ($2 AND bool_or(status = 'failed'))`;
const FIND = `SELECT root FROM threads WHERE $4::text IS NULL OR root IN
  (SELECT id FROM threads WHERE id = root AND project = $4) GROUP BY root ${OVER} ORDER BY root LIMIT $3`;
// The tree is checked again after its rows are locked, because a thread of it can have been reopened.
const HOLD = 'SELECT id FROM threads WHERE root = ANY ($1) ORDER BY id FOR UPDATE';
const STILL = `SELECT root FROM threads WHERE root = ANY ($3) GROUP BY root ${OVER}`;

// An artifact without other uses is removed after the uses of these threads.
const REMOVE: readonly string[] = [
  'DELETE FROM thread_events WHERE thread IN (SELECT number FROM threads WHERE id = ANY ($1))',
  'DELETE FROM signals WHERE thread = ANY ($1)',
  'DELETE FROM approval_uses WHERE approval IN (SELECT id FROM approvals WHERE thread = ANY ($1))',
  'DELETE FROM approvals WHERE thread = ANY ($1)',
  'DELETE FROM secrets WHERE thread = ANY ($1)',
  `WITH unused AS (DELETE FROM artifact_uses WHERE thread = ANY ($1) RETURNING hash)
    DELETE FROM artifacts WHERE hash IN (SELECT hash FROM unused) AND NOT EXISTS
    (SELECT 1 FROM artifact_uses u WHERE u.hash = artifacts.hash AND u.thread <> ALL ($1))`,
  'DELETE FROM thread_data WHERE thread = ANY ($1)',
  'DELETE FROM search_texts WHERE thread = ANY ($1)',
  'DELETE FROM threads WHERE id = ANY ($1)',
];

async function removeTrees(
  sql: Sql,
  roots: readonly string[],
  before: number,
  keepFailed: boolean,
) {
  await sql.all(HOLD, roots);
  const old = await sql.all<{ root: string }>(STILL, before, keepFailed, roots);
  const prunable = old.map(({ root }) => root);
  const rows = await sql.all<{ id: string }>(HOLD, prunable);
  const ids = rows.map(({ id }) => id);
  for (const text of REMOVE) await sql.all(text, ids);
  return ids;
}

export async function pruneTrees(
  database: Database,
  { before, keepFailed = false, trees, project }: Parameters<ThreadTable['prune']>[0],
): Answer<{ removed: string[] }> {
  const result = await database.read((sql) =>
    sql.all<{ root: string }>(FIND, before, keepFailed, trees ?? null, project ?? null),
  );
  if (!result.ok) return result;
  const roots = result.output.map(({ root }) => root);
  const others = await database.write(async (sql) => {
    const now = await serverNow(sql);
    await runSteps(sql, memoryRules.prune(now));
    await runSteps(sql, scheduleRules.prune(before, project ?? null, now));
  });
  if (!others.ok) return others;
  const removed: string[] = [];
  for (let at = 0; at < roots.length; at += TREES_A_STEP) {
    const step = roots.slice(at, at + TREES_A_STEP);
    const batch = await database.write((sql) => removeTrees(sql, step, before, keepFailed));
    if (!batch.ok) return batch;
    removed.push(...batch.output);
  }
  return ok({ removed });
}
