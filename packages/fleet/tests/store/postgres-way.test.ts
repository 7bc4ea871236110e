// The way to a real server: who may open what, and what becomes of writes when connections break.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { type Outcome, systemClock, systemRandom } from '@kernmantle/core/base';
import { pollMs } from '@kernmantle/test-support/soak';
import {
  type DamageRow,
  expectDamagedApproval,
  expectDamagedSignal,
  ODD_TEXTS,
  TORN_TEXTS,
} from '@kernmantle/test-support/store-suite/damaged-rows';
import {
  aThread,
  begin,
  codeOf,
  event,
  must,
  owner,
  writerOf,
} from '@kernmantle/test-support/store-suite/stage';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Store } from '../../../core/src/store/port.ts';
import { openSqliteStore } from '../../../core/src/store/sqlite/store.ts';
import { shownPlace } from '../../src/postgres/address.ts';
import { migrateStore } from '../../src/postgres/migrate.ts';
import { MIGRATIONS } from '../../src/postgres/schema.ts';
import { openPostgresStore } from '../../src/postgres/store.ts';

const url = inject('postgres');
const NEWEST = MIGRATIONS.length;
const schema = `t_${Buffer.from(systemRandom(6)).toString('hex')}`;
const identity = new Uint8Array(32).fill(7);

const optionsOf = (address: string, more: object = {}) => ({
  place: { url: address, schema },
  shown: shownPlace(address),
  clock: systemClock,
  random: systemRandom,
  identity,
  ...more,
});

async function onServer<R extends object>(text: string, address = url): Promise<R[]> {
  const client = new pg.Client({ connectionString: address });
  await client.connect();
  try {
    return (await client.query<R>(text)).rows;
  } finally {
    await client.end();
  }
}

/** A wire to the server that can be cut. */
async function makeWire() {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const server: Server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
      one.pipe(other);
    }
  });
  const listen = (at: number): Promise<void> =>
    new Promise((resolve) => server.listen(at, '127.0.0.1', resolve));
  await listen(0);
  const address = server.address();
  const here = typeof address === 'object' && address ? address.port : 0;
  const through = new URL(url);
  through.host = `127.0.0.1:${here}`;
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  return {
    address: through.href,
    cut,
    async stop(): Promise<void> {
      const over = new Promise((resolve) => server.close(resolve));
      cut();
      await over;
    },
    start: () => listen(here),
  };
}

const isThere = url !== '';
const reason = isThere ? '' : ' (skipped: there is no server for this platform)';

