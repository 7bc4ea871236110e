// Defines the tables. Every commit rewrites the row of a thread, so large values that seldom change are in
// `thread_data`. A commit always touches only two places, the row of the thread with its account and the end
// of its events, because each further page costs two writes.
import { isEnded, THREAD_STATUSES } from '../../thread-id.ts';

/** Marks a SQLite file as a registry. */
export const APPLICATION_ID = 0x6b6d7468;
export const SCHEMA_VERSION = 8;
/** Version of the events in journals, and of the rules to read them. */
export const JOURNAL_VERSION = 3;

/**
 * Maximum number of events of a thread. The key `place` of an event is the number of its thread times this,
 * plus its own number. So the events of a thread are neighbours and need no index.
 */
export const EVENTS_A_THREAD = 2 ** 24;

/** SQL list of the ended states for `status IN (…)`. */
export const ENDED = THREAD_STATUSES.filter(isEnded)
  .map((status) => `'${status}'`)
  .join(', ');

/**
 * Creates a registry in an empty file. The number of a thread is never used again. Search texts have their own table,
 * so a search reads no inputs and no results. The index of the audit has only refused and failed rows, which are few.
 */
export const CREATE_ALL = `
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
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
  subject TEXT NOT NULL, operation TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL,
  target TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX audit_refused ON audit(decision) WHERE decision <> 'allowed';

CREATE TABLE thread_data (
  thread TEXT PRIMARY KEY, chain TEXT NOT NULL, limits TEXT NOT NULL, inputs TEXT NOT NULL,
  result TEXT, birth TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE signals (
  thread TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
  key TEXT NOT NULL, sender TEXT NOT NULL, ts INTEGER NOT NULL,
  PRIMARY KEY (thread, number), UNIQUE (thread, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  id TEXT PRIMARY KEY, thread TEXT, kind TEXT NOT NULL, binding TEXT NOT NULL,
  shown TEXT NOT NULL, state TEXT NOT NULL, uses_left INTEGER NOT NULL, expires INTEGER,
  asked INTEGER NOT NULL, decided INTEGER, who TEXT, channel TEXT, why TEXT, answer TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_binding ON approvals(binding, thread);
CREATE INDEX approvals_by_thread ON approvals(thread, asked, id);
CREATE INDEX approvals_by_state ON approvals(state, asked, id);
CREATE TABLE approval_uses (
  approval TEXT NOT NULL, thread TEXT NOT NULL, taken INTEGER NOT NULL,
  PRIMARY KEY (approval, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE memories (
  id TEXT NOT NULL, tenant TEXT NOT NULL, project TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL,
  text TEXT NOT NULL, subject TEXT NOT NULL, marks TEXT NOT NULL, thread TEXT NOT NULL, seq INTEGER NOT NULL,
  created INTEGER NOT NULL, expires INTEGER, endorsed_by TEXT, PRIMARY KEY (tenant, project, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_texts (
  thread TEXT PRIMARY KEY, first TEXT NOT NULL, last TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE TABLE threads (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  parent TEXT, root TEXT NOT NULL, depth INTEGER NOT NULL,
  kind TEXT NOT NULL, directive TEXT NOT NULL, version TEXT NOT NULL, runner TEXT NOT NULL,
  project TEXT NOT NULL, detached INTEGER NOT NULL,
  status TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER,
  wakes INTEGER NOT NULL DEFAULT 0, acknowledged INTEGER NOT NULL DEFAULT 0,
  queued INTEGER, priority INTEGER NOT NULL DEFAULT 0,
  created INTEGER NOT NULL, updated INTEGER NOT NULL, ended INTEGER, cost TEXT NOT NULL,
  budget TEXT NOT NULL, tenant TEXT, items TEXT, title TEXT
) STRICT;
CREATE TABLE thread_events (
  place INTEGER PRIMARY KEY, ts INTEGER NOT NULL, turn INTEGER NOT NULL, type TEXT NOT NULL,
  data TEXT NOT NULL
) STRICT;
CREATE TABLE pruned_budgets (thread TEXT PRIMARY KEY, budget TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX threads_by_status ON threads(status, created, id);
CREATE INDEX threads_by_creation ON threads(created, id);
CREATE INDEX threads_by_parent ON threads(parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX threads_by_root ON threads(root);
CREATE INDEX threads_queued
  ON threads(tenant, project, priority DESC, queued, id) WHERE queued IS NOT NULL;
CREATE INDEX threads_called ON threads(id) WHERE wakes > acknowledged;
CREATE TABLE schedules (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, project TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
  signature TEXT NOT NULL, next INTEGER NOT NULL, waiting INTEGER, last INTEGER, outcome TEXT, paused TEXT,
  refused INTEGER NOT NULL, stamp TEXT NOT NULL,
  UNIQUE (project, tenant, name)
) STRICT;
CREATE INDEX schedules_due ON schedules(project, coalesce(waiting, next)) WHERE paused IS NULL;
CREATE TABLE schedule_fires (
  schedule TEXT NOT NULL, tick INTEGER NOT NULL, at INTEGER NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
  thread TEXT, PRIMARY KEY (schedule, tick)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_fires_by_time ON schedule_fires(schedule, at);
CREATE INDEX schedule_fires_by_thread ON schedule_fires(thread) WHERE thread IS NOT NULL;
INSERT INTO about (name, value) VALUES ('journal', '${JOURNAL_VERSION}');`;
