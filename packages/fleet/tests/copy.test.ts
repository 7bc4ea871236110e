// A registry moves between a file and a real server, with everything in it.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fail, ok, systemClock, systemRandom } from '@kernmantle/core/base';
import { programWords } from '@kernmantle/test-support/built';
import { afterAll, afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { openSqliteStore } from '../../core/src/store/sqlite/store.ts';
import { type CopyOptions, copyRegistry } from '../src/copy/registry.ts';
import { openServerStore } from '../src/postgres/address.ts';
import { migrateStore } from '../src/postgres/migrate.ts';
import { fillRegistry, must } from './support/rich-registry.ts';

const postgres = inject('postgres');
const identity = Buffer.alloc(32, 1);
const [PROJECT, ELSEWHERE] = ['/home/me/one', '/home/me/two'];
const IDS = new Map([
  [PROJECT, 'prj_one'],
  [ELSEWHERE, 'prj_two'],
]);
const ITEMS = 'sha256:today';

let dir: string;
let file: string;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'km-copy-'));
  file = join(dir, 'registry.db');
  await fillRegistry(file, PROJECT, ELSEWHERE, identity);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const toIds: CopyOptions['rename'] = (path) => {
  const project = IDS.get(path);
  return project === undefined ? fail('project_unnamed', path) : ok({ project, items: ITEMS });
};
const toPaths: CopyOptions['rename'] = (id) => {
  const [path] = [...IDS].find(([, known]) => known === id) ?? [];
  return path === undefined ? fail('not_found', id) : ok({ project: path });
};
const asIs: CopyOptions['rename'] = (project) => ok({ project });

const copy = (options: Pick<CopyOptions, 'from' | 'to' | 'rename'> & Partial<CopyOptions>) =>
  copyRegistry({ clock: systemClock, identity, ...options });

/** In a process that is killed after so many parts. */
function copyKilled(to: string, parts: number): void {
  const done = spawnSync(process.execPath, programWords('copy-killed', file, to, String(parts)), {
    encoding: 'utf8',
  });
  expect([done.signal, done.stdout]).toEqual(['SIGKILL', '']);
}

const TABLES = [
  'threads',
  'thread_data',
  'signals',
  'approvals',
  'approval_uses',
  'artifacts',
  'artifact_uses',
  'secrets',
  'audit',
  'memories',
  'pruned_budgets',
  'schedules',
  'schedule_fires',
];
/** Texts that are JSON, which a server may write otherwise. */
const JSON_COLUMNS = ['budget', 'chain'];

interface Picture {
  rows: Record<string, Record<string, unknown>[]>;
  events: unknown[];
}

