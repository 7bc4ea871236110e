import { execFile } from 'node:child_process';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKeyFolder } from './key-folder.ts';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-keys-'));
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

test('the first use makes a key that later uses find', () => {
  const keys = join(dir, 'a', 'b');
  const first = createKeyFolder(keys).signingKey();
  const second = createKeyFolder(keys).signingKey();
  expect(first.ok && second.ok && first.output.id === second.output.id).toBe(true);
  expect(readdirSync(keys)).toEqual(['signing.pem']);
});

test('a private key can be read by its owner only', () => {
  const keys = join(dir, 'keys');
  const before = process.umask(0);
  try {
    expect(createKeyFolder(keys).signingKey().ok).toBe(true);
  } finally {
    process.umask(before);
  }
  expect(statSync(join(keys, 'signing.pem')).mode & 0o777).toBe(0o600);
  expect(statSync(keys).mode & 0o777).toBe(0o700);
});

test('items and tokens are signed by different keys', () => {
  const folder = createKeyFolder(dir);
  const [signing, tokens] = [folder.signingKey(), folder.tokenKey()];
  expect(signing.ok && tokens.ok && signing.output.id !== tokens.output.id).toBe(true);
  const list = folder.list();
  expect(list.ok && list.output.map(({ name }) => name)).toEqual(['signing', 'tokens']);
});

test('listing makes no key', () => {
  const keys = join(dir, 'none');
  expect(createKeyFolder(keys).list()).toEqual({ ok: true, output: [] });
  expect(readdirSync(dir)).toEqual([]);
});

test('a key that others can read is refused with the way out', () => {
  expect(createKeyFolder(dir).signingKey().ok).toBe(true);
  chmodSync(join(dir, 'signing.pem'), 0o644);
  const read = createKeyFolder(dir).signingKey();
  expect(!read.ok && read.error.detail.message).toContain('chmod 600');
  expect(createKeyFolder(dir).list().ok).toBe(false);
});

test('a damaged key is reported and never replaced', () => {
  const file = join(dir, 'signing.pem');
  writeFileSync(file, '-----BEGIN PRIVATE KEY-----\nAAAA', { mode: 0o600 });
  const read = createKeyFolder(dir).signingKey();
  expect(!read.ok && read.error.code).toBe('config_invalid');
  expect(statSync(file).size).toBe(32);
});

test('a folder that cannot be made, or a link to nowhere, is an answer and not a crash', () => {
  writeFileSync(join(dir, 'file'), '');
  const blocked = createKeyFolder(join(dir, 'file', 'keys')).signingKey();
  expect(!blocked.ok && blocked.error.code).toBe('config_invalid');
  symlinkSync(join(dir, 'missing', 'x.pem'), join(dir, 'signing.pem'));
  const dangling = createKeyFolder(dir).signingKey();
  expect(!dangling.ok && dangling.error.code).toBe('config_invalid');
  expect(readdirSync(dir).filter((name) => name.endsWith('.draft'))).toEqual([]);
});

test('processes that start together agree on one key', async () => {
  const module = new URL('./key-folder.ts', import.meta.url).href;
  const code = `
    const { createKeyFolder } = await import(${JSON.stringify(module)});
    const key = createKeyFolder(process.argv[1]).signingKey();
    console.log(key.ok ? key.output.id : JSON.stringify(key.error));
  `;
  const start = () =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', code, dir]);
  const runs = await Promise.all(Array.from({ length: 6 }, start));
  const ids = new Set(runs.map(({ stdout }) => stdout.trim()));
  expect([...ids]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)]);
  expect(readdirSync(dir)).toEqual(['signing.pem']);
});
