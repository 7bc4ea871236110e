// A registry of schema 1 becomes one of schema 2, in the transaction that opens it. There a change of
// status was a row without data that shared its number with an event, signals were numbered over all
// threads, what a thread had obeyed was in its journal alone, and a closed reservation stayed.
import { BUDGET_KINDS } from '../../amounts.ts';
import { isEnded, THREAD_STATUSES } from '../../thread-id.ts';
import { CHANGED_TABLES, JOURNAL_VERSION } from './schema.ts';

const REPLACED = [
  'threads',
  'thread_data',
  'thread_events',
  'signals',
  'reservations',
  'approvals',
];
const OLD_INDEXES = [
  'threads_by_status',
  'threads_by_creation',
  'threads_by_parent',
  'threads_by_root',
  'events_by_thread',
  'open_reservations',
  'approvals_by_binding',
  'approvals_by_state',
];

/** Columns that have the same name and meaning in both. */
const SAME =
  'id, parent, root, depth, kind, directive, version, runner, project, detached, status, seq, ' +
  'epoch, attempt, owner, lease_until, created, updated, ended, cost';
const APPROVAL =
  'id, thread, kind, binding, shown, state, uses_left, expires, asked, decided, who, channel, why, answer';
const ENDED = THREAD_STATUSES.filter(isEnded)
  .map((status) => `'${status}'`)
  .join(', ');

// The last signal that the journal names as obeyed, counted among those of its thread.
const OBEYED = `(SELECT max(data ->> 'id') FROM old_thread_events e
  WHERE e.thread = t.id AND e.type = 'signal' AND e.data IS NOT NULL)`;
const HEARD = `(SELECT count(*) FROM old_signals s WHERE s.thread = t.id AND s.id <= ${OBEYED})`;
const WAKES = '(SELECT count(*) FROM old_signals s WHERE s.thread = t.id)';

// From the thread up to its root.
const CHAIN = `(WITH RECURSIVE up(id, parent, n) AS (
    SELECT id, parent, 0 FROM old_threads WHERE id = t.id UNION ALL
    SELECT o.id, o.parent, n + 1 FROM old_threads o JOIN up ON o.id = up.parent)
  SELECT json_group_array(id) FROM (SELECT id FROM up ORDER BY n))`;

const amount = (kind: string): string => `CAST(coalesce(amounts ->> '${kind}', '0') AS INTEGER)`;

export const FROM_1_TO_2 = `
DROP VIEW calls;
${OLD_INDEXES.map((name) => `DROP INDEX ${name};`).join('\n')}
${REPLACED.map((name) => `ALTER TABLE ${name} RENAME TO old_${name};`).join('\n')}
CREATE INDEX old_signals_by_thread ON old_signals(thread, id);
CREATE INDEX old_obeyed ON old_thread_events(thread) WHERE type = 'signal';
${CHANGED_TABLES}
INSERT INTO threads (${SAME}, wakes, heard)
  SELECT ${SAME}, ${WAKES}, ${HEARD} FROM old_threads t;
UPDATE threads SET queued = updated
  WHERE wakes > heard AND owner IS NULL AND status NOT IN (${ENDED});
INSERT INTO thread_data (thread, chain, limits, inputs, result)
  SELECT t.id, ${CHAIN}, limits, inputs, result FROM old_threads t JOIN old_thread_data ON thread = t.id;
INSERT INTO thread_events (thread, seq, ts, turn, type, data)
  SELECT thread, seq, ts, turn, type, data FROM old_thread_events WHERE data IS NOT NULL ORDER BY position;
INSERT INTO signals (thread, number, kind, payload, key, sender, ts)
  SELECT thread, row_number() OVER (PARTITION BY thread ORDER BY id), kind, payload, key, sender, ts
  FROM old_signals;
INSERT INTO reservations (key, thread, drawn_from, standing, ${BUDGET_KINDS.join(', ')})
  SELECT key, thread, drawn_from, 0, ${BUDGET_KINDS.map(amount).join(', ')}
  FROM old_reservations WHERE state = 'open';
INSERT INTO approvals (${APPROVAL}) SELECT ${APPROVAL} FROM old_approvals;
${REPLACED.map((name) => `DROP TABLE old_${name};`).join('\n')}
INSERT OR REPLACE INTO about (name, value) VALUES ('journal', '${JOURNAL_VERSION}');
`;
