// A schema with everything that machines share, and a clock that a test moves.
import { randomBytes } from 'node:crypto';
import { systemClock, systemRandom } from '@kernmantle/core/base';
import type { Fleet } from '@kernmantle/core/store';
import { type Database, openDatabase } from '../../src/postgres/connection.ts';
import { createFleet } from '../../src/postgres/fleet.ts';
import { migrateStore } from '../../src/postgres/migrate.ts';

export interface SharedDatabase {
  readonly database: Database;
  readonly fleet: Fleet;
  readonly schema: string;
  query<R extends object>(text: string, ...values: unknown[]): Promise<R[]>;
  /** The database's clock stands still from now on, and moves by hand. */
  setClock(now: number): Promise<void>;
  /** It goes on, so much ahead. */
  aheadBy(ms: number): Promise<void>;
  drop(): Promise<void>;
}

const SETTINGS = { shown: 'a server of tests', clock: systemClock, random: systemRandom };

export async function openShared(url: string, schema: string) {
  const opened = await openDatabase({ ...SETTINGS, place: { url, schema } });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  return {
    database: opened.output,
    fleet: createFleet(opened.output, { follow: async () => {} }, systemClock, 2),
  };
}

export async function createSharedDatabase(url: string): Promise<SharedDatabase> {
  const schema = `t_${randomBytes(6).toString('hex')}`;
  const migrated = await migrateStore({ ...SETTINGS, place: { url, schema } });
  if (!migrated.ok) throw new Error(migrated.error.detail.message);
  const { database, fleet } = await openShared(url, schema);
  async function query<R extends object>(text: string, ...values: unknown[]): Promise<R[]> {
    const rows = await database.write((sql) => sql.executeSql(text, values), { plain: true });
    if (!rows.ok) throw new Error(rows.error.detail.message);
    return rows.output.rows as R[];
  }
  const clockOf = (value: string) =>
    `CREATE OR REPLACE FUNCTION km_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT ${value} $$`;
  return {
    database,
    fleet,
    schema,
    query,
    async setClock(now) {
      await query(clockOf(`${now}::bigint`));
    },
    async aheadBy(ms) {
      const real = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
      await query(clockOf(`${real} + ${ms}`));
    },
    async drop() {
      await query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      await query(`DROP SCHEMA IF EXISTS ${schema}_jobs CASCADE`);
      await database.close();
    },
  };
}
