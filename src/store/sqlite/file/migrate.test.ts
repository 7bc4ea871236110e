// A registry as the synchronous store wrote it, opened by this one.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Outcome, systemClock } from '../../../base/index.ts';
import type { NewThread } from '../../port.ts';
import { openSqliteStore } from '../store.ts';

let dir: string;
let file: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-migrate-'));
  file = join(dir, 'registry.db');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}
const open = async (more: object = {}) => openSqliteStore({ file, clock: systemClock, ...more });

const KINDS = ['spawns', 'tokens', 'input_tokens', 'output_tokens', 'spend'];
/** The tables of schema 1, as they were released. */
const SCHEMA_1 = `
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
CREATE TABLE budgets (thread TEXT PRIMARY KEY, ${KINDS.map(
  (kind) =>
    `${kind}_max INTEGER, ${kind}_used INTEGER NOT NULL DEFAULT 0, ${kind}_reserved INTEGER NOT NULL DEFAULT 0`,
).join(', ')}) STRICT, WITHOUT ROWID;
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
CREATE TABLE artifacts (hash TEXT PRIMARY KEY, bytes BLOB NOT NULL, created INTEGER NOT NULL) STRICT;
CREATE TABLE artifact_uses (
  thread TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (thread, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_uses_by_hash ON artifact_uses(hash);
CREATE TABLE secrets (
  thread TEXT NOT NULL, number INTEGER NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (thread, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
  id INTEGER PRIMARY KEY, time TEXT NOT NULL, surface TEXT NOT NULL, caller TEXT NOT NULL,
  subject TEXT NOT NULL, operation TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_decision ON audit(decision);
PRAGMA application_id = 1802335336;
PRAGMA user_version = 1;
`;

interface OldThread {
  id: string;
  status: string;
  parent?: string;
  seq?: number;
  owner?: string;
  until?: number;
}

function oldRegistry() {
  const database = new DatabaseSync(file);
  database.exec(`PRAGMA journal_mode = WAL; ${SCHEMA_1}`);
  const run = (sql: string, ...values: (string | number | null)[]) =>
    void database.prepare(sql).run(...values);
  return {
    run,
    close: () => database.close(),
    thread({ id, status, parent, seq = 0, owner, until }: OldThread): void {
      const root = parent === undefined ? id : 'root';
      // biome-ignore format: in the order of the columns
      run(
        `INSERT INTO threads VALUES (${Array.from({ length: 20 }, () => '?').join(', ')})`, id, parent ?? null, root,
        parent === undefined ? 0 : 1, 'thread', 'deploy', '1.0.0', 'safety', 'one', 0, status, seq, 3, 1,
        owner ?? null, until ?? null, 100, 200, null, '{"turns":2}',
      );
      run('INSERT INTO thread_data VALUES (?, \'{"turns":9}\', \'{"x":1}\', NULL)', id);
      run('INSERT INTO budgets (thread, tokens_max, tokens_used) VALUES (?, 100, 7)', id);
    },
    event(thread: string, seq: number, type: string, data: object | null): void {
      const text = data === null ? null : JSON.stringify(data);
      const sql =
        'INSERT INTO thread_events (thread, seq, ts, turn, type, data) VALUES (?, ?, 5, 1, ?, ?)';
      run(sql, thread, seq, type, text);
    },
    signal(id: number, thread: string, kind: string): void {
      run("INSERT INTO signals VALUES (?, ?, ?, '{}', ?, 'me', 9)", id, thread, kind, `k${id}`);
    },
    reservation(key: string, thread: string, state: string, amounts: object, from?: string): void {
      const text = JSON.stringify(amounts);
      const sql = "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, '[]', 1)";
      run(sql, key, thread, state, from ?? null, text, text);
    },
  };
}

