import { appendFileSync, chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openSessions, type SessionStore } from './sessions.ts';

let home: string;
let now = 0;
const PORT = 42_000;
const ANN = { who: 'ann', role: 'steer' } as const;
const open = (project = '/projects/a'): SessionStore =>
  openSessions({ home, project }, { now: () => now });
const file = (): string => join(home, 'web', readdirSync(join(home, 'web'))[0] ?? '');

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'km-sessions-'));
  now = Date.parse('2026-01-01T23:00:00Z');
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function must<T>(outcome: { ok: true; output: T } | { ok: false; error: unknown }): T {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output;
}

function enter(store = open()) {
  const link = must(store.findLink(PORT, must(store.addLink(PORT, ANN))));
  const session = must(store.open({ ...ANN, port: PORT, from: link?.id ?? '' }));
  if (!session) throw new Error('the link did not count');
  return session;
}

test('a link counts for its project and port, until one process has used it', () => {
  const secret = must(open().addLink(PORT, ANN));
  expect(must(open('/projects/b').findLink(PORT, secret))).toBe(undefined);
  expect(must(open().findLink(PORT + 1, secret))).toBe(undefined);
  expect(must(open().findLink(PORT, `${secret}x`))).toBe(undefined);
  const link = must(open().findLink(PORT, secret));
  expect(link).toMatchObject(ANN);
  // Two that have looked before either has used it: one of them is in.
  const wanted = { ...ANN, port: PORT, from: link?.id ?? '' };
  const [first, second] = [must(open().open(wanted)), must(open().open(wanted))];
  expect(first).toMatchObject(ANN);
  expect(second).toBe(undefined);
  expect(must(open().findLink(PORT, secret))).toBe(undefined);
  expect(must(open().list())).toHaveLength(1);
});

test('a session holds over midnight, and is over after twelve hours or when it is ended', () => {
  const { cookie, key, id } = enter();
  const running = open();
  const find = () => must(running.find(PORT, ['other', cookie], key))?.id;
  expect(find()).toBe(id);
  now += 3 * 3_600_000;
  expect(find()).toBe(id);
  const other = enter();
  expect(must(running.list()).map((session) => session.id)).toEqual([id, other.id]);
  expect(open().end(other.id).ok).toBe(true);
  expect(running.counts(other.id)).toBe(false);
  expect(open('/projects/b').end(id)).toMatchObject({ ok: false, error: { code: 'not_found' } });
  now += 9 * 3_600_000;
  expect(find()).toBe(undefined);
  expect(running.counts(id)).toBe(false);
});

test('cookie and key must be of one session, on one port', () => {
  const [ann, bob] = [enter(), enter()];
  const store = open();
  expect(must(store.find(PORT, [ann.cookie], bob.key))).toBe(undefined);
  expect(must(store.find(PORT, [], ann.key))).toBe(undefined);
  expect(must(store.find(PORT + 1, [ann.cookie], ann.key))).toBe(undefined);
  expect(must(store.find(PORT, [bob.cookie, ann.cookie], ann.key))?.id).toBe(ann.id);
});

test('a line that was cut off costs itself; one that says something else closes the door', () => {
  const { cookie, key, id } = enter();
  appendFileSync(file(), '{"op":"open","id":"ses');
  const next = enter();
  expect(open().counts(id)).toBe(true);
  expect(open().counts(next.id)).toBe(true);
  for (const line of ['{"op":"open","id":"session_x","role":"approve"}', '{"op":"grant"}', '[]}']) {
    appendFileSync(file(), `${line}\n`);
    expect(open().find(PORT, [cookie], key)).toMatchObject({
      ok: false,
      error: { code: 'config_invalid' },
    });
    expect(open().counts(id)).toBe(false);
  }
});

test('a file that others may read is not taken', () => {
  const { cookie, key } = enter();
  chmodSync(file(), 0o640);
  expect(open().find(PORT, [cookie], key)).toMatchObject({ ok: false });
});
