import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  aThread,
  codeOf,
  makeClock,
  makePlace,
  must,
  type TestPlace,
} from '../../../tests/support/registry.ts';
import { openStore } from '../store.ts';

let place: TestPlace;
beforeEach(() => {
  place = makePlace();
  mkdirSync(dirname(place.file), { recursive: true });
});
afterEach(() => place.remove());

const open = () => openStore({ file: place.file, clock: makeClock() });

test('a registry is made for its owner only and opened again', () => {
  const first = must(open());
  must(first.createThread(aThread('a')));
  expect(statSync(place.file).mode & 0o077).toBe(0);
  expect(statSync(`${place.file}-wal`).mode & 0o077).toBe(0);
  first.close();
  first.close();
  expect(codeOf(first.thread('a'))).toBe('store_closed');
  expect(codeOf(first.createThread(aThread('b')))).toBe('store_closed');
  const second = must(open());
  expect(must(second.thread('a')).directive).toBe('deploy');
  second.close();
});

test('a newer schema is refused politely and left alone', () => {
  must(open()).close();
  const raw = new DatabaseSync(place.file);
  raw.exec('PRAGMA user_version = 99');
  raw.close();
  const before = readFileSync(place.file);
  expect(open()).toMatchObject({
    ok: false,
    error: { code: 'store_newer', detail: { schema: 99 } },
  });
  expect(readFileSync(place.file).equals(before)).toBe(true);
});

test('a file that is no registry is refused and left alone', () => {
  writeFileSync(place.file, 'hello '.repeat(1000));
  expect(codeOf(open())).toBe('store_failed');
  expect(readFileSync(place.file, 'utf8')).toBe('hello '.repeat(1000));
});

test("another program's database is refused and left alone", () => {
  const raw = new DatabaseSync(place.file);
  raw.exec('CREATE TABLE t (x)');
  raw.close();
  const before = readFileSync(place.file);
  expect(codeOf(open())).toBe('store_failed');
  expect(readFileSync(place.file).equals(before)).toBe(true);
});

test('a registry that brings triggers is refused: a file is data, not code', () => {
  must(open()).close();
  const raw = new DatabaseSync(place.file);
  raw.exec(`CREATE TRIGGER t AFTER INSERT ON approvals BEGIN
    UPDATE approvals SET state = 'approved'; END`);
  raw.close();
  expect(codeOf(open())).toBe('store_failed');
});

test('a link, a folder or a link beside it is not followed', () => {
  const elsewhere = join(place.dir, 'elsewhere');
  writeFileSync(elsewhere, '');
  symlinkSync(elsewhere, place.file);
  expect(codeOf(open())).toBe('store_failed');
  const other = { file: join(place.dir, 'other.db'), clock: makeClock() };
  symlinkSync(elsewhere, `${other.file}-wal`);
  expect(codeOf(openStore(other))).toBe('store_failed');
  expect(codeOf(openStore({ file: place.dir, clock: makeClock() }))).toBe('store_failed');
  expect(readFileSync(elsewhere, 'utf8')).toBe('');
});

test('a registry that somebody else made is refused, one of our own is not', () => {
  const by = (identity?: string) =>
    openStore({
      file: place.file,
      clock: makeClock(),
      ...(identity === undefined ? {} : { identity: Buffer.from(identity) }),
    });
  const made = must(by('mine'));
  must(made.createThread(aThread('a')));
  made.close();
  must(by('mine')).close();
  expect(codeOf(by('theirs'))).toBe('store_foreign');
  const raw = new DatabaseSync(place.file);
  raw.exec('DELETE FROM about');
  raw.close();
  expect(codeOf(by('mine'))).toBe('store_foreign');
});

test('an empty file, as a crash in the first moment leaves it, becomes a registry', () => {
  writeFileSync(place.file, '');
  const store = must(open());
  must(store.createThread(aThread('a')));
  store.close();
});
