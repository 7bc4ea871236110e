import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLabelRecords } from './label-records.ts';
import { describe, EMPTY } from './labels.ts';

let dir = '';
let file = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-labels-'));
  file = join(dir, 'deep', 'labels.jsonl');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const untrusted = describe({
  labels: ['untrusted'],
  taint: ['src:network'],
  sources: ['tool:http'],
});
const plain = describe({ labels: ['customer'], sources: ['var:x'] });

test('the same content at the same path gets its marks back, in any process', () => {
  const first = createLabelRecords(file, '/p');
  expect(first.recall('/p/a', 'h1')).toBeUndefined();
  expect(first.remember('/p/a', 'h1', untrusted).ok).toBe(true);
  expect(first.recall('/p/a', 'h1')).toBe(untrusted);
  expect(createLabelRecords(file, '/p').recall('/p/a', 'h1')).toBe(untrusted);
  expect(first.recall('/p/b', 'h1')).toBeUndefined();
});

test('several inputs are remembered as their merge', () => {
  const records = createLabelRecords(file, '/p');
  records.remember('/p/a', 'h1', [untrusted, plain]);
  expect(records.recall('/p/a', 'h1')?.labels).toEqual(['untrusted', 'customer']);
});

test('other content at a path stays under suspicion when the record was untrusted', () => {
  const records = createLabelRecords(file, '/p');
  records.remember('/p/a', 'h1', untrusted);
  records.remember('/p/b', 'h1', plain);
  expect(records.recall('/p/a', 'h2')?.labels).toEqual(['untrusted']);
  expect(records.recall('/p/b', 'h2')).toBeUndefined();
  records.remember('/p/a', 'h3', plain);
  expect(records.recall('/p/a', 'h1')).toBe(untrusted);
  expect(records.recall('/p/a', 'h4')).toBeUndefined();
});

test('what another process appends is seen', () => {
  const [one, two] = [createLabelRecords(file, '/p'), createLabelRecords(file, '/p')];
  one.remember('/p/a', 'h1', plain);
  expect(two.recall('/p/a', 'h1')).toBe(plain);
  two.remember('/p/a', 'h1', untrusted);
  expect(one.recall('/p/a', 'h1')).toBe(untrusted);
});

test('a torn last line is closed, and what came before and after it is kept', () => {
  createLabelRecords(file, '/p').remember('/p/a', 'h1', untrusted);
  const whole = readFileSync(file, 'utf8');
  for (let cut = 1; cut < whole.length; cut += 7) {
    writeFileSync(file, whole + whole.replace('/p/a', '/p/torn').slice(0, cut));
    const records = createLabelRecords(file, '/p');
    expect(records.recall('/p/a', 'h1')).toBe(untrusted);
    expect(records.remember('/p/b', 'h2', plain).ok).toBe(true);
    expect(createLabelRecords(file, '/p').recall('/p/b', 'h2')).toBe(plain);
  }
});

test('a damaged line whose path can be read counts as untrusted', () => {
  createLabelRecords(file, '/p').remember('/p/a', 'h1', plain);
  appendFileSync(file, '{"path":"/p/c","hash":"h9","lab\u0000\n[]\nnull\n');
  expect(createLabelRecords(file, '/p').recall('/p/c', 'h9')?.labels).toEqual(['untrusted']);
});

test('a file that was cut or replaced is read anew', () => {
  const records = createLabelRecords(file, '/p');
  records.remember('/p/a', 'h1', plain);
  expect(records.recall('/p/a', 'h1')).toBe(plain);
  truncateSync(file, 0);
  expect(records.recall('/p/a', 'h1')).toBeUndefined();
});

test('nothing is written twice, and only the owner can read it', () => {
  const records = createLabelRecords(file, '/p');
  records.remember('/p/a', 'h1', plain);
  const before = statSync(file);
  records.remember('/p/a', 'h1', plain);
  expect(statSync(file).size).toBe(before.size);
  expect(before.mode & 0o777).toBe(0o600);
});

