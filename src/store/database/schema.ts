// The tables, as a list of steps from one version to the next. A step that was released is never
// edited; a change is a new step at the end.
//
// Hot and cold are apart: a thread's row is rewritten with every append, so what may be large and
// seldom changes lies in `thread_data`. The events of all threads are one log in the order of their
// commits; a row without data marks a change of status, so that one cursor sees everything.
import { BUDGET_KINDS } from '../amounts.ts';

/** Tells our files from other SQLite files. */
export const APPLICATION_ID = 0x6b6d7468;

const budgetColumns = BUDGET_KINDS.map(
  (kind) =>
    `${kind}_max INTEGER, ${kind}_used INTEGER NOT NULL DEFAULT 0, ` +
    `${kind}_reserved INTEGER NOT NULL DEFAULT 0`,
).join(', ');

export const MIGRATIONS: readonly string[] = [
  `
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
  id TEXT PRIMARY KEY, parent TEXT, root TEXT NOT NULL, depth INTEGER NOT NULL,
  kind TEXT NOT NULL, directive TEXT NOT NULL, version TEXT NOT NULL, runner TEXT NOT NULL,
  project TEXT NOT NULL, detached INTEGER NOT NULL,
  status TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER,
  created INTEGER NOT NULL, updated INTEGER NOT NULL, ended INTEGER, cost TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_by_status ON threads(status, created, id);
CREATE INDEX threads_by_creation ON threads(created, id);
CREATE INDEX threads_by_parent ON threads(parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX threads_by_root ON threads(root);
CREATE TABLE thread_data (
  thread TEXT PRIMARY KEY, limits TEXT NOT NULL, inputs TEXT NOT NULL, result TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE thread_events (
  position INTEGER PRIMARY KEY, thread TEXT NOT NULL, seq INTEGER NOT NULL,
  ts INTEGER NOT NULL, turn INTEGER NOT NULL, type TEXT NOT NULL, data TEXT
) STRICT;
CREATE INDEX events_by_thread ON thread_events(thread, seq);
CREATE VIEW calls AS
  SELECT thread, data ->> 'call' AS call,
    max(CASE type WHEN 'intent' THEN seq END) AS intent,
    max(CASE type WHEN 'result' THEN seq END) AS result
  FROM thread_events WHERE type IN ('intent', 'result') GROUP BY thread, call;

CREATE TABLE signals (
  id INTEGER PRIMARY KEY, thread TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
  key TEXT NOT NULL, sender TEXT NOT NULL, ts INTEGER NOT NULL, UNIQUE (thread, key)
) STRICT;

CREATE TABLE budgets (thread TEXT PRIMARY KEY, ${budgetColumns}) STRICT, WITHOUT ROWID;
CREATE TABLE reservations (
  key TEXT PRIMARY KEY, thread TEXT NOT NULL, state TEXT NOT NULL, drawn_from TEXT,
  requested TEXT NOT NULL, amounts TEXT NOT NULL, chain TEXT NOT NULL, created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX open_reservations ON reservations(thread) WHERE state = 'open';

CREATE TABLE approvals (
  id TEXT PRIMARY KEY, thread TEXT NOT NULL, kind TEXT NOT NULL, binding TEXT NOT NULL,
  shown TEXT NOT NULL, state TEXT NOT NULL, uses_left INTEGER NOT NULL, expires INTEGER,
  asked INTEGER NOT NULL, decided INTEGER, who TEXT, channel TEXT, why TEXT, answer TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_binding ON approvals(thread, binding);
CREATE INDEX approvals_by_state ON approvals(state, asked, id);

CREATE TABLE artifacts (
  hash TEXT PRIMARY KEY, bytes BLOB NOT NULL, created INTEGER NOT NULL
) STRICT;
CREATE TABLE artifact_uses (
  thread TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (thread, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_uses_by_hash ON artifact_uses(hash);

CREATE TABLE secrets (
  thread TEXT NOT NULL, number INTEGER NOT NULL, sealed BLOB NOT NULL,
  PRIMARY KEY (thread, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  id INTEGER PRIMARY KEY, time TEXT NOT NULL, surface TEXT NOT NULL, caller TEXT NOT NULL,
  subject TEXT NOT NULL, operation TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_decision ON audit(decision);
`,
];
