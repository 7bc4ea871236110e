// What a poisoned project, a stranger in the same database and a user with few rights can reach: nothing
// that is not theirs.
import { fail, systemClock, systemRandom } from '@kernmantle/core/base';
import { blocksOf, readPage } from '@kernmantle/test-support/docs-page';
import { aThread, begin, event, must, owner } from '@kernmantle/test-support/store-suite/stage';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import pg from 'pg';
import { afterEach, describe, expect, inject, test } from 'vitest';
import type { Head } from '../../core/src/store/port.ts';
import { openPostgresStore } from '../src/postgres/store.ts';
import { createSharedRequests } from '../src/runtime/request-limits.ts';
import { got, openCliStage } from './support/cli-stage.ts';
import { noServer, openServerStores, type ServerStores } from './support/server-stores.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const SEEN = [read('notes/a.txt'), { text: 'seen' }];
/** As the page says them. */
const GRANTS =
  blocksOf(readPage('docs/fleet.md')).find(({ text }) => text.startsWith('GRANT'))?.text ?? '';
const OTHER = 'prj_zzzzzzzzzzzzzzzzzzzzzzzz';

describe.skipIf(server === '')(`a project among others${noServer(server)}`, () => {
  test('its policy says how long its own threads are kept, and nothing of theirs', async () => {
    const policy = { '.ai/policy.yaml': 'retention: { days: 0 }\n' };
    const { km, fixture, address } = await openCliStage(server, { ...LOOK, ...policy }, SEEN);
    await km('store', 'migrate');
    const runtime = await fixture.open({ openStore: undefined as never, store: address });
    const store = got(await runtime.registry.open());
    const theirs = await begin(store, 'theirs', { project: OTHER });
    await theirs.must({ status: 'completed', release: true });
    await new Promise((resolve) => setTimeout(resolve, 5));
    await km('threads', 'prune', '--older-than', '0s');
    await km('run', 'look', '--detach');
    expect((await store.thread('theirs')).ok).toBe(true);
    await runtime.close();
  });

  test('a thread of another project is not resumed with the items of this one', async () => {
    const { km, fixture, address } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    const runtime = await fixture.open({ openStore: undefined as never, store: address });
    const store = got(await runtime.registry.open());
    const theirs = await begin(store, 'theirs', { project: OTHER, items: 'sha256:theirs' });
    await theirs.must({ status: 'interrupted', release: true });
    const resumed = await km('threads', 'resume', 'theirs', '--items', 'today');
    expect(resumed.output).toContain('another project');
    expect(got(await store.thread('theirs'))).toMatchObject({ items: 'sha256:theirs' });
    await runtime.close();
  });

  test('no tool is given the address of the registry, whatever it declares', async () => {
    const tool = `tool_id: peek
version: 1.0.0
executor_id: subprocess
effect: read
env: [KERNMANTLE_STORE, KERNMANTLE_KEY_PASSPHRASE, OTHER]
config: { command: sh, args: ["-c", "echo [$KERNMANTLE_STORE$KERNMANTLE_KEY_PASSPHRASE]$OTHER"] }
`;
    const { fixture } = await openCliStage(server, { '.ai/tools/peek.yaml': tool }, SEEN);
    Object.assign(fixture.env, { KERNMANTLE_KEY_PASSPHRASE: 'pass-phrase', OTHER: 'other' });
    const ran = await fixture.call('execute', { item_type: 'tool', item_id: 'peek' });
    expect(JSON.stringify(ran)).toContain('[]');
    expect(JSON.stringify(ran)).not.toContain('postgres');
  });
});