test('parked and interrupted threads, their signals and what they left open live on', async () => {
  const old = oldRegistry();
  old.thread({ id: 'root', status: 'paused', seq: 3 });
  old.thread({ id: 'child', status: 'interrupted', parent: 'root', seq: 1 });
  old.thread({ id: 'ended', status: 'completed', seq: 1 });
  old.event('root', 0, 'spawning', null);
  old.event('root', 1, 'thread_start', { directive: 'deploy' });
  old.event('root', 2, 'signal', { kind: 'message', by: 'me', id: 4 });
  old.event('root', 2, 'running', null);
  old.event('root', 3, 'signal', { kind: 'resume', by: 'me' });
  old.event('root', 3, 'paused', null);
  old.event('child', 1, 'thread_start', {});
  old.event('child', 1, 'interrupted', null);
  old.event('ended', 1, 'thread_end', {});
  for (const [id, thread] of [
    [2, 'root'],
    [3, 'child'],
    [4, 'root'],
    [7, 'root'],
    [8, 'ended'],
  ] as const) {
    old.signal(id, thread, 'message');
  }
  old.reservation('open', 'child', 'open', { tokens: '5', spend: '9007199254740993' }, 'apart');
  old.reservation('apart', 'root', 'open', { tokens: '50' });
  old.reservation('done', 'root', 'settled', { tokens: '1' });
  old.run(
    "INSERT INTO approvals VALUES ('ap_1', 'root', 'question', '{}', '{}', 'pending', 1, NULL, 5, NULL, NULL, NULL, NULL, NULL)",
  );
  old.run("INSERT INTO audit VALUES (1, 't', 's', 'c', 'u', 'o', 'denied', 'r')");
  old.close();

  const store = must(await open());
  const events = must(await store.read('root'));
  expect(events.map(({ seq, type }) => [seq, type])).toEqual([
    [1, 'thread_start'],
    [2, 'signal'],
    [3, 'signal'],
  ]);
  expect(must(await store.thread('child'))).toMatchObject({
    chain: ['child', 'root'],
    status: 'interrupted',
    cost: { turns: 2 },
    inputs: { x: 1 },
  });
  const signals = must(await store.signals('root'));
  expect(signals.map(({ number, key }) => [number, key])).toEqual([
    [1, 'k2'],
    [2, 'k4'],
    [3, 'k7'],
  ]);
  // What was said and not heard waits for whoever takes it.
  const taken = must(
    await store.take({ owner: 'me', ttlMs: 9000 }, { count: 9, projects: ['one'] }),
  );
  expect(taken.map(({ thread, heard, epoch }) => `${thread} ${heard} ${epoch}`).sort()).toEqual([
    'child 0 4',
    'root 2 4',
  ]);
  const child = taken.find(({ thread }) => thread === 'child');
  expect(child?.open).toEqual([
    { key: 'open', amounts: { tokens: 5n, spend: 9007199254740993n }, from: 'apart' },
  ]);
  const expected = { seq: 1, epoch: child?.epoch ?? 0 };
  const events2 = [{ type: 'status', data: { status: 'running' } }] as const;
  const written = await store.commit('child', {
    expect: expected,
    events: events2,
    status: 'running',
    settle: [{ key: 'open', actual: { tokens: 1n } }],
    heard: 1,
  });
  expect(must(written).seq).toBe(2);
  expect(must(await store.approvals({ thread: 'root' }))).toMatchObject([{ id: 'ap_1' }]);
  expect(must(await store.auditRows({ limit: 5 }))).toMatchObject([{ reason: 'r', target: '' }]);
  await store.close();

  const database = new DatabaseSync(file);
  const one = (sql: string) => Object.values(database.prepare(sql).get() ?? {})[0];
  expect(one('PRAGMA user_version')).toBe(6);
  expect(one("SELECT value FROM about WHERE name = 'journal'")).toBe('2');
  expect(one("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'old_%'")).toBe(0);
  expect(one("SELECT count(*) FROM threads, json_each(budget, '$.open')")).toBe(1);
  database.close();
});

/** Where older ones differed from this one. */
const SCHEMA_5 = `
ALTER TABLE threads DROP COLUMN title;
DROP TABLE search_texts;
PRAGMA user_version = 5;
`;

