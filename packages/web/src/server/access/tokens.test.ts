import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openTokens, type TokenStore } from './tokens.ts';

let folder: string;
let file: string;
let now = 0;
const clock = { now: () => now };
const open = (project = '/projects/a'): TokenStore =>
  openTokens({ home: join(folder, 'home'), project }, clock);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'km-tokens-'));
  file = join(folder, 'home', 'web-tokens.jsonl');
  now = Date.parse('2026-01-01T00:00:00Z');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function make(store = open(), days = 30) {
  const made = store.add({ name: 'ci', role: 'steer', days });
  if (!made.ok) throw new Error(made.error.detail.message);
  return made.output;
}

test('a token is shown once; the file has its hash and is closed to others', () => {
  const { token, ...row } = make();
  const kept = readFileSync(file, 'utf8');
  expect(kept).not.toContain(token);
  expect(kept).not.toContain(token.slice(4, 20));
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(row).toMatchObject({ name: 'ci', role: 'steer', last: token.slice(-4) });
  expect(open().list()).toEqual({ ok: true, output: [row] });
  expect(open().find(token)).toEqual({ ok: true, output: row });
  expect(open().find(`${token}x`)).toEqual({ ok: true, output: undefined });
});

test('it opens one project, until it is over or taken away by whatever process', () => {
  const running = open();
  const { token, id } = make();
  expect(open('/projects/b').find(token)).toEqual({ ok: true, output: undefined });
  expect(open('/projects/b').remove(id)).toMatchObject({ ok: false, error: { code: 'not_found' } });
  expect(running.counts(id)).toBe(true);
  now += 30 * 24 * 60 * 60 * 1000 - 1;
  expect(running.counts(id)).toBe(true);
  now += 1;
  expect(running.counts(id)).toBe(false);
  expect(running.find(token)).toEqual({ ok: true, output: undefined });
  const other = make();
  expect(running.find(other.token).ok && running.counts(other.id)).toBe(true);
  expect(open().remove(other.id)).toEqual({ ok: true, output: null });
  expect(running.find(other.token)).toEqual({ ok: true, output: undefined });
});

test('a line that was cut off costs itself, one that cannot be read closes the door', () => {
  const { token } = make();
  appendFileSync(file, '{"op":"add","id":"tok');
  const next = make();
  expect(open().counts(next.id)).toBe(true);
  expect(open().find(token)).toMatchObject({ ok: true, output: { role: 'steer' } });
  appendFileSync(file, '{"op":"add","id":"token_x","role":"root"}\n');
  expect(open().find(token)).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  expect(open().counts(next.id)).toBe(false);
});

test('a file that others may read or that is a link is not taken', () => {
  const { token } = make();
  chmodSync(file, 0o644);
  expect(open().find(token)).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  chmodSync(file, 0o600);
  const home = join(folder, 'other');
  mkdirSync(home);
  symlinkSync(file, join(home, 'web-tokens.jsonl'));
  const linked = openTokens({ home, project: '/projects/a' }, clock);
  expect(linked.find(token)).toMatchObject({ ok: false });
  expect(linked.add({ name: '', role: 'view', days: 1 })).toMatchObject({ ok: false });
});

test.each([
  { name: '', role: 'admin', days: 1 },
  { name: '', role: 'view', days: 0 },
  { name: '', role: 'view', days: 1.5 },
  { name: '', role: 'view', days: 100_000 },
  { name: 'a\nb', role: 'view', days: 1 },
  { name: 'x'.repeat(101), role: 'view', days: 1 },
])('%j is no token', (wanted) => {
  expect(open().add(wanted)).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
});
