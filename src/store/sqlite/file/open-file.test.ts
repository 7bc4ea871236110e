import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Outcome, systemClock } from '../../../base/index.ts';
import type { NewThread, Store } from '../../port.ts';
import { openSqliteStore, type SqliteOptions } from '../store.ts';

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
  const began = Date.now();
  // The process of its thread is gone, which a sweep would write down.
  const other = await open({ isGone: () => true });
  expect(await other.sweep()).toMatchObject({ error: { code: 'store_busy' } });
  expect(must(await other.thread('t1'))).toMatchObject({ id: 't1' });
  expect(must(await other.query({})).rows).toHaveLength(1);
  await other.close();
  expect(Date.now() - began).toBeLessThan(5000);
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
