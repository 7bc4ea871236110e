import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NOW, seededRandom } from '@kernmantle/test-support/trust';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { generateKeyPair } from './key.ts';
import { createTrustStore } from './trust-store.ts';

type TrustedKey = Parameters<ReturnType<typeof createTrustStore>['add']>[0];

const pairs = [1, 2, 3].map((seed) => generateKeyPair(seededRandom(seed)));
const entry = (index: number, over: Partial<TrustedKey> = {}): TrustedKey => ({
  id: pairs[index]?.id ?? '',
  key: pairs[index]?.publicKey ?? '',
  ...over,
});
const idOf = (index: number) => pairs[index]?.id ?? '';

let dir = '';
let file = '';
let now = NOW;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-trust-'));
  file = join(dir, 'user', 'trust.jsonl');
  now = NOW;
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});
const store = () => createTrustStore(file, { now: () => now });
const codeOf = (outcome: { ok: true } | { ok: false; error: { code: string } }) =>
  outcome.ok ? 'ok' : outcome.error.code;

test('an unknown key is not found, a trusted one counts', () => {
  expect(codeOf(store().judge(idOf(0), 'tool', 'a'))).toBe('not_found');
  expect(store().add(entry(0, { name: 'me' })).ok).toBe(true);
  expect(store().judge(idOf(0), 'tool', 'a')).toEqual({
    ok: true,
    output: entry(0, { name: 'me' }),
  });
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test('a key counts only for its kinds, its ids and its time', () => {
  const trust = store();
  expect(
    trust.add(entry(0, { kinds: ['tool'], ids: ['deploy/**'], expires: '2026-06-01' })).ok,
  ).toBe(true);
  expect(codeOf(trust.judge(idOf(0), 'tool', 'deploy/x'))).toBe('ok');
  expect(codeOf(trust.judge(idOf(0), 'directive', 'deploy/x'))).toBe('signature_invalid');
  expect(codeOf(trust.judge(idOf(0), 'tool', 'shell/bash'))).toBe('signature_invalid');
  now = Date.parse('2026-06-01');
  expect(codeOf(trust.judge(idOf(0), 'tool', 'deploy/x'))).toBe('signature_invalid');
});

test('empty lists trust nothing', () => {
  const trust = store();
  expect(trust.add(entry(0, { kinds: [] })).ok).toBe(true);
  expect(trust.add(entry(1, { ids: [] })).ok).toBe(true);
  expect(codeOf(trust.judge(idOf(0), 'tool', 'a'))).toBe('signature_invalid');
  expect(codeOf(trust.judge(idOf(1), 'tool', 'a'))).toBe('signature_invalid');
});

test('a revocation counts at once in every store over the file', () => {
  const [one, two] = [store(), store()];
  expect(one.add(entry(0)).ok && two.judge(idOf(0), 'tool', 'a').ok).toBe(true);
  expect(one.revoke(idOf(0)).ok).toBe(true);
  expect(codeOf(two.judge(idOf(0), 'tool', 'a'))).toBe('signature_invalid');
});

test('a revoked key stays revoked, and is told so', () => {
  const trust = store();
  expect(trust.add(entry(0)).ok && trust.revoke(idOf(0)).ok).toBe(true);
  const again = trust.add(entry(0));
  expect(again).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  expect(again.ok || again.error.detail.message).toBe(
    `key \`${idOf(0)}\` was revoked and stays revoked; trust a new key of its owner`,
  );
  // A decision of another process that had not seen the revocation yet.
  appendFileSync(file, `${JSON.stringify({ op: 'trust', ...entry(0) })}\n`);
  expect(codeOf(trust.judge(idOf(0), 'tool', 'a'))).toBe('signature_invalid');
  expect(trust.add(entry(1)).ok).toBe(true);
  expect(codeOf(trust.judge(idOf(1), 'tool', 'a'))).toBe('ok');
});

test('what is not known cannot be revoked', () => {
  expect(codeOf(store().revoke(idOf(0)))).toBe('not_found');
});

test.each<[string, Partial<TrustedKey> & Record<string, unknown>]>([
  ['the id of another key', { id: idOf(1) }],
  ['a key that is none', { key: 'abc' }],
  ['a bad glob', { ids: ['{a,b}'] }],
  ['an expiry that is no time', { expires: 'soon' }],
  ['an expiry that does not exist', { expires: '2026-13-45' }],
  ['an unknown field', { scope: 'all' }],
  ['a name with a line end', { name: 'a\nb' }],
  ['a key that is revoked already', { revoked: true }],
])('%s is not taken', (_, over) => {
  expect(codeOf(store().add({ ...entry(0), ...over }))).toBe('invalid_input');
  expect(store().list()).toEqual({ ok: true, output: [] });
});

test('a store cut off at any byte keeps every decision before the cut', () => {
  const trust = store();
  for (const index of [0, 1, 2]) expect(trust.add(entry(index)).ok).toBe(true);
  expect(trust.revoke(idOf(1)).ok).toBe(true);
  const whole = readFileSync(file, 'utf8');
  for (let length = whole.length - 1; length >= 0; length--) {
    truncateSync(file, length);
    const list = store().list();
    // A line without its end is complete JSON or passed over.
    const lines = whole.slice(0, length).split('\n');
    const complete = whole[length] === '\n' ? lines.length : lines.length - 1;
    expect(list.ok && list.output.length).toBe(Math.min(3, complete));
    expect(list.ok && list.output.some((key) => key.revoked === true)).toBe(complete >= 4);
  }
});

test('after a crash the next decision is added whole', () => {
  const trust = store();
  expect(trust.add(entry(0)).ok && trust.add(entry(1)).ok).toBe(true);
  truncateSync(file, statSync(file).size - 20);
  expect(store().add(entry(2)).ok).toBe(true);
  const list = store().list();
  expect(list.ok && list.output.map(({ id }) => id)).toEqual([idOf(0), idOf(2)]);
});

test.each([
  ['a line that is no decision', '{"op":"bless","id":"x"}'],
  ['a line that is damaged inside', '{"op":"revoke","id":x}'],
  ['a key under another id', JSON.stringify({ op: 'trust', ...entry(0), id: idOf(1) })],
  ['a field nobody knows', JSON.stringify({ op: 'trust', ...entry(0), more: 1 })],
])('%s stops everything and says where', (_, line) => {
  expect(store().add(entry(2)).ok).toBe(true);
  appendFileSync(file, `${line}\n`);
  const judged = store().judge(idOf(2), 'tool', 'a');
  expect(codeOf(judged)).toBe('config_invalid');
  expect(!judged.ok && judged.error.detail.line).toBe(2);
  expect(codeOf(store().add(entry(1)))).toBe('config_invalid');
});

test('a store that others can change is not believed', () => {
  expect(store().add(entry(0)).ok).toBe(true);
  chmodSync(file, 0o666);
  expect(codeOf(store().judge(idOf(0), 'tool', 'a'))).toBe('config_invalid');
});

test('a place that cannot be written is an answer and not a crash', () => {
  writeFileSync(join(dir, 'user'), '');
  expect(codeOf(store().add(entry(0)))).toBe('config_invalid');
});
