import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fail, matchGlob, ok } from '../../base/index.ts';
import { createLabelRecords, describe, EMPTY, type LabelRecords } from '../../flow/index.ts';
import type { Verifier } from '../primitive.ts';
import { watchBox } from './process-marks.ts';

let root = '';
let file = '';
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'km-box-')));
  file = join(root, '.ai', 'labels.jsonl');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const secret = describe({ labels: ['secret'] });

function put(path: string, text = 'x'): string {
  const at = join(root, path);
  mkdirSync(dirname(at), { recursive: true });
  writeFileSync(at, text);
  return at;
}

function rights(read: readonly string[], write: readonly string[]): Verifier {
  const verify: Verifier = ({ capability, scope }) => {
    const held = capability === 'fs.read' ? read : capability === 'fs.write' ? write : [];
    return held.some((glob) => matchGlob(glob, scope?.path ?? ''))
      ? ok(null)
      : fail('permission_denied', 'no');
  };
  verify.globs = () => [...read, ...write];
  return verify;
}

const box = (more: Partial<Parameters<typeof watchBox>[0]> = {}) => {
  const made = watchBox({
    records: createLabelRecords(file, root),
    verify: rights(['**'], ['**']),
    named: [],
    isOpen: false,
    mayWrite: true,
    given: EMPTY,
    ...more,
  });
  if (!made.ok) throw new Error(made.error.detail.message);
  return made.output;
};

const records = (): LabelRecords => createLabelRecords(file, root);
const labelsOf = (path: string): readonly string[] | undefined =>
  records().recall(join(root, path), 'any')?.labels;
const listed = (folder: string): readonly string[] =>
  records().looked([join(root, folder)], []).labels;

test('where nothing is labelled nothing is written down', () => {
  put('a.txt');
  const { marks, ended } = box();
  put('b.txt');
  expect(marks).toBe(EMPTY);
  expect(ended()).toEqual(ok(null));
  expect(existsSync(file)).toBe(false);
});

test('what was in view comes out: records, and folders that somebody has a rule about', () => {
  records().remember(put('data/k.txt'), 'h', secret);
  records().remember(join(root, 'gone.txt'), 'h', describe({ labels: ['gone'] }));
  put('private/deep/k.txt');
  const named = ['dir:private', 'dir:none', 'dir:/etc'];
  const taint = (more: Parameters<typeof box>[0]) => box({ mayWrite: false, ...more }).marks.taint;
  expect(taint({ named })).toEqual(['secret', 'dir:private']);
  expect(taint({ named, isOpen: true })).toEqual(['secret', 'dir:private', 'dir:/etc']);
  expect(taint({ named, verify: rights(['data/**'], []) })).toEqual(['secret']);
  expect(taint({ named, verify: rights(['private/deep/*.txt'], []) })).toEqual(['dir:private']);
  expect(taint({ named, verify: rights(['src/**'], []) })).toEqual([]);
  expect(taint({ named, sees: ['data/**'] })).toEqual(['secret']);
  expect(taint({ named, given: secret, sees: ['src/**'] })).toEqual(['secret']);
});

test('every file that changed is marked, whatever changed of it', () => {
  const same = put('same.txt');
  const touched = put('touched.txt', 'abc');
  const times = new Date(1_000_000);
  utimesSync(touched, times, times);
  put('moved/deep/a.txt');
  put('gone/a.txt');
  const { ended } = box({ given: secret });
  put('new/deep/b.txt');
  writeFileSync(touched, 'abd');
  utimesSync(touched, times, times);
  renameSync(join(root, 'moved'), join(root, 'there'));
  linkSync(same, join(root, 'second.txt'));
  rmSync(join(root, 'gone/a.txt'));
  expect(ended()).toEqual(ok(null));
  for (const path of ['touched.txt', 'new/deep/b.txt', 'there/deep/a.txt', 'second.txt']) {
    expect([path, labelsOf(path)]).toEqual([path, ['secret']]);
  }
  for (const folder of ['.', 'new', 'new/deep', 'gone']) {
    expect([folder, listed(folder)]).toEqual([folder, ['secret']]);
  }
  put('later.txt');
  expect(labelsOf('later.txt')).toBeUndefined();
});

test('until it has ended, and after a kill, all that it may write counts as marked', () => {
  put('out/old.txt');
  put('src/a.txt');
  const { ended } = box({ given: secret, verify: rights(['**'], ['out/**', 'logs/*.txt']) });
  expect(labelsOf('out/old.txt')).toEqual(['secret']);
  expect(labelsOf('logs/x.txt')).toEqual(['secret']);
  expect(labelsOf('src/a.txt')).toBeUndefined();
  expect(ended()).toEqual(ok(null));
  expect(labelsOf('out/old.txt')).toBeUndefined();
});

test('two at a time do not take each other’s marks away', () => {
  put('a.txt');
  const one = box({ given: secret });
  const two = box({ given: describe({ labels: ['pii'] }) });
  one.ended();
  expect(labelsOf('a.txt')).toContain('pii');
  two.ended();
  expect(labelsOf('a.txt')).toBeUndefined();
});

test('where there is too much to look at, the folder itself is marked, large ones first', () => {
  put('src/a.txt');
  for (let at = 0; at < 50; at++) put(`node_modules/p${at}/i.js`);
  const { ended } = box({ given: secret, most: 30 });
  put('src/b.txt');
  put('node_modules/p49/new.js');
  expect(ended()).toEqual(ok(null));
  expect(labelsOf('src/b.txt')).toEqual(['secret']);
  expect(labelsOf('src/a.txt')).toBeUndefined();
  expect(labelsOf('node_modules/p49/new.js')).toEqual(['secret']);
  // Saying the same again says nothing new.
  const before = records();
  box({ given: secret, most: 30 }).ended();
  expect(labelsOf('node_modules/p3/i.js')).toEqual(
    before.recall(join(root, 'node_modules/p3/i.js'), 'any')?.labels,
  );
});

test('what nobody but us may write is not taken for changed by it', () => {
  put('src/a.txt');
  const { ended } = box({ given: secret, verify: rights(['**'], ['src/out/**']) });
  put('src/a.txt', 'ours');
  put('src/out/b.txt');
  ended();
  expect(labelsOf('src/a.txt')).toBeUndefined();
  expect(labelsOf('src/out/b.txt')).toEqual(['secret']);
});

test('where nothing is labelled, what it may see is not worked out', () => {
  let asked = 0;
  const verify: Verifier = () => ok(null);
  verify.globs = () => {
    asked++;
    return ['**'];
  };
  const records = createLabelRecords(file, root);
  put('private/a.txt');
  expect(box({ records, verify, mayWrite: false }).marks).toBe(EMPTY);
  expect(asked).toBe(0);
  // A rule, or a label, that is new is seen at once.
  const named = ['dir:private'];
  expect(box({ records, verify, mayWrite: false, named }).marks.taint).toEqual(named);
  expect(records.remember(put('b.txt'), 'hash', secret)).toMatchObject({ ok: true });
  expect(box({ records, verify, mayWrite: false }).marks.taint).toContain('secret');
});
