// The tests of threads that go from process to process, over a real server: what holds for a file holds there.
import { randomBytes } from 'node:crypto';
import { systemClock, systemRandom } from '@kernmantle/core/base';
import { got, onServer } from '@kernmantle/test-support/fleet-stage';
import pg from 'pg';
import { afterAll, inject, test } from 'vitest';
import { migrateStore } from '../src/postgres/migrate.ts';

const url = inject('postgres');
const made: string[] = [];

afterAll(async () => {
  if (url === '') return;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const schema of made) {
    await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
    await client.query(`DROP SCHEMA IF EXISTS ${schema}_jobs CASCADE`);
  }
  await client.end();
});

async function makePlace(): Promise<string> {
  const schema = `t_${randomBytes(6).toString('hex')}`;
  made.push(schema);
  const place = { url, schema };
  const shown = 'the test server';
  got(await migrateStore({ place, shown, clock: systemClock, random: systemRandom }));
  const address = new URL(url);
  address.searchParams.set('schema', schema);
  return address.href;
}

if (url === '') test.skip('threads over a server: there is no binary of PostgreSQL here', () => {});
else {
  onServer(makePlace);
  await import('../../core/tests/threads/fleet-handover.test.ts');
  await import('../../core/tests/threads/fleet-rest.test.ts');
  await import('../../core/tests/threads/fleet-forks.test.ts');
}
