// `store copy` as a person says it: threads of a project go to a real server and come back.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { directive } from '@kernmantle/test-support/thread-project';
import { afterAll, afterEach, beforeEach, describe, expect, inject, test } from 'vitest';

const server = inject('postgres');
const schemas: string[] = [];
let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture({
    ...directive('look'),
    'replies.yaml': 'replies:\n  - text: seen\n',
  });
  fixture.write(join(fixture.home, 'policy.yaml'), TRUSTING);
});
afterEach(() => fixture.remove());
afterAll(async () => {
  if (schemas.length === 0) return;
  const { default: pg } = await import('pg');
  const client = new pg.Client(server);
  await client.connect();
  for (const schema of schemas) {
    await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
    await client.query(`DROP SCHEMA IF EXISTS ${schema}_jobs CASCADE`);
  }
  await client.end();
});

const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
const registry = () => join(fixture.root, '.ai/threads/registry.db');

async function runHere(): Promise<string> {
  const ran = await km('run', 'look', '--replies', 'replies.yaml', '--json');
  expect(ran.code, ran.output).toBe(0);
  const listed = await km('threads', 'ls', '--json');
  return /"id": ?"([\w-]+)"/.exec(listed.output)?.[1] ?? '';
}

test('a registry is copied to another file, and says what to do when it cannot', async () => {
  const id = await runHere();
  const copied = await km('store', 'copy', '.', 'there.db');
  expect(copied.code, copied.output).toBe(0);
  expect(copied.output).toContain('copied 1 trees of threads');
  expect(copied.output).toContain('use only one of the two');
  const again = await km('store', 'copy', '.', 'there.db');
  expect(again.output).toContain('move it away');
  renameSync(join(fixture.root, 'there.db'), registry());
  expect((await km('threads', 'show', id)).output).toContain('completed');
  expect((await km('audit')).output).toContain('store:copy');
  expect((await km('store', 'copy', 'none.db', 'x.db')).output).toContain('not found');
  expect((await km('store', 'copy', 'mysql://me:word@host/x', '.')).output).not.toContain('word');
});

describe.skipIf(server === '')('with a server (needs PostgreSQL)', () => {
  test('threads go there and come back, and no password is told', async () => {
    const id = await runHere();
    const schema = `t_${randomBytes(6).toString('hex')}`;
    schemas.push(schema);
    const address = `${server}?schema=${schema}`;
    const said: string[] = [];
    const tell = async (...words: string[]) => {
      const ran = await km(...words);
      said.push(ran.output);
      return ran;
    };
    expect((await tell('store', 'copy', '.', address)).output).toContain('km store migrate');
    expect((await tell('store', 'migrate', '--store', address)).code).toBe(0);
    expect((await tell('store', 'copy', '.', address)).output).toContain('init --id');
    expect((await km('init', '--id')).code).toBe(0);
    const labels = join(fixture.root, '.ai/labels.jsonl');
    const lines = ['a b.txt', '../x'].map((name) =>
      JSON.stringify({ path: join(fixture.root, name), hash: 'h', labels: ['untrusted'] }),
    );
    fixture.write(labels, `${lines.join('\n')}\n`);
    const copied = await tell('store', 'copy', '.', address, '--json');
    expect(copied.code, copied.output).toBe(0);
    expect(JSON.parse(copied.output)).toMatchObject({ output: { trees: 1, rows: { threads: 1 } } });
    const listed = await tell('threads', 'ls', '--store', address);
    expect(listed.output).toContain(id);
    expect((await tell('store', 'copy', '.', address)).output).toContain(id);
    renameSync(registry(), `${registry()}.old`);
    renameSync(labels, `${labels}.old`);
    const back = await tell('store', 'copy', address, registry());
    expect(back.code, back.output).toBe(0);
    expect(existsSync(registry())).toBe(true);
    expect(readFileSync(labels, 'utf8').split('\n').filter(Boolean)).toEqual(lines);
    expect((await tell('threads', 'show', id)).output).toContain('completed');
    expect((await tell('replay', id)).code).toBe(0);
    said.push(readFileSync(join(fixture.root, '.ai/audit.jsonl'), 'utf8'));
    const { password } = new URL(server);
    for (const text of said) expect(text).not.toContain(password);
  });
});
