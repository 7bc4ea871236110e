import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { codeOf, makePlace, must, type TestPlace } from '@kernmantle/test-support/registry';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createRedactor } from '../../base/index.ts';
import { readTranscript } from './read.ts';
import {
  createTranscript,
  previewOf,
  rebuildTranscript,
  type TranscriptEvent,
  transcriptFile,
} from './transcript.ts';

let place: TestPlace;
beforeEach(() => {
  place = makePlace();
});
afterEach(() => place.remove());

const { json: redact } = createRedactor(['canary-secret']);
const options = () => ({ dir: place.dir, thread: 'a', redact });
const event = (seq: number, text = 'hello'): TranscriptEvent => ({
  ts: 1_700_000_000_000,
  seq,
  turn: 1,
  type: 'tool_call',
  data: { text },
});

/** Opens, appends, closes. */
function write(...events: readonly TranscriptEvent[]): void {
  const transcript = must(createTranscript(options()));
  must(transcript.append(events));
  transcript.close();
}
const seqs = (count?: number) =>
  must(readTranscript(place.dir, 'a', count)).lines.map((line) => line.seq);

test('a line is a typed event without secrets, readable by its owner only', () => {
  write(event(1, 'the canary-secret is out'));
  const file = transcriptFile(place.dir, 'a');
  expect(readFileSync(file, 'utf8')).toBe(
    '{"ts":"2023-11-14T22:13:20.000Z","seq":1,"turn":1,"type":"tool_call","data":{"text":"the [secret] is out"}}\n',
  );
  expect(statSync(file).mode & 0o077).toBe(0);
  const transcript = must(createTranscript(options()));
  transcript.close();
  transcript.close();
  expect(codeOf(transcript.append([event(2)]))).toBe('store_failed');
});

test('the last lines are read without the rest', () => {
  write(...Array.from({ length: 3000 }, (_, index) => event(index + 1, 'x'.repeat(50))));
  expect(seqs(3)).toEqual([2998, 2999, 3000]);
  expect(seqs(1)).toEqual([3000]);
  expect(seqs(0)).toEqual([]);
  expect(seqs(5000)).toHaveLength(3000);
  expect(seqs()).toHaveLength(3000);
});

test('cut off at any byte, whole lines stay and the next one is whole again', () => {
  write(event(1), event(2), event(3, 'ünïcödé'));
  const file = transcriptFile(place.dir, 'a');
  const whole = readFileSync(file);
  for (let size = whole.length; size >= 0; size--) {
    writeFileSync(file, whole.subarray(0, size));
    const before = seqs();
    write(event(9));
    expect(seqs()).toEqual([...before, 9]);
    expect(must(readTranscript(place.dir, 'a')).problems).toEqual([]);
  }
});

test('bad lines in the middle are reported and skipped', () => {
  write(event(1));
  const file = transcriptFile(place.dir, 'a');
  const offset = statSync(file).size;
  appendFileSync(file, '\0\0garbage\n{"seq":1}\n[]\n');
  write(event(2));
  const read = must(readTranscript(place.dir, 'a'));
  expect(read.lines.map((line) => line.seq)).toEqual([1, 2]);
  expect(read.problems).toHaveLength(3);
  expect(read.problems[0]?.offset).toBe(offset);
});

test('it is written anew from the journal, whole and without secrets', () => {
  write(event(1), event(2));
  truncateSync(transcriptFile(place.dir, 'a'), 10);
  const events = [event(1, 'canary-secret'), event(3)];
  expect(must(rebuildTranscript(options(), events)).lines).toBe(2);
  expect(seqs()).toEqual([1, 3]);
  expect(readFileSync(transcriptFile(place.dir, 'a'), 'utf8')).not.toContain('canary');
});

test('no link and no strange name leads out of the folder', () => {
  const elsewhere = join(place.dir, 'elsewhere');
  writeFileSync(elsewhere, 'mine');
  mkdirSync(dirname(transcriptFile(place.dir, 'a')), { recursive: true });
  symlinkSync(elsewhere, transcriptFile(place.dir, 'a'));
  expect(codeOf(createTranscript(options()))).toBe('store_failed');
  expect(codeOf(readTranscript(place.dir, 'a'))).toBe('store_failed');
  expect(codeOf(createTranscript({ ...options(), thread: '../a' }))).toBe('invalid_input');
  expect(codeOf(readTranscript(place.dir, '../a'))).toBe('invalid_input');
  expect(readFileSync(elsewhere, 'utf8')).toBe('mine');
  expect(must(readTranscript(place.dir, 'never'))).toEqual({
    lines: [],
    problems: [],
    isTorn: false,
  });
});

test('no bytes crash the reader', () => {
  mkdirSync(dirname(transcriptFile(place.dir, 'a')), { recursive: true });
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(5), (bytes, count) => {
      writeFileSync(transcriptFile(place.dir, 'a'), bytes);
      expect(readTranscript(place.dir, 'a', count).ok).toBe(true);
    }),
  );
});

test('a preview never shows the first part of a secret that it cuts off', () => {
  const redactor = createRedactor(['canary-secret']);
  for (let max = 0; max < 40; max++) {
    expect(previewOf(`my key: canary-secret and more`, redactor, max).preview).not.toContain(
      'cana',
    );
  }
  expect(previewOf({ b: 1, a: 'x' }, redactor)).toMatchObject({
    characters: 15,
    preview: '{"a":"x","b":1}',
  });
  expect(previewOf({ b: 1, a: 2 }, redactor).hash).toBe(previewOf({ a: 2, b: 1 }, redactor).hash);
});
