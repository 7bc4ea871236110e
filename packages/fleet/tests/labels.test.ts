import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail } from '@kernmantle/core/base';
import {
  createLabelRecords,
  EMPTY,
  type LabelRecords,
  describe as marks,
  type SharedLines,
} from '@kernmantle/core/flow';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { createSharedDatabase, type SharedDatabase } from './support/shared-database.ts';

const url = inject('postgres');
const skipped = url === '' ? ' (skipped: no server can be started here)' : '';
const SECRET = marks({ labels: ['secret'] });
const UNTRUSTED = marks({ labels: ['untrusted'] });
const hash = (letter: string) => letter.repeat(64);

describe.skipIf(url === '')(`labels of files on several machines${skipped}`, () => {
  let shared: SharedDatabase;
  let folder: string;
  beforeAll(async () => {
    shared = await createSharedDatabase(url);
  });
  afterAll(async () => await shared?.drop());
  beforeEach(async () => {
    await shared.query('TRUNCATE label_rows, label_heads');
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'km-labels-')));
    return () => rmSync(folder, { recursive: true, force: true });
  });

  const linesOf = (project = 'prj_1'): SharedLines => ({
    read: (after) => shared.fleet.labelRows(project, after),
    add: (lines) => shared.fleet.addLabelRows(project, lines),
  });
  /** Each has its own checkout at its own place. */
  function machine(name: string, lines = linesOf()) {
    const root = join(folder, name);
    mkdirSync(root, { recursive: true });
    const records = createLabelRecords(join(root, 'labels.jsonl'), root, lines);
    const at = (path: string) => join(root, path);
    return { root, records, at, shared: records.shared as NonNullable<LabelRecords['shared']> };
  }

  test('what one writes another knows, wherever its checkout is', async () => {
    const [a, b] = [machine('a'), machine('deeper/b')];
    a.records.remember(a.at('src/x.txt'), hash('a'), SECRET);
    expect(await a.shared.keep()).toEqual({ ok: true, output: null });
    await b.shared.catchUp();
    expect(b.records.recall(b.at('src/x.txt'), hash('a'))).toBe(SECRET);
    // Other content there is suspicious, other files are not.
    expect(b.records.recall(b.at('src/x.txt'), hash('b'))?.labels).toContain('secret');
    expect(b.records.recall(b.at('src/y.txt'), hash('a'))).toBeUndefined();
    const [row] = await shared.query<{ text: string }>('SELECT text FROM label_rows');
    expect(row?.text).not.toContain(folder);
  });

  test('what was only remembered is known here at once, and elsewhere when it is kept', async () => {
    const [a, b] = [machine('a'), machine('b')];
    await a.shared.catchUp();
    a.records.remember(a.at('x'), hash('a'), SECRET);
    a.records.rememberMade(a.at('x'), hash('a'), 'thread-1');
    expect(a.records.recall(a.at('x'), hash('a'))).toBe(SECRET);
    await b.shared.catchUp();
    expect(b.records.recall(b.at('x'), hash('a'))).toBeUndefined();
    await a.shared.keep();
    await b.shared.catchUp();
    expect(b.records.recall(b.at('x'), hash('a'))).toBe(SECRET);
    expect(b.records.isMade(b.at('x'), hash('a'), 'thread-1')).toBe(true);
  });

  test('in doubt everything is untrusted, and nothing is written', async () => {
    const away = () => Promise.resolve(fail('store_failed', 'nobody answers'));
    let isAway = true;
    const real = linesOf();
    const a = machine('a', {
      read: (after) => (isAway ? away() : real.read(after)),
      add: (lines) => (isAway ? away() : real.add(lines)),
    });
    expect(a.records.recall(a.at('x'), hash('a'))).toEqual(UNTRUSTED);
    await a.shared.catchUp();
    expect(a.records.recall(a.at('x'), hash('a'))).toEqual(UNTRUSTED);
    a.records.remember(a.at('x'), hash('a'), SECRET);
    expect(await a.shared.keep()).toMatchObject({ error: { code: 'internal_error' } });
    isAway = false;
    await a.shared.catchUp();
    expect(a.records.recall(a.at('y'), hash('a'))).toBeUndefined();
    expect(a.records.recall(a.at('x'), hash('a'))).toBe(SECRET);
    expect(await a.shared.keep()).toEqual({ ok: true, output: null });
    const b = machine('b');
    await b.shared.catchUp();
    expect(b.records.recall(b.at('x'), hash('a'))).toBe(SECRET);
  });

  test('lines of a file from before the move still count', async () => {
    const a = machine('a');
    createLabelRecords(join(a.root, 'labels.jsonl'), a.root).remember(
      a.at('old'),
      hash('a'),
      SECRET,
    );
    await a.shared.catchUp();
    expect(a.records.recall(a.at('old'), hash('a'))).toBe(SECRET);
    writeFileSync(join(a.root, 'labels.jsonl.new'), '');
    a.records.remember(a.at('new'), hash('a'), UNTRUSTED);
    await a.shared.keep();
    // Replaced: what all machines share is read again.
    rmSync(join(a.root, 'labels.jsonl'));
    createLabelRecords(join(a.root, 'labels.jsonl'), a.root).remember(a.at('x'), hash('a'), SECRET);
    expect(a.records.recall(a.at('new'), hash('a'))).toEqual(UNTRUSTED);
    await a.shared.catchUp();
    await a.shared.catchUp();
    expect(a.records.recall(a.at('new'), hash('a'))).toEqual(UNTRUSTED);
    expect(a.records.recall(a.at('x'), hash('a'))).toBe(SECRET);
  });

  test('projects do not see each other', async () => {
    const [a, b] = [machine('a'), machine('b', linesOf('prj_2'))];
    a.records.remember(a.at('x'), hash('a'), SECRET);
    await a.shared.keep();
    await b.shared.catchUp();
    expect(b.records.recall(b.at('x'), hash('a'))).toBeUndefined();
  });

  test('whoever has read everything knows the same, in whatever order it happened', async () => {
    const act = fc.record({
      who: fc.integer({ min: 0, max: 2 }),
      what: fc.constantFrom('file', 'folder', 'back', 'name', 'keep', 'read'),
      path: fc.constantFrom('x', 'd', 'd/y', 'd/z'),
      hash: fc.constantFrom('a', 'b'),
      label: fc.constantFrom(SECRET, UNTRUSTED),
    });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 40 }), async (acts) => {
        run += 1;
        const lines = linesOf(`prj_${run}`);
        const all = ['a', 'b', 'c'].map((name) => machine(`${run}-${name}`, lines));
        for (const { who, what, path, hash: letter, label } of acts) {
          const one = all[who];
          if (!one) continue;
          if (what === 'file') one.records.remember(one.at(path), hash(letter), label);
          if (what === 'folder') one.records.rememberFolder(one.at(path), label, `w${who}`);
          if (what === 'back') one.records.rememberFolder(one.at(path), EMPTY, `w${who}`);
          if (what === 'name') one.records.noteName(one.at(path), label);
          if (what === 'keep') await one.shared.keep();
          if (what === 'read') await one.shared.catchUp();
        }
        await Promise.all(all.map((one) => one.shared.keep()));
        const fresh = machine(`${run}-fresh`, lines);
        const known = [];
        for (const one of [...all, fresh]) {
          await one.shared.catchUp();
          const said = ['x', 'd', 'd/y', 'd/z'].flatMap((path) =>
            ['a', 'b', 'c'].map((letter) => {
              const found = one.records.recall(one.at(path), hash(letter));
              return `${path} ${letter}: ${[...(found?.taint ?? ['-'])].toSorted().join(' ')}`;
            }),
          );
          known.push(said);
        }
        for (const said of known) expect(said).toEqual(known[3]);
      }),
      { numRuns: 25 },
    );
  });
});
