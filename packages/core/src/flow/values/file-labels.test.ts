import { expect, test } from 'vitest';
import { fileLabels, folderLabel } from './file-labels.ts';

test('a file is labelled with each folder above it, from the project or absolutely', () => {
  expect(fileLabels('/p', 'a/b/c.txt')).toEqual(['src:file', 'dir:a/b', 'dir:a']);
  expect(fileLabels('/p', '/p/a/b/c.txt')).toEqual(['src:file', 'dir:a/b', 'dir:a']);
  expect(fileLabels('/p', '/pa/y/z.txt')).toEqual(['src:file', 'dir:/pa/y', 'dir:/pa']);
  expect(fileLabels('/p', 'c.txt')).toEqual(['src:file']);
  expect(fileLabels('/p', '/p/..a/c.txt')).toEqual(['src:file', 'dir:..a']);
});

test.each([
  ['dir:private', 'dir:private'],
  ['dir:private/', 'dir:private'],
  ['dir:./private//x/..', 'dir:private'],
  ['dir:/p/private', 'dir:private'],
  ['dir:/p/private/', 'dir:private'],
  ['dir:/px/private', 'dir:/px/private'],
  ['dir:../q', 'dir:/q'],
  ['dir:/p', 'src:file'],
  ['dir:.', 'src:file'],
  ['dir:/', 'src:file'],
  ['secret', 'secret'],
  ['dir:', 'dir:'],
])('a policy that says `%s` means `%s`', (written, meant) => {
  expect(folderLabel('/p', written)).toBe(meant);
});
