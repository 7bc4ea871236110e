// A registry as the first form of the journal left it: recorded by that version, kept as text. It is
// carried over when it is opened; what ended is replayed, what waits goes on.
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { expectSame } from '../support/expect-same.ts';
import { type Stage, stage } from '../support/thread-project.ts';

const OLD = join(import.meta.dirname, '../support/registry-v1');
const DIRECTIVES = Object.fromEntries(
  readdirSync(OLD)
    .filter((name) => name.endsWith('.md'))
    .map((name) => [`.ai/directives/${name}`, readFileSync(join(OLD, name), 'utf8')]),
);

/** The recorded registry in the place of the one that this project's user has just made. */
function putOld(project: string): void {
  const file = join(project, '.ai/threads/registry.db');
  const made = new DatabaseSync(file);
  const own = made.prepare("SELECT name, value FROM about WHERE name IN ('id', 'proof')").all();
  made.close();
  for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
  mkdirSync(join(project, '.ai/threads'), { recursive: true });
  const old = new DatabaseSync(file);
  old.exec(readFileSync(join(OLD, 'registry.sql'), 'utf8').replaceAll('{project}', project));
  old.exec('PRAGMA application_id = 0x6b6d7468; PRAGMA user_version = 1');
  for (const { name, value } of own) {
    old.prepare('INSERT INTO about VALUES (?, ?)').run(name ?? null, value ?? null);
  }
  old.close();
}

async function openOld(script: Parameters<typeof stage>[1] = []): Promise<Stage> {
  const made = await stage(DIRECTIVES, script);
  await made.runtime.close();
  putOld(made.fixture.root);
  made.runtime = await made.fixture.open();
  const threads = await made.runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  made.threads = threads.output;
  return made;
}

async function idOf({ threads }: Stage, directive: string): Promise<string> {
  const page = await threads.store.query({ directive });
  return (page.ok && page.output.rows[0]?.id) || '';
}

test.each(['work', 'limited', 'parent'])(
  '`%s` of an old registry is replayed to its end',
  async (name) => {
    const made = await openOld();
    const report = await made.threads.replay(await idOf(made, name), {});
    if (!report.ok) throw new Error(report.error.detail.message);
    expectSame(report.output);
    expect(made.provider.count()).toBe(0);
  },
);

test('a thread that was paused goes on and hears what was said meanwhile', async () => {
  const made = await openOld([{ text: 'at last' }]);
  const id = await idOf(made, 'lunch');
  const done = await made.threads.resume(id);
  if (!done.ok) throw new Error(done.error.detail.message);
  expect(done.output.status).toBe('completed');
  expect(JSON.stringify(made.provider.requests[0]?.body)).toContain('go on please');
});

test('a thread that was interrupted goes on', async () => {
  const made = await openOld([{ text: 'back again' }]);
  const done = await made.threads.resume(await idOf(made, 'cut'));
  if (!done.ok) throw new Error(done.error.detail.message);
  expect(done.output.status).toBe('completed');
});

test('what waited for a person still waits, and is still asked', async () => {
  const made = await openOld();
  const page = await made.threads.store.query({ directive: 'asks' });
  expect(page.ok && page.output.rows[0]?.status).toBe('waiting');
});