/** Everything in a file; threads by their epochs of before. */
function pictureOf(path: string, raised: number, isRenamed = false): Picture {
  const database = new DatabaseSync(path, { readOnly: true });
  const rows: Picture['rows'] = {};
  for (const table of TABLES) {
    rows[table] = database
      .prepare(`SELECT * FROM ${table}`)
      .all()
      .map(({ number, ...row }) => {
        const kept: Record<string, unknown> = table === 'threads' ? row : { number, ...row };
        for (const name of JSON_COLUMNS) {
          if (typeof kept[name] === 'string') kept[name] = sorted(JSON.parse(kept[name]));
        }
        if (table === 'threads') kept['epoch'] = Number(kept['epoch']) - raised;
        // Taken over by a person: what was open has the items of today from then on.
        if (isRenamed && kept['items'] === ITEMS) kept['items'] = null;
        if (table === 'audit') delete kept['id'];
        for (const [name, cell] of Object.entries(kept)) {
          if (cell instanceof Uint8Array) kept[name] = Buffer.from(cell).toString('hex');
        }
        return kept;
      })
      .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  const events = database
    .prepare(
      `SELECT id, place % 16777216 AS seq, ts, turn, type, data FROM thread_events
       JOIN threads ON number = place / 16777216 ORDER BY id, seq`,
    )
    .all();
  database.close();
  return { rows, events: events.map((event) => ({ ...event })) };
}

/** Keys in order, and nothing said twice. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    const all = value.map(sorted);
    // Reservations: a server keeps them by their keys. A chain stays as it is.
    return typeof all[0] === 'string'
      ? all
      : all.sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== null && one !== '0');
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, one]) => [name, sorted(one)]),
  );
}

test('a copy in another file is the same but for its epochs, and the source stays', async () => {
  const before = pictureOf(file, 0);
  const to = { file: join(dir, 'deep', 'copy.db') };
  const report = must(await copy({ from: { file }, to, rename: asIs }));
  expect(report).toMatchObject({
    trees: 6,
    kept: 0,
    rows: { threads: 12, pruned: 1, audit: 6, schedules: 2, schedule_fires: 2 },
  });
  expect(pictureOf(to.file, 1)).toEqual(before);
  expect(pictureOf(file, 0)).toEqual(before);
  expect(existsSync(`${to.file}.copying`)).toBe(false);
  const again = await copy({ from: { file }, to, rename: asIs });
  expect(again).toMatchObject({ error: { code: 'store_exists' } });
});

test('who held a thread before cannot write to the copy, and threads go on there', async () => {
  const to = { file: join(dir, 'copy.db') };
  must(await copy({ from: { file }, to, rename: asIs }));
  const store = must(await openSqliteStore({ file: to.file, clock: systemClock, identity }));
  const row = must(await store.thread('a'));
  const events = [{ type: 'note', data: {} }] as const;
  const late = await store.commit('a', { expect: { seq: row.seq, epoch: row.epoch - 1 }, events });
  expect(late).toMatchObject({ error: { code: 'stale_epoch' } });
  const held = must(await store.claim('a', { owner: 'me', ttlMs: 60_000 }));
  expect(held.open.map(({ key }) => key)).toEqual(['a:apart', 'a:turn']);
  const written = await store.commit('a', {
    expect: { seq: row.seq, epoch: held.epoch },
    events,
    settle: [{ key: 'a:turn', actual: { tokens: 4n } }],
    use: [{ approval: 'a_ap', binding: { a: 1, b: 2 } }],
  });
  must(written);
  expect(await store.createThread({ ...THREAD, id: 'old' })).toMatchObject({
    error: { code: 'thread_exists' },
  });
  const taken = must(
    await store.take({ owner: 'me', ttlMs: 9 }, { count: 9, projects: [PROJECT] }),
  );
  expect(taken.map(({ thread }) => thread)).toEqual(['queued', 'c', 'lost']);
  await store.close();
});

const THREAD = {
  directive: 'deploy',
  version: '1',
  runner: 'safety',
  project: PROJECT,
  limits: {},
  inputs: {},
  budget: {},
  events: [],
  start: { queue: {} },
};

test('what somebody works on is never copied', async () => {
  const store = must(await openSqliteStore({ file, clock: systemClock, identity }));
  const held = must(await store.claim('a', { owner: 'me', ttlMs: 60_000 }));
  const to = { file: join(dir, 'copy.db') };
  const refused = await copy({ from: { file }, to, rename: asIs });
  expect(refused).toMatchObject({ error: { code: 'lease_held', detail: { threads: ['a'] } } });
  must(await store.release(held));
  await store.close();
  must(await copy({ from: { file }, to, rename: asIs }));
});

test('a registry of somebody else, none at all, and a project without a name are refused', async () => {
  const to = { file: join(dir, 'copy.db') };
  const foreign = await copy({ from: { file }, to, rename: asIs, identity: Buffer.alloc(32, 2) });
  expect(foreign).toMatchObject({ error: { code: 'store_foreign' } });
  const none = await copy({ from: { file: join(dir, 'none.db') }, to, rename: asIs });
  expect(none).toMatchObject({ error: { code: 'not_found' } });
  const rename = () => fail('project_unnamed', 'x');
  const unnamed = await copy({ from: { file }, to, rename });
  expect(unnamed).toMatchObject({ error: { code: 'project_unnamed' } });
  expect(existsSync(to.file)).toBe(false);
});

test('a copy that was broken off goes on, and sends again what changed meanwhile', async () => {
  const to = { file: join(dir, 'copy.db') };
  for (const [count, kept] of [
    [2, 0],
    [4, 2],
  ] as const) {
    const stop = new AbortController();
    const progress = (done: number): void => {
      if (done >= count) stop.abort();
    };
    const broken = await copy({ from: { file }, to, rename: asIs, progress, signal: stop.signal });
    expect(broken, String(kept)).toMatchObject({ error: { code: 'cancelled' } });
    expect(existsSync(to.file)).toBe(false);
  }
  const store = must(await openSqliteStore({ file, clock: systemClock, identity }));
  must(await store.signal({ thread: 'a', kind: 'message', payload: 1, key: 'new', by: 'me' }));
  must(await store.prune({ before: Date.now() + 1000 }));
  await store.close();
  const report = must(await copy({ from: { file }, to, rename: asIs }));
  expect(report.kept).toBe(3);
  expect(pictureOf(to.file, 1)).toEqual(pictureOf(file, 0));
});

test('kill -9 in the middle of it leaves nothing to be seen, and the next one goes on', async () => {
  const to = { file: join(dir, 'copy.db') };
  copyKilled(to.file, 3);
  expect(existsSync(to.file)).toBe(false);
  copyKilled(to.file, 7);
  expect(existsSync(to.file)).toBe(false);
  const report = must(await copy({ from: { file }, to, rename: asIs }));
  expect(report).toMatchObject({ trees: 6, kept: 7 });
  expect(pictureOf(to.file, 1)).toEqual(pictureOf(file, 0));
});

describe.skipIf(postgres === '')(
  `with a server${postgres === '' ? ' (none can be started)' : ''}`,
  () => {
    const schemas: string[] = [];
    let address: string;

    async function newSchema(): Promise<string> {
      const schema = `t_${randomBytes(6).toString('hex')}`;
      schemas.push(schema);
      const options = { place: { url: postgres, schema }, shown: 'the server', identity };
      must(await migrateStore({ ...options, clock: systemClock, random: systemRandom }));
      return `${postgres}?schema=${schema}`;
    }
    beforeEach(async () => {
      address = await newSchema();
    });
    afterAll(async () => {
      const { default: pg } = await import('pg');
      const client = new pg.Client(postgres);
      await client.connect();
      for (const schema of schemas) {
        await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
        await client.query(`DROP SCHEMA IF EXISTS ${schema}_jobs CASCADE`);
      }
      await client.end();
    });

    async function inSchema<R extends object>(at: string, sql: string): Promise<R[]> {
      const { default: pg } = await import('pg');
      const schema = new URL(at).searchParams.get('schema') ?? '';
      const client = new pg.Client(postgres);
      await client.connect();
      await client.query(`SET search_path = ${schema}`);
      const { rows } = await client.query(sql);
      await client.end();
      return rows as R[];
    }

    test('there and back again is the same but for epochs', async () => {
      const there = must(await copy({ from: { file }, to: { address }, rename: toIds }));
      expect(there).toMatchObject({ trees: 6, rows: { threads: 12, pruned: 1 } });
      const rows = await inSchema<Record<string, unknown>>(
        address,
        'SELECT id, project, tenant, items, killed, chain FROM threads ORDER BY id',
      );
      expect(rows.find(({ id }) => id === 'b_child')).toEqual({
        id: 'b_child',
        project: 'prj_two',
        tenant: 'acme',
        items: ITEMS,
        killed: false,
        chain: ['b_child', 'b'],
      });
      expect(rows.find(({ id }) => id === 'killed')).toMatchObject({ killed: true, items: null });
      expect(rows.find(({ id }) => id === 'a_hook')).toMatchObject({ items: 'sha256:old' });
      const left = await inSchema(
        address,
        "SELECT 1 FROM pg_tables WHERE tablename LIKE 'copying%'",
      );
      expect(left).toEqual([]);
      const back = { file: join(dir, 'back.db') };
      must(await copy({ from: { address }, to: back, rename: toPaths, project: 'prj_one' }));
      expect(pictureOf(back.file, 2, true)).toEqual(pictureOf(file, 0));
      const next = await newSchema();
      must(await copy({ from: { address }, to: { address: next }, rename: asIs }));
      const again = { file: join(dir, 'again.db') };
      must(await copy({ from: { address: next }, to: again, rename: toPaths }));
      expect(pictureOf(again.file, 3, true)).toEqual(pictureOf(file, 0));
    });

    test('a name that only a file can keep does not keep a registry where it is', async () => {
      const odd = 'a\0b';
      const row = { surface: 's', caller: odd, subject: odd, operation: odd, target: odd };
      const store = must(await openSqliteStore({ file, clock: systemClock, identity }));
      must(await store.audit([{ ...row, decision: 'denied', reason: odd }]));
      await store.close();
      expect(await copy({ from: { file }, to: { address }, rename: toIds })).toMatchObject({
        ok: true,
      });
    });

    test('what is there already is left alone, and nothing arrives of the rest', async () => {
      must(await copy({ from: { file }, to: { address }, rename: toIds }));
      const before = await inSchema(address, 'SELECT count(*) FROM audit');
      const again = await copy({ from: { file }, to: { address }, rename: toIds });
      expect(again).toMatchObject({ error: { code: 'thread_exists' } });
      expect(await inSchema(address, 'SELECT count(*) FROM audit')).toEqual(before);
    });

    test('of several projects in one store, one goes back, with the audit of its threads', async () => {
      must(await copy({ from: { file }, to: { address }, rename: toIds }));
      const other = join(dir, 'other.db');
      const store = must(await openSqliteStore({ file: other, clock: systemClock, identity }));
      must(await store.createThread({ ...THREAD, id: 'strange', project: '/three' }));
      await store.close();
      const rename = () => ok({ project: 'prj_three' });
      must(await copy({ from: { file: other }, to: { address }, rename }));
      const back = { file: join(dir, 'back.db') };
      must(await copy({ from: { address }, to: back, rename: toPaths, project: 'prj_one' }));
      const [mine, theirs] = [pictureOf(back.file, 2, true), pictureOf(file, 0)];
      expect(mine.events).toEqual(theirs.events);
      expect(mine.rows['threads']).toEqual(theirs.rows['threads']);
      expect(mine.rows['audit']).toHaveLength(3);
      expect(mine.rows['pruned_budgets']).toEqual([]);
    });

    test('a copy that was broken off shows nothing, and goes on', async () => {
      const stop = new AbortController();
      const progress = (done: number): void => {
        if (done >= 3) stop.abort();
      };
      const options = { from: { file }, to: { address }, rename: toIds };
      const broken = await copy({ ...options, progress, signal: stop.signal });
      expect(broken).toMatchObject({ error: { code: 'cancelled' } });
      for (const table of ['threads', 'thread_events', 'budgets', 'audit', 'approvals']) {
        expect(await inSchema(address, `SELECT * FROM ${table}`), table).toEqual([]);
      }
      const report = must(await copy(options));
      expect(report).toMatchObject({ kept: 3, trees: 6 });
      const back = { file: join(dir, 'back.db') };
      must(await copy({ from: { address }, to: back, rename: toPaths }));
      expect(pictureOf(back.file, 2, true)).toEqual(pictureOf(file, 0));
    });

    test('kill -9 in the middle of it leaves nothing to be seen there, and the next one goes on', async () => {
      copyKilled(address, 3);
      expect(await inSchema(address, 'SELECT 1 FROM threads')).toEqual([]);
      copyKilled(address, 7);
      expect(await inSchema(address, 'SELECT 1 FROM threads')).toEqual([]);
      const report = must(await copy({ from: { file }, to: { address }, rename: asIs }));
      expect(report).toMatchObject({ trees: 6, kept: 7 });
      const back = { file: join(dir, 'back.db') };
      must(await copy({ from: { address }, to: back, rename: asIs }));
      expect(pictureOf(back.file, 2)).toEqual(pictureOf(file, 0));
    });

    test('threads go on there, and who held them before cannot write', async () => {
      must(await copy({ from: { file }, to: { address }, rename: toIds }));
      const store = must(await openServerStore(address, { clock: systemClock, identity }));
      try {
        const row = must(await store.thread('a'));
        expect(row).toMatchObject({ project: 'prj_one', items: ITEMS, status: 'paused' });
        expect(must(await store.read('a', { last: 1 }))).toMatchObject([{ seq: row.seq }]);
        const events = [{ type: 'note', data: {} }] as const;
        const expected = { seq: row.seq, epoch: row.epoch - 1 };
        const late = await store.commit('a', { expect: expected, events });
        expect(late).toMatchObject({ error: { code: 'stale_epoch' } });
        const held = must(await store.claim('a', { owner: 'me', ttlMs: 60_000 }));
        expect(held.open.map(({ key }) => key)).toEqual(['a:apart', 'a:turn']);
        must(
          await store.commit('a', {
            expect: { seq: row.seq, epoch: held.epoch },
            events,
            settle: [{ key: 'a:turn', actual: { tokens: 4n } }],
            use: [{ approval: 'a_ap', binding: { a: 1, b: 2 } }],
          }),
        );
        const bytes = must(await store.secrets('a'))[0]?.sealed;
        expect(Buffer.from(bytes ?? []).toString('hex')).toBe('0001feff');
        expect(await store.createThread({ ...THREAD, id: 'old' })).toMatchObject({
          error: { code: 'thread_exists' },
        });
        // What was queued has a job as soon as somebody sweeps who stays.
        for (let n = 0; n < 2; n++) must(await store.sweep());
        const wanted = { count: 9, projects: ['prj_one'], waitMs: 10_000 };
        const taken = must(await store.take({ owner: 'me', ttlMs: 9000 }, wanted));
        expect(taken.map(({ thread }) => thread).sort()).toEqual(['c', 'lost', 'queued']);
      } finally {
        await store.close();
      }
    });

    test('threads at work on the server are not copied', async () => {
      must(await copy({ from: { file }, to: { address }, rename: toIds }));
      await inSchema(
        address,
        `UPDATE threads SET owner = 'me', lease_until = km_now() + 60000 WHERE id = 'a'`,
      );
      const to = { file: join(dir, 'back.db') };
      const refused = await copy({ from: { address }, to, rename: toPaths });
      expect(refused).toMatchObject({ error: { code: 'lease_held', detail: { threads: ['a'] } } });
      await inSchema(address, 'UPDATE threads SET lease_until = km_now() - 1');
      must(await copy({ from: { address }, to, rename: toPaths }));
    });
  },
);