const SCHEMA_4 = `${SCHEMA_5}
DROP INDEX threads_queued;
ALTER TABLE threads DROP COLUMN tenant;
ALTER TABLE threads DROP COLUMN items;
CREATE INDEX threads_queued ON threads(project, priority DESC, queued, id) WHERE queued IS NOT NULL;
PRAGMA user_version = 4;
`;

const SCHEMA_3 = `${SCHEMA_4}
DROP INDEX audit_refused;
ALTER TABLE audit DROP COLUMN target;
CREATE INDEX audit_by_decision ON audit(decision);
PRAGMA user_version = 3;
`;

const SCHEMA_2 = `${SCHEMA_3}
DROP TABLE threads; DROP TABLE thread_events; DROP TABLE pruned_budgets;
CREATE TABLE threads (
  id TEXT PRIMARY KEY, parent TEXT, root TEXT NOT NULL, depth INTEGER NOT NULL,
  kind TEXT NOT NULL, directive TEXT NOT NULL, version TEXT NOT NULL, runner TEXT NOT NULL,
  project TEXT NOT NULL, detached INTEGER NOT NULL,
  status TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL,
  owner TEXT, lease_until INTEGER,
  wakes INTEGER NOT NULL DEFAULT 0, heard INTEGER NOT NULL DEFAULT 0,
  queued INTEGER, priority INTEGER NOT NULL DEFAULT 0,
  created INTEGER NOT NULL, updated INTEGER NOT NULL, ended INTEGER, cost TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_by_status ON threads(status, created, id);
CREATE INDEX threads_queued ON threads(project, priority DESC, queued, id) WHERE queued IS NOT NULL;
CREATE TABLE thread_events (
  thread TEXT NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, turn INTEGER NOT NULL,
  type TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (thread, seq)
) STRICT;
CREATE TABLE reservations (
  key TEXT PRIMARY KEY, thread TEXT NOT NULL, drawn_from TEXT, standing INTEGER NOT NULL,
  ${KINDS.map((kind) => `${kind} INTEGER NOT NULL DEFAULT 0`).join(', ')}
) STRICT, WITHOUT ROWID;
CREATE INDEX reservations_by_thread ON reservations(thread);
CREATE TABLE budgets (thread TEXT PRIMARY KEY, ${KINDS.map(
  (kind) =>
    `${kind}_max INTEGER, ${kind}_used INTEGER NOT NULL DEFAULT 0, ${kind}_reserved INTEGER NOT NULL DEFAULT 0`,
).join(', ')}) STRICT, WITHOUT ROWID;
PRAGMA user_version = 2;
`;

test('rows of the audit of schema 3 stay, and new ones name their target', async () => {
  await must(await open()).close();
  const database = new DatabaseSync(file);
  database.exec(SCHEMA_3);
  database.exec("INSERT INTO audit VALUES (1, 't', 's', 'c', 'u', 'o', 'denied', 'r')");
  database.close();
  const store = must(await open());
  const row = { surface: 's', caller: 'c', subject: 'u', operation: 'o', reason: 'r' };
  must(await store.audit([{ ...row, target: 'a.txt', decision: 'denied' }]));
  const rows = must(await store.auditRows({ limit: 9, decision: 'denied' }));
  expect(rows.map(({ target }) => target)).toEqual(['', 'a.txt']);
  await store.close();
});

