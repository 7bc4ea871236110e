// Two processes write rows of memory into one file at the same time. No row is lost, and a search of a full scope
// gives every row back.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isSoak, runs } from '@kernmantle/test-support/soak';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/index.ts';
import { searchMemories } from '../../src/harness/memory/search-memory.ts';
import { openSqliteStore } from '../../src/store/index.ts';

const STORE = join(import.meta.dirname, '../../src/store/index.ts');
const BASE = join(import.meta.dirname, '../../src/base/index.ts');
const COUNT = runs(100, 1000);

test(
  `two processes write ${COUNT} rows each and none is lost`,
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'km-memory-'));
    const file = join(dir, 'registry.db');
    const script = `
    import { openSqliteStore } from ${JSON.stringify(STORE)};
    import { systemClock } from ${JSON.stringify(BASE)};
    const opened = await openSqliteStore({ file: process.argv[1], clock: systemClock });
    const store = opened.output;
    const place = { tenant: '', project: 'p', scope: 'project', owner: '' };
    const marks = { labels: [], taint: ['src:llm'], sources: [] };
    for (let at = 0; at < ${COUNT}; at++) {
      const text = process.argv[2] + ' has written the release note number ' + at;
      const row = { ...place, text, subject: '', marks, thread: 't', seq: 1, expires: null, endorsed_by: null };
      const done = await store.changeMemory({ kind: 'write', row });
      if (!done.ok) throw new Error(done.error.detail.message);
    }
    await store.close();`;
    const children = ['one', 'two'].map((name) =>
      spawn(process.execPath, ['--input-type=module', '-e', script, file, name], {
        stdio: ['ignore', 'ignore', 'inherit'],
      }),
    );
    const codes = await Promise.all(children.map((child) => once(child, 'exit')));
    expect(codes.map(([code]) => code as number)).toEqual([0, 0]);
    const opened = await openSqliteStore({ file, clock: systemClock });
    if (!opened.ok) throw new Error(opened.error.detail.message);
    const rows = await opened.output.memories({ tenant: '', project: 'p' });
    const texts = new Set(rows.ok ? rows.output.map(({ text }) => text) : []);
    expect(texts.size).toBe(2 * COUNT);
    const found = searchMemories(rows.ok ? rows.output : [], `two number ${COUNT - 1}`, 1);
    const text = `two has written the release note number ${COUNT - 1}`;
    expect(found.output).toMatchObject({ notes: [{ text }] });
    await opened.output.close();
    rmSync(dir, { recursive: true, force: true });
  },
  isSoak ? 300_000 : 60_000,
);