test('records that cannot be read make nothing trusted, and cannot be written', () => {
  const records = createLabelRecords(dir, '/p');
  expect(records.recall('/p/a', 'h1')?.labels).toEqual(['untrusted']);
  expect(records.remember('/p/a', 'h1', plain).ok).toBe(false);
});

test('several processes write at once and nothing is lost', () => {
  const script = `
    import { createLabelRecords } from ${JSON.stringify(join(import.meta.dirname, 'label-records.ts'))};
    import { describe } from ${JSON.stringify(join(import.meta.dirname, 'labels.ts'))};
    const records = createLabelRecords(process.argv[1], '/p');
    const id = process.argv[2];
    for (let at = 0; at < 50; at++) {
      records.remember('/p/' + id + '/' + at, 'h', describe({ labels: [id.repeat(300)] }));
    }`;
  const shell = ['a', 'b', 'c']
    .map((id) => `"$NODE" --input-type=module -e "$SCRIPT" "$FILE" ${id} &`)
    .join('\n');
  const env = { ...process.env, NODE: process.execPath, SCRIPT: script, FILE: file };
  const ran = spawnSync('sh', ['-c', `${shell}\nwait`], { env, encoding: 'utf8' });
  expect(ran.stderr.replace(/^.*ExperimentalWarning.*\n.*\n/gm, '')).toBe('');
  const records = createLabelRecords(file, '/p');
  for (const id of ['a', 'b', 'c']) {
    for (let at = 0; at < 50; at++) {
      expect(records.recall(`/p/${id}/${at}`, 'h')?.labels).toEqual([id.repeat(300)]);
    }
  }
});

test('a name that is made of a value marks its folder while it is there', () => {
  const records = createLabelRecords(file, dir);
  const secret = describe({ labels: ['secret'] });
  const made = join(dir, 'out', 'sub', 'a.txt');
  expect(records.rememberName(made, secret).ok).toBe(true);
  expect(records.looked([join(dir, 'out')], []).labels).toEqual([]);
  mkdirSync(join(dir, 'out', 'sub'), { recursive: true });
  writeFileSync(made, '');
  const others = createLabelRecords(file, dir);
  for (const folder of ['.', 'out', 'out/sub']) {
    expect(others.looked([join(dir, folder)], []).labels).toEqual(['secret']);
  }
  expect(others.recall(made, 'h1')?.labels).toEqual(['secret']);
  // A name that was there before tells nothing new.
  expect(records.rememberName(made, untrusted).ok).toBe(true);
  expect(records.looked([join(dir, 'out/sub')], []).labels).toEqual(['secret']);
  rmSync(join(dir, 'out'), { recursive: true });
  expect(records.looked([dir], []).labels).toEqual([]);
});

test('a folder that counts as a whole is met by all below it, until its writer takes that back', () => {
  const records = createLabelRecords(file, '/p');
  records.rememberFolder('/p/out', untrusted, 'one');
  records.rememberFolder('/p/out', plain, 'two');
  const labels = (path: string) => createLabelRecords(file, '/p').recall(path, 'h1')?.labels;
  expect(labels('/p/out/deep/a')).toEqual(['untrusted', 'customer']);
  expect(labels('/p/outer')).toBeUndefined();
  records.rememberFolder('/p/out', EMPTY, 'one');
  expect(labels('/p/out/a')).toEqual(['customer']);
  // A later, exact record replaces the folder's record.
  records.remember('/p/out/a', 'h1', EMPTY);
  expect(labels('/p/out/a')).toEqual([]);
  records.rememberFolder('/p/out', untrusted, 'three');
  expect(labels('/p/out/a')).toEqual(['untrusted']);
});

test('a look into many folders names few of them, and all that somebody has a rule about', () => {
  const folders = Array.from({ length: 500 }, (_, at) => `/p/f${at}/deep`);
  const { taint } = createLabelRecords(file, '/p').looked(folders, ['dir:f400', 'dir:g']);
  expect(taint.length).toBeLessThan(60);
  expect(taint).toContain('dir:f400');
  expect(taint).toContain('dir:f0');
});
