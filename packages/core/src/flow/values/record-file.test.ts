import {
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createRecordFile } from './record-file.ts';

let [dir, file]: [string, string] = ['', ''];
let records: ReturnType<typeof createRecordFile>;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'km-records-'));
  file = join(dir, 'new/folder/records.jsonl');
  records = createRecordFile(file);
});
afterEach(() => {
  records.close();
  rmSync(dir, { recursive: true, force: true });
});

const content = (path = file): string => readFileSync(path, 'utf8');

test('folder and file are made when the first record comes', () => {
  expect(existsSync(dir)).toBe(true);
  expect(existsSync(file)).toBe(false);
  records.append('a\n');
  records.append('ü\n');
  expect(content()).toBe('a\nü\n');
});

test('what others append in between stays', () => {
  records.append('a\n');
  writeFileSync(file, 'b\n', { flag: 'a' });
  records.append('c\n');
  expect(content()).toBe('a\nb\nc\n');
});

test('a file that was moved away gets no more records', () => {
  records.append('a\n');
  renameSync(file, `${file}.old`);
  records.append('b\n');
  expect(content(`${file}.old`)).toBe('a\n');
  expect(content()).toBe('b\n');
});

test('a file that was removed is made again', () => {
  records.append('a\n');
  rmSync(join(dir, 'new'), { recursive: true });
  records.append('b\n');
  expect(content()).toBe('b\n');
});

test('a link that takes the place of the open file is not followed', () => {
  records.append('a\n');
  const victim = join(dir, 'profile');
  writeFileSync(victim, '');
  rmSync(file);
  symlinkSync(victim, file);
  expect(() => records.touch()).toThrow();
  expect(() => records.append('b\n')).toThrow();
  expect(content(victim)).toBe('');
});

test('a closed one opens the file again', () => {
  records.append('a\n');
  records.close();
  records.append('b\n');
  expect(content()).toBe('a\nb\n');
});