test('threads of schema 4 are of nobody in particular, wait in the same queue and go on', async () => {
  const identity = Buffer.alloc(32, 1);
  const before = must(await open({ identity }));
  const made = (id: string, start: NewThread['start']): NewThread => ({
    id,
    directive: 'deploy',
    version: '1',
    runner: 'safety',
    project: 'one',
    limits: {},
    inputs: {},
    budget: { tokens: 9n },
    events: [],
    start,
  });
  const owner = { owner: 'me', ttlMs: 9000 };
  must(await before.createThread(made('queued', { queue: {} })));
  must(await before.createThread(made('parent', { lease: owner })));
  await before.close();
  const database = new DatabaseSync(file);
  database.exec(SCHEMA_4);
  database.close();

  const store = must(await open({ identity }));
  const [taken] = must(await store.take(owner, { count: 2, projects: ['one'] }));
  expect(taken).toMatchObject({ thread: 'queued', epoch: 1, row: { status: 'spawning' } });
  expect(taken?.row).not.toHaveProperty('tenant');
  expect(taken?.row).not.toHaveProperty('items');
  expect(must(await store.take(owner, { count: 2, projects: ['one'], tenant: 'a' }))).toEqual([]);
  const born = await store.commit('parent', {
    expect: { seq: 1, epoch: 1 },
    events: [{ type: 'note', data: {} }],
    children: [{ ...made('child', { queue: {} }), items: 'sha256:1' }],
  });
  expect(must(born).children[0]?.row).toMatchObject({
    items: 'sha256:1',
    chain: ['child', 'parent'],
  });
  must(await store.createThread({ ...made('theirs', { queue: {} }), tenant: 'a' }));
  expect(must(await store.take(owner, { count: 2, projects: ['one'], tenant: 'a' }))).toMatchObject(
    [{ thread: 'theirs', row: { tenant: 'a' } }],
  );
  await store.close();
});

test('threads of schema 5 have no title and are found by id and directive; new ones have both', async () => {
  const made = (id: string, more: Partial<NewThread> = {}): NewThread => ({
    id,
    directive: 'deploy',
    version: '1',
    runner: 'safety',
    project: 'one',
    limits: {},
    inputs: {},
    budget: {},
    events: [],
    start: { queue: {} },
    ...more,
  });
  const before = must(await open());
  must(await before.createThread(made('old', { title: 'gone', search: 'gone' })));
  await before.close();
  const database = new DatabaseSync(file);
  database.exec(SCHEMA_5);
  database.close();
  const store = must(await open());
  must(await store.createThread(made('new', { title: 'Deploy Köln', search: 'Deploy Köln' })));
  expect(must(await store.thread('old'))).not.toHaveProperty('title');
  const found = async (search: string): Promise<string[]> =>
    must(await store.query({ search })).rows.map(({ id }) => id);
  expect(await found('KÖLN')).toEqual(['new']);
  expect(await found('deploy')).toHaveLength(2);
  expect(await found('OLD')).toEqual(['old']);
  expect(await found('gone')).toEqual([]);
  await store.close();
});