describe.skipIf(server === '')(`a server among others${noServer(server)}`, () => {
  let opened: ServerStores | undefined;
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });
  async function stage(): Promise<ServerStores> {
    opened = await openServerStores(server);
    return opened;
  }

  test('who may not read the registry neither speaks nor listens where it does', async () => {
    const on = await stage();
    const [store, other] = [await on.open(), await on.open()];
    const writer = await begin(store, 't');
    const heads: Head[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const head of other.changes({}, stop.signal)) heads.push(head);
    })();
    await expect
      .poll(() =>
        on.query(`SELECT 1 FROM pg_stat_activity WHERE application_name = '@@'
        AND query LIKE 'SELECT id AS thread, seq, status FROM threads WHERE id = ANY%'`),
      )
      .toHaveLength(1);
    const stranger = new pg.Client({ connectionString: server });
    await stranger.connect();
    const overheard: unknown[] = [];
    stranger.on('notification', (word) => overheard.push(word));
    await stranger.query(`LISTEN km_${on.schema}`);
    await stranger.query(`NOTIFY km_${on.schema}, 'h t 99999 completed'`);
    await writer.must({ events: [event()] });
    await expect.poll(() => heads.at(-1)).toMatchObject({ thread: 't', seq: 2 });
    expect(heads.filter(({ seq }) => seq > 2)).toEqual([]);
    await stranger.query('SELECT 1');
    expect(overheard).toHaveLength(1);
    stop.abort();
    await watching;
    await stranger.end();
  });

  test('who comes back between a look at the lost and the sweep keeps its thread', async () => {
    const on = await stage();
    const store = await on.open();
    const { thread, epoch } = must(await store.createThread(aThread('t')));
    await on.query('UPDATE @@.threads SET lease_until = 0');
    await on.query('SET search_path TO @@');
    const lost = await on.query<{ o_thread: string }>(
      'SELECT * FROM km_lost(60000, ARRAY[]::text[])',
    );
    expect(lost).toMatchObject([{ o_thread: thread, o_epoch: epoch }]);
    expect(must(await store.renew([{ thread, epoch }], 60_000))).toHaveLength(1);
    const sweep = 'SELECT * FROM km_sweep($1, $2, 60000, ARRAY[]::text[])';
    expect(await on.query(sweep, [thread], [epoch])).toEqual([]);
    expect(must(await store.thread(thread))).toMatchObject({ epoch, status: 'running' });
    await on.query('UPDATE threads SET lease_until = 0');
    expect(await on.query(sweep, [thread], [epoch])).toMatchObject([{ o_interrupted: true }]);
  });

  test('a worker needs no right to change tables, and one user counts for another', async () => {
    const on = await stage();
    const users = ['a', 'b'].map((name) => `${on.schema}_${name}`);
    const address = (user: string): string => {
      const url = new URL(server);
      [url.username, url.password] = [user, 'few rights'];
      return url.href;
    };
    for (const user of users) {
      await on.query(`CREATE ROLE ${user} LOGIN PASSWORD 'few rights'`);
      await on.query(GRANTS.replaceAll('kernmantle', '@@').replaceAll('worker', user));
    }
    const open = async (user: string) => {
      const place = { url: address(user), schema: on.schema };
      return must(await openPostgresStore({ place, shown: 'it', clock: systemClock }));
    };
    const [a, b] = await Promise.all([open(users[0] ?? ''), open(users[1] ?? '')]);
    try {
      must(await a.createThread(aThread('t', { start: { queue: {} } })));
      const [held] = must(await b.take(owner(), { count: 1, projects: ['one'] }));
      expect(held).toMatchObject({ thread: 't', epoch: 1 });
      must(await a.signal({ thread: 't', kind: 'message', payload: {}, key: 'k', by: 'x' }));
      must(await b.renew([{ thread: 't', epoch: 1 }], 1000));
      must(await b.release({ thread: 't', epoch: 1 }, { again: true }));
      for (let look = 0; look < 2; look++) must(await a.sweep());
      must((await a.fleet?.setLimit({ scope: 'provider:p', concurrent: 1 })) ?? fail('none', ''));
      const ask = { provider: 'p', tenant: '', owner: 'a', tokens: 1, ttlMs: 1 };
      expect(must((await a.fleet?.enter(ask)) ?? fail('none', ''))).toHaveProperty('place');
      await on.query('UPDATE @@.places SET until = 0');
      // It stands still, and is still connected.
      const second = await b.fleet?.enter({ ...ask, owner: 'b' });
      expect(second).toMatchObject({ output: { limit: 'concurrent' } });
    } finally {
      await a.close();
      await b.close();
      for (const user of users) {
        await on.query(`DROP OWNED BY ${user}`);
        await on.query(`DROP ROLE ${user}`);
      }
    }
  });
});

test('a request is not made in the name of nobody when nobody knows whose it is', async () => {
  let sent = 0;
  const away = fail('store_failed', 'the registry cannot be reached');
  const shared = createSharedRequests({
    limits: {
      enter: () => Promise.resolve({ ok: true, output: { place: '' } }),
      stay: () => Promise.resolve({ ok: true, output: [] }),
      exit: () => Promise.resolve({ ok: true, output: null }),
    },
    owner: 'w',
    clock: systemClock,
    random: systemRandom,
    tenantOf: () => Promise.resolve(away),
    priceOf: () => undefined,
  });
  const line = must(
    await shared.share(() =>
      Promise.resolve({
        ok: true,
        output: {
          ask: () => {
            sent += 1;
            return Promise.resolve(fail('none', 'nothing'));
          },
        },
      }),
    )({ provider: 'p', model: 'm' } as never, { __thread_id: 't' } as never),
  );
  const request = { reading: {}, maxTokens: 1 } as never;
  const answer = await line.ask(request, new AbortController().signal);
  expect(answer).toMatchObject({ error: { code: 'store_failed', detail: { transient: true } } });
  expect(sent).toBe(0);
});