describe.skipIf(!isThere)(`the way to a server${reason}`, () => {
  beforeAll(async () => {
    // Several at once: one does it, the others find it done.
    const all = await Promise.all([1, 2, 3].map(() => migrateStore(optionsOf(url))));
    expect(all.map((one) => must(one).from).toSorted((a, b) => a - b)).toEqual([0, NEWEST, NEWEST]);
  });
  afterAll(async () => {
    await onServer(`DROP SCHEMA ${schema} CASCADE; DROP SCHEMA ${schema}_jobs CASCADE`);
  });

  async function refusal(address: string, more: object = {}): Promise<string> {
    const answer = await openPostgresStore(optionsOf(address, more));
    if (answer.ok) await answer.output.close();
    const text = JSON.stringify(answer);
    expect(text).not.toContain(new URL(url).password);
    return answer.ok ? 'ok' : `${answer.error.code}: ${answer.error.detail.message}`;
  }

  test('what is wrong with an address is said at once, and its password nowhere', async () => {
    const parts = new URL(url);
    const other = (change: (one: URL) => void): string => {
      const copy = new URL(url);
      change(copy);
      return copy.href;
    };
    expect(await refusal(url)).toBe('ok');
    expect(await refusal(other((one) => void (one.port = '1')))).toMatch(
      /^store_failed: the registry at \S+ cannot be reached \(ECONNREFUSED\)$/,
    );
    expect(await refusal(other((one) => void (one.pathname = '/nowhere')))).toMatch(
      /has no database of this name$/,
    );
    expect(await refusal(other((one) => void (one.password = `${parts.password}-x`)))).toMatch(
      /refuses the login of this user; check name and password$/,
    );
    const nowhere = { place: { url, schema: 'nothing_here' } };
    expect(await refusal(url, nowhere)).toMatch(
      /^store_failed: schema `nothing_here` of \S+ has no registry; run the migration first$/,
    );
  });

  test('a stranger may not come in, and neither may a user without rights', async () => {
    expect(await refusal(url, { identity: new Uint8Array(32).fill(8) })).toMatch(
      /^store_foreign: /,
    );
    const name = `${schema}_guest`;
    await onServer(`CREATE ROLE ${name} LOGIN PASSWORD 'guest'`);
    const guest = new URL(url);
    [guest.username, guest.password] = [name, 'guest'];
    expect(await refusal(guest.href)).toMatch(/this user cannot use schema/);
    await onServer(`GRANT USAGE ON SCHEMA ${schema} TO ${name}`);
    expect(await refusal(guest.href)).toMatch(/this user cannot read about, /);
    await onServer(`GRANT SELECT ON ALL TABLES IN SCHEMA ${schema} TO ${name}`);
    const reader = must(await openPostgresStore(optionsOf(guest.href)));
    expect(must(await reader.query())).toEqual({ rows: [] });
    expect(await reader.createThread(aThread('t'))).toMatchObject({
      error: {
        code: 'store_failed',
        detail: { message: expect.stringMatching(/denies this user a required right$/) },
      },
    });
    await reader.close();
    await onServer(`DROP OWNED BY ${name}; DROP ROLE ${name}`);
  });

  test('a form that is not known is refused, also by a migration', async () => {
    const set = (version: number, ...names: string[]) =>
      onServer(`UPDATE ${schema}.about SET value = '${version}'
        WHERE name IN (${names.map((name) => `'${name}'`).join()})`);
    await set(99, 'schema', 'oldest');
    expect(await refusal(url)).toContain(`(schema 99, this one reads ${NEWEST})`);
    expect(codeOf(await migrateStore(optionsOf(url)))).toBe('store_newer');
    // A newer one that still lets this one work: only its tables are left alone.
    await set(1, 'oldest');
    expect(await refusal(url)).toBe('ok');
    expect(codeOf(await migrateStore(optionsOf(url)))).toBe('store_newer');
    await set(0, 'schema');
    expect(await refusal(url)).toMatch(/run the migration first$/);
    await set(NEWEST, 'schema', 'oldest');
    expect(must(await migrateStore(optionsOf(url)))).toEqual({ from: NEWEST, to: NEWEST });
  });

  test('a migration keeps the accounts and the open reservations of an older form', async () => {
    const older = `${schema}_older`;
    const at = { place: { url, schema: older }, identity: undefined };
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`CREATE SCHEMA ${older}; SET search_path = ${older};
      CREATE TABLE about (name text PRIMARY KEY, value text NOT NULL);
      INSERT INTO about VALUES ('schema', '2'), ('oldest', '1'), ('journal', '2');
      ${MIGRATIONS.slice(0, 2).join('')}
      INSERT INTO budgets VALUES ('old', '{NULL,10,NULL,NULL,9223372036854775807}', '{0,1,0,0,2}', '{0,7,0,0,0}');
      INSERT INTO reservations VALUES ('old', 'b', '{0,4,0,0,0}', 'a', true), ('old', 'a', '{0,3,0,0,0}', NULL, false)`);
    expect(must(await migrateStore(optionsOf(url, at)))).toEqual({ from: 2, to: NEWEST });
    const store = must(await openPostgresStore(optionsOf(url, at)));
    expect(must(await store.budgets(['old']))).toMatchObject([
      {
        limits: { tokens: 10n, spend: 2n ** 63n - 1n },
        used: { tokens: 1n, spend: 2n },
        reserved: { tokens: 7n, spend: 0n },
      },
    ]);
    await store.close();
    const { rows } = await client.query<{ open: object }>(
      "SELECT account -> 'open' AS open FROM budgets",
    );
    expect(rows[0]?.open).toMatchObject([
      { key: 'a', amounts: { tokens: '3' } },
      { key: 'b', amounts: { tokens: '4' }, from: 'a', standing: 1 },
    ]);
    await client.query(`DROP SCHEMA ${older} CASCADE; DROP SCHEMA ${older}_jobs CASCADE`);
    await client.end();
  });

  const journal = async (store: Store, id: string): Promise<unknown[]> =>
    must(await store.read(id, { limit: 10_000 })).map(({ seq, data }) => [seq, data['text']]);

  test.each([
    ['cut', '{"torn'],
    ['empty', ''],
    ['null', 'null'],
    ['list', '[1]'],
    ['text', '"text"'],
  ])(
    'one event or one cost that is %s hides neither the journal nor the list',
    async (name, odd) => {
      const store = must(await openPostgresStore(optionsOf(url)));
      const [torn, whole] = [`torn_${name}`, `whole_${name}`];
      const more = { project: `damaged_${name}`, title: 'look' };
      const writer = await begin(store, torn, more);
      await writer.must({ events: [event('a')] });
      await writer.must({ events: [event('b')], cost: { turns: 2 } });
      await (await begin(store, whole, more)).must({ cost: { turns: 3 } });
      const client = new pg.Client({ connectionString: url, options: `-c search_path=${schema}` });
      await client.connect();
      const change = `UPDATE thread_events SET data = $1 WHERE seq = $3
        AND thread = (SELECT number FROM threads WHERE id = $2)`;
      await client.query(change, [odd, torn, writer.seq - 1]);
      await client.query('UPDATE threads SET cost = $1 WHERE id = $2', [odd, torn]);
      await client.end();
      const data = must(await store.read(torn, { last: 2 })).map((one) => one.data);
      expect(data).toEqual([{}, { text: 'b' }]);
      const watched: unknown[] = [];
      const from = { thread: torn, seq: writer.seq - 2 };
      for await (const one of store.watch(from, AbortSignal.timeout(pollMs))) {
        if (watched.push(one.data) === 2) break;
      }
      expect(watched).toEqual(data);
      const { rows } = must(await store.query({ project: more.project, limit: 10 }));
      expect(new Map(rows.map(({ id, cost, title }) => [id, [cost, title]]))).toEqual(
        new Map([
          [torn, [{}, '(its cost cannot be read) look']],
          [whole, [{ turns: 3 }, 'look']],
        ]),
      );
      expect(must(await store.thread(torn)).cost).toEqual({});
      await writer.must({ cost: { turns: 4 }, status: 'completed', release: true });
      expect(must(await store.thread(torn))).toMatchObject({ cost: { turns: 4 }, title: 'look' });
      await store.close();
    },
  );

  const damage: DamageRow = async (table, column, where, text) => {
    const client = new pg.Client({ connectionString: url, options: `-c search_path=${schema}` });
    await client.connect();
    await client.query(`UPDATE ${table} SET ${column} = $1 WHERE ${where}`, [text]);
    await client.end();
  };

  test('one approval or signal that is damaged hides no other, and decides nothing', async () => {
    const store = must(await openPostgresStore(optionsOf(url)));
    for (const [at, odd] of ODD_TEXTS.entries()) {
      await expectDamagedApproval(store, `bound_${at}`, damage, 'binding', odd);
      await expectDamagedApproval(store, `shown_${at}`, damage, 'shown', odd);
    }
    for (const [at, odd] of TORN_TEXTS.entries()) {
      await expectDamagedApproval(store, `answer_${at}`, damage, 'answer', odd);
      await expectDamagedSignal(store, `signal_${at}`, damage, odd);
    }
    await store.close();
  });

  test('a refusal says what one of a file says, and nothing else', async () => {
    const store = must(await openPostgresStore(optionsOf(url)));
    const file = must(await openSqliteStore({ file: ':memory:', clock: systemClock }));
    const refusals = async (on: Store): Promise<unknown[]> => {
      const writer = await begin(on, 'same', { budget: { tokens: 5n, spend: 9n } });
      await writer.must({ reserve: [{ key: 'k', amounts: { tokens: 2n }, standing: true }] });
      const { epoch, seq } = writer;
      const answers: Outcome<unknown>[] = [
        await on.commit('same', { expect: { epoch: 7, seq }, events: [event()] }),
        await on.commit('same', { expect: { epoch, seq: 9 }, events: [event()] }),
        await on.commit('nobody', { expect: { epoch, seq }, events: [event()] }),
        await writer.commit({ charge: { tokens: 4n } }),
        await writer.commit({ charge: { spend: 10n } }),
        await writer.commit({ reserve: [{ key: 'd', amounts: { tokens: 3n }, from: 'k' }] }),
        await writer.commit({ reserve: [{ key: 'k', amounts: {} }] }),
        await writer.commit({ settle: [{ key: 'none', actual: {} }] }),
        await writer.commit({ raise: { tokens: 1n } }),
        await writer.commit({ raise: { spawns: 1n } }),
        await writer.commit({ children: [aThread('same')] }),
        await writer.commit({ use: [{ approval: 'none', binding: {} }] }),
        await on.claim('same', owner('there')),
        await on.artifact('same', 'none'),
      ];
      await writer.must({ status: 'completed', release: true });
      answers.push(await on.claim('same', owner()));
      const word = { thread: 'same', kind: 'message', payload: 1, key: 'k', by: 'me' };
      answers.push(await on.signal(word), await on.signal({ ...word, thread: 'nobody' }));
      return answers.map((answer) => (answer.ok ? 'ok' : answer.error));
    };
    const [here, there] = [await refusals(store), await refusals(file)];
    // Until when is a matter of the clock.
    const plain = (all: unknown[]) =>
      JSON.parse(JSON.stringify(all), (key, value) => (key === 'until' ? 0 : value));
    expect(plain(here)).toEqual(plain(there));
    expect(here).not.toContain('ok');
    await Promise.all([store.close(), file.close()]);
  });

  test('writers go on while the server ends their connections, and everything is there once', async () => {
    // Others are at the same server.
    const named = new URL(url);
    named.searchParams.set('application_name', schema);
    const store = must(await openPostgresStore(optionsOf(named.href, { connections: 4 })));
    const ids = Array.from({ length: 6 }, (_, index) => `w${index}`);
    const over = new AbortController();
    const killer = (async () => {
      while (!over.signal.aborted) {
        await onServer(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = '${schema}' AND pid <> pg_backend_pid() AND random() < 0.5`);
      }
    })();
    await Promise.all(
      ids.map(async (id) => {
        const writer = await begin(store, id, { budget: { tokens: 1000n } });
        for (let count = 1; count <= 20; count++) {
          await writer.must({ events: [event(`${count}`)], charge: { tokens: 1n } });
        }
      }),
    );
    over.abort();
    await killer;
    for (const id of ids) {
      const wanted = Array.from({ length: 20 }, (_, index) => [index + 2, `${index + 1}`]);
      expect((await journal(store, id)).slice(1)).toEqual(wanted);
    }
    const states = must(await store.budgets(ids));
    expect(states.map(({ used }) => used.tokens)).toEqual(ids.map(() => 20n));
    await store.close();
  });

  test('a server that is away is waited for, by who writes, reads and waits for news', async () => {
    const wire = await makeWire();
    const store = must(await openPostgresStore(optionsOf(wire.address)));
    const heard: string[] = [];
    store.onSignal(({ kind }) => void heard.push(kind));
    const writer = writerOf(store, must(await store.createThread(aThread('away'))));
    const watching = new AbortController();
    const seen: number[] = [];
    const watched = (async () => {
      for await (const { seq } of store.watch({ thread: 'away', seq: 0 }, watching.signal)) {
        seen.push(seq);
      }
    })();
    await expect.poll(() => seen).toEqual([1]);
    await wire.stop();
    const asked = writer.commit({ events: [event('while it is away')] });
    const read = store.thread('away');
    await wire.start();
    expect(codeOf(await asked)).toBe('ok');
    expect(must(await read).id).toBe('away');
    // From elsewhere, to who was cut off.
    const other = must(await openPostgresStore(optionsOf(url)));
    must(await other.signal({ thread: 'away', kind: 'message', payload: 1, key: 'k', by: 'me' }));
    await expect.poll(() => heard).toEqual(['message']);
    await expect.poll(() => seen).toEqual([1, 2]);
    expect(codeOf(await other.claim('away', owner('there')))).toBe('lease_held');
    watching.abort();
    await watched;
    await wire.stop();
    expect(codeOf(await openPostgresStore(optionsOf(wire.address)))).toBe('store_failed');
    await wire.start();
    await Promise.all([store.close(), other.close()]);
    await wire.stop();
  });
});
