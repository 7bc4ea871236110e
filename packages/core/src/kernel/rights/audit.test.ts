import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import { type AuditFilter, createAudit, forwardAudit, withUserAudit } from './audit.ts';

const dir = mkdtempSync(join(tmpdir(), 'km-audit-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const clock = { now: () => Date.UTC(2030, 0, 1), monotonic: () => 0 };
const row = { surface: 'cli', caller: 'me', subject: 'policy', target: '', reason: '' };

test('rows come back in order, the latest of them', () => {
  const audit = createAudit(join(dir, 'deep/a.jsonl'), clock);
  for (const name of ['a', 'b', 'c']) {
    expect(
      audit.write({ ...row, operation: name, decision: name === 'b' ? 'denied' : 'allowed' }).ok,
    ).toBe(true);
  }
  const read = audit.read({ limit: 2 });
  expect(read.ok && read.output.map(({ operation }) => operation)).toEqual(['b', 'c']);
  const denied = audit.read({ limit: 5, decision: 'denied' });
  expect(denied.ok && denied.output).toEqual([
    { ...row, time: '2030-01-01T00:00:00.000Z', operation: 'b', decision: 'denied' },
  ]);
});

test('a file that is not there has no rows', () => {
  expect(createAudit(join(dir, 'none.jsonl'), clock).read({ limit: 5 })).toEqual({
    ok: true,
    output: [],
  });
});

test('a torn or foreign line costs that line only', () => {
  const file = join(dir, 'torn.jsonl');
  const audit = createAudit(file, clock);
  audit.write({ ...row, operation: 'first', decision: 'allowed' });
  appendFileSync(file, '{"operation":"to\nnull\n42\n');
  audit.write({ ...row, operation: 'second', decision: 'allowed' });
  const read = audit.read({ limit: 10 });
  expect(read.ok && read.output.map(({ operation }) => operation)).toEqual(['first', 'second']);
});

test('a row that cannot be written is an error that names the file', () => {
  writeFileSync(join(dir, 'file'), '');
  const audit = createAudit(join(dir, 'file/below.jsonl'), clock);
  const written = audit.write({ ...row, operation: 'x', decision: 'allowed' });
  expect(written).toMatchObject({ ok: false, error: { code: 'internal_error' } });
  expect(audit.read({ limit: 1 })).toMatchObject({ ok: false });
});

const operations = (audit: ReturnType<typeof createAudit>, filter: Partial<AuditFilter> = {}) => {
  const read = audit.read({ limit: 100, ...filter });
  return read.ok ? read.output.map(({ operation }) => operation) : read;
};

test('a row that came after one that was torn off is found', () => {
  const file = join(dir, 'torn-off.jsonl');
  const audit = createAudit(file, clock);
  audit.write({ ...row, operation: 'first', decision: 'allowed' });
  appendFileSync(file, '{"time":"2030-01-01T00:00:00.000Z","surface":"cli","call');
  audit.write({ ...row, operation: 'second', decision: 'allowed' });
  appendFileSync(file, '{"time":"2030-01-01T00:00:00.000Z","surf');
  expect(operations(audit)).toEqual(['first', 'second']);
});

test('what only looks like a row is none, and a row of an older version names no target', () => {
  const file = join(dir, 'foreign.jsonl');
  const old = { time: 't', surface: 's', caller: 'c', subject: 's', operation: 'o', reason: '' };
  const lines = [
    { ...old, decision: 'allowed' },
    { ...old, decision: 'maybe' },
    { ...old, decision: 'allowed', reason: 7 },
    { ...old, decision: 'allowed', target: ['x'] },
  ];
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  expect(createAudit(file, clock).read({ limit: 9 })).toEqual({
    ok: true,
    output: [{ ...old, decision: 'allowed', target: '' }],
  });
});

test('rows are found by surface, thread, tool and time, at any place of a long file', () => {
  const file = join(dir, 'long.jsonl');
  let now = Date.UTC(2030, 0, 1);
  const audit = createAudit(file, { now: () => now, monotonic: () => 0 });
  const early = { ...row, surface: 'thread', caller: 't1', operation: 'tool:fs/read_file' };
  audit.write({ ...early, decision: 'allowed' });
  audit.write({ ...row, operation: 'pause', target: 't1', decision: 'allowed' });
  // Many blocks of rows, and a line as long as several of them that is none.
  const filler = JSON.stringify({ time: 't', ...row, operation: 'filler', decision: 'failed' });
  appendFileSync(file, `${filler}\n`.repeat(9000));
  appendFileSync(file, `${'x'.repeat(1_000_000)}\n`);
  now += 1000;
  audit.write({ ...row, operation: 'last', decision: 'allowed' });
  expect(operations(audit, { limit: 2 })).toEqual(['filler', 'last']);
  expect(operations(audit, { thread: 't1' })).toEqual(['tool:fs/read_file', 'pause']);
  expect(operations(audit, { tool: 'read_file' })).toEqual(['tool:fs/read_file']);
  expect(operations(audit, { tool: 'd_file' })).toEqual([]);
  expect(operations(audit, { surface: 'thread' })).toEqual(['tool:fs/read_file']);
  const since = '2030-01-01T00:00:00.500Z'; // filler rows say 't', which is later
  expect(operations(audit, { since, decision: 'allowed' })).toEqual(['last']);
});

test("rows about keys and trust are the user's, and are read with those of every project", () => {
  let now = Date.UTC(2030, 0, 1);
  const ticking = { now: () => now++, monotonic: () => 0 };
  const user = createAudit(join(dir, 'home/trust/audit.jsonl'), ticking);
  const open = (name: string) => withUserAudit(createAudit(join(dir, name), ticking), user);
  const [one, two] = [open('one.jsonl'), open('two.jsonl')];
  const done = { ...row, decision: 'allowed' } as const;
  const byPerson = { ...done, subject: 'person' };
  for (const operation of ['sign', 'trust:add']) one.write({ ...byPerson, operation });
  for (const operation of ['keys', 'keys:import', 'keyset']) two.write({ ...byPerson, operation });
  // An operation that a person did not do belongs to its project, whatever it is called.
  two.write({ ...done, operation: 'trust:revoke' });
  expect(operations(user)).toEqual(['trust:add', 'keys', 'keys:import']);
  expect(operations(one)).toEqual(['sign', 'trust:add', 'keys', 'keys:import']);
  const all = ['trust:add', 'keys', 'keys:import', 'keyset', 'trust:revoke'];
  expect(operations(two)).toEqual(all);
  expect(operations(two, { limit: 3 })).toEqual(all.slice(-3));
  writeFileSync(join(dir, 'no-folder'), '');
  const broken = withUserAudit(user, createAudit(join(dir, 'no-folder/audit.jsonl'), ticking));
  expect(broken.write({ ...byPerson, operation: 'trust:add' }).ok).toBe(false);
  expect(broken.read({ limit: 1 }).ok).toBe(false);
  two.close?.();
});

test('rows that go elsewhere arrive in order; those that do not stand in the file', async () => {
  const file = createAudit(join(dir, 'forwarded.jsonl'), clock);
  const arrived: string[] = [];
  let isAway = false;
  const audit = forwardAudit(file, async (rows) => {
    await Promise.resolve();
    if (isAway) return fail('store_failed', 'nobody answers');
    arrived.push(...rows.map(({ operation }) => operation));
    return ok(null);
  });
  const write = (operation: string) => audit.write({ ...row, operation, decision: 'allowed' });
  const names = Array.from({ length: 1200 }, (_, at) => `row ${at}`);
  for (const name of names) write(name);
  expect(await audit.kept?.()).toEqual({ ok: true, output: null });
  expect(arrived).toEqual(names);
  expect(operations(file, {})).toEqual([]);
  isAway = true;
  write('lost 1');
  write('lost 2');
  expect(await audit.kept?.()).toEqual({ ok: true, output: null });
  expect(operations(file, {})).toEqual(['lost 1', 'lost 2']);
  isAway = false;
  write('x'.repeat(2000));
  await audit.kept?.();
  expect(arrived.at(-1)).toHaveLength(501);
});
