// A registry of an older schema becomes one of this, in the transaction that opens it.
// Schema 1: a change of status was a row without data that shared its number with an event, signals
// were numbered over all threads, what a thread had obeyed was in its journal alone, and a closed
// reservation stayed. Schema 2: accounts and reservations had tables of their own, events an index.
// Schema 3: a row of the audit named no target. Schema 4: a thread had neither tenant nor items. Schema 5:
// a thread had no title, and no text for a search.
import { BUDGET_KINDS } from '../../amounts.ts';
import {
  AUDIT_INDEX,
  ENDED,
  EVENTS_A_THREAD,
  JOURNAL_VERSION,
  QUEUE_INDEX,
  SINCE_2,
  THREAD_INDEXES,
  THREADS,
} from './schema.ts';

const THREAD_TABLES = ['threads', 'thread_events', 'budgets', 'reservations'];
const OTHER_TABLES = ['thread_data', 'signals', 'approvals'];

const setAside = (tables: readonly string[]): string =>
  tables.map((name) => `ALTER TABLE ${name} RENAME TO old_${name};`).join('\n');
const drop = (tables: readonly string[]): string =>
  tables.map((name) => `DROP TABLE old_${name};`).join('\n');

/** Columns that have the same name and meaning in all. */
const SAME =
  'id, parent, root, depth, kind, directive, version, runner, project, detached, status, seq, ' +
  'epoch, attempt, owner, lease_until, wakes, heard, queued, priority, created, updated, ended, cost';
const APPROVAL =
  'id, thread, kind, binding, shown, state, uses_left, expires, asked, decided, who, channel, why, answer';

/** Amounts as decimal texts, from one column a kind. */
const amountsOf = (column: (kind: string) => string): string =>
  `json_object(${BUDGET_KINDS.map((kind) => `'${kind}', CAST(${column(kind)} AS TEXT)`).join(', ')})`;

const accountOf = (open: string): string =>
  `json_object(${['limits_max', 'used_used', 'reserved_reserved']
    .map((name) => name.split('_'))
    .map(([name, end]) => `'${name}', ${amountsOf((kind) => `${kind}_${end}`)}`)
    .join(', ')}, 'open', ${open})`;

/** Threads with their accounts, events, and accounts of threads that are gone. */
const carryThreads = (amounts: string): string => `
${THREADS}
INSERT INTO threads (${SAME}, budget)
  SELECT ${SAME}, ${accountOf(`(SELECT json_group_array(json_object('key', key, 'amounts', ${amounts},
    'from', drawn_from, 'standing', standing)) FROM old_reservations r WHERE r.thread = t.id)`)}
  FROM old_threads t JOIN old_budgets ON thread = id ORDER BY created, id;
INSERT INTO thread_events (place, ts, turn, type, data)
  SELECT t.number * ${EVENTS_A_THREAD} + e.seq AS place, ts, turn, type, data
  FROM old_thread_events e JOIN threads t ON t.id = e.thread WHERE data IS NOT NULL ORDER BY place;
INSERT INTO pruned_budgets (thread, budget)
  SELECT thread, ${accountOf('json_array()')} FROM old_budgets WHERE thread NOT IN (SELECT id FROM threads);
${drop(THREAD_TABLES)}
${THREAD_INDEXES}`;

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

export const FROM_2 = `${setAside(THREAD_TABLES)}
CREATE INDEX old_open ON old_reservations(thread);
${carryThreads(amountsOf((kind) => kind))}`;

export const FROM_1 = `
DROP VIEW calls;
DROP INDEX approvals_by_binding;
DROP INDEX approvals_by_state;
${setAside([...THREAD_TABLES, ...OTHER_TABLES])}
CREATE INDEX old_signals_by_thread ON old_signals(thread, id);
CREATE INDEX old_obeyed ON old_thread_events(thread) WHERE type = 'signal';
${SINCE_2}
${['wakes', 'heard', 'priority']
  .map((name) => `ALTER TABLE old_threads ADD COLUMN ${name} INTEGER NOT NULL DEFAULT 0;`)
  .join('\n')}
ALTER TABLE old_threads ADD COLUMN queued INTEGER;
UPDATE old_threads AS t SET wakes = ${WAKES}, heard = ${HEARD};
UPDATE old_threads SET queued = updated
  WHERE wakes > heard AND owner IS NULL AND status NOT IN (${ENDED});
INSERT INTO thread_data (thread, chain, limits, inputs, result)
  SELECT t.id, ${CHAIN}, limits, inputs, result FROM old_threads t JOIN old_thread_data ON thread = t.id;
INSERT INTO signals (thread, number, kind, payload, key, sender, ts)
  SELECT thread, row_number() OVER (PARTITION BY thread ORDER BY id), kind, payload, key, sender, ts
  FROM old_signals;
INSERT INTO approvals (${APPROVAL}) SELECT ${APPROVAL} FROM old_approvals;
DELETE FROM old_reservations WHERE state <> 'open';
ALTER TABLE old_reservations ADD COLUMN standing INTEGER NOT NULL DEFAULT 0;
${drop(OTHER_TABLES)}
${carryThreads('json(amounts)')}
INSERT OR REPLACE INTO about (name, value) VALUES ('journal', '${JOURNAL_VERSION}');
`;

/** For 1 to 3, after what is their own: the audit had the same form in all of them. */
export const FROM_3 = `
ALTER TABLE audit ADD COLUMN target TEXT NOT NULL DEFAULT '';
DROP INDEX audit_by_decision;
${AUDIT_INDEX}`;

/** For 3 and 4, where the table of the threads stays: its queue is by tenant now. */
export const FROM_4 = `
ALTER TABLE threads ADD COLUMN tenant TEXT;
ALTER TABLE threads ADD COLUMN items TEXT;
DROP INDEX threads_queued;
${QUEUE_INDEX}`;

/** For 3 to 5, where the table of the threads stays. What ran before is found by its id and its directive. */
export const FROM_5 = 'ALTER TABLE threads ADD COLUMN title TEXT;';