test('a search looks at so many threads, and a cursor goes on behind them', async () => {
  const store = must(await open());
  const database = new DatabaseSync(file);
  database.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20100)
    INSERT INTO threads (id, root, depth, kind, directive, version, runner, project, detached, status, seq, epoch,
      attempt, created, updated, cost, budget)
    SELECT 't' || i, 't' || i, 0, 'thread', 'd', '1', 'safety', 'p', 0, 'completed', 1, 1, 1, i, i, '{}', '{}' FROM n;
    INSERT INTO search_texts (thread, first) VALUES ('t7', 'the needle'), ('t20050', 'a needle')`);
  database.close();
  const first = must(await store.query({ search: 'needle' }));
  expect(first.rows.map(({ id }) => id)).toEqual(['t20050']);
  const { next_cursor: cursor = '' } = first;
  const second = must(await store.query({ search: 'needle', cursor }));
  expect(second.rows.map(({ id }) => id)).toEqual(['t7']);
  expect(second).not.toHaveProperty('next_cursor');
  await store.close();
});

test('threads of schema 2 go on where they were, with their accounts', async () => {
  await must(await open()).close();
  const database = new DatabaseSync(file);
  database.exec(SCHEMA_2);
  for (const [id, parent, status] of [
    ['root', null, 'waiting'],
    ['child', 'root', 'running'],
  ] as const) {
    database
      .prepare(
        `INSERT INTO threads VALUES (?, ?, 'root', 0, 'thread', 'deploy', '1', 'safety', 'one', 0, ?, 2, 3, 1,
         NULL, NULL, 1, 1, NULL, 0, 100, 200, NULL, '{}')`,
      )
      .run(id, parent, status);
    const chain = JSON.stringify(parent === null ? [id] : [id, parent]);
    database
      .prepare("INSERT INTO thread_data VALUES (?, ?, '{}', '{}', NULL, NULL)")
      .run(id, chain);
    for (const seq of [1, 2]) {
      database.prepare("INSERT INTO thread_events VALUES (?, ?, 5, 1, 'note', '{}')").run(id, seq);
    }
  }
  const budget =
    'INSERT INTO budgets (thread, tokens_max, tokens_used, tokens_reserved) VALUES (?, ?, ?, ?)';
  database.prepare(budget).run('root', 100, 7, 30);
  database.prepare(budget).run('child', null, 7, 10);
  database.prepare(budget).run('pruned', 5, 5, 0);
  const reservation =
    'INSERT INTO reservations (key, thread, drawn_from, standing, tokens) VALUES (?, ?, ?, ?, ?)';
  database.prepare(reservation).run('apart', 'root', null, 1, 20);
  database.prepare(reservation).run('turn', 'child', 'apart', 0, 10);
  database.close();

  const store = must(await open());
  const budgets = must(await store.budgets(['root', 'child', 'pruned']));
  const tokens = budgets.map(({ limits, used, reserved }) => [
    limits,
    used.tokens,
    reserved.tokens,
  ]);
  expect(tokens).toEqual([
    [{ tokens: 100n }, 7n, 30n],
    [{}, 7n, 10n],
    [{ tokens: 5n }, 5n, 0n],
  ]);
  const held = must(await store.claim('child', { owner: 'me', ttlMs: 9000 }));
  expect(held.open).toEqual([{ key: 'turn', amounts: { tokens: 10n }, from: 'apart' }]);
  const settled = await store.commit('child', {
    expect: { seq: 2, epoch: held.epoch },
    events: [{ type: 'note', data: {} }],
    settle: [{ key: 'turn', actual: { tokens: 4n } }],
  });
  expect(must(settled).seq).toBe(3);
  expect(must(await store.read('child')).map(({ seq }) => seq)).toEqual([1, 2, 3]);
  expect(must(await store.read('root')).map(({ seq }) => seq)).toEqual([1, 2]);
  const [root] = must(await store.budgets(['root']));
  expect([root?.used.tokens, root?.reserved.tokens]).toEqual([11n, 26n]);
  await store.close();
});

test('a newer schema or journal, and a file of somebody else, are left alone', async () => {
  const identity = Buffer.alloc(32, 1);
  await must(await open({ identity })).close();
  const foreign = await open({ identity: Buffer.alloc(32, 2) });
  expect(foreign).toMatchObject({ error: { code: 'store_foreign' } });
  await must(await open({ identity })).close();
  const change = (sql: string): void => {
    const database = new DatabaseSync(file);
    database.exec(sql);
    database.close();
  };
  change("UPDATE about SET value = '3' WHERE name = 'journal'");
  expect(await open()).toMatchObject({ error: { code: 'store_newer', detail: { journal: 3 } } });
  change('PRAGMA user_version = 7');
  expect(await open()).toMatchObject({ error: { code: 'store_newer', detail: { schema: 7 } } });
  change('PRAGMA user_version = 6; PRAGMA application_id = 5');
  expect(await open()).toMatchObject({ error: { code: 'store_failed' } });
});

test('an old registry of somebody else is not worked on', async () => {
  const old = oldRegistry();
  old.thread({ id: 'root', status: 'paused' });
  old.close();
  const refused = await open({ identity: Buffer.alloc(32, 1) });
  expect(refused).toMatchObject({ error: { code: 'store_foreign' } });
  const database = new DatabaseSync(file);
  expect(database.prepare('PRAGMA user_version').get()).toEqual({ user_version: 1 });
  database.close();
});

test('many processes may open an empty or an old file at once', async () => {
  const old = oldRegistry();
  old.thread({ id: 'root', status: 'paused' });
  old.close();
  const stores = (await Promise.all(Array.from({ length: 5 }, () => open()))).map(must);
  for (const store of stores) {
    expect(must(await store.thread('root')).status).toBe('paused');
    await store.close();
  }
});
