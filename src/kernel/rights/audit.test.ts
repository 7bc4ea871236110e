import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createAudit } from './audit.ts';

const dir = mkdtempSync(join(tmpdir(), 'km-audit-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const clock = { now: () => Date.UTC(2030, 0, 1), monotonic: () => 0 };
const row = { surface: 'cli', caller: 'me', subject: 'policy', reason: '' };

test('rows come back in order, the latest of them', () => {
  const audit = createAudit(join(dir, 'deep/a.jsonl'), clock);
  for (const name of ['a', 'b', 'c']) {
    expect(
      audit.write({ ...row, operation: name, decision: name === 'b' ? 'denied' : 'allowed' }).ok,
    ).toBe(true);
  }
  const read = audit.read(2);
  expect(read.ok && read.output.map(({ operation }) => operation)).toEqual(['b', 'c']);
  const denied = audit.read(5, 'denied');
  expect(denied.ok && denied.output).toEqual([
    { ...row, time: '2030-01-01T00:00:00.000Z', operation: 'b', decision: 'denied' },
  ]);
});

test('a file that is not there has no rows', () => {
  expect(createAudit(join(dir, 'none.jsonl'), clock).read(5)).toEqual({ ok: true, output: [] });
});

test('a torn or foreign line costs that line only', () => {
  const file = join(dir, 'torn.jsonl');
  const audit = createAudit(file, clock);
  audit.write({ ...row, operation: 'first', decision: 'allowed' });
  appendFileSync(file, '{"operation":"to\nnull\n42\n');
  audit.write({ ...row, operation: 'second', decision: 'allowed' });
  const read = audit.read(10);
  expect(read.ok && read.output.map(({ operation }) => operation)).toEqual(['first', 'second']);
});

test('a row that cannot be written is an error that names the file', () => {
  writeFileSync(join(dir, 'file'), '');
  const audit = createAudit(join(dir, 'file/below.jsonl'), clock);
  const written = audit.write({ ...row, operation: 'x', decision: 'allowed' });
  expect(written).toMatchObject({ ok: false, error: { code: 'internal_error' } });
  expect(audit.read(1)).toMatchObject({ ok: false });
});
