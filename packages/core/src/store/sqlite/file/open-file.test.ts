import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Outcome, systemClock } from '../../../base/index.ts';
import type { NewThread, Store } from '../../port.ts';
import { openSqliteStore, type SqliteOptions } from '../store.ts';
import { JOURNAL_VERSION, SCHEMA_VERSION } from './schema.ts';

let [dir, file]: [string, string] = ['', ''];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-open-'));
  file = join(dir, 'registry.db');
});
afterEach(() => {
  chmodSync(dir, 0o700);
  rmSync(dir, { recursive: true, force: true });
});

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}
const identity = new Uint8Array(32).fill(7);
const open = async (more: Partial<SqliteOptions> = {}): Promise<Store> =>
  must(await openSqliteStore({ file, clock: systemClock, identity, ...more }));
const thread = (id: string, owner = 'me'): NewThread => ({
  id,
  directive: 'look',
  version: '1.0.0',
  runner: 'safety',
  project: dir,
  limits: {},
  budget: {},
  inputs: {},
  events: [],
  start: { lease: { owner, ttlMs: 1000 } },
});

test('a registry that somebody is writing is opened and read at once', async () => {
  const store = await open();
  must(await store.createThread(thread('t1')));
  const writer = new DatabaseSync(file);
  writer.exec('BEGIN IMMEDIATE');
  // Each look at this clock is a millisecond, so that nothing waits long for the writer.
  let looks = 0;
  const clock = { ...systemClock, monotonic: () => looks++ };
  // The process of its thread is gone, which a sweep would write down.
  const other = await open({ clock, isGone: () => true });
  expect(await other.sweep()).toMatchObject({ error: { code: 'store_busy' } });
  expect(must(await other.thread('t1'))).toMatchObject({ id: 't1' });
  expect(must(await other.query({})).rows).toHaveLength(1);
  await other.close();
  expect(looks).toBeLessThan(5000);
  writer.close();
  await store.close();
});

test('a registry that may not be written is read and stays as it is', async () => {
  const store = await open();
  must(await store.createThread(thread('t1')));
  await store.close();
  const before = readFileSync(file);
  const only = await open({ readOnly: true });
  expect(must(await only.thread('t1'))).toMatchObject({ id: 't1', seq: 1 });
  expect(must(await only.read('t1'))).toHaveLength(1);
  const refused = await only.createThread(thread('t2'));
  expect(refused).toMatchObject({ ok: false, error: { code: 'store_failed' } });
  await only.close();
  expect(readFileSync(file).equals(before)).toBe(true);
});

test('somebody else’s registry is not read either', async () => {
  const store = await open();
  must(await store.createThread(thread('t1')));
  await store.close();
  const foreign = { file, clock: systemClock, identity: new Uint8Array(32), readOnly: true };
  expect(await openSqliteStore(foreign)).toMatchObject({ ok: false });
  const missing = { ...foreign, file: join(dir, 'none.db') };
  expect(await openSqliteStore(missing)).toMatchObject({ error: { code: 'store_failed' } });
});

test.skipIf(process.getuid?.() === 0)('rights on the file decide by themselves', async () => {
  const store = await open();
  must(await store.createThread(thread('t1')));
  await store.close();
  chmodSync(file, 0o400);
  chmodSync(dir, 0o500);
  const only = await open();
  expect(must(await only.thread('t1'))).toMatchObject({ id: 't1' });
  expect(await only.createThread(thread('t2'))).toMatchObject({ error: { code: 'store_failed' } });
  await only.close();
});

test('pruning gives the room back, also beside another process that has the registry open', async () => {
  const [store, other] = [await open(), await open()];
  const long = { type: 'logged', data: { text: 'x'.repeat(20_000) } };
  for (let number = 0; number < 300; number++) {
    const { row, epoch } = must(await store.createThread(thread(`t${number}`)));
    must(
      await store.commit(row.id, {
        expect: { seq: row.seq, epoch },
        events: [long],
        status: 'completed',
        release: true,
      }),
    );
  }
  must(await store.createThread(thread('last')));
  expect(must(await other.query({ limit: 500 })).rows).toHaveLength(301);
  const sizeOf = (): number =>
    [file, `${file}-wal`].reduce(
      (sum, name) => sum + (statSync(name, { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
  const before = sizeOf();
  const { removed } = must(await store.prune({ before: Date.now() + 1000 }));
  expect(removed).toHaveLength(300);
  expect(sizeOf()).toBeLessThan(before / 10);
  expect(must(await other.query({})).rows).toMatchObject([{ id: 'last' }]);
  must(await other.createThread(thread('next')));
  expect(must(await store.thread('next'))).toMatchObject({ id: 'next' });
  // Nothing is left to be removed: nothing is written.
  expect(must(await store.prune({ before: Date.now() + 1000 })).removed).toEqual([]);
  await other.close();
  await store.close();
});

test('another schema or journal, and a file of somebody else, are left alone', async () => {
  await (await open()).close();
  const opened = (more: Partial<SqliteOptions> = {}) =>
    openSqliteStore({ file, clock: systemClock, identity, ...more });
  expect(await opened({ identity: Buffer.alloc(32, 2) })).toMatchObject({
    error: { code: 'store_foreign' },
  });
  const change = (sql: string): void => {
    const database = new DatabaseSync(file);
    database.exec(sql);
    database.close();
  };
  const journal = JOURNAL_VERSION + 1;
  change(`UPDATE about SET value = '${journal}' WHERE name = 'journal'`);
  expect(await opened()).toMatchObject({ error: { code: 'store_newer', detail: { journal } } });
  const newer = SCHEMA_VERSION + 1;
  change(`PRAGMA user_version = ${newer}`);
  expect(await opened()).toMatchObject({
    error: { code: 'store_newer', detail: { schema: newer } },
  });
  for (const version of [1, SCHEMA_VERSION - 1]) {
    change(`PRAGMA user_version = ${version}`);
    const before = readFileSync(file);
    const message = `the registry \`${file}\` was written by an older kernmantle (schema ${version}, this one reads ${SCHEMA_VERSION}); move it away and start a new one`;
    expect(await opened()).toMatchObject({ error: { code: 'store_failed', detail: { message } } });
    expect(readFileSync(file).equals(before)).toBe(true);
  }
  change(`PRAGMA user_version = ${SCHEMA_VERSION}; PRAGMA application_id = 5`);
  expect(await opened()).toMatchObject({ error: { code: 'store_failed' } });
});

test('many processes may open an empty file at once', async () => {
  const [first, ...others] = await Promise.all([open(), open(), open(), open(), open()]);
  const stores = [first, ...others];
  must(await first.createThread(thread('root')));
  for (const store of stores) {
    expect(must(await store.thread('root')).id).toBe('root');
    await store.close();
  }
});

test('a search looks at so many threads, and a cursor goes on behind them', async () => {
  const store = await open();
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
