// A journal of 10,000 events is forked in a process of its own. `KERNMANTLE_FIGURES=1` prints its time and the memory
// that the fork added to the process.
import { execFileSync } from 'node:child_process';
import { BUILT, programWords } from '@kernmantle/test-support/built';
import { isLate } from '@kernmantle/test-support/late-store';
import { directive, openStage, READ, read } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/index.ts';
import type { NewEvent } from '../../src/store/index.ts';

const EVENTS = 10_000;

test.skipIf(isLate)('a journal of 10,000 events is forked', async () => {
  const made = await openStage(directive('look', { permissions: READ }), {
    look: [read('notes/a.txt'), { text: 'done' }],
  });
  const { store, run } = made.threads;
  const done = await run({ directive: 'look' });
  const id = done.ok ? done.output.thread_id : '';
  const events = await store.read(id);
  const all = events.ok ? events.output : [];
  const first = all.findIndex(({ type }) => type === 'turn_start');
  const turn = all.slice(
    first,
    all.findIndex(({ turn: number }) => number === 2),
  );
  const claimed = await store.claim(id, { owner: 'test', ttlMs: 60_000 }, { reopen: true });
  if (!claimed.ok) throw new Error(claimed.error.detail.message);
  let { seq } = claimed.output.row;
  for (let number = 3; seq < EVENTS; number++) {
    const copies = turn.map(({ type, data }): NewEvent => {
      const text = JSON.stringify(data).replaceAll(/"(tool|call)[\w-]*_1"/g, `"$1_${number}"`);
      return { type, data: JSON.parse(text) as JsonObject, turn: number };
    });
    const [head, ...rest] = copies;
    if (!head) throw new Error('no turn');
    const { epoch } = claimed.output;
    const wrote = await store.commit(id, { expect: { seq, epoch }, events: [head, ...rest] });
    if (!wrote.ok) throw new Error(wrote.error.detail.message);
    seq = wrote.output.seq;
  }
  await store.release(claimed.output);
  const words = programWords('fork-process', made.fixture.root, id);
  const env = { ...made.fixture.env, ...BUILT };
  const text = execFileSync(process.execPath, words, { env, encoding: 'utf8' });
  const { ok, output, ms, cpu, mb } = JSON.parse(text) as {
    ok: boolean;
    output: { thread: string; seq: number };
    ms: number;
    cpu: number;
    mb: number;
  };
  if (process.env.KERNMANTLE_FIGURES)
    process.stderr.write(`${seq} events: ${ms} ms, ${cpu} ms of CPU, ${mb} MB\n`);
  expect(ok).toBe(true);
  expect(mb).toBeLessThanOrEqual(100);
  expect(output.seq).toBeGreaterThan(EVENTS);
  const last = await made.threads.store.read(output.thread, { last: 3 });
  expect(last.ok && last.output.map(({ type }) => type)).toEqual([
    'fork',
    'injected_message',
    'injected_message',
  ]);
});
