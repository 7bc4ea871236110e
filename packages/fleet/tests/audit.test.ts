// What runs over a server leaves its traces there: rows of the audit, labels of files, places.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { directive, execute, READ, read } from '@kernmantle/test-support/thread-project';
import { describe, expect, inject, test } from 'vitest';
import { got, openCliStage } from './support/cli-stage.ts';
import { openShared } from './support/shared-database.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const WRITE = directive('put', {
  permissions:
    '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>',
});
const PUT = [
  { tool_calls: [execute('fs/write_file', { path: 'out/a.txt', content: 'made' })] },
  { text: 'done' },
];

describe.skipIf(server === '')('traces over a server (needs PostgreSQL)', () => {
  const schemaOf = (address: string): string => new URL(address).searchParams.get('schema') ?? '';

  test('calls and refusals outside of threads are in the registry before they are answered', async () => {
    const { km, fixture, address } = await openCliStage(server, LOOK, []);
    await km('store', 'migrate');
    const runtime = await fixture.open({ openStore: undefined as never, store: address });
    for (const path of ['notes/a.txt', 'notes/missing.txt', '../outside.txt']) {
      const parameters = { path };
      await runtime.call('execute', { item_type: 'tool', item_id: 'fs/read_file', parameters });
    }
    const store = got(await runtime.registry.open());
    const rows = got(await store.auditRows({ limit: 10, surface: 'library' }));
    const told = rows.map(({ target, decision }) => [target, decision]);
    expect(told).toEqual([
      ['notes/a.txt', 'allowed'],
      ['notes/missing.txt', 'failed'],
      ['../outside.txt', 'denied'],
    ]);
    // A row that nobody waits for is there when the runtime is closed.
    const about = { surface: 'web', caller: 'ann', subject: 'person', operation: 'look' };
    runtime.audit.write({ ...about, target: 'last', decision: 'allowed', reason: '' });
    await runtime.close();
    expect((await km('audit', '--json')).output).toContain('"last"');
    const file = join(fixture.root, '.ai', 'audit.jsonl');
    expect(existsSync(file) ? readFileSync(file, 'utf8') : '').not.toContain('missing.txt');
  });

  test('a thread on a worker leaves what its files are made of, and no place', async () => {
    const { km, work, fixture, address } = await openCliStage(server, WRITE, PUT);
    await km('store', 'migrate');
    await km('store', 'limits', 'provider:anthropic', '--concurrent', '1');
    await work();
    expect(await km('run', 'put')).toMatchObject({ code: 0 });
    const { database, fleet } = await openShared(server, schemaOf(address));
    expect(got(await fleet.limits())).toMatchObject([{ scope: 'provider:anthropic' }]);
    const query = async (text: string) =>
      got(await database.read((sql) => sql.executeSql(text))).rows;
    const lines = await query('SELECT text FROM label_rows');
    expect(JSON.stringify(lines)).toContain('./out/a.txt');
    expect(JSON.stringify(lines)).not.toContain(fixture.root);
    expect(existsSync(join(fixture.root, '.ai', 'labels.jsonl'))).toBe(false);
    expect(await query('SELECT sum(requests)::int AS requests FROM rate_buckets')).toEqual([
      { requests: 2 },
    ]);
    await database.close();
  });

  test('a thread that waits for others says so, and goes on when there is room', async () => {
    const { km, work, address } = await openCliStage(server, LOOK, [
      read('notes/a.txt'),
      { text: 'seen' },
    ]);
    await km('store', 'migrate');
    const { database, fleet } = await openShared(server, schemaOf(address));
    got(await fleet.setLimit({ scope: 'provider:anthropic', concurrent: 1 }));
    const about = { provider: 'anthropic', tenant: '', owner: 'another', tokens: 1, spend: 1n };
    const held = got(await fleet.enter({ ...about, ttlMs: 600_000 }));
    await work();
    const running = km('run', 'look');
    const said = async (): Promise<boolean> => {
      const rows = await database.read((sql) =>
        sql.executeSql("SELECT data FROM thread_events WHERE type = 'retry'"),
      );
      return JSON.stringify(got(rows).rows).includes('shared_limit');
    };
    while (!(await said())) await new Promise((resolve) => setTimeout(resolve, 100));
    got(await fleet.exit('place' in held ? held.place : '', { tokens: 1, spend: 1n }));
    const ran = await running;
    expect(ran.output).toContain('seen');
    expect(ran.code).toBe(0);
    await database.close();
  });
});
