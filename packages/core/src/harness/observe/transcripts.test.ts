import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ok, systemClock } from '../../base/index.ts';
import type { Noted } from '../../journal/index.ts';
import type { StoredEvent } from '../../store/index.ts';
import { transcriptFile } from '../../store/transcript/transcript.ts';
import { createKnownSecrets } from '../secrets/known-secrets.ts';
import { Transcripts } from './transcripts.ts';

let dir: string;
let recorded: StoredEvent[];
let troubles: string[];
let transcripts: Transcripts;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-transcripts-'));
  [recorded, troubles] = [[], []];
  transcripts = new Transcripts({
    dir,
    clock: systemClock,
    known: createKnownSecrets(() => ['s3cret-value']),
    store: {
      async read(_, range = {}) {
        const after = 'after' in range ? (range.after ?? 0) : 0;
        return ok(recorded.filter(({ seq }) => seq > after));
      },
    },
    detail: () => 'preview',
    trouble: (message) => void troubles.push(message),
  });
});
afterEach(() => {
  transcripts.done('t1');
  rmSync(dir, { recursive: true, force: true });
});

const marks = { labels: [], taint: [], sources: [] };
const event = (text: string): Noted => ({ type: 'user_message', data: { text, marks }, turn: 0 });

function texts(thread = 't1'): string[] {
  const file = transcriptFile(dir, thread);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => (JSON.parse(line) as { data: { text: string } }).data.text);
}

const nextRound = () => new Promise((resolve) => setImmediate(resolve));
const twoRounds = async () => {
  await nextRound();
  await nextRound();
};

test('what is recorded in two rounds of the event loop is there after them, in order', async () => {
  const write = transcripts.open('t1');
  for (const [index, text] of ['one', 'two', 'three'].entries()) write([event(text)], index + 1);
  await nextRound();
  write([event('four')], 4);
  expect(texts()).toEqual([]);
  await nextRound();
  expect(texts()).toEqual(['one', 'two', 'three', 'four']);
});

test('whoever is done with a thread has written everything', () => {
  transcripts.open('t1')([event('one'), event('two')], 1);
  transcripts.done('t1');
  expect(texts()).toEqual(['one', 'two']);
});

test('many events do not wait for the round to end', () => {
  const write = transcripts.open('t1');
  for (let seq = 1; seq <= 150; seq++) write([event(String(seq))], seq);
  expect(texts().length).toBe(100);
});

test('a second writer of the same thread goes on where the first stopped', async () => {
  transcripts.open('t1')([event('one')], 1);
  transcripts.open('t1')([event('two')], 2);
  await transcripts.settled();
  await twoRounds();
  expect(texts()).toEqual(['one', 'two']);
});

test('lines that a killed process had not written are written by whoever goes on', async () => {
  recorded = [1, 2].map((seq) => ({
    thread: 't1',
    seq,
    ts: 1,
    turn: 0,
    type: 'user_message',
    data: { text: `old ${seq}` },
  }));
  transcripts.open('t1')([event('new')], 3);
  // Whoever lets a thread go waits for this first: nobody would write them afterwards.
  await transcripts.written('t1');
  expect(texts()).toEqual(['old 1', 'old 2', 'new']);
});

test('secrets that become known before the line is written are not in it', async () => {
  transcripts.open('t1')([event('a s3cret-value b')], 1);
  await twoRounds();
  expect(texts().join()).not.toContain('s3cret-value');
});

test('a transcript that cannot be written is reported once and stops nothing', async () => {
  writeFileSync(join(dir, 't1'), 'in the way');
  const write = transcripts.open('t1');
  write([event('one')], 1);
  await twoRounds();
  write([event('two')], 2);
  await twoRounds();
  expect(troubles.length).toBe(1);
});
